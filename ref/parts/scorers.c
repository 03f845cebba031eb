/* SPDX-License-Identifier: Apache-2.0
 *
 * What all scorers share: contract in ref/parts/scorers.h. Cost: what the
 * scorer's rows and scores cost, and one selection a lane and compression,
 * O(n).
 */
#include "ref/parts/scorers.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include <string.h>

enum {
  EVERY = 512, /* kvpress's decoding */
  BLOCK = 128
}; /* as in the paper of KeyDiff */

#define SCORER(x) &kv_scorer_##x,
static const kv_scorer *const scorers[] = {KV_SCORERS(SCORER)};

/* --- opening -------------------------------------------------------------- */

static kv_rc resolve_every(const char *method, kv_score_options *o, kv_err *e) {
  if (o->every <= 0 && o->form != KV_FORM_PREFILL)
    o->every = o->rows > EVERY && o->rows < KV_ALL_ROWS ? o->rows : EVERY;
  if (o->every == KV_UNSET) o->every = 0;
  if (o->form == KV_FORM_PREFILL && o->every != 0)
    return kv_fail(e, KV_REFUSED,
                   "%s: every=%d means nothing with form=prefill; leave it out "
                   "or write form=decode or form=both",
                   method, o->every);
  if (o->form != KV_FORM_PREFILL && o->rows < KV_ALL_ROWS && o->every < o->rows)
    return kv_fail(e, KV_REFUSED,
                   "%s: every=%d is less than window=%d, whose queries must "
                   "all be new; raise every or lower window",
                   method, o->every, o->rows);
  return KV_OK;
}

/* What observing takes between steps: at most budget + every entries. */
static size_t held(const kv_shape *s, const kv_scorer *scorer, int budget,
                   const kv_score_options *o) {
  int64_t n = (int64_t)budget + o->every;
  if (!scorer->by_entry || n >= s->n_tokens) return o->state;
  return o->state / (size_t)s->n_tokens * (size_t)n;
}

static void fill(const kv_shape *s, const kv_scorer *scorer, int budget,
                 const kv_score_options *o, kv_needs *needs) {
  bool some = o->rows < KV_ALL_ROWS && o->rows > s->prompt_len;
  int rows = some ? s->prompt_len : o->rows;
  size_t row = (size_t)s->n_tokens * sizeof(int64_t);
  needs->prompt_rows = o->form == KV_FORM_DECODE ? 0 : rows;
  needs->reindex = o->reindex == KV_REINDEX_YES;
  needs->slides = !needs->reindex;
  needs->chunks = true;
  needs->slid = scorer->by_entry ? (int)(o->state / row) : 0;
  needs->lane_state = o->state;
  needs->every = o->every;
  if (o->form == KV_FORM_PREFILL || !scorer->observe) return;
  needs->decode_rows = true;
  needs->metas = 1;
  needs->meta[0] = (kv_meta){.name = "observation held",
                             .bytes = held(s, scorer, budget, o)};
}

kv_rc kv_score_unread(const char *method, const kv_score_options *o,
                      kv_err *e) {
  if (!o->file.asset || o->score == KV_SCORE_file) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: scores=%s is read with score=file alone; write that, or "
                 "leave scores out",
                 method, o->file.asset->path);
}

kv_rc kv_score_open(const kv_shape *shape, const char *method, int budget,
                    kv_score_options *o, kv_needs *needs, kv_err *e) {
  const kv_scorer *scorer = scorers[o->score];
  kv_rc rc = kv_open_budget(method, budget, e);
  if (!rc) rc = kv_score_unread(method, o, e);
  if (!rc) rc = scorer->open(shape, method, budget, o, needs, e);
  if (rc) return rc;
  if (o->sinks == KV_UNSET) o->sinks = 0;
  needs->lanes = kv_group_lanes((kv_group_rule)o->w.group);
  rc = kv_open_part(method, "sinks", o->sinks, budget, e);
  if (!rc && !o->lag)
    rc = kv_open_part(method, o->sinks ? "sinks and last entries" : "last",
                      o->sinks + o->w.window, budget, e);
  if (!rc) rc = resolve_every(method, o, e);
  if (!rc) fill(shape, scorer, budget, o, needs);
  return rc;
}

/* --- hooks ---------------------------------------------------------------- */

void kv_score_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                      const kv_score_options *o) {
  bool prompt = rows->first < at->shape->prompt_len;
  if (prompt || kv_steps_left(at->shape, at->step, o->every) < o->rows)
    scorers[o->score]->observe(at, lane, rows, o);
}

float *kv_score(const kv_at *at, const kv_lane *lane, const kv_score_options *o,
                int first, int n) {
  float *score = KV_TAKE(at->work, float, n);
  size_t used = at->work->used;
  scorers[o->score]->score(at, lane, o, first, n, score);
  for (int i = 0; i < n; i++) score[i] = kv_score_finite(score[i]);
  at->work->used = used;
  return score;
}

void kv_score_forget(const kv_at *at, kv_lane *lane,
                     const kv_score_options *o) {
  if (o->state) memset(kv_own(at, lane), 0, o->state);
}

void kv_score_keep(const kv_at *at, kv_lane *lane, int past, float threshold,
                   const kv_score_options *o) {
  int first, n = kv_score_span(o, lane->n, &first);
  if (n <= 0 || !kv_score_over(n, past, threshold)) return;
  const float *score = kv_score(at, lane, o, first, n);
  bool *keep = KV_TAKE(at->work, bool, lane->n);
  memset(keep, true, (size_t)lane->n);
  kv_top(score, n, past, keep + first);
  for (int i = 0; i < n; i++)
    keep[first + i] &= kv_score_stays(score[i], threshold);
  kv_keep_mask(lane, keep);
}

void kv_score_compress(const kv_at *at, kv_lane *lane, int budget,
                       float threshold, const kv_score_options *o) {
  if (kv_score_compresses(o, at->shape, at->step) &&
      kv_score_over(lane->n, budget, threshold))
    kv_score_keep(at, lane, kv_score_past(o, lane->n, budget), threshold, o);
  kv_score_forget(at, lane, o);
}

/* --- methods that are a scorer -------------------------------------------- */

kv_rc kv_scored_open(const kv_shape *shape, const char *method, int score,
                     kv_scored *o, kv_needs *needs, kv_err *e) {
  bool decodes = o->s.form == KV_FORM_DECODE;
  o->s.score = score;
  if (o->drop) o->s.form = KV_FORM_BOTH, o->s.every = 1;
  if (o->block == KV_UNSET) o->block = decodes ? 0 : BLOCK;
  needs->block = shape->chunk ? 0 : o->block;
  if (decodes && o->block)
    return kv_fail(e, KV_REFUSED,
                   "%s: block=%d means nothing with form=decode, which leaves "
                   "the prompt whole; leave it out or write form=both",
                   method, o->block);
  kv_rc rc = kv_score_open(shape, method, o->budget, &o->s, needs, e);
  needs->lengths =
      scorers[score]->lengths || kv_score_lengths(&o->s, KV_NO_THRESHOLD);
  return rc;
}

void kv_scored_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const kv_scored *o = at->params;
  kv_score_observe(at, lane, rows, &o->s);
}

void kv_scored_compress(const kv_at *at, kv_lane *lane) {
  const kv_scored *o = at->params;
  if (at->layer >= o->skip)
    kv_score_compress(at, lane, o->budget, KV_NO_THRESHOLD, &o->s);
}
