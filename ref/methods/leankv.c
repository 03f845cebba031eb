/* SPDX-License-Identifier: Apache-2.0
 *
 * LeanKV: stores important tokens in many bits, others in few, and drops the
 * rest. Thresholds decide for each head how many.
 *
 *   score of an entry = attention that it received / queries that counted, the
 *     largest over the query heads of its KV head
 *   the last `window` tokens are in the high tier whatever their score
 *   after the prompt, of the tokens i before the window:
 *     score < alpha_l / M: dropped; < alpha_h / M: low tier; else high tier
 *   variant=paper: every prompt query after the token counts, M = i (from 1)
 *   variant=code: the prompt's last 64 queries count, M = prompt's length
 *
 *   after every step, N tokens seen, T_h = alpha_h / N, T_l = alpha_l / N:
 *   variant=paper (Algorithm 1), c the token that leaves the window:
 *     score(c) >= T_h: v = the least of the high tier, c in it:
 *       T_l <= score(v) < T_h: v goes to the low tier; < T_l: it is dropped
 *     T_l <= score(c) < T_h: c goes to the low tier; v = the least of that:
 *       score(v) < T_l: it is dropped
 *     else c is dropped
 *   variant=code, h and l the least of each tier outside the window:
 *     score(h) < T_l and score(h) < score(l): h is dropped
 *     score(h) < T_h: h goes to the low tier, and l is dropped if < T_l
 *
 * To the bit: each query head sums the probabilities of the prompt's queries as
 * in arithmetic 4. The largest of these sums is taken. Then each step adds the
 * largest over the heads, in binary32. A score is that sum divided by the
 * count, a threshold min(1, alpha / M), each rounded once. For tiny N alpha / M
 * may exceed 1; the code stops there. An entry that goes from the high tier to
 * the low one is coded from its codes; a side that both tiers store alike
 * stays. high=low is one tier, and only entries below T_l go. Tiers are kNvM of
 * int8 .. int1 (FORMATS.md); 16 is an uncoded side.
 *
 * Zhang et al. 2024, Unifying KV Cache Compression for Large Language Models
 * with LeanKV; authors' code: github.com/zyqCSL/DiffKV. Algorithm 1 of the
 * paper does not define its thresholds T_h and T_l; they are alpha / N, as in
 * the paper's text. The default follows the code: the authors measured it, and
 * it needs only the last queries' probabilities from an engine. The default
 * alphas are the paper's for Llama-3-8B. The paper has 3 and 0 for QwQ-32B and
 * Qwen2.5-32B, 0 and 0.04 for Qwen2.5-7B (here alpha_h=0.04, or high=low). That
 * budgets in bytes set alpha_l is ours. Other differences:
 * - The code decides before a step's attention, by the newest scores, for the
 *   token that is arriving. Here the end of the step before decides, by the
 *   same scores, so attention reads the same tiers. The newest token itself is
 *   read uncoded, and coded after its step.
 * - A token is outside the code's window once `window` queries counted for it.
 *   With a window above 64 that is later than its age, because a prompt's
 *   tokens begin with at most 64.
 * - The paper takes the largest over heads and the mean over queries in either
 *   order. The code takes the largest of the sums over the prompt, then adds
 *   the largest of each step. Both variants do as the code does.
 * - The code's own query of a token counts for it, the paper's does not.
 * - The code sorts a prompt by score and puts new tokens into the slots of
 *   tokens that left. Here entries stay in the order of tokens; of equal scores
 *   the older is the least.
 * - A later prompt (--turns) is judged like the first. If not all of its
 *   queries count, scores begin anew with those that do.
 * - The paper's bytes are of codes alone: its 18.75 % for K4V2 is 22.7 % with
 *   everything.
 *
 * sparsity=static gives every head the same counts, ceil(share) of the tokens
 * before the window, like the comparison in the paper's Figure 8.
 * sparsity=layer is ours: thresholds decide how many entries a layer has in
 * each tier, and its heads get equal parts of these, rounded up. Both rank by
 * score and move as many entries a step as the paper: at most one to the low
 * tier, and one out.
 *
 * The paper says that its two precisions are extensible, and not how. middle_1
 * and middle_2 are tiers in between, with alphas: a score belongs to the first
 * tier from above whose threshold it reaches. By Algorithm 1 c goes into the
 * tier of its score, and the least of that tier into the tier of its own score.
 * By the kernel an entry that leaves the high tier goes into the next, whose
 * least goes on if it is below that tier's threshold. If the entry itself is
 * below that threshold and less than that least, it passes on instead. So at
 * most one leaves each tier. A file of weights, [layers, KV heads, tiers],
 * multiplies each head's alphas, rounded once; they must not rise from a tier
 * to the one below.
 *
 * Family: code. Acts: every step. Needs: probabilities of the last 64 prompt
 * queries and of every step; two to four tiers of codes. Bound: W + what passes
 * T_l; t where alpha_l = 0. Bytes: at d = d_v = 128, 204 bytes for a token of
 * the high tier, 108 for one of the low tier. Gather: the token. Reduce:
 * probability from the prompt's last 64 queries and every step, the largest
 * over query heads. Sample: three classes by thresholds. Cost: observation of
 * 64 queries (paper: of the prompt, quadratic); O(n) a step.
 */
