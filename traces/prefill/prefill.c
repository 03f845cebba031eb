/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse prefill as a measure: traces/prefill/prefill.h. A KV head at a time:
 * masses of pairs, then what each of its query heads needs and patterns hold.
 */
#include "traces/prefill/prefill.h"

#include <stdlib.h>
#include <string.h>

#include "traces/prefill/hints.h"

/* --- maps ---------------------------------------------------------------- */

static kv_rc see_heads(const kv_grid *grid, const kv_trace *t, int g,
                       const int64_t *mass, kv_prefill_see *see, void *self,
                       kv_err *e) {
  int group = kv_group(&t->shape);
  kv_rc rc = KV_OK;
  for (int m = 0; !rc && m < group; m++)
    rc = see(self, g * group + m, grid, mass + m * kv_grid_pairs(grid), e);
  return rc;
}

static kv_rc walk(const kv_grid *grid, const kv_trace *t, int i,
                  const kv_kernels *kernel, kv_prefill_see *see, void *self,
                  kv_err *e) {
  size_t n = (size_t)kv_group(&t->shape) * (size_t)kv_grid_pairs(grid);
  int64_t *mass = kv_zalloc(n, sizeof *mass);
  kv_rc rc = mass ? kv_trace_scan_layer(t, i, e)
                  : kv_no_memory(e, "pairs of blocks", n * sizeof *mass);
  for (int g = 0; !rc && g < t->shape.n_kv_heads; g++) {
    memset(mass, 0, n * sizeof *mass);
    rc = kv_block_masses(grid, t, i, g, kernel, mass, e);
    if (!rc) rc = see_heads(grid, t, g, mass, see, self, e);
  }
  free(mass);
  return rc ? rc : kv_trace_damaged(t, e);
}

kv_rc kv_prefill_map(const kv_trace *t, int i, const kv_kernels *kernel,
                     int block, kv_prefill_see *see, void *self, kv_err *e) {
  kv_grid grid;
  kv_rc rc = kv_grid_init(&grid, t, i, block, e);
  if (!rc) rc = walk(&grid, t, i, kernel, see, self, e);
  kv_grid_release(&grid);
  return rc;
}

/* --- measures ------------------------------------------------------------ */

typedef struct bench {
  kv_hints hints;
  int percent;
  kv_ranked *room;
  uint8_t *in;
  kv_prefill *out; /* [n_heads] */
} bench;

/* Fewest pairs that have `want` together. */
static int64_t needed_for(bench *x, int64_t pairs, const int64_t *mass,
                          int64_t want) {
  int64_t taken = 0;
  for (int64_t i = 0; i < pairs; i++) x->room[i] = (kv_ranked){mass[i], i};
  qsort(x->room, (size_t)pairs, sizeof *x->room, kv_ranked_order);
  while (want > 0) want -= x->room[taken++].value;
  return taken;
}

/* The least whole number that is `percent` of x or more. */
static int64_t share_of(int64_t x, int percent) {
  return x / 100 * percent + (x % 100 * percent + 99) / 100;
}

static kv_rc do_head(void *self, int h, const kv_grid *grid,
                     const int64_t *mass, kv_err *e) {
  bench *x = self;
  int64_t pairs = kv_grid_pairs(grid);
  kv_prefill *out = x->out + h;
  kv_rc rc = kv_hints_head(&x->hints, h, e);
  *out = (kv_prefill){.pairs = pairs};
  if (rc) return rc;
  for (int64_t i = 0; i < pairs; i++) out->mass += mass[i];
  out->needed = needed_for(x, pairs, mass, share_of(out->mass, x->percent));
  for (int p = 0; p < KV_PATTERNS; p++) {
    kv_taking taking = {grid, mass, x->in, out->needed, 0};
    memset(x->in, 0, (size_t)pairs);
    kv_patterns[p].take(&x->hints.of, x->room, &taking);
    out->kept[p] = taking.kept;
  }
  return KV_OK;
}

kv_rc kv_prefill_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                       int block, int percent, kv_prefill *out, kv_err *e) {
  kv_grid grid;
  bench x = {.percent = percent, .out = out};
  kv_rc rc = kv_grid_init(&grid, t, i, block, e);
  if (!rc) rc = kv_hints_init(&x.hints, &grid, t, i, kernel, e);
  if (!rc) {
    size_t n = kv_pattern_room(&grid);
    x.room = kv_zalloc(n, sizeof *x.room);
    x.in = kv_zalloc((size_t)kv_grid_pairs(&grid), 1);
    if (!x.room || !x.in)
      rc = kv_no_memory(e, "pairs of blocks", n * sizeof *x.room);
  }
  if (!rc) rc = walk(&grid, t, i, kernel, do_head, &x, e);
  free(x.room);
  free(x.in);
  kv_hints_release(&x.hints);
  kv_grid_release(&grid);
  return rc;
}
