/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sheet/chunks.h"

#include "sim/sheet/beside.h"

/* --- who can be asked ----------------------------------------------------- */

/* Does every layer record the queries of the whole prompt? Which rows a method
 * is shown of a piece nobody knew when the trace was recorded. */
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

/* Why a cell is not asked; NULL: it is. */
static const char *unasked(const kv_trace *t, int chunk, const kv_cell *c,
                           const kv_decided *whole) {
  if (!whole || !kv_result_ran(&c->result)) return "it did not run";
  if (c->turns) return "its later questions are prompts of their own (--turns)";
  if (c->shape.chunk) return "its prompt is read in chunks already (prefill)";
  if (c->shape.prompt_len <= chunk)
    return "its prompt is no longer than a piece";
  if (c->plan.needs.prompt_rows && !has_queries(t, c->shape.prompt_len))
    return "the trace does not record all queries of its prompt";
  return NULL;
}

/* --- in pieces ------------------------------------------------------------ */

/* The first piece is the prompt, and each later one a prompt that follows. */
static kv_rc cut(int chunk, int prompt_len, kv_cell *c, kv_err *e) {
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

static void take(const kv_decided *whole, const kv_decided *pieces,
                 const kv_cell *c, kv_chunks_result *out) {
  if (!kv_result_ran(&c->result)) {
    kv_beside_say(c->result.reason, out->why);
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
    rc = kv_beside_add(t, chunk, cell[i], i, b, out[i].why, e);
    if (!rc && b->decided[i])
      rc = cut(chunk, cell[i]->shape.prompt_len, &b->cell[i], e);
  }
  if (!rc) rc = kv_beside_run(t, b, how, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->n; i++)
    if (b->decided[i]) take(whole[i], b->decided[i], &b->cell[i], &out[i]);
  return rc;
}

kv_rc kv_chunks_ask(const kv_trace *t, int chunk, int n, kv_cell *const *cell,
                    kv_decided *const *whole, const kv_replay_how *how,
                    kv_chunks_result *out, bool *stopped, kv_err *e) {
  kv_beside b = {0};
  for (int i = 0; i < n; i++) {
    const char *why = unasked(t, chunk, cell[i], whole[i]);
    out[i] = (kv_chunks_result){.chunk = chunk};
    if (why) kv_beside_say(why, out[i].why);
    if (why) continue;
    out[i].lanes = kv_decided_lanes(whole[i]);
    out[i].whole_peak = peak(cell[i]);
  }
  kv_rc rc = kv_beside_open(n, &b, e);
  if (!rc) rc = run(t, chunk, cell, whole, how, &b, out, stopped, e);
  kv_beside_close(&b);
  return rc;
}
