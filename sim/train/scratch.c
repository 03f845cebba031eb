/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of one thread while it learns: sim/train/scratch.h.
 */
#include "sim/train/scratch.h"

#include <assert.h>
#include <stdlib.h>

kv_rc kv_scratch_reserve(kv_scratch *s, size_t elements, kv_err *e) {
  size_t bytes = elements * 4 + (size_t)KV_SCRATCH_PARTS * 64;
  s->used = 0;
  if (bytes <= s->room) return KV_OK;
  kv_scratch_free(s);
  s->block = kv_zalloc(bytes, 1);
  if (!s->block) return kv_no_memory(e, "a step of training", bytes);
  s->room = bytes;
  return KV_OK;
}

void *kv_scratch_take(kv_scratch *s, size_t elements) {
  void *out = s->block + s->used;
  s->used += (elements * 4 + 63) / 64 * 64;
  assert(s->used <= s->room && "what is taken was reserved");
  return out;
}

void kv_scratch_free(kv_scratch *s) {
  free(s->block);
  *s = (kv_scratch){0};
}
