/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sheet/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kv_rc kv_ranks_can(const kv_trace *t, int ranks, kv_err *e) {
  int heads = t->shape.n_kv_heads;
  if (ranks >= 2 && heads % ranks == 0) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%d KV heads cannot be dealt to %d ranks: take a number from "
                 "2 on that divides them",
                 heads, ranks);
}

/* --- a rank's heads ------------------------------------------------------- */

static const void *skip(const void *from, size_t bytes) {
  return from ? (const char *)from + bytes : NULL;
}

/* Layer x without the heads before query head h and KV head g. */
static kv_layer_data cut(const kv_layer_data *x, const kv_shape *s, size_t h,
                         size_t g) {
  kv_layer_data y = *x;
  size_t size = kv_dtype_size(s->dtype), d = (size_t)s->d, v = (size_t)s->d_v;
  size_t rows = (size_t)x->n_rows, tokens = (size_t)s->n_tokens;
  y.q = skip(x->q, h * rows * d * kv_dtype_size(x->q_dtype));
  y.k = skip(x->k, g * tokens * d * size);
  y.v = skip(x->v, g * tokens * v * size);
  y.colsum = skip(x->colsum, h * (size_t)x->colsum_len * sizeof(int64_t));
  y.sinks = skip(x->sinks, h * sizeof(float));
  return y;
}

/* The trace as the rank has it; it shares all but the list of layers. */
static kv_rc open_rank(const kv_trace *t, int rank, int ranks, kv_trace *out,
                       kv_err *e) {
  size_t n = (size_t)t->n_layers, r = (size_t)rank;
  *out = *t;
  out->shape.n_heads /= ranks;
  out->shape.n_kv_heads /= ranks;
  out->layer = kv_zalloc(n, sizeof *out->layer);
  if (!out->layer) return kv_no_memory(e, "a rank", n * sizeof *out->layer);
  for (size_t i = 0; i < n; i++)
    out->layer[i].data =
        cut(&t->layer[i].data, &t->shape, r * (size_t)out->shape.n_heads,
            r * (size_t)out->shape.n_kv_heads);
  return KV_OK;
}

/* --- the replay of a rank ------------------------------------------------- */

typedef struct rank_run {
  int n;
  kv_cell *cell;        /* [n] zeroed where a cell is not asked */
  kv_cell **each;       /* [n] those that are, `cells` of them */
  kv_decided **decided; /* [n] of each cell, or NULL */
  int cells;
} rank_run;

static kv_rc open_run(int n, rank_run *r, kv_err *e) {
  size_t m = (size_t)n + 1;
  *r = (rank_run){.n = n,
                  .cell = kv_zalloc(m, sizeof *r->cell),
                  .each = kv_zalloc(m, sizeof *r->each),
                  .decided = kv_zalloc(m, sizeof *r->decided)};
  if (r->cell && r->each && r->decided) return KV_OK;
  return kv_no_memory(e, "a rank", m * sizeof *r->cell);
}

static void close_run(rank_run *r) {
  for (int i = 0; i < r->n; i++) {
    if (r->decided) kv_decided_close(r->decided[i]);
    if (r->cell) kv_cell_close(&r->cell[i]);
  }
  free(r->cell);
  free(r->each);
  free(r->decided);
}

static void say_why(kv_ranks_result *out, const char *why) {
  snprintf(out->why, sizeof out->why, "%.255s", why);
}

/* Opens the i-th cell for the rank's heads, with what it resolved to. */
static kv_rc open_cell(const kv_trace *t, const kv_cell *whole, int i,
                       rank_run *r, kv_ranks_result *out, kv_err *e) {
  kv_asked_cell asked = {
      .spec = &whole->spec, .entries = -1, .observe = whole->result.observe};
  kv_cell *c = &r->cell[i];
  kv_rc rc = kv_cell_open(t, whole->shape.prompt_len, whole->plan.kernels,
                          &asked, c, e);
  if (rc || !c->runs) {
    if (!rc) say_why(out, c->result.reason);
    return rc;
  }
  rc = kv_decided_open(c, &r->decided[i], e);
  if (!rc) r->each[r->cells++] = c;
  return rc;
}

