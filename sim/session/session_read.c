/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a session: what it holds, attended and costs, and its digests.
 */
#include "sim/session/session_part.h"

#include <string.h>

const char *kv_session_spec(const kv_session *s) {
  return s ? s->cell.result.spec : "";
}

int kv_session_lanes(const kv_session *s) { return s ? s->lanes : 0; }

static kv_rc check_index(const char *what, int i, int n, kv_err *e) {
  if (i >= 0 && i < n) return KV_OK;
  return kv_fail(e, KV_USAGE, "%s %d: there are %d, from 0 on", what, i, n);
}

/* How many elements fit into the caller's array. */
static int at_most(int n, int room) { return n < room ? n : room; }

kv_rc kv_session_lane(const kv_session *s, int layer, int lane, int room,
                      uint32_t *id, uint32_t *weight, int *n, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_index("lane", lane, s->lanes, e);
  if (rc) return rc;
  const kv_lane *l = kv_layer_lane(f->layer, 0, lane);
  int most = at_most(l->n, room);
  if (n) *n = l->n;
  if (id && most > 0) memcpy(id, l->id, (size_t)most * sizeof *id);
  if (weight && most > 0)
    memcpy(weight, l->weight, (size_t)most * sizeof *weight);
  return KV_OK;
}

/* Does the method's view hold less than the lane, by what it asks for? h2o has
 * one that hides an entry after a drop of a decode step alone. */
static bool reads_part(const kv_method *m, const kv_needs *n) {
  if (!m->view) return false;
  bool part = n->viewed || n->view_logits || n->unread || n->host;
  for (int i = 0; i < n->metas; i++) part = part || n->meta[i].scanned;
  return part || n->across == KV_DOWN;
}

/* Why attention over the lane's rows is not the method's; NULL: it is. */
static const char *more_than_rows(const kv_method *m, const kv_lane *l) {
  if (reads_part(m, l->needs))
    return "reads some of its entries, others at each step";
  if (m->chunk) return "adds to attention what no row holds";
  if (l->needs->reindex) return "turns keys to the places that they have";
  for (int i = 0; i < l->n; i++)
    if (kv_lane_bias(l, i) != 0) return "adds to logits of merged entries";
  return NULL;
}

kv_rc kv_session_held(const kv_session *s, int layer, int lane, int room,
                      float *k, float *v, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_index("lane", lane, s->lanes, e);
  if (rc) return rc;
  const kv_lane *l = kv_layer_lane(f->layer, 0, lane);
  const kv_plan *plan = kv_cell_plan(&s->cell, (int)(f - s->fed));
  const char *why = more_than_rows(plan->method, l);
  if (why)
    return kv_fail(e, KV_REFUSED,
                   "%s %s: K and V of its entries do not say what it attends; "
                   "feed the session the decode steps, too",
                   kv_session_spec(s), why);
  fenv_t mode;
  fegetenv(&mode);
  kv_float_ground();
  for (int i = 0; i < at_most(l->n, room); i++) {
    if (k) kv_lane_key(l, i, k + (size_t)i * (size_t)l->shape->d);
    if (v) kv_lane_value(l, i, v + (size_t)i * (size_t)l->shape->d_v);
  }
  fesetenv(&mode);
  return KV_OK;
}

static kv_rc check_decoded(const kv_session *s, const kv_fed *f, int layer,
                           kv_err *e) {
  if (f->entered > s->cell.shape.prompt_len) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "layer %d has seen %d tokens of its prompt of %d: there is "
                 "no decode step to look at yet",
                 layer, f->arrived, s->cell.shape.prompt_len);
}

kv_rc kv_session_view(const kv_session *s, int layer, int head, int room,
                      uint32_t *id, int *n, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_index("query head", head, s->cell.shape.n_heads, e);
  if (!rc) rc = check_decoded(s, f, layer, e);
  if (rc) return rc;
  int lane = head / (s->cell.shape.n_heads / s->lanes), count = 0;
  const uint32_t *from = f->id + (size_t)lane * (size_t)s->cell.shape.n_tokens;
  const kv_run *run = f->run + (size_t)head * s->most_runs;
  for (int r = 0; r < f->runs[head]; count += run[r++].count) {
    int most = at_most(run[r].count, room - count);
    if (id && most > 0)
      memcpy(id + count, from + run[r].first, (size_t)most * sizeof *id);
  }
  if (n) *n = count;
  return KV_OK;
}

kv_rc kv_session_lse(const kv_session *s, int layer, float *lse, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_decoded(s, f, layer, e);
  if (rc) return rc;
  if (!lse) return kv_fail(e, KV_USAGE, "there is no place for the sums");
  memcpy(lse, f->lse, (size_t)s->cell.shape.n_heads * sizeof *lse);
  return KV_OK;
}

