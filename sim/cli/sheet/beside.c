/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/sheet/beside.h"

#include "sim/cli/sheet/decided.h"
#include "sim/replay/engine/replay.h"
#include <stdio.h>
#include <stdlib.h>

enum { KV_WHY = 256 }; /* bytes of a sentence: why there is no result */

typedef struct kv_beside {
  int n;
  kv_cell *cell;        /* [n] to open; zeroed: skipped */
  kv_decided **decided; /* [n] decisions; NULL: it does not run */
  kv_cell **each;       /* [cells] those that run */
  int cells;
} kv_beside;

/* KV_RESOURCE: memory. Close it also then. */
static kv_rc beside_open(int n, kv_beside *b, kv_err *e) {
  size_t m = (size_t)n + 1;
  *b = (kv_beside){.n = n,
                   .cell = kv_zalloc(m, sizeof *b->cell),
                   .decided = kv_zalloc(m, sizeof *b->decided),
                   .each = kv_zalloc(m, sizeof *b->each)};
  if (b->cell && b->decided && b->each) return KV_OK;
  return kv_no_memory(e, "cells", m * sizeof *b->cell);
}

/* Accepts zeroed. */
static void beside_close(kv_beside *b) {
  for (int i = 0; i < b->n; i++) {
    if (b->decided) kv_decided_close(b->decided[i]);
    if (b->cell) kv_cell_close(&b->cell[i]);
  }
  free(b->cell);
  free(b->decided);
  free(b->each);
  *b = (kv_beside){0};
}

/* Copies the sentence to why[KV_WHY], cut to fit. */
static void beside_say(const char *sentence, char *why) {
  snprintf(why, KV_WHY, "%.255s", sentence);
}

/* Opens b->cell[i] on trace t with a prompt of prompt_len tokens, for the
 * specification of `whole` with its parameters resolved as there, and without a
 * budget. If the cell cannot run, why[KV_WHY] says why; that is no failure.
 * Codes of kv_cell_open. */
static kv_rc beside_add(const kv_trace *t, int prompt_len, const kv_cell *whole,
                        int i, kv_beside *b, char *why, kv_err *e) {
  kv_asked_cell asked = {
      .spec = &whole->spec, .entries = -1, .observe = whole->result.observe};
  kv_cell *c = &b->cell[i];
  kv_rc rc = kv_cell_open(t, prompt_len, whole->plan.kernels, &asked, c, e);
  if (!rc && !c->runs) beside_say(c->result.reason, why);
  if (rc || !c->runs) return rc;
  rc = kv_decided_open(c, &b->decided[i], e);
  if (!rc) b->each[b->cells++] = c;
  return rc;
}

/* Replays the added cells once, as `how` says but without fidelity, files and
 * progress; `how->watch` is not called. *stopped, codes: as kv_replay. A cell
 * that failed has its reason in its result. */
static kv_rc beside_run(const kv_trace *t, kv_beside *b,
                        const kv_replay_how *how, bool *stopped, kv_err *e) {
  kv_replay_how of = *how;
  of.keep = NULL;
  of.tick = NULL;
  of.watch = NULL;
  of.fidelity = of.scores = false;
  for (int i = 0; i < b->n; i++) {
    if (!b->decided[i]) continue;
    kv_watch *w = kv_decided_watch(b->decided[i]);
    w->next = of.watch;
    of.watch = w;
  }
  return b->cells ? kv_replay(t, b->each, b->cells, &of, stopped, e) : KV_OK;
}

kv_rc kv_ranks_can(const kv_trace *t, int ranks, kv_err *e) {
  int heads = t->shape.n_kv_heads;
  if (ranks >= 2 && heads % ranks == 0) return KV_OK;
  return kv_fail(
      e, KV_USAGE,
      "%d KV heads cannot be split among %d ranks; choose a divisor from 2 on",
      heads, ranks);
}

/* --- a rank's heads ------------------------------------------------------ */

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

/* The rank's trace, which shares all but the list of layers. */
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

/* --- the replay of a rank ------------------------------------------------ */

/* Bytes that ranks hold under one kind of decisions. */
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

/* Replays one rank for all cells. */
static kv_rc replay_rank(const kv_trace *t, int rank, kv_cell *const *cell,
                         kv_decided *const *whole, const kv_replay_how *how,
                         kv_beside *b, kv_ranks_result *out, holds *x,
                         bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < b->n; i++)
    if (!*out[i].why)
      rc = beside_add(t, cell[i]->shape.prompt_len, cell[i], i, b, out[i].why,
                      e);
  if (!rc) rc = beside_run(t, b, how, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->n; i++) {
    if (!b->decided[i]) continue;
    if (kv_result_ran(&b->cell[i].result))
      take(whole[i], rank, t->n_layers, b->decided[i], &out[i], &x[i]);
    else
      beside_say(b->cell[i].result.reason, out[i].why);
  }
  return rc;
}

/* Sets `why` of the cells that are not replayed on ranks. */
static void choose(int ranks, int n, kv_cell *const *cell,
                   kv_decided *const *whole, kv_ranks_result *out) {
  for (int i = 0; i < n; i++) {
    out[i] = (kv_ranks_result){.ranks = ranks};
    if (!whole[i] || !kv_result_ran(&cell[i]->result))
      beside_say("the method did not run", out[i].why);
    else if (cell[i]->asset)
      beside_say("its file is for all heads", out[i].why);
  }
}

