/* SPDX-License-Identifier: Apache-2.0
 *
 * The code that all scorers share; contract in ref/parts/scorers.h. Cost: the
 * scorer's rows and scores, and one selection per lane and compression, O(n).
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

static kv_rc resolve_every(const char *method, kv_score_options *o, kv_err *e) {
  if (o->every <= 0 && o->form != KV_FORM_PREFILL)
    o->every = o->rows > EVERY && o->rows < KV_ALL_ROWS ? o->rows : EVERY;
  if (o->every == KV_UNSET) o->every = 0;
  if (o->form == KV_FORM_PREFILL && o->every != 0)
    return kv_fail(e, KV_REFUSED,
                   "%s: every=%d has no effect with form=prefill; leave it "
                   "out, or use form=decode or form=both",
                   method, o->every);
  if (o->form != KV_FORM_PREFILL && o->rows < KV_ALL_ROWS && o->every < o->rows)
    return kv_fail(e, KV_REFUSED,
                   "%s: every=%d is less than window=%d, whose queries must "
                   "all be new; raise every or lower window",
                   method, o->every, o->rows);
  return KV_OK;
}

/* Bytes of the scorer's state between steps: at most budget + every entries. */
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
                 "%s: scores=%s is only read with score=file; add that, or "
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
                   "%s: block=%d has no effect with form=decode, which does "
                   "not compress the prompt; leave it out or use form=both",
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

/* Scorers by attention: the votes of the last queries (SnapKV), the sums of all
 * rows (H2O) and the row of the last query (TOVA), all fixed-point sums of
 * probabilities (arithmetic 4) over the rows since the last compression. */

/* --- snapkv: votes, pooled over neighbours -------------------------------- */

static kv_rc open_votes(const kv_shape *shape, const char *method, int budget,
                        kv_score_options *o, kv_needs *needs, kv_err *e) {
  kv_rc rc = kv_open_window(shape, method, budget, &o->w, needs, e);
  o->rows = o->w.window;
  o->state = needs->lane_state;
  return rc;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                    const kv_score_options *o) {
  kv_window_observe(at, lane, rows, &o->w);
}

static void score_votes(const kv_at *at, const kv_lane *lane,
                        const kv_score_options *o, int first, int n,
                        float *out) {
  kv_window_score_from(at, lane, (kv_group_rule)o->w.group,
                       (kv_pooling)o->w.pooling, o->w.kernel, first, n, out);
}

const kv_scorer kv_scorer_snapkv = {.name = "snapkv",
                                    .open = open_votes,
                                    .observe = observe,
                                    .score = score_votes,
                                    .by_entry = true};

/* --- h2o: sums of all rows ----------------------------------------------- */

static kv_rc open_sums(const kv_shape *shape, const char *method, int budget,
                       kv_score_options *o, kv_needs *needs, kv_err *e) {
  kv_group_rule group = (kv_group_rule)o->w.group;
  if (o->w.window == KV_UNSET) o->w.window = budget / 2;
  int rows = o->form == KV_FORM_PREFILL ? shape->prompt_len : shape->n_tokens;
  needs->want = KV_SUM;
  o->rows = KV_ALL_ROWS;
  o->state = kv_window_state(shape, group);
  return kv_open_sums(method, rows, kv_score_heads(shape, group), 1, e);
}

static void score_sums(const kv_at *at, const kv_lane *lane,
                       const kv_score_options *o, int first, int n,
                       float *out) {
  kv_window_score_from(at, lane, (kv_group_rule)o->w.group, KV_POOL_NONE, 1,
                       first, n, out);
}

const kv_scorer kv_scorer_h2o = {.name = "h2o",
                                 .open = open_sums,
                                 .observe = observe,
                                 .score = score_sums,
                                 .by_entry = true};

/* --- tova: the last query's row ------------------------------------------ */

static kv_rc open_last(const kv_shape *shape, const char *method, int budget,
                       kv_score_options *o, kv_needs *needs, kv_err *e) {
  kv_group_rule group = (kv_group_rule)o->w.group;
  (void)budget;
  if (o->w.window == KV_UNSET) o->w.window = 0;
  needs->want = KV_P;
  o->rows = 1;
  o->state = kv_window_state(shape, group);
  return kv_open_sums(method, 1, kv_score_heads(shape, group), 1, e);
}

/* Only the last of the given rows counts. */
static void observe_last(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                         const kv_score_options *o) {
  size_t n = (size_t)rows->entries;
  int64_t *own = kv_own(at, lane);
  memset(own, 0, o->state);
  for (int h = 0; h < rows->heads; h++) {
    int plane = o->w.group == KV_GROUP_MAX ? h : 0;
    at->kernels->fix_add(
        rows->p + kv_rows_at(rows, rows->rows - 1, h) * rows->stride, (int)n,
        own + (size_t)plane * (size_t)at->shape->n_tokens);
  }
}

