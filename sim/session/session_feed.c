/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeding tokens into a session: they are checked and copied, then enter
 * through the same engine calls as in a walk over a trace.
 */
#include "sim/session/session_part.h"

#include "ref/ground/chunk.h"

#include <string.h>

kv_rc kv_session_find(const kv_session *s, int layer, kv_fed **out, kv_err *e) {
  int low = 0, high = s->trace.n_layers;
  while (low < high) {
    int middle = low + (high - low) / 2, at = s->trace.layer[middle].data.layer;
    if (at == layer) {
      *out = &s->fed[middle];
      return KV_OK;
    }
    if (at < layer)
      low = middle + 1;
    else
      high = middle;
  }
  return kv_fail(e, KV_USAGE,
                 "layer %d is none that this session was opened for", layer);
}

/* --- does it fit? ------------------------------------------------------- */

static kv_rc check_out(int layer, const kv_session_out *out, kv_err *e) {
  if (!out) return KV_OK;
  if (out->data && out->dtype >= KV_F16 && out->dtype <= KV_F32) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "layer %d: out needs a place and a dtype; F16 is %d, BF16 "
                 "%d, F32 %d",
                 layer, KV_F16, KV_BF16, KV_F32);
}

static kv_rc check_order(const kv_session *s, const kv_fed *f, int layer,
                         int step, int n, kv_err *e) {
  int p = s->cell.shape.prompt_len, most = s->cell.shape.n_tokens;
  int chunk = s->cell.shape.chunk;
  if (s->ended)
    return kv_fail(e, KV_USAGE,
                   "the session has ended with its digests; open another");
  if (f->fault.rc) return kv_fail(e, KV_REFUSED, "%s", f->fault.text);
  if (n < 1 || step < 1)
    return kv_fail(e, KV_USAGE, "layer %d: %d tokens up to step %d are none",
                   layer, n, step);
  if (step > most || n > most)
    return kv_fail(e, KV_USAGE,
                   "layer %d: step %d with %d tokens is past the %d that the "
                   "session has room for",
                   layer, step, n, most);
  if (step - n != f->arrived)
    return kv_fail(e, KV_USAGE,
                   "layer %d has seen %d tokens; %d tokens up to step %d do "
                   "not follow them",
                   layer, f->arrived, n, step);
  if (s->cell.messages && f > s->fed && f[-1].arrived < step)
    return kv_fail(e, KV_USAGE,
                   "layer %d: step %d comes before layer %d has it, and this "
                   "method's layers read what those above publish; feed the "
                   "layers of a step from the first to the last",
                   layer, step, f[-1].data->layer);
  if (s->cell.messages && chunk && step < p && step % chunk)
    return kv_fail(
        e, KV_USAGE,
        "layer %d: step %d is within a chunk of prefill=%d, at whose "
        "end this method's layers read what those above publish; end "
        "a piece at a chunk's end",
        layer, step, chunk);
  if (f->arrived < p && step > p)
    return kv_fail(e, KV_USAGE,
                   "layer %d: the prompt ends at %d, within these tokens up "
                   "to %d; end a piece there",
                   layer, p, step);
  if (f->arrived >= p && n != 1)
    return kv_fail(e, KV_USAGE,
                   "layer %d: %d tokens at once after the prompt; decode "
                   "steps come one by one",
                   layer, n);
  return KV_OK;
}

/* Query rows are kept in their dtype, so a prompt must have one. */
static kv_rc check_queries(const kv_session *s, const kv_fed *f, int layer,
                           const kv_session_in *q, kv_err *e) {
  bool first = f->arrived == 0 || f->arrived >= s->cell.shape.prompt_len;
  if (first || !q || (int)f->data->q_dtype == q->dtype) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "layer %d: q has another dtype than before in its prompt",
                 layer);
}

/* True if a whole prompt comes at once with its queries laid out as in a trace:
 * they are then read in place. */
static bool lent(const kv_session *s, const kv_fed *f, int n,
                 const kv_session_in *q) {
  int64_t d = s->cell.shape.d;
  return f->arrived == 0 && n == s->cell.shape.prompt_len && q->token == d &&
         q->head % d == 0 && q->head >= n * d && q->head / d <= INT32_MAX;
}

/* Sets where the engine reads queries from. */
static void look_at(kv_fed *f, const void *q, const int32_t *rows, int n) {
  f->data->q = q;
  f->data->rows = rows;
  f->data->n_rows = n;
}

static kv_side query_side(const kv_session *s, const kv_fed *f, int n,
                          const kv_session_in *q) {
  const kv_shape *p = &s->cell.shape;
  kv_dtype type = q ? (kv_dtype)q->dtype : KV_F32;
  if (f->arrived >= p->prompt_len)
    return (kv_side){"q", p->n_heads, p->d, type, f->arrived, 1, f->step_q};
  int asked = q && lent(s, f, n, q) ? 0 : s->asked;
  return (kv_side){"q",      p->n_heads, p->d, type, p->prompt_len - asked,
                   s->asked, f->q};
}