/* --- the ledger --------------------------------------------------------- */

/* The block that ends at `step` tokens seen; -1: none does. */
static int block_of(const kv_session *s, int step) {
  int p = s->cell.shape.prompt_len, size = kv_cell_block(&s->cell);
  if (step >= p) return s->cell.blocks - 1 + step - p;
  return size && step > 0 && step % size == 0 ? step / size - 1 : -1;
}

kv_rc kv_session_end_step(kv_session *s, int step, kv_err *e) {
  if (!s) return kv_session_none(e);
  if (s->ended)
    return kv_fail(e, KV_USAGE,
                   "the session has ended: step %d cannot be closed", step);
  if (step <= s->closed)
    return kv_fail(e, KV_USAGE,
                   "the ledger is closed up to step %d; %d is "
                   "over",
                   s->closed, step);
  for (int i = 0; i < s->trace.n_layers; i++)
    if (s->fed[i].arrived < step || s->fed[i].fault.rc)
      return kv_fail(e, KV_USAGE,
                     "step %d cannot be closed: layer %d has seen %d tokens%s",
                     step, s->trace.layer[i].data.layer, s->fed[i].arrived,
                     s->fed[i].fault.rc ? " and failed" : "");
  if (block_of(s, step) < 0)
    return kv_fail(e, KV_USAGE,
                   "step %d is within the prompt and no block ends there",
                   step);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < s->trace.n_layers; i++)
    rc = kv_session_enter(s, &s->fed[i], e);
  if (!rc) s->closed = step;
  return rc;
}

const char *kv_session_byte_kind(int i) {
  const kv_byte_kind *kind = kv_byte_kind_at(i);
  return kind ? kind->name : NULL;
}

kv_rc kv_session_ledger(const kv_session *s, kv_session_bytes *out, kv_err *e) {
  if (!s) return kv_session_none(e);
  if (!out) return kv_fail(e, KV_USAGE, "there is no place for the ledger");
  *out = (kv_session_bytes){.step = s->closed};
  if (s->closed == 0) return KV_OK;
  kv_cost_now now = kv_cost_until(s->cell.cost, block_of(s, s->closed));
  out->now = now.held;
  out->peak = now.peak;
  out->mean = now.mean;
  return KV_OK;
}

/* --- digests ------------------------------------------------------------ */

static kv_rc check_end(const kv_session *s, kv_err *e) {
  int first = s->fed[0].arrived;
  for (int i = 0; i < s->trace.n_layers; i++) {
    const kv_fed *f = &s->fed[i];
    int layer = s->trace.layer[i].data.layer;
    if (f->fault.rc) return kv_fail(e, KV_REFUSED, "%s", f->fault.text);
    if (f->arrived < s->cell.shape.prompt_len)
      return kv_fail(e, KV_USAGE,
                     "no digest yet: layer %d has seen %d tokens of a prompt "
                     "of %d",
                     layer, f->arrived, s->cell.shape.prompt_len);
    if (f->arrived != first)
      return kv_fail(e, KV_USAGE,
                     "no digest yet: layer %d has seen %d tokens and layer %d "
                     "%d",
                     s->trace.layer[0].data.layer, first, layer, f->arrived);
  }
  return KV_OK;
}

static kv_rc end(kv_session *s, kv_err *e) {
  kv_rc rc = KV_OK;
  s->ended = true;
  for (int i = 0; !rc && i < s->trace.n_layers; i++) {
    rc = kv_session_enter(s, &s->fed[i], e);
    s->hand = &s->fed[i];
    if (!rc) rc = kv_layer_end(s->fed[i].layer, e);
  }
  if (!rc) rc = kv_cell_finish(&s->cell, e);
  const kv_result *r = &s->cell.result;
  if (!rc && !kv_result_ran(r)) rc = kv_fail(e, KV_REFUSED, "%s", r->reason);
  if (rc) {
    s->fed[0].fault = *e;
    return rc;
  }
  s->digests = (kv_session_digests){r->journal, r->state, r->output};
  return KV_OK;
}

kv_rc kv_session_digest(kv_session *s, kv_session_digests *out, kv_err *e) {
  kv_err own = {0};
  if (!s) return kv_session_none(e);
  kv_rc rc = check_end(s, e);
  if (rc) return rc;
  rc = s->ended ? KV_OK : end(s, &own);
  if (rc) return kv_fail(e, rc, "%s", own.text);
  if (out) *out = s->digests;
  return KV_OK;
}
