/* SPDX-License-Identifier: Apache-2.0
 *
 * What a store holds on its device until it closes: memory, and sequences
 * recorded over it. Contract: gpu/host/store.h.
 */
#include "gpu/host/store.h"
#include <stdlib.h>

void *kv_gpu_take_room(kv_store *s, size_t n) {
  if (s->fault.rc) return NULL;
  if (s->n_taken == s->cap_taken) {
    int cap = s->cap_taken ? 2 * s->cap_taken : 64;
    void **more = realloc(s->taken, (size_t)cap * sizeof *more);
    if (!more) {
      kv_no_memory(&s->fault, "a list of device memory", (size_t)cap * 8);
      return NULL;
    }
    s->taken = more;
    s->cap_taken = cap;
  }
  void *p = kv_gpu_room(s->device, n, &s->fault);
  if (p) s->taken[s->n_taken++] = p;
  return p;
}

void kv_gpu_forget(kv_store *s) {
  for (int i = 0; i < KV_GPU_RECORDS; i++) {
    s->device->forget(s->recorded[i]);
    s->recorded[i] = NULL;
  }
}
