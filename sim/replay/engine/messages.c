/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of layers: sim/replay/engine/messages.h.
 */
#include "sim/replay/engine/messages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct kv_messages {
  size_t bytes, apart; /* bytes of a message; distance from one to the next */
  int closings;
  kv_message *said; /* [closings]; data NULL: nothing was published */
  char *data;       /* [closings][apart] */
};

kv_rc kv_messages_open(size_t bytes, int closings, kv_messages **out,
                       kv_err *e) {
  kv_messages *m = kv_zalloc(1, sizeof *m);
  if (!m) return kv_no_memory(e, "messages", sizeof *m);
  size_t n = (size_t)closings;
  m->bytes = bytes;
  m->apart = (bytes + 63) / 64 * 64;
  m->closings = closings;
  m->said = kv_zalloc(n, sizeof *m->said);
  m->data = kv_zalloc(n, m->apart);
  if (!m->said || !m->data) {
    kv_messages_close(m);
    return kv_no_memory(e, "messages", n * (bytes + 63) / 64 * 64);
  }
  *out = m;
  return KV_OK;
}

void kv_messages_close(kv_messages *m) {
  if (!m) return;
  free(m->said);
  free(m->data);
  free(m);
}

const kv_message *kv_messages_at(const kv_messages *m, int n) {
  assert(n >= 0 && n < m->closings);
  return m->said[n].data ? &m->said[n] : NULL;
}

void kv_messages_put(kv_messages *m, int n, const kv_message *said) {
  assert(n >= 0 && n < m->closings);
  char *to = m->data + (size_t)n * m->apart;
  memcpy(to, said->data, m->bytes);
  m->said[n] = (kv_message){said->layer, to};
}

void kv_messages_copy(const kv_messages *from, kv_messages *to) {
  assert(from->bytes == to->bytes && from->closings == to->closings);
  for (int n = 0; n < from->closings; n++)
    if (from->said[n].data) kv_messages_put(to, n, &from->said[n]);
}

void kv_messages_clear(kv_messages *m) {
  memset(m->said, 0, (size_t)m->closings * sizeof *m->said);
}