#include "ref/methods/leankv.h"
#include "ref/parts/parts.h"
#include "ref/parts/received.h"
#include <string.h>

#define GROUPS(of, tier, side, what)                                           \
  KV_INT_PARAM(of, params, tiers.groups[tier][side], "1", 1, 4096, "groups",   \
               what)

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = kv_open_tiers(shape, "leankv", &o->tiers, needs, e);
  if (!rc) rc = kv_open_alphas(shape, "leankv", &o->tiers, &o->alphas, e);
  if (rc) return rc;
  if (o->queries == KV_UNSET) o->queries = o->variant == PAPER ? 0 : 64;
  needs->prompt_rows = o->queries ? o->queries : (int)KV_ALL_ROWS;
  needs->decode_rows = true;
  needs->want = o->variant == PAPER ? KV_SUM | KV_P : KV_SUM;
  needs->columns = 1;
  needs->column[0] = KV_FLOAT;
  needs->every = 1;
  needs->changes = 4;
  needs->lane_state = kv_received_state(shape);
  needs->slides = true;
  needs->slid = kv_group(shape);
  int rows = o->queries && o->queries < shape->prompt_len ? o->queries
                                                          : shape->prompt_len;
  return kv_open_sums("leankv", rows, 1, 1, e);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_received_add(at, lane, rows, 0, o->variant == CODE);
}

/* --- judging a lane ------------------------------------------------------ */

typedef struct judged {
  bool prompt;
  int past;     /* entries before the window */
  int tokens;   /* all tokens so far before the window, dropped ones included */
  float *score; /* [past] */
  uint8_t *tier;        /* [past] the entry's tier */
  const float *weights; /* of the head; NULL: no file */
  int most[TIERS];      /* entries of each tier, if counts decide */
} judged;

static judged judge(const kv_at *at, const kv_lane *lane, bool prompt) {
  const params *o = at->params;
  int first = kv_received_first(at, lane), n = lane->n;
  int tokens = kv_lean_bound(o, at->step, first, !prompt && o->variant == CODE);
  const float *sum = kv_column_float(at, lane, 0);
  while (n > 0 && (int)lane->id[n - 1] >= tokens) n--;
  judged j = {.prompt = prompt,
              .past = n,
              .tokens = tokens,
              .score = KV_TAKE(at->work, float, n),
              .tier = KV_TAKE(at->work, uint8_t, n)};
  if (o->alphas.weights)
    j.weights = kv_alpha_weights(&o->alphas, at->asset->data, at->shape,
                                 at->layer, lane->kv_head);
  for (int i = 0; i < n; i++) {
    int seen = kv_lean_seen(o, at->step, first, (int)lane->id[i]);
    j.score[i] = kv_div(sum[i], (float)seen);
    j.tier[i] = (uint8_t)kv_tier_of(at, lane, &o->tiers, i);
  }
  for (int t = 0; t < o->tiers.n; t++) j.most[t] = kv_lean_most(o, t, tokens);
  return j;
}

