/* SPDX-License-Identifier: Apache-2.0
 *
 * LeanKV on a device: the twin of ref/methods/leankv.c.
 *
 * Allowed local: kv_run_layer<compress_layer>,
 *   what a hook or a format passes by reference, once an entry settled
 * Allowed local: kv_run_compress<compress_lane>,
 *   what a hook or a format passes by reference, once an entry settled
 */
#include "gpu/parts/parts_received.cuh"
#include "gpu/parts/parts_tiers.cuh"
#include "ref/methods/leankv.h"

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_received_add(at, lane, rows, 0, o->variant == CODE);
}

/* --- what a lane is judged by -------------------------------------------- */

typedef struct judged {
  bool prompt;
  int past, tokens;     /* entries before the window; tokens they are left of */
  float *score;         /* [past] */
  uint8_t *tier;        /* [past] that each is in */
  const float *weights; /* of the head; null: there are none */
  int most[TIERS];
} judged;

static __device__ judged judge(kv_gpu_at &at, const kv_gpu_lane *lane,
                               bool prompt) {
  const params *o = (const params *)at.params;
  int first = kv_gpu_received_first(at, lane), n = lane->n;
  int tokens = kv_lean_bound(o, at.step, first, !prompt && o->variant == CODE);
  const float *sum = kv_gpu_column_float(at, lane, 0);
  while (n > 0 && (int)lane->id[n - 1] >= tokens) n--;
  judged j = {prompt,
              n,
              tokens,
              KV_GPU_TAKE(at, float, n),
              KV_GPU_TAKE(at, uint8_t, n),
              nullptr,
              {0}};
  if (o->alphas.weights)
    j.weights = kv_alpha_weights(&o->alphas, at.asset->data, &at.layer->shape,
                                 at.layer->layer, lane->kv_head);
  for (int t = 0; t < o->tiers.n; t++) j.most[t] = kv_lean_most(o, t, tokens);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int seen = kv_lean_seen(o, at.step, first, (int)lane->id[i]);
    j.score[i] = kv_div(sum[i], (float)seen);
    j.tier[i] = (uint8_t)kv_gpu_tier_of(at, lane, &o->tiers, i);
  }
  __syncthreads();
  return j;
}

static __device__ void thresholds(const params *o, const judged &j, int n,
                                  float *floor) {
  for (int t = 0; t < o->tiers.n; t++)
    floor[t] = kv_alpha_threshold(&o->alphas, j.weights, t, n);
}

/* The tier of entry i by its score, from `from` on. */
static __device__ int tier_of(const kv_gpu_at &at, const kv_gpu_lane *lane,
                              const judged &j, int i, int from) {
  const params *o = (const params *)at.params;
  float floor[TIERS];
  thresholds(o, j, kv_lean_of(o, at.step, (int)lane->id[i], j.prompt), floor);
  return kv_lean_tier(o->tiers.n, floor, j.score[i], from);
}

/* --- after the prompt ---------------------------------------------------- */

/* Tier by tier the best most[] of those that are not in one above, nor were in
 * one below. */
static __device__ void rank(kv_gpu_at &at, const judged &j, uint8_t *tier) {
  const params *o = (const params *)at.params;
  float *rest = KV_GPU_TAKE(at, float, j.past);
  int32_t *place = KV_GPU_TAKE(at, int32_t, j.past);
  uint8_t *best = KV_GPU_TAKE(at, uint8_t, j.past);
  for (int i = kv_thread(); i < j.past; i += KV_BLOCK) tier[i] = GONE;
  for (int t = 0; t < o->tiers.n; t++) {
    for (int i = kv_thread(); i < j.past; i += KV_BLOCK)
      best[i] = tier[i] == GONE && j.tier[i] <= t;
    __syncthreads();
    int n = kv_gpu_indexes(0, j.past, best, true, place);
    for (int i = kv_thread(); i < n; i += KV_BLOCK) rest[i] = j.score[place[i]];
    __syncthreads();
    kv_gpu_top(at, rest, n, j.most[t], best);
    for (int i = kv_thread(); i < n; i += KV_BLOCK)
      if (best[i]) tier[place[i]] = (uint8_t)t;
    __syncthreads();
  }
}

/* Drops what is GONE and codes the others, each into its tier. */
static __device__ void sort_out(kv_gpu_at &at, kv_gpu_lane *lane,
                                const judged &j, const uint8_t *tier) {
  const params *o = (const params *)at.params;
  int fresh = kv_gpu_tier_first_new(lane, &o->tiers), n = lane->n;
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n), *to = keep;
  int32_t *was = KV_GPU_TAKE(at, int32_t, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) keep[i] = tier[i] != GONE;
  __syncthreads();
  int kept = kv_gpu_indexes(0, n, keep, true, was), first = 0;
  kv_gpu_keep_mask(at, lane, keep);
  for (int i = kv_thread(); i < kept; i += KV_BLOCK) to[i] = tier[was[i]];
  __syncthreads();
  for (; first < kept && was[first] < fresh; first++) {
    int i = was[first];
    if (i < j.past && tier[i] > j.tier[i])
      kv_gpu_tier_demote(at, lane, &o->tiers, first, j.tier[i], tier[i]);
  }
  kv_gpu_tier_code(at, lane, &o->tiers, first, to);
}