static const kv_watch *chain(rank_run *r) {
  const kv_watch *next = NULL;
  for (int i = 0; i < r->n; i++) {
    if (!r->decided[i]) continue;
    kv_watch *w = kv_decided_watch(r->decided[i]);
    w->next = next;
    next = w;
  }
  return next;
}

/* What one kind of decisions makes ranks hold. */
typedef struct held {
  int64_t most, sum;
} held;

static void hold(int64_t bytes, held *x) {
  if (bytes > x->most) x->most = bytes;
  x->sum += bytes;
}

static double over_mean(const held *x, int ranks) {
  return x->sum > 0 ? (double)x->most * ranks / (double)x->sum : 1;
}

typedef struct holds {
  held alone, told;
} holds;

static void take(const kv_decided *whole, int rank, int layers,
                 const kv_decided *part, kv_ranks_result *out, holds *x) {
  int lanes = kv_decided_lanes(part) / layers;
  out->lanes += lanes * layers;
  out->unlike += kv_decided_unlike(whole, rank * lanes, part);
  hold(kv_decided_bytes(part, 0, lanes), &x->alone);
  hold(kv_decided_bytes(whole, rank * lanes, lanes), &x->told);
}

/* One rank of all cells. */
static kv_rc replay_rank(const kv_trace *t, int rank, kv_cell *const *cell,
                         kv_decided *const *whole, kv_replay_how how,
                         rank_run *r, kv_ranks_result *out, holds *x,
                         bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < r->n; i++)
    if (!*out[i].why) rc = open_cell(t, cell[i], i, r, &out[i], e);
  how.watch = chain(r);
  if (!rc && r->cells) rc = kv_replay(t, r->each, r->cells, &how, stopped, e);
  for (int i = 0; !rc && !*stopped && i < r->n; i++) {
    if (!r->decided[i]) continue;
    if (kv_result_ran(&r->cell[i].result))
      take(whole[i], rank, t->n_layers, r->decided[i], &out[i], &x[i]);
    else
      say_why(&out[i], r->cell[i].result.reason);
  }
  return rc;
}

/* --- all ranks ------------------------------------------------------------ */

/* Cells that ranks are not asked about. */
static void choose(int ranks, int n, kv_cell *const *cell,
                   kv_decided *const *whole, kv_ranks_result *out) {
  for (int i = 0; i < n; i++) {
    out[i] = (kv_ranks_result){.ranks = ranks};
    if (!whole[i] || !kv_result_ran(&cell[i]->result))
      say_why(&out[i], "it did not run");
    else if (cell[i]->asset)
      say_why(&out[i], "its file is of all heads");
  }
}

kv_rc kv_ranks_ask(const kv_trace *t, int ranks, int most, int n,
                   kv_cell *const *cell, kv_decided *const *whole,
                   const kv_replay_how *how, kv_ranks_result *out,
                   bool *stopped, kv_err *e) {
  holds *x = kv_zalloc((size_t)n + 1, sizeof *x);
  if (!x) return kv_no_memory(e, "ranks", (size_t)n * sizeof *x);
  kv_replay_how of = *how;
  kv_rc rc = KV_OK;
  of.keep = NULL;
  of.tick = NULL;
  of.fidelity = of.scores = false;
  choose(ranks, n, cell, whole, out);
  for (int k = 0; !rc && !*stopped && k < most; k++) {
    kv_trace part = {0};
    rank_run r = {0};
    rc = open_rank(t, k, ranks, &part, e);
    if (!rc) rc = open_run(n, &r, e);
    if (!rc)
      rc = replay_rank(&part, k, cell, whole, of, &r, out, x, stopped, e);
    close_run(&r);
    free(part.layer);
  }
  for (int i = 0; i < n; i++) {
    out[i].fullest = over_mean(&x[i].alone, most);
    out[i].fullest_told = over_mean(&x[i].told, most);
  }
  free(x);
  return rc;
}
