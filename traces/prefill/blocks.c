/* SPDX-License-Identifier: Apache-2.0
 *
 * Masses of pairs of blocks: traces/prefill/blocks.h. A query block is one
 * thread's: it sums its rows onto their columns, and then columns into blocks.
 */
#include "traces/prefill/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "traces/text/text.h"
#include "traces/text/threads.h"
#include "traces/trace/colsum.h"
#include "traces/trace/rows.h"

/* --- the grid ----------------------------------------------------------- */

static kv_rc refuse_rows(const kv_trace *t, const kv_layer_data *data,
                         kv_err *e) {
  char a[KV_SHOW];
  int n = 0, p = t->shape.prompt_len;
  while (n < data->n_rows && data->rows[n] < p) n++;
  return kv_fail(e, KV_INPUT,
                 "%s: layer %d has query rows of %d of the prompt's %d tokens, "
                 "and sparse prefill is about all of them; give a trace that "
                 "was recorded with --rows all",
                 kv_show(t->path, a), data->layer, n, p);
}

kv_rc kv_grid_init(kv_grid *x, const kv_trace *t, int i, int block, kv_err *e) {
  const kv_layer_data *data = &t->layer[i].data;
  int p = t->shape.prompt_len;
  *x = (kv_grid){.tokens = p, .block = block, .blocks = (p - 1) / block + 1};
  if (!kv_colsum_can(t, i)) return refuse_rows(t, data, e);
  size_t n = (size_t)x->blocks;
  x->from = kv_zalloc(n, sizeof *x->from);
  x->first = kv_zalloc(n + 1, sizeof *x->first);
  if (!x->from || !x->first)
    return kv_no_memory(e, "blocks of the prompt", n * sizeof *x->first);
  for (int b = 0; b < x->blocks; b++) {
    x->from[b] = kv_layer_first(data, b * block) / block;
    x->first[b + 1] = x->first[b] + b - x->from[b] + 1;
  }
  return KV_OK;
}

void kv_grid_release(kv_grid *x) {
  free(x->from);
  free(x->first);
  *x = (kv_grid){0};
}

/* --- masses ------------------------------------------------------------- */

typedef struct job {
  const kv_grid *grid;
  const kv_trace *t;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  int g;        /* the KV head in hand */
  int64_t *out; /* [group][pairs] */
} job;

/* A thread's part. */
typedef struct part {
  kv_row_probs rows;
  int64_t *sums; /* [group][tokens] of the query block in hand */
} part;

static bool take(const job *w, part *x) {
  int n = w->grid->tokens;
  const kv_shape *s = &w->t->shape;
  x->sums = kv_zalloc((size_t)kv_group(s) * (size_t)n, sizeof *x->sums);
  if (kv_row_probs_init(&x->rows, s, w->data, w->kernel, n, NULL)) return false;
  kv_row_probs_head(&x->rows, w->g);
  return x->sums;
}

/* Rows first .. end - 1 onto their columns; false: a logit is not finite. */
static bool add_rows(part *x, int first, int end) {
  const kv_row_probs *r = &x->rows;
  for (int n; first < end; first += n) {
    n = end - first < r->most ? end - first : r->most;
    if (!kv_row_probs_exp(&x->rows, first, n)) return false;
    for (int m = 0; m < r->group; m++) {
      size_t at = (size_t)m * r->stride + (size_t)r->from;
      r->kernel->fix_rows(n, first + n - r->from, r->p + at,
                          (size_t)r->group * r->stride, r->r + m * r->most,
                          x->sums + at);
    }
  }
  return true;
}

static bool do_block(const job *w, part *x, int i) {
  const kv_grid *grid = w->grid;
  size_t n = (size_t)grid->tokens;
  int first = i * grid->block;
  int end = i + 1 < grid->blocks ? first + grid->block : grid->tokens;
  memset(x->sums, 0, (size_t)x->rows.group * n * sizeof *x->sums);
  if (!add_rows(x, first, end)) return false;
  for (int m = 0; m < x->rows.group; m++)
    for (int s = grid->from[i] * grid->block; s < end; s++)
      w->out[m * kv_grid_pairs(grid) + kv_grid_at(grid, i, s / grid->block)] +=
          x->sums[(size_t)m * n + (size_t)s];
  return true;
}

/* Longest rows first: the last blocks to finish are then short ones. */
kv_rc kv_block_masses(const kv_grid *grid, const kv_trace *t, int i, int g,
                      const kv_kernels *kernel, int64_t *out, kv_err *e) {
  const job w = {grid, t, &t->layer[i].data, kernel, g, out};
  int lacking = 0, bad = 0;
#pragma omp parallel num_threads(kv_threads()) reduction(+ : lacking, bad)
  {
    part x = {0};
    kv_float_ground();
    bool ready = take(&w, &x);
    lacking += !ready;
#pragma omp for schedule(dynamic)
    for (int b = grid->blocks - 1; b >= 0; b--)
      if (ready) bad += !do_block(&w, &x, b);
    kv_row_probs_release(&x.rows);
    free(x.sums);
  }
  if (lacking) return kv_no_memory(e, "rows of attention", 0);
  if (!bad) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: layer %d: a logit of the prompt is not finite", t->path,
                 w.data->layer);
}
