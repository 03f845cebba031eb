/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and freeing of rows: sim/replay/measure/result.h.
 */
#include "sim/replay/measure/result.h"

#include <stdlib.h>

const char *const kv_status_names[4] = {"ok", "fixed", "refused", "failed"};

double kv_result_dense(const kv_result *r) {
  double sum = 0;
  for (int i = 0; i < r->n_steps; i++)
    sum += (double)r->step[i].bytes / r->step[i].step;
  return sum / r->n_steps / r->totals.kr;
}

void kv_result_forget(kv_result *r) {
  free(r->part);
  free(r->layer);
  free(r->step);
  free(r->step_mean);
  r->part = NULL;
  r->layer = NULL;
  r->step = NULL;
  r->step_mean = NULL;
  r->n_parts = r->n_layers = r->n_steps = 0;
}

void kv_result_free(kv_result *r) {
  if (r == NULL) return;
  kv_result_forget(r);
  free(r->code);
  free(r->params);
  free(r->spec);
  r->code = r->params = r->spec = NULL;
  for (int i = 0; i < r->n_layouts; i++) free(r->layout[i].step);
  free(r->layout);
  r->layout = NULL;
  r->n_layouts = 0;
  for (int i = 0; i < r->n_survivals; i++) free(r->survival[i].gone);
  free(r->survival);
  r->survival = NULL;
  r->n_survivals = 0;
  free(r->device_cache);
  r->device_cache = NULL;
  r->n_device_caches = 0;
}
