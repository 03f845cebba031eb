/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: tests/support/layerkeep.h.
 */
#include "tests/support/layerkeep.h"

#include "sim/replay/engine/cell.h"
#include "tests/support/test.h"
#include <stdlib.h>

static kv_rc begin(void *self, int n, kv_cell *const *cell, bool *there,
                   kv_err *e) {
  layerkeep *s = self;
  (void)e;
  assert_int_equal(n, 1);
  s->cell = cell;
  for (int l = 0; s->give && s->part[l]; l++) {
    there[l] =
        kv_partial_read(cell[0], l, kv_partial_size(cell[0]), s->part[l]);
    assert_true(there[l]);
  }
  return KV_OK;
}

static void ended(void *self, int n, const int *at, int layer, double seconds) {
  layerkeep *s = self;
  (void)n, (void)at, (void)seconds;
  if (s->give) return;
  assert_true(layer < LAYERKEEP_MOST);
  s->part[layer] = malloc(kv_partial_size(s->cell[0]));
  kv_partial_write(s->cell[0], layer, s->part[layer]);
}

static void slow(void *self, const kv_cell *first, int n, double seconds) {
  (void)self, (void)first, (void)n, (void)seconds;
}

static void end(void *self, bool cut) { (void)self, (void)cut; }

kv_replay_keeper layerkeep_of(layerkeep *self) {
  return (kv_replay_keeper){.self = self,
                            .most = 1e9,
                            .begin = begin,
                            .ended = ended,
                            .slow = slow,
                            .end = end};
}

void layerkeep_free(layerkeep *self) {
  for (int l = 0; l < LAYERKEEP_MOST; l++) free(self->part[l]);
}
