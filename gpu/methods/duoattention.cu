/* SPDX-License-Identifier: Apache-2.0
 *
 * DuoAttention on a device: the twin of ref/methods/duoattention.c.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/duoattention.h"

/* Does the lane stream? Behind the sums, where there are any. */
static __device__ int64_t *streams(const kv_gpu_at &at,
                                   const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int64_t *own = (int64_t *)kv_gpu_own(at, lane);
  return own + (o->table == AUTO ? at.layer->shape.n_tokens : 0);
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  if (o->table == AUTO) kv_gpu_window_add(at, lane, rows, KV_GROUP_SUM);
}

static __device__ float gate_of(const kv_gpu_at &at, const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  const int64_t *sum = (const int64_t *)kv_gpu_own(at, lane);
  int64_t middle = 0, all = 0;
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) {
    all += sum[i];
    if (i >= o->sink && i < lane->n - o->recent) middle += sum[i];
  }
  middle = kv_block_sum(middle);
  return kv_duo_gate(middle, kv_block_sum(all));
}

/* Of a file: by the gate that cut. */
static __device__ bool file_streams(const kv_gpu_at &at,
                                    const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  const float *gate = (const float *)at.asset[0].data;
  int place = at.layer->layer * at.layer->shape.n_kv_heads + lane->kv_head;
  return o->cut_place >= 0 &&
         !kv_duo_before(o->cut, o->cut_place, gate[place], place);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int64_t *own = streams(at, lane);
  bool prompt = at.step == at.layer->shape.prompt_len;
  if (prompt && o->table == OF_FILE && kv_thread() == 0)
    *own = file_streams(at, lane);
  __syncthreads();
  if (*own) kv_gpu_keep_ends(at, lane, o->sink, o->recent);
}

/* After the prompt, with table=auto: the layer ranks its heads. */
static __device__ void compress_layer(kv_gpu_at &at, kv_gpu_lane *lane,
                                      int lanes) {
  const params *o = (const params *)at.params;
  if (at.step != at.layer->shape.prompt_len || o->table == OF_FILE) return;
  float *gate = KV_GPU_TAKE(at, float, lanes);
  int most = kv_duo_streams(lanes, o->sparsity);
  for (int i = 0; i < lanes; i++) {
    float own = gate_of(at, &lane[i]);
    if (kv_thread() == 0) gate[i] = own;
  }
  __syncthreads();
  for (int i = 0; i < lanes; i++) {
    int rank = 0;
    for (int j = 0; j < lanes; j++)
      rank += kv_duo_before(gate[j], j, gate[i], i);
    bool cut =
        o->threshold == o->threshold ? gate[i] < o->threshold : rank < most;
    if (kv_thread() == 0) *streams(at, &lane[i]) = cut;
    if (cut) kv_gpu_keep_ends(at, &lane[i], o->sink, o->recent);
  }
}

KV_GPU_METHOD(duoattention, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>,
              .compress_layer = kv_on_compress_layer<compress_layer>);
