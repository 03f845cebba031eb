/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of bytes as a table: ref/lane/ledger.h.
 */
#include "ref/lane/ledger.h"

#include <assert.h>

#define LINE(name, counts, what)                                               \
  {#name, counts, what, offsetof(kv_bytes, name)},
static const kv_byte_kind kinds[] = {KV_BYTE_KINDS(LINE)};
#undef LINE

const kv_byte_kind *kv_byte_kind_at(int i) {
  return i >= 0 && i < KV_N_BYTE_KINDS ? &kinds[i] : NULL;
}

int64_t *kv_bytes_of(kv_bytes *b, int i) {
  assert(i >= 0 && i < KV_N_BYTE_KINDS && "a kind of the list");
  return (int64_t *)(void *)((char *)b + kinds[i].offset);
}

int64_t kv_bytes_get(const kv_bytes *b, int i) {
  return *kv_bytes_of((kv_bytes *)b, i);
}
