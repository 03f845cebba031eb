/* SPDX-License-Identifier: Apache-2.0
 *
 * ZSMerge on a device: the twin of ref/methods/zsmerge.c, which defines what it
 * does. One thread computes an entry's score, or a candidate's similarity; the
 * block decides what is merged into what.
 *
 * Allowed local: kv_run_compress<compress_lane>,
 *   a hook's kv_gpu_at
 */
#include "gpu/lane/method.cuh"
#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/methods/zsmerge.h"

/* --- observe ------------------------------------------------------------- */

/* What entry i gets from row r: the group's sum, rounded once. */
static __device__ float share(const kv_gpu_rows &rows, int r, int i) {
  const float *p = rows.p + (size_t)r * (size_t)rows.places * rows.stride;
  int64_t sum = 0;
  for (int h = 0; h < rows.heads; h++)
    sum += kv_fix(p[(size_t)h * rows.stride + (size_t)i]);
  return kv_unfix(sum);
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  float *column = kv_gpu_column_float(at, lane, 0);
  for (int i = kv_gpu_first_entry(); i < rows.entries;
       i += kv_gpu_next_entry()) {
    int unseen = i - (rows.entries - rows.rows); /* rows before the token's */
    float score = column[i];
    for (int r = unseen > 0 ? unseen : 0; r < rows.rows; r++)
      score = kv_fma(o->decay, score, share(rows, r, i));
    column[i] = score;
  }
  __syncthreads();
}

/* --- compress ------------------------------------------------------------ */

/* One chain (arithmetic 5), by one thread. */
static __device__ float similarity(const kv_gpu_layer &l, int metric,
                                   const kv_gpu_row &a, const kv_gpu_row &b) {
  float acc = 0;
  for (int x = 0; x < l.shape.d; x++) {
    float u = kv_gpu_element(a, x), v = kv_gpu_element(b, x);
    float t = kv_sub(u, v);
    acc = metric == DOT ? kv_fma(u, v, acc) : kv_fma(t, t, acc);
  }
  return metric == DOT ? acc : -acc;
}

/* Of place[0..n) the entry most similar to `entry`, of equals the first. */
static __device__ int most_similar(kv_gpu_at &at, const kv_gpu_lane *lane,
                                   int entry, int n, const int32_t *place) {
  const params *o = (const params *)at.params;
  const kv_gpu_layer &l = *at.layer;
  kv_gpu_row key = kv_gpu_key_row(l, lane, entry);
  uint64_t best = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    kv_gpu_row other = kv_gpu_key_row(l, lane, place[i]);
    uint32_t like = kv_key(similarity(l, o->metric, other, key));
    uint64_t own = (uint64_t)like << 32 | ~(uint32_t)i;
    best = own > best ? own : best;
  }
  return place[~(uint32_t)kv_block_max(best)];
}

static __device__ void merge(kv_gpu_at &at, kv_gpu_lane *lane, int into,
                             int from) {
  kv_gpu_merge(at, lane, into, from, (float)lane->weight[into],
               (float)lane->weight[from]);
}

/* --- compress: paper ----------------------------------------------------- */

/* context[i] = 1 if entry i < n is not a residual one */
static __device__ void flag_context(const kv_gpu_lane *lane, int n,
                                    uint8_t *context) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    context[i] = !lane->tier || lane->tier[i] != RESIDUAL;
  __syncthreads();
}

static __device__ void compress_paper(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int past = lane->n - o->proximity;
  if (past <= o->context) return;
  int32_t *place = KV_GPU_TAKE(at, int32_t, past);
  uint8_t *context = KV_GPU_TAKE(at, uint8_t, past);
  flag_context(lane, past, context);
  int residual = kv_gpu_indexes(0, past, context, false, place);
  if (past - residual <= o->context) return;
  int victim =
      kv_gpu_argmin(at, kv_gpu_column_float(at, lane, 0), past, context);
  if (o->residual == 0)
    kv_gpu_drop_one(at, lane, victim);
  else if (residual < o->residual)
    kv_gpu_retier(at, lane, 1, &victim, RESIDUAL);
  else
    merge(at, lane, most_similar(at, lane, victim, residual, place), victim);
}

/* --- compress: code ------------------------------------------------------ */

/* Averages what is not in `stays`, of entries 0..past-1, by Br neighbouring
 * groups; first[g] becomes the entry of group g. */
static __device__ void merge_groups(kv_gpu_at &at, kv_gpu_lane *lane, int past,
                                    int left, int groups, const uint8_t *stays,
                                    int32_t *first) {
  int member = 0, g = 0, size = 0, into = 0;
  for (int i = 0; i < past; i++) {
    if (stays[i]) continue;
    if (member == 0) {
      size = left / groups + (g < left % groups);
      into = i;
      if (kv_thread() == 0) first[g] = into;
    } else {
      merge(at, lane, into, i);
    }
    if (++member == size) g++, member = 0;
  }
  __syncthreads();
}

static __device__ void compress_prompt(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int n = lane->n, past = n - o->proximity, most = o->budget;
  if (n <= most) return;
  uint8_t *stays = KV_GPU_TAKE(at, uint8_t, n);
  int32_t *order = KV_GPU_TAKE(at, int32_t, most);
  kv_gpu_top(at, kv_gpu_column_float(at, lane, 0), past, o->context, stays);
  merge_groups(at, lane, past, past - o->context, o->residual, stays, order);
  for (int i = past + kv_thread(); i < n; i += KV_BLOCK) stays[i] = 1;
  __syncthreads();
  kv_gpu_indexes(0, n, stays, true, order + o->residual);
  kv_gpu_order(at, kv_gpu_column_float(at, lane, 0), o->context,
               order + o->residual);
  kv_gpu_keep(at, lane, most, order);
}

static __device__ void compress_step(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int others = o->residual + o->context + 1; /* where the ring begins */
  if (lane->n <= o->budget) return;
  int32_t *place = KV_GPU_TAKE(at, int32_t, o->residual);
  for (int r = kv_thread(); r < o->residual; r += KV_BLOCK) place[r] = r;
  __syncthreads();
  int victim = o->residual +
               kv_gpu_argmin(at, kv_gpu_column_float(at, lane, 0) + o->residual,
                             others - o->residual, nullptr);
  merge(at, lane, most_similar(at, lane, victim, o->residual, place), victim);
  kv_gpu_sweep(at, lane);
  kv_gpu_move(at, lane, others - 1, victim);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  if (o->variant == PAPER)
    compress_paper(at, lane);
  else if (at.step <= at.layer->shape.prompt_len)
    compress_prompt(at, lane);
  else
    compress_step(at, lane);
}

KV_GPU_METHOD(zsmerge, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);
