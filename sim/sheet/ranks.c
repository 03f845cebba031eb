/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sheet/ranks.h"

#include "sim/sheet/beside.h"
#include <stdlib.h>

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
                         kv_decided *const *whole, const kv_replay_how *how,
                         kv_beside *b, kv_ranks_result *out, holds *x,
                         bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < b->n; i++)
    if (!*out[i].why)
      rc = kv_beside_add(t, cell[i]->shape.prompt_len, cell[i], i, b,
                         out[i].why, e);
  if (!rc) rc = kv_beside_run(t, b, how, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->n; i++) {
    if (!b->decided[i]) continue;
    if (kv_result_ran(&b->cell[i].result))
      take(whole[i], rank, t->n_layers, b->decided[i], &out[i], &x[i]);
    else
      kv_beside_say(b->cell[i].result.reason, out[i].why);
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
      kv_beside_say("it did not run", out[i].why);
    else if (cell[i]->asset)
      kv_beside_say("its file is of all heads", out[i].why);
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
    if (!rc) rc = kv_beside_open(n, &b, e);
    if (!rc)
      rc = replay_rank(&part, k, cell, whole, how, &b, out, x, stopped, e);
    kv_beside_close(&b);
    free(part.layer);
  }
  for (int i = 0; i < n; i++) {
    out[i].fullest = over_mean(&x[i].alone, most);
    out[i].fullest_told = over_mean(&x[i].told, most);
  }
  free(x);
  return rc;
}
