/* SPDX-License-Identifier: Apache-2.0
 *
 * What every writer of rows shares: sim/result.h.
 */
#include "sim/result.h"

#include <stdlib.h>

const char *const kv_status_names[4] = {"ok", "fixed", "refused", "failed"};
const char *const kv_basis_names[7] = {"",     "entries", "prompt", "end",
                                       "mean", "peak",    "read"};

void kv_result_free(kv_result *r) {
  if (r == NULL) return;
  free(r->code);
  free(r->params);
  free(r->spec);
  free(r->part);
  free(r->layer);
  free(r->step);
  r->code = r->params = r->spec = NULL;
  r->part = NULL;
  r->layer = NULL;
  r->step = NULL;
  r->n_parts = r->n_layers = r->n_steps = 0;
}