const kv_scorer kv_scorer_tova = {.name = "tova",
                                  .open = open_last,
                                  .observe = observe_last,
                                  .score = score_sums,
                                  .by_entry = true};

/* The scorer of a file: scores that another program gave to each token, used
 * unchanged. A file of scores is in safetensors with the metadata
 *
 *   format   kvscores
 *   version  1
 *   trace    identity of the trace whose tokens are scored (kvtrace info)
 *   scorer   what made it, for people
 *
 * and for each recorded layer a tensor layers.L.scores [KV heads, tokens], F32,
 * F16 or BF16: larger is kept longer. Tokens are those of the prompt, or more,
 * from the first on. A layer with a sliding window needs one only with
 * windowed=compress. If lanes belong to query heads, each reads its KV head's
 * row.
 *
 * To the bit: score[i] = the number of the entry's token. A token that the file
 * does not cover (in a later prompt, --turns) has 2^100, more than any other.
 * Scores of 2^99 or more in magnitude are refused, so that sums and products of
 * scores stay finite. Cost: O(n) a lane. */

#define LIMIT 0x1p99f /* less than KV_UNSCORED */

static const kv_tensor_ask tensors[] = {{.name = "layers.*.scores",
                                         .type = KV_T_F32,
                                         .rank = 2,
                                         .dim = {KV_DIM_KV_HEADS, KV_DIM_ANY},
                                         .unwindowed = true},
                                        {.name = NULL}};
const kv_asset_kind kv_scores_kind = {"kvscores", tensors};

/* Checks the metadata. */
static kv_rc check_file(const kv_asset *a, kv_err *e) {
  const char *version = kv_asset_meta(a, "version");
  char show[64];
  if (!version || version[0] != '1' || version[1])
    return kv_fail(e, KV_REFUSED, "%s: metadata version is %s; write 1",
                   a->path,
                   version ? kv_plain(version, sizeof show, show) : "missing");
  if (a->of_trace) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: metadata trace is missing; write the identity of the "
                 "scored trace, which kvtrace info prints",
                 a->path);
}

/* Checks the scores of one layer: there are enough, and none is too large. */
static kv_rc check_layer(const kv_shape *s, const kv_asset *a, int layer,
                         const kv_score_options *o, kv_err *e) {
  const kv_tensor *t = kv_asset_layer(a, layer);
  const float *score = t->data;
  int64_t n = t->dim[1];
  bool prompt = o->form == KV_FORM_PREFILL;
  int least = prompt ? s->prompt_len : s->n_tokens;
  if (!score) return KV_OK;
  if (n < least || n > s->n_tokens)
    return kv_fail(e, KV_REFUSED,
                   "%s: layer %d has scores of %lld tokens but needs %d%s; the "
                   "trace has %d",
                   a->path, layer, (long long)n, least,
                   prompt ? " for the prompt" : " to compress while decoding",
                   s->n_tokens);
  for (int64_t i = 0; i < t->count; i++)
    if (!(score[i] < LIMIT && score[i] > -LIMIT))
      return kv_fail(e, KV_REFUSED,
                     "%s: layer %d, KV head %lld, token %lld: the score is %g; "
                     "it must be between -2^99 and 2^99",
                     a->path, layer, (long long)(i / n), (long long)(i % n),
                     (double)score[i]);
  return KV_OK;
}

static kv_rc open_file(const kv_shape *shape, const char *method, int budget,
                       kv_score_options *o, kv_needs *needs, kv_err *e) {
  const kv_asset *a = o->file.asset;
  (void)budget, (void)needs;
  if (o->w.window == KV_UNSET) o->w.window = 0;
  if (!a)
    return kv_fail(e, KV_USAGE,
                   "%s: score_file=file needs a file; write "
                   "%s:score_file=file:scores=NAME.safetensors",
                   method, method);
  kv_rc rc = check_file(a, e);
  for (int i = 0; !rc && i < a->layers; i++)
    rc = check_layer(shape, a, a->layer[i], o, e);
  return rc;
}

static void score_file(const kv_at *at, const kv_lane *lane,
                       const kv_score_options *o, int first, int n,
                       float *out) {
  const kv_tensor *t = &at->asset[o->tensor];
  for (int i = 0; i < n; i++)
    out[i] = kv_score_of(t, lane->kv_head, lane->id[first + i]);
}

const kv_scorer kv_scorer_file = {
    .name = "file", .open = open_file, .score = score_file};
