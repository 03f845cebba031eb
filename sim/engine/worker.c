/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of one worker on a layer: sim/engine/layer.h.
 */
#include "sim/engine/layer.h"
#include "sim/engine/order.h"

#include <stdlib.h>

kv_rc kv_worker_open(const kv_backend *backend, const kv_shape *shape,
                     const kv_plan *const *plan, int cells, kv_worker *w,
                     kv_err *e) {
  size_t n = (size_t)cells;
  w->mark = kv_zalloc(1, kv_cost_mark_size(shape));
  w->seconds = kv_zalloc(n, sizeof *w->seconds);
  w->store = kv_zalloc(n, sizeof *w->store);
  w->who = kv_zalloc(n, sizeof *w->who);
  w->rider = kv_zalloc(n, sizeof *w->rider);
  if (!w->mark || !w->seconds || !w->store || !w->who || !w->rider)
    return kv_no_memory(e, "a worker", kv_cost_mark_size(shape));
  return backend->scratch_open(shape, plan, cells, &w->scratch, e);
}

void kv_worker_close(const kv_backend *backend, kv_worker *w) {
  backend->scratch_close(w->scratch);
  kv_truth_close(w->truth);
  free(w->mark);
  free(w->seconds);
  free(w->store);
  free(w->who);
  free(w->rider);
}