static kv_rc take(kv_session *s, kv_fed *f, int layer, int n,
                  const kv_session_in *q, const kv_session_in *k,
                  const kv_session_in *v, kv_err *e) {
  const kv_shape *p = &s->cell.shape;
  kv_side side[3] = {
      query_side(s, f, n, q),
      {"k", p->n_kv_heads, p->d, p->dtype, 0, p->n_tokens, f->k},
      {"v", p->n_kv_heads, p->d_v, p->dtype, 0, p->n_tokens, f->v}};
  const kv_session_in *in[3] = {q, k, v};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < 3; i++)
    rc = kv_session_take(s, &side[i], layer, f->arrived, n, in[i], e);
  if (!rc) f->data->q_dtype = side[0].dtype;
  return rc;
}

/* --- the engine --------------------------------------------------------- */

/* The next token, of a chunk but the first: attends as in a decode step. */
static kv_rc row(kv_session *s, kv_fed *f, int place, const kv_session_out *out,
                 kv_err *e) {
  const kv_team team = {&s->worker, 1, NULL};
  s->row_out = out;
  s->row_place = place;
  kv_layer_prompt_row(f->layer, 0, f->arrived, &team);
  f->entered = f->arrived + 1;
  return f->fault.rc ? kv_fail(e, KV_REFUSED, "%s", f->fault.text) : KV_OK;
}

/* Tokens up to `step` have arrived: enters those that complete a block. */
static kv_rc prompt(kv_session *s, kv_fed *f, int step, const kv_session_in *q,
                    const kv_session_out *out, kv_err *e) {
  const kv_team team = {&s->worker, 1, NULL};
  int p = s->cell.shape.prompt_len, block = kv_cell_block(&s->cell);
  int start = f->arrived;
  kv_rc rc = KV_OK;
  if (lent(s, f, step - start, q))
    look_at(f, q->data, NULL, (int)(q->head / s->cell.shape.d));
  for (int end; !rc && f->arrived < step; f->arrived = end) {
    int full = block && f->entered + block < p ? f->entered + block : p;
    end = full < step ? full : step;
    if (kv_row_attends(&s->cell.shape, f->arrived + 1)) {
      end = f->arrived + 1;
      rc = row(s, f, f->arrived - start, out, e);
      continue;
    }
    if (out)
      rc = kv_session_prompt(s, f, f->arrived, end, f->arrived - start, q, out,
                             e);
    if (rc || end < full || s->given) continue; /* given: kv_session_enter */
    kv_layer_block(f->layer, 0, f->entered, full - f->entered, &team);
    f->entered = full;
    if (f->fault.rc) rc = kv_fail(e, KV_REFUSED, "%s", f->fault.text);
  }
  look_at(f, f->q, f->rows, s->asked);
  if (f->entered == p) /* the prompt's queries are not needed any more */
    kv_give_back(f->q, (size_t)s->cell.shape.n_heads * (size_t)s->asked *
                           (size_t)s->cell.shape.d * sizeof(float));
  return rc;
}

static kv_rc decode(kv_session *s, kv_fed *f, const kv_session_out *out,
                    kv_err *e) {
  const kv_team team = {&s->worker, 1, NULL};
  const kv_shape *p = &s->cell.shape;
  kv_rc rc = kv_session_enter(s, f, e);
  if (rc) return rc;
  f->step_row = f->arrived;
  look_at(f, f->step_q, &f->step_row, 1);
  kv_layer_step(f->layer, f->arrived, &team);
  f->arrived++;
  f->entered++;
  if (f->fault.rc) return kv_fail(e, KV_REFUSED, "%s", f->fault.text);
  for (int h = 0; out && h < p->n_heads; h++)
    kv_session_give(s, out, 0, h, f->out + (size_t)h * (size_t)p->d_v);
  return KV_OK;
}

/* Runs the engine on the new tokens. If it fails in between, the layer cannot
 * go on. */
static kv_rc run(kv_session *s, kv_fed *f, int step, const kv_session_in *q,
                 const kv_session_out *out, kv_err *e) {
  kv_err why = {0};
  s->hand = f;
  kv_rc rc = f->arrived < s->cell.shape.prompt_len
                 ? prompt(s, f, step, q, out, &why)
                 : decode(s, f, out, &why);
  if (!rc) return KV_OK;
  f->fault = why;
  return kv_fail(e, rc, "%s", why.text);
}

kv_rc kv_session_block(kv_session *s, int layer, int step, int n,
                       const kv_session_in *q, const kv_session_in *k,
                       const kv_session_in *v, const kv_session_out *out,
                       kv_err *e) {
  kv_fed *f = NULL;
  fenv_t mode;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_order(s, f, layer, step, n, e);
  if (!rc) rc = check_queries(s, f, layer, q, e);
  if (!rc) rc = check_out(layer, out, e);
  if (rc) return rc;
  fegetenv(&mode);
  kv_float_ground();
  rc = take(s, f, layer, n, q, k, v, e);
  if (!rc) rc = run(s, f, step, q, out, e);
  fesetenv(&mode);
  return rc;
}