kv_rc kv_ranks_ask(const kv_trace *t, int ranks, int most, int n,
                   kv_cell *const *cell, kv_decided *const *whole,
                   const kv_replay_how *how, kv_ranks_result *out,
                   bool *stopped, kv_err *e) {
  holds *x = kv_zalloc((size_t)n + 1, sizeof *x);
  if (!x) return kv_no_memory(e, "ranks", (size_t)n * sizeof *x);
  kv_rc rc = KV_OK;
  choose(ranks, n, cell, whole, out);
  for (int k = 0; !rc && !*stopped && k < most; k++) {
    kv_trace part = {0};
    kv_beside b = {0};
    rc = open_rank(t, k, ranks, &part, e);
    if (!rc) rc = beside_open(n, &b, e);
    if (!rc)
      rc = replay_rank(&part, k, cell, whole, how, &b, out, x, stopped, e);
    beside_close(&b);
    free(part.layer);
  }
  for (int i = 0; i < n; i++) {
    out[i].fullest = over_mean(&x[i].alone, most);
    out[i].fullest_told = over_mean(&x[i].told, most);
  }
  free(x);
  return rc;
}

/* --- cells that can be replayed in pieces ------------------------------- */

/* Does every layer record the queries of the whole prompt? A recording made for
 * a whole prompt may lack rows that a method observes at the end of a piece. */
static bool has_queries(const kv_trace *t, int prompt_len) {
  for (int i = 0; i < t->n_layers; i++) {
    const kv_layer_data *x = &t->layer[i].data;
    int have = 0;
    for (int r = 0; x->rows && r < x->n_rows; r++)
      have += x->rows[r] < prompt_len;
    if (x->rows && have < prompt_len) return false;
  }
  return true;
}

/* Why a cell is not replayed in pieces; NULL: it is. */
static const char *unasked(const kv_trace *t, int chunk, const kv_cell *c,
                           const kv_decided *whole) {
  if (!whole || !kv_result_ran(&c->result)) return "the method did not run";
  if (c->turns) return "its later questions are prompts of their own (--turns)";
  if (c->shape.chunk) return "its prompt is read in chunks already (prefill)";
  if (c->shape.prompt_len <= chunk)
    return "its prompt is no longer than a piece";
  if (c->plan.needs.prompt_rows && !has_queries(t, c->shape.prompt_len))
    return "the trace does not record all queries of its prompt";
  return NULL;
}

/* --- in pieces ----------------------------------------------------------- */

/* The first piece is the prompt, and each later one a prompt that follows. */
static kv_rc chunks_cut(int chunk, int prompt_len, kv_cell *c, kv_err *e) {
  int n = (prompt_len - 1) / chunk;
  c->turn = kv_zalloc((size_t)n, sizeof *c->turn);
  if (!c->turn) return kv_no_memory(e, "pieces", (size_t)n * sizeof *c->turn);
  c->turns = n;
  c->plan.pieces = true;
  for (int i = 0; i < n; i++) {
    int at = (i + 1) * chunk, left = prompt_len - at;
    c->turn[i] = (kv_asking){at, left < chunk ? left : chunk};
  }
  return KV_OK;
}

static double peak(const kv_cell *c) {
  int n = c->shape.n_tokens;
  return 100 * (double)c->result.totals.peak /
         (double)kv_cell_dense(c, n, n, false);
}

static void chunks_take(const kv_decided *whole, const kv_decided *pieces,
                        const kv_cell *c, kv_chunks_result *out) {
  if (!kv_result_ran(&c->result)) {
    beside_say(c->result.reason, out->why);
    return;
  }
  out->unlike = kv_decided_unlike_decoding(whole, pieces);
  out->shared = kv_decided_shared(whole, pieces);
  out->peak = peak(c);
}

static kv_rc run(const kv_trace *t, int chunk, kv_cell *const *cell,
                 kv_decided *const *whole, const kv_replay_how *how,
                 kv_beside *b, kv_chunks_result *out, bool *stopped,
                 kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < b->n; i++) {
    if (*out[i].why) continue;
    rc = beside_add(t, chunk, cell[i], i, b, out[i].why, e);
    if (!rc && b->decided[i])
      rc = chunks_cut(chunk, cell[i]->shape.prompt_len, &b->cell[i], e);
  }
  if (!rc) rc = beside_run(t, b, how, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->n; i++)
    if (b->decided[i])
      chunks_take(whole[i], b->decided[i], &b->cell[i], &out[i]);
  return rc;
}

kv_rc kv_chunks_ask(const kv_trace *t, int chunk, int n, kv_cell *const *cell,
                    kv_decided *const *whole, const kv_replay_how *how,
                    kv_chunks_result *out, bool *stopped, kv_err *e) {
  kv_beside b = {0};
  for (int i = 0; i < n; i++) {
    const char *why = unasked(t, chunk, cell[i], whole[i]);
    out[i] = (kv_chunks_result){.chunk = chunk};
    if (why) beside_say(why, out[i].why);
    if (why) continue;
    out[i].lanes = kv_decided_lanes(whole[i]);
    out[i].whole_peak = peak(cell[i]);
  }
  kv_rc rc = beside_open(n, &b, e);
  if (!rc) rc = run(t, chunk, cell, whole, how, &b, out, stopped, e);
  beside_close(&b);
  return rc;
}