static __device__ void compress_prompt(kv_gpu_at &at, kv_gpu_lane *lane,
                                       const judged &j) {
  const params *o = (const params *)at.params;
  uint8_t *tier = KV_GPU_TAKE(at, uint8_t, lane->n);
  if (o->sparsity != HEAD) rank(at, j, tier);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    if (i >= j.past)
      tier[i] = 0;
    else if (o->sparsity == HEAD)
      tier[i] = (uint8_t)tier_of(at, lane, j, i, j.tier[i]);
  __syncthreads();
  sort_out(at, lane, j, tier);
}

/* --- after a step -------------------------------------------------------- */

/* The entry of least score of a tier, -1 if that is empty; *held: how many are
 * in it. */
static __device__ int least(kv_gpu_at &at, const judged &j, int tier,
                            int *held) {
  uint8_t *in = KV_GPU_TAKE(at, uint8_t, j.past);
  int own = 0;
  for (int i = kv_thread(); i < j.past; i += KV_BLOCK) {
    in[i] = j.tier[i] == tier;
    own += in[i];
  }
  *held = kv_block_sum(own);
  return *held ? kv_gpu_argmin(at, j.score, j.past, in) : -1;
}

static __device__ decision decide(kv_gpu_at &at, const kv_gpu_lane *lane,
                                  const judged &j) {
  const params *o = (const params *)at.params;
  int tiers = o->tiers.n, held[TIERS], l[TIERS], c = j.past - 1;
  float floor[TIERS];
  for (int t = 0; t < tiers; t++) l[t] = least(at, j, t, &held[t]);
  if (o->sparsity != HEAD)
    return kv_lean_counts(tiers, j.score, held, j.most, l);
  thresholds(o, j, at.step, floor);
  if (o->variant == CODE) return kv_lean_code(tiers, j.score, floor, l);
  if (c < 0 || (int)lane->id[c] != j.tokens - 1) return decision{0, {0}, {0}};
  return kv_lean_paper(tiers, j.score, floor, c, l);
}

static __device__ void compress_step(kv_gpu_at &at, kv_gpu_lane *lane,
                                     const judged &j) {
  const params *o = (const params *)at.params;
  decision d = decide(at, lane, j);
  int gone = -1;
  for (int m = 0; m < d.n; m++)
    if (d.to[m] == GONE)
      gone = d.entry[m];
    else
      kv_gpu_tier_demote(at, lane, &o->tiers, d.entry[m], j.tier[d.entry[m]],
                         d.to[m]);
  if (gone >= 0) kv_gpu_drop_one(at, lane, gone);
}

/* --- compress ------------------------------------------------------------ */

/* Counts of a layer by its thresholds, an equal part a lane, rounded up. */
static __device__ void count(kv_gpu_at &at, const kv_gpu_lane *lane, int lanes,
                             bool prompt, int *most) {
  int sum[TIERS] = {0};
  for (int l = 0; l < lanes; l++) {
    size_t used = at.used;
    judged j = judge(at, &lane[l], prompt);
    for (int i = kv_thread(); i < j.past; i += KV_BLOCK) {
      int of = tier_of(at, &lane[l], j, i, 0);
      for (int t = 0; t < TIERS; t++) sum[t] += of == t;
    }
    __syncthreads();
    at.used = used;
  }
  for (int t = 0; t < TIERS; t++)
    most[t] = (kv_block_sum(sum[t]) + lanes - 1) / lanes;
}

static __device__ void compress(kv_gpu_at &at, kv_gpu_lane *lane, int lanes,
                                bool prompt) {
  const params *o = (const params *)at.params;
  int most[TIERS];
  if (o->sparsity == LAYER) count(at, lane, lanes, prompt, most);
  for (int l = 0; l < lanes; l++) {
    size_t used = at.used;
    judged j = judge(at, &lane[l], prompt);
    for (int t = 0; o->sparsity == LAYER && t < TIERS; t++) j.most[t] = most[t];
    if (prompt)
      compress_prompt(at, &lane[l], j);
    else
      compress_step(at, &lane[l], j);
    __syncthreads();
    at.used = used;
  }
}

static __device__ void compress_lanes(kv_gpu_at &at, kv_gpu_lane *lane,
                                      int lanes) {
  const params *o = (const params *)at.params;
  bool prompt = at.step <= at.layer->shape.prompt_len;
  if (prompt) compress(at, lane, lanes, true);
  if (!prompt || o->variant == CODE) compress(at, lane, lanes, false);
}

static __device__ void code_new(kv_gpu_at &at, kv_gpu_lane *lane) {
  const kv_tiers *t = &((const params *)at.params)->tiers;
  int first = kv_gpu_tier_first_new(lane, t);
  kv_gpu_entries fresh = {lane->n - first, first, nullptr};
  kv_gpu_recode(at, lane, fresh, 1, kv_gpu_tier_coding(at, t, 0, KV_TIER_K),
                kv_gpu_tier_coding(at, t, 0, KV_TIER_V));
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_received_compress(at, lane, 0, o->queries);
  if (at.step > at.layer->shape.prompt_len) code_new(at, lane);
  if (o->sparsity != LAYER) compress_lanes(at, lane, 1);
}

static __device__ void compress_layer(kv_gpu_at &at, kv_gpu_lane *lane,
                                      int lanes) {
  const params *o = (const params *)at.params;
  if (o->sparsity == LAYER) compress_lanes(at, lane, lanes);
}

KV_GPU_METHOD(leankv, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>,
              .compress_layer = kv_on_compress_layer<compress_layer>);
