/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over the views of a decode step: arithmetic 3. A block takes one
 * chunk of 128 entries, in the order of the view, for the heads that share it
 * (a method without views of its own, up to 8): one pass over V for them. A
 * second kernel joins the chunks in order.
 */
#include "gpu/block.cuh"
#include "gpu/device.h"
#include "gpu/entry.cuh"
#include "ref/arith.h"

enum { CHUNK = KV_BLOCK }; /* arithmetic 3: 128 */

/* --- views -------------------------------------------------------------- */

/* Entries of a mask in order, and its runs. */
static __device__ void name_masked(const uint8_t *mask, int n, int32_t *place,
                                   kv_run *run, int *runs, int *entries) {
  int seen = 0, begun = 0, ended = 0;
  for (int base = 0; base < n; base += KV_BLOCK) {
    int i = base + kv_thread(), total;
    bool in = i < n && mask[i];
    bool begins = in && (i == 0 || !mask[i - 1]);
    bool ends = in && (i == n - 1 || !mask[i + 1]);
    int at = seen + kv_block_rank(in, &total);
    if (in) place[at] = i;
    seen += total;
    at = begun + kv_block_rank(begins, &total);
    if (begins) run[at].first = i;
    begun += total;
    at = ended + kv_block_rank(ends, &total);
    if (ends) run[at].count = i + 1;
    ended += total;
  }
  __syncthreads();
  for (int r = kv_thread(); r < begun; r += KV_BLOCK)
    run[r].count -= run[r].first;
  *runs = begun;
  *entries = seen;
}

static __device__ void name_all(int n, int32_t *place, kv_run *run, int *runs,
                                int *entries) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) place[i] = i;
  if (kv_thread() == 0) run[0].first = 0, run[0].count = n;
  *runs = 1;
  *entries = n;
}

static __global__ void name_views(kv_gpu_layer l, bool masked) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.x];
  for (int h = 0; h < lane->queries; h++) {
    size_t head = (size_t)(lane->first_head + h), stride = (size_t)l.stride;
    kv_run *run = l.run + head * (stride / 2 + 1);
    int runs, entries;
    if (masked)
      name_masked(l.mask + head * stride, lane->n, l.place + head * stride, run,
                  &runs, &entries);
    else
      name_all(lane->n, l.place + head * stride, run, &runs, &entries);
    __syncthreads();
    if (kv_thread() == 0) {
      l.runs[head] = runs;
      l.entries[head] = entries;
    }
  }
}

/* --- chunks ------------------------------------------------------------- */