static void thresholds(const params *o, const judged *j, int n, float *floor) {
  for (int t = 0; t < o->tiers.n; t++)
    floor[t] = kv_alpha_threshold(&o->alphas, j->weights, t, n);
}

/* The tier of entry i by its score, at or below tier `from`. */
static int tier_of(const kv_at *at, const kv_lane *lane, const judged *j, int i,
                   int from) {
  const params *o = at->params;
  float floor[TIERS];
  thresholds(o, j, kv_lean_of(o, at->step, (int)lane->id[i], j->prompt), floor);
  return kv_lean_tier(o->tiers.n, floor, j->score[i], from);
}

/* --- after the prompt --------------------------------------------------- */

/* Fills the tiers from the highest on: each gets its best most[] entries that
 * are in no higher tier and were in no lower one. */
static void rank(const kv_at *at, const judged *j, uint8_t *tier) {
  const params *o = at->params;
  float *rest = KV_TAKE(at->work, float, j->past);
  int32_t *place = KV_TAKE(at->work, int32_t, j->past);
  bool *best = KV_TAKE(at->work, bool, j->past);
  memset(tier, GONE, (size_t)j->past);
  for (int t = 0; t < o->tiers.n; t++) {
    int n = 0;
    for (int i = 0; i < j->past; i++) {
      if (tier[i] != GONE || j->tier[i] > t) continue;
      place[n] = i;
      rest[n++] = j->score[i];
    }
    kv_top(rest, n, j->most[t], best);
    for (int i = 0; i < n; i++)
      if (best[i]) tier[place[i]] = (uint8_t)t;
  }
}

/* Drops entries that are GONE and codes the others, each into its tier. */
static void sort_out(const kv_at *at, kv_lane *lane, const judged *j,
                     const uint8_t *tier) {
  const params *o = at->params;
  int fresh = kv_tier_first_new(lane, &o->tiers);
  int n = lane->n, entry = 0;
  bool *keep = KV_TAKE(at->work, bool, n);
  for (int i = 0; i < n; i++) keep[i] = tier[i] != GONE;
  kv_keep_mask(lane, keep);
  for (int i = 0; i < n; i++) {
    if (!keep[i]) continue;
    if (i >= fresh)
      kv_tier_code(at, lane, &o->tiers, entry, tier[i]);
    else if (i < j->past && tier[i] > j->tier[i])
      kv_tier_demote(at, lane, &o->tiers, entry, j->tier[i], tier[i]);
    entry++;
  }
}

static void compress_prompt(const kv_at *at, kv_lane *lane, const judged *j) {
  const params *o = at->params;
  uint8_t *tier = KV_TAKE(at->work, uint8_t, lane->n);
  memset(tier, 0, (size_t)lane->n);
  if (o->sparsity != HEAD)
    rank(at, j, tier);
  else
    for (int i = 0; i < j->past; i++)
      tier[i] = (uint8_t)tier_of(at, lane, j, i, j->tier[i]);
  sort_out(at, lane, j, tier);
}

/* --- after a step ------------------------------------------------------- */

/* The entry with the smallest score in a tier, -1: none; *held: its entries. */
static int least(const kv_at *at, const judged *j, int tier, int *held) {
  bool *in = KV_TAKE(at->work, bool, j->past);
  *held = 0;
  for (int i = 0; i < j->past; i++) {
    in[i] = j->tier[i] == tier;
    *held += in[i];
  }
  return *held ? kv_argmin(j->score, j->past, in) : -1;
}

