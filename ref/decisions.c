/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a list among decisions: ref/decisions.h.
 */
#include "ref/decisions.h"

#include "ref/method.h"
#include <string.h>

const kv_decided *kv_decided_at(const kv_decisions *d, int layer) {
  for (int i = 0; i < d->layers; i++)
    if (d->layer[i].layer == layer) return &d->layer[i];
  return NULL;
}

const kv_decisions *kv_decisions_of(const kv_method *m, const void *params) {
  const kv_decisions *d = NULL;
  if (m->decisions) memcpy(&d, (const char *)params + m->decisions, sizeof d);
  return d;
}

kv_items kv_lists_find(const kv_lists *l, int step, int head) {
  int low = 0, high = l->steps;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (l->step[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == l->steps || l->step[low] != step) return (kv_items){0};
  const int64_t *start = l->start + (size_t)low * (size_t)l->heads + head;
  return (kv_items){(int)(start[1] - start[0]), l->item + start[0]};
}
