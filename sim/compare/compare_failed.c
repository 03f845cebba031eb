/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays that could not go on, in the words of sim/compare/compare.h.
 */
#include "sim/compare/compare_part.h"

#include <stdio.h>

bool kv_compare_has_failed(const kv_compared *x) {
  return x->cell->result.status == KV_CELL_FAILED;
}

/* Why the replay failed; "" if it did not. */
static void failure(const kv_compared *x, int most, size_t size, char *out) {
  out[0] = 0;
  if (kv_compare_has_failed(x))
    snprintf(out, size, "%.24s failed: %.*s", x->backend->name, most,
             x->cell->result.reason);
}

void kv_compare_tell_failure(const kv_compared *x, kv_difference *out) {
  const kv_cell *c = x->cell;
  *out = (kv_difference){.what = "failed",
                         .layer = c->trace->layer[c->fault_at].data.layer,
                         .step = -1,
                         .lane = -1,
                         .head = -1,
                         .index = -1};
  failure(x, 440, sizeof out->sentence, out->sentence);
}

void kv_compare_failed(const kv_compared *x, const kv_compared *y,
                       kv_difference *out) {
  char say[2][248];
  const kv_compared *of[2] = {x, y};
  kv_compare_tell_failure(kv_compare_has_failed(x) ? x : y, out);
  for (int i = 0; i < 2; i++) {
    failure(of[i], 200, sizeof say[i], say[i]);
    if (!say[i][0])
      snprintf(say[i], sizeof say[i], "%.24s ran", of[i]->backend->name);
  }
  snprintf(out->sentence, sizeof out->sentence, "%s; %s", say[0], say[1]);
}