static __device__ float of_key(uint32_t key) {
  return kv_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

/* A logit that is not finite, to the lane's first one. */
static __device__ void check_logit(const kv_gpu_layer &l, int lane, int h,
                                   int entry, float s) {
  if (kv_finite(s)) return;
  unsigned long long at = (unsigned long long)h << 32 | (unsigned)entry;
  atomicMin((unsigned long long *)&l.bad[lane], at);
}

/* m_c, p_j and l_c of one head; p is shared. */
static __device__ void weights_of(const kv_gpu_layer &l, size_t head, int c,
                                  float s, bool in, float *p) {
  uint64_t best = kv_block_max(in ? kv_key(s) : 0);
  float top = of_key((uint32_t)best);
  float e = in ? kv_expm(kv_sub(s, top)) : 0;
  int64_t mass = kv_block_sum(in ? kv_fix(e) : 0);
  p[kv_thread()] = e;
  if (kv_thread() == 0) {
    l.top[head * (size_t)l.chunks + (size_t)c] = top;
    l.mass[head * (size_t)l.chunks + (size_t)c] = kv_unfix(mass);
  }
}

template <int HEADS> static __global__ void chunks(kv_gpu_layer l) {
  KV_SHARED(float, p, HEADS *CHUNK);
  KV_SHARED(int, entry, CHUNK);
  size_t head = (size_t)blockIdx.y * HEADS, stride = (size_t)l.stride;
  int c = (int)blockIdx.x, n = l.entries[head] - c * CHUNK;
  if (n <= 0) return;
  if (n > CHUNK) n = CHUNK;
  int which = (int)head / (l.shape.n_heads / l.lanes), j = kv_thread();
  const kv_gpu_lane *lane = &l.lane[which];
  int i = j < n ? l.place[head * stride + (size_t)(c * CHUNK + j)] : 0;
  entry[j] = i;
  for (int h = 0; h < HEADS; h++) {
    float s = j < n ? l.s[(head + (size_t)h) * stride + (size_t)i] : 0;
    if (j < n) check_logit(l, which, (int)head + h - lane->first_head, i, s);
    weights_of(l, head + (size_t)h, c, s, j < n, p + h * CHUNK);
  }
  __syncthreads();
  for (int x = kv_thread(); x < l.shape.d_v; x += KV_BLOCK) {
    float a[HEADS];
    for (int h = 0; h < HEADS; h++) a[h] = 0;
    for (j = 0; j < n; j++) {
      float v = kv_gpu_value(l, lane, entry[j], x);
      for (int h = 0; h < HEADS; h++) a[h] = kv_fma(p[h * CHUNK + j], v, a[h]);
    }
    for (int h = 0; h < HEADS; h++)
      l.part[((head + (size_t)h) * (size_t)l.chunks + (size_t)c) *
                 (size_t)l.shape.d_v +
             (size_t)x] = a[h];
  }
}

/* --- the whole ---------------------------------------------------------- */

static __global__ void join(kv_gpu_layer l) {
  size_t head = blockIdx.x, d_v = (size_t)l.shape.d_v;
  const float *top = l.top + head * (size_t)l.chunks;
  const float *mass = l.mass + head * (size_t)l.chunks;
  const float *part = l.part + head * (size_t)l.chunks * d_v;
  float *out = l.out + head * (d_v + 1);
  int n = (l.entries[head] + CHUNK - 1) / CHUNK;
  uint64_t best = 0;
  for (int c = kv_thread(); c < n; c += KV_BLOCK) {
    uint64_t key = kv_key(top[c]);
    best = key > best ? key : best;
  }
  float m = of_key((uint32_t)kv_block_max(best)), mass_all = 0;
  for (int c = 0; c < n; c++)
    mass_all = kv_fma(kv_expm(kv_sub(top[c], m)), mass[c], mass_all);
  for (int x = kv_thread(); x < l.shape.d_v; x += KV_BLOCK) {
    float o = 0;
    for (int c = 0; c < n; c++)
      o = kv_fma(kv_expm(kv_sub(top[c], m)), part[(size_t)c * d_v + (size_t)x],
                 o);
    out[x] = kv_div(o, mass_all);
  }
  if (kv_thread() == 0) out[d_v] = kv_add(m, kv_log(mass_all));
}

/* --- starts ------------------------------------------------------------- */

extern "C" void kv_gpu_start_name_views(void *stream, const kv_gpu_layer *l,
                                        int masked) {
  KV_LAUNCH(stream, name_views, l->lanes, KV_BLOCK, *l, masked != 0);
}

template <int HEADS>
static void start_chunks(void *stream, const kv_gpu_layer *l) {
  dim3 grid((unsigned)l->chunks, (unsigned)(l->shape.n_heads / HEADS));
  KV_LAUNCH(stream, chunks<HEADS>, grid, KV_BLOCK, *l);
}

/* Heads of one lane that see the same entries go together. */
static void start_shared(void *stream, const kv_gpu_layer *l, int heads) {
  if (heads % 8 == 0)
    start_chunks<8>(stream, l);
  else if (heads % 7 == 0)
    start_chunks<7>(stream, l);
  else if (heads % 4 == 0)
    start_chunks<4>(stream, l);
  else if (heads % 3 == 0)
    start_chunks<3>(stream, l);
  else if (heads % 2 == 0)
    start_chunks<2>(stream, l);
  else
    start_chunks<1>(stream, l);
}

extern "C" void kv_gpu_start_attend(void *stream, const kv_gpu_layer *l,
                                    int masked) {
  start_shared(stream, l, masked ? 1 : l->shape.n_heads / l->lanes);
  KV_LAUNCH(stream, join, l->shape.n_heads, KV_BLOCK, *l);
}