static decision decide(const kv_at *at, const kv_lane *lane, const judged *j) {
  const params *o = at->params;
  int tiers = o->tiers.n, held[TIERS], l[TIERS], c = j->past - 1;
  float floor[TIERS];
  for (int t = 0; t < tiers; t++) l[t] = least(at, j, t, &held[t]);
  if (o->sparsity != HEAD)
    return kv_lean_counts(tiers, j->score, held, j->most, l);
  thresholds(o, j, at->step, floor);
  if (o->variant == CODE) return kv_lean_code(tiers, j->score, floor, l);
  if (c < 0 || (int)lane->id[c] != j->tokens - 1) return (decision){0};
  return kv_lean_paper(tiers, j->score, floor, c, l);
}

static void compress_step(const kv_at *at, kv_lane *lane, const judged *j) {
  const params *o = at->params;
  decision d = decide(at, lane, j);
  int gone = -1;
  for (int m = 0; m < d.n; m++)
    if (d.to[m] == GONE)
      gone = d.entry[m];
    else
      kv_tier_demote(at, lane, &o->tiers, d.entry[m], j->tier[d.entry[m]],
                     d.to[m]);
  if (gone < 0) return;
  bool *keep = KV_TAKE(at->work, bool, lane->n);
  for (int i = 0; i < lane->n; i++) keep[i] = i != gone;
  kv_keep_mask(lane, keep);
}

/* --- compress ------------------------------------------------------------- */

/* Counts of a layer by its thresholds, divided among its lanes, rounded up. */
static void count(const kv_at *at, kv_lane *const *lane, int lanes, bool prompt,
                  int *most) {
  int sum[TIERS + 1] = {0};
  for (int l = 0; l < lanes; l++) {
    size_t used = at->work->used;
    judged j = judge(at, lane[l], prompt);
    for (int i = 0; i < j.past; i++) sum[tier_of(at, lane[l], &j, i, 0)]++;
    at->work->used = used;
  }
  for (int t = 0; t < TIERS; t++) most[t] = (sum[t] + lanes - 1) / lanes;
}

static void compress(const kv_at *at, kv_lane *const *lane, int lanes,
                     bool prompt) {
  const params *o = at->params;
  int most[TIERS];
  if (o->sparsity == LAYER) count(at, lane, lanes, prompt, most);
  for (int l = 0; l < lanes; l++) {
    size_t used = at->work->used;
    judged j = judge(at, lane[l], prompt);
    if (o->sparsity == LAYER) memcpy(j.most, most, sizeof most);
    if (prompt)
      compress_prompt(at, lane[l], &j);
    else
      compress_step(at, lane[l], &j);
    at->work->used = used;
  }
}

static void compress_lanes(const kv_at *at, kv_lane *const *lane, int lanes) {
  const params *o = at->params;
  bool prompt = at->step <= at->shape->prompt_len;
  if (prompt) compress(at, lane, lanes, true);
  if (!prompt || o->variant == CODE) compress(at, lane, lanes, false);
}

static void code_new(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  for (int i = kv_tier_first_new(lane, &o->tiers); i < lane->n; i++)
    kv_tier_code(at, lane, &o->tiers, i, 0);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_received_compress(at, lane, 0, o->queries);
  if (at->step > at->shape->prompt_len) code_new(at, lane);
  if (o->sparsity != LAYER) compress_lanes(at, &lane, 1);
}

static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  const params *o = at->params;
  if (o->sparsity == LAYER) compress_lanes(at, lane, lanes);
}

const kv_method kv_method_leankv = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "leankv",
    .title = "important tokens in many bits, others in few, the rest dropped",
    .paper = "Zhang et al. 2024, Unifying KV Cache Compression for Large "
             "Language Models with LeanKV, arXiv:2412.03131",
    .lossless = "high=k16v16:window=4194304",
    .observe = observe,
    .compress_lane = compress_lane,
    .compress_layer = compress_layer,
};
