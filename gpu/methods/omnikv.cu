/* SPDX-License-Identifier: Apache-2.0
 *
 * OmniKV: twin of ref/methods/omnikv.c, which defines what is computed. The
 * state of a lane is laid out as there. One block lets a lane's heads vote, one
 * block counts the votes of all lanes; a thread has entries of its own, and 64
 * tokens of the message. Cost: as there.
 */
#include "gpu/parts/filter.cuh"
#include "ref/methods/omnikv.h"

/* --- the state of a lane -------------------------------------------------- */

static __device__ const params *mine(const kv_gpu_at &at) {
  return (const params *)at.params;
}

static __device__ int group_of(const kv_gpu_at &at) {
  return at.layer->shape.n_heads / at.layer->shape.n_kv_heads;
}

static __device__ float *query_of(const kv_gpu_at &at, const kv_gpu_lane *l,
                                  int token) {
  size_t each = (size_t)group_of(at) * (size_t)at.layer->shape.d;
  size_t place = (size_t)(token % voters(mine(at)));
  return (float *)kv_gpu_own(at, l) + AHEAD + place * each;
}

static __device__ float *best_of(const kv_gpu_at &at, const kv_gpu_lane *l,
                                 int token) {
  const kv_shape &s = at.layer->shape;
  size_t votes = (size_t)voters(mine(at)), place = (size_t)token % votes;
  size_t ring = votes * (size_t)group_of(at) * (size_t)s.d;
  return (float *)kv_gpu_own(at, l) + AHEAD + ring + place * (size_t)s.n_tokens;
}

static __device__ int oldest(const params *o, int step) {
  return step > voters(o) ? step - voters(o) : 0;
}

static __device__ bool is_filter(const kv_gpu_at &at) {
  return role_of(mine(at), at.layer->shape.n_layers, at.layer->layer) ==
         KV_CHOOSES;
}

static __device__ bool follows(const kv_gpu_at &at) {
  return role_of(mine(at), at.layer->shape.n_layers, at.layer->layer) ==
         KV_FOLLOWS;
}

/* --- a filter ------------------------------------------------------------- */

static __device__ void remember(const kv_gpu_at &at, kv_gpu_lane *l,
                                const kv_gpu_rows &rows) {
  int d = at.layer->shape.d, each = rows.heads * d;
  for (int r = 0; r < rows.rows; r++) {
    float *to = query_of(at, l, rows.first + r);
    const float *from = rows.q + (size_t)r * (size_t)(rows.places * d);
    for (int x = kv_thread(); x < each; x += KV_BLOCK) to[x] = from[x];
    __syncthreads();
  }
}

/* Rows of a chunk of the prompt, of which the first has nobody to choose from.
 */
static __device__ void observe_chunk(kv_gpu_at &at, const kv_gpu_lane *l,
                                     const kv_gpu_rows &rows) {
  const params *o = mine(at);
  const kv_shape *s = &at.layer->shape;
  contest c = chunk_contest(o, s, at.step);
  if (kv_row_attends(s, at.step))
    kv_gpu_chunk_vote(at, l, rows, o->score, c.first, c.end - c.first,
                      (char *)kv_gpu_own(at, l) + sums_at(s, voters(o)),
                      best_of(at, l, at.step - 1));
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *l,
                               const kv_gpu_rows &rows) {
  const params *o = mine(at);
  const kv_shape &s = at.layer->shape;
  if (!is_filter(at)) return;
  remember(at, l, rows);
  if (at.step <= s.prompt_len) {
    observe_chunk(at, l, rows);
    return;
  }
  contest c = contest_at(o, s.prompt_len, at.step);
  int32_t *end = (int32_t *)kv_gpu_own(at, l);
  int from = *end == c.end ? at.step - 1 : oldest(o, at.step);
  __syncthreads();
  if (kv_thread() == 0) *end = c.end;
  for (int t = from; t < at.step && c.end > c.first; t++)
    kv_gpu_vote_best(at, l, query_of(at, l, t), o->score, c.first,
                     c.end - c.first, best_of(at, l, t));
}

/* The largest of all heads of the layer for candidate first + i. */
static __device__ float largest(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                int lanes, int token, int i) {
  float m = best_of(at, &lane[0], token)[i];
  for (int l = 1; l < lanes; l++)
    m = kv_max(m, best_of(at, &lane[l], token)[i]);
  return m;
}

static __device__ float votes_of(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 int lanes, int i) {
  const params *o = mine(at);
  int64_t sum = 0;
  float weight = 1;
  if (o->selector == LAST) return largest(at, lane, lanes, at.step - 1, i);
  for (int t = at.step - 1; t >= oldest(o, at.step); t--) {
    sum += kv_fix(kv_mul(largest(at, lane, lanes, t, i), weight));
    if (o->selector == EXP) weight = kv_mul(weight, .5f);
  }
  return kv_unfix(sum);
}

static __device__ bool publish(kv_gpu_at &at, const kv_gpu_lane *lane,
                               int lanes, void *message) {
  const params *o = mine(at);
  const kv_shape &s = at.layer->shape;
  bool chunk = at.step <= s.prompt_len;
  if (!is_filter(at) || !kv_row_attends(&s, at.step)) return false;
  contest c = chunk ? chunk_contest(o, &s, at.step)
                    : contest_at(o, s.prompt_len, at.step);
  int n = c.end - c.first;
  float *score = KV_GPU_TAKE(at, float, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    score[i] = chunk ? largest(at, lane, lanes, at.step - 1, i)
                     : votes_of(at, lane, lanes, i);
  __syncthreads();
  kv_gpu_choose_tokens(at, score, c.first, n, c.k, (kv_chosen *)message);
  return true;
}

/* --- a layer that follows ------------------------------------------------- */

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &q, uint8_t *mask) {
  int from;
  const kv_chosen *m = (const kv_chosen *)kv_gpu_above(at, &from);
  (void)q;
  kv_gpu_view_chosen(lane, follows(at) ? m : nullptr, mask);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = mine(at);
  const kv_shape &s = at.layer->shape;
  int from = first_gone(o, &s, at.step), n = s.prompt_len - o->recent - from;
  if (o->tier != HOST || at.step != s.prompt_len || !follows(at)) return;
  if (n <= 0) return;
  int32_t *list = KV_GPU_TAKE(at, int32_t, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) list[i] = from + i;
  __syncthreads();
  kv_gpu_retier(at, lane, n, list, HOST);
}

KV_GPU_METHOD(omnikv, .view = kv_on_view_apart<view, kv_gpu_no_room>,
              .observe = kv_on_observe<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>,
              .publish = kv_on_publish<publish>);
