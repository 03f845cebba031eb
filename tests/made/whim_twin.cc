/* SPDX-License-Identifier: Apache-2.0
 *
 * The twins of the methods of tests/made/whim.h. A thread goes through
 * entries of its own; what it adds to the fold is summed over the block.
 */
#include "gpu/lane/method.cuh"
#include "gpu/lane/recode.cuh"
#include "tests/made/whim.h"

/* --- folding ------------------------------------------------------------ */

static __device__ const kv_needs &needs_of(const kv_gpu_at &at) {
  return at.layer->needs;
}

static __device__ whim_state *state_of(const kv_gpu_at &at,
                                       const kv_gpu_lane *l) {
  return needs_of(at).lane_state ? (whim_state *)kv_gpu_own(at, l) : nullptr;
}

static __device__ int seed_of(const kv_gpu_at &at) {
  return ((const whim_params *)at.params)->seed;
}

static __device__ uint64_t heard(const kv_gpu_at &at) {
  int from;
  const uint64_t *x = (const uint64_t *)kv_gpu_above(at, &from);
  return x ? kv_mix(*x + (uint64_t)from) : 0;
}

static __device__ uint64_t fold_of(const kv_gpu_at &at, const kv_gpu_lane *l) {
  const whim_state *s = state_of(at, l);
  return heard(at) + (s ? s->fold + s->shown : 0);
}

static __device__ uint64_t sum_of(uint64_t x) {
  return (uint64_t)kv_block_sum((int64_t)x);
}

static __device__ uint64_t column_of(const kv_gpu_at &at, const kv_gpu_lane *l,
                                     int i) {
  uint64_t x = 0;
  for (int c = 0; c < needs_of(at).columns; c++) {
    bool wide = needs_of(at).column[c] == KV_INT64;
    uint64_t y = wide ? (uint64_t)kv_gpu_column_int64(at, l, c)[i]
                      : kv_bits(kv_gpu_column_float(at, l, c)[i]);
    x = kv_mix(x + y);
  }
  return x;
}

static __device__ void arrive(kv_gpu_at &at, kv_gpu_lane *l, int first) {
  for (int i = first + kv_thread(); i < l->n; i += KV_BLOCK)
    for (int c = 0; c < needs_of(at).columns; c++) {
      if (needs_of(at).column[c] == KV_INT64) {
        kv_gpu_column_int64(at, l, c)[i] += (int64_t)l->id[i] + c;
      } else {
        float *to = &kv_gpu_column_float(at, l, c)[i];
        *to = kv_add(*to, (float)l->id[i]);
      }
    }
  __syncthreads();
}

static __device__ void add_int64(const kv_gpu_at &at, const kv_gpu_lane *l,
                                 int i, uint64_t x) {
  for (int c = 0; c < needs_of(at).columns; c++)
    if (needs_of(at).column[c] == KV_INT64) {
      int64_t *to = &kv_gpu_column_int64(at, l, c)[i];
      *to = (int64_t)((uint64_t)*to + x);
    }
}

static __device__ uint64_t take_entry(kv_gpu_at &at, kv_gpu_lane *l,
                                      const kv_gpu_rows &rows, int r, int h,
                                      int i) {
  size_t place =
      ((size_t)r * (size_t)rows.places + (size_t)h) * rows.stride + (size_t)i;
  int t = rows.first + r, head = l->first_head + h;
  uint64_t x = 0;
  float y = 0;
  if (rows.s) {
    y = rows.s[place];
    x += whim_share(WHIM_S, t, head, i, kv_bits(y));
  }
  if (rows.p) {
    y = rows.p[place];
    x += whim_share(WHIM_P, t, head, i, kv_bits(y));
  }
  add_int64(at, l, i, x >> 8);
  for (int c = 0; c < needs_of(at).columns; c++)
    if (needs_of(at).column[c] == KV_FLOAT) {
      float *to = &kv_gpu_column_float(at, l, c)[i];
      *to = kv_add(kv_mul(*to, 0.5f), y);
    }
  return x;
}

/* An entry's columns belong to one thread, which goes through rows and heads
 * in the order of the reference. */
static __device__ uint64_t take_entries(kv_gpu_at &at, kv_gpu_lane *l,
                                        const kv_gpu_rows &rows) {
  uint64_t fold = 0;
  for (int i = kv_thread(); i < rows.entries; i += KV_BLOCK) {
    for (int h = 0; rows.sum && h < rows.heads; h++) {
      int64_t sum = rows.sum[(size_t)h * rows.stride + (size_t)i];
      uint64_t x = whim_of_sum(l->first_head + h, i, sum);
      fold += x;
      add_int64(at, l, i, x);
    }
    for (int r = 0; r < rows.rows; r++)
      for (int h = 0; h < rows.heads; h++)
        if (i < rows.entries - (rows.rows - 1 - r))
          fold += take_entry(at, l, rows, r, h, i);
  }
  return fold;
}

static __device__ uint64_t take_queries(kv_gpu_at &at, kv_gpu_lane *l,
                                        const kv_gpu_rows &rows) {
  int d = at.layer->shape.d, m = rows.rows * rows.heads;
  uint64_t fold = 0;
  for (int j = kv_thread(); j < m; j += KV_BLOCK) {
    int r = j / rows.heads, h = j % rows.heads, t = rows.first + r;
    int visible = rows.entries - (rows.rows - 1 - r), head = l->first_head + h;
    fold += whim_share(WHIM_ROW, t, head, visible, (uint32_t)rows.heads);
    size_t at_q = ((size_t)r * (size_t)rows.places + (size_t)h) * (size_t)d;
    for (int x = 0; rows.q && x < d; x++)
      fold += whim_share(WHIM_Q, t, head, x, kv_bits(rows.q[at_q + (size_t)x]));
  }
  return fold;
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *l,
                               const kv_gpu_rows &rows) {
  uint64_t fold = sum_of(take_entries(at, l, rows) + take_queries(at, l, rows));
  whim_state *s = state_of(at, l);
  if (kv_thread() == 0 && s) {
    s->fold += fold;
    s->shown += (uint64_t)rows.rows * (1u + 2u * !rows.q + 4u * !rows.s +
                                       8u * !rows.p + 16u * !rows.sum);
  }
  __syncthreads();
}

/* --- deciding ----------------------------------------------------------- */

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *l,
                            const kv_gpu_query &q, uint8_t *mask) {
  int head = l->first_head + q.head, d = at.layer->shape.d;
  uint64_t part = 0;
  for (int i = kv_thread(); i < d; i += KV_BLOCK)
    part += whim_share(WHIM_VIEW, 0, head, i, kv_bits(q.q[i]));
  for (int i = kv_thread(); i < q.queries * d; i += KV_BLOCK)
    part += whim_share(WHIM_GROUP, 0, 0, i, kv_bits(q.group_q[i]));
  uint64_t x = whim_hash(seed_of(at), at.layer->layer, l->lane, at.step,
                         fold_of(at, l) + !q.s) +
               sum_of(part);
  for (int i = kv_thread(); i < l->n; i += KV_BLOCK)
    mask[i] = i == l->n - 1 || whim_in_view(x, i, q.s ? kv_bits(q.s[i]) : 0);
}

static __device__ void code_some(kv_gpu_at &at, kv_gpu_lane *l, int from,
                                 int which) {
  const kv_gpu_slab &slab = l->k_slab[kv_gpu_coded(at, which)];
  int32_t list[8], n = 0, format = kv_gpu_coded(at, which);
  const kv_minmax *settings = (const kv_minmax *)slab.settings;
  int most = slab.format == KV_GPU_channel ? settings->group : 1;
  for (int i = from; i < l->n && n < most; i++)
    if (l->k[i].format == KV_RAW && l->v[i].format == KV_RAW) list[n++] = i;
  bool values = l->v_slab[format].cap > 0;
  bool keys = slab.cap > 0 && (from % 2 == 0 || !values);
  if (n == most)
    kv_gpu_recode(at, l, kv_gpu_entries{n, 0, list}, n,
                  keys ? format : (int)KV_SAME, values ? format : (int)KV_SAME);
}

static __device__ void some_go(kv_gpu_at &at, kv_gpu_lane *l, uint64_t x,
                               int stays) {
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, l->n);
  for (int i = kv_thread(); i < l->n; i += KV_BLOCK) {
    uint64_t column = needs_of(at).lengths ? 0 : column_of(at, l, i);
    keep[i] = i == stays || whim_stays(x, i, column);
  }
  __syncthreads();
  kv_gpu_keep_mask(at, l, keep);
}

static __device__ void turn_round(kv_gpu_at &at, kv_gpu_lane *l, int by) {
  int n = l->n;
  int32_t *list = KV_GPU_TAKE(at, int32_t, n);
  for (int i = 1 + kv_thread(); i < n; i += KV_BLOCK)
    list[i - 1] = (i + by) % n;
  __syncthreads();
  kv_gpu_keep(at, l, n - 1, list);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *l) {
  const kv_needs &need = needs_of(at);
  uint64_t x = whim_hash(seed_of(at), at.layer->layer, l->lane, at.step,
                         need.lengths ? 0 : fold_of(at, l));
  int n = l->n, a = (int)(x >> 8 & 0xffff) % n, b = (int)(x >> 24 & 0xffff) % n;
  if (n < 6) return;
  char *room = need.work ? KV_GPU_TAKE(at, char, need.work) : nullptr;
  if (room && kv_thread() == 0) *room = 1;
  switch (x % 6) {
  case 0:
    some_go(at, l, x, a);
    break;
  case 1:
    if (need.merges && a != b)
      kv_gpu_merge(at, l, a, b, (float)l->weight[a], (float)l->weight[b]);
    break;
  case 2:
    kv_gpu_move(at, l, a, b);
    break;
  case 3:
    turn_round(at, l, a);
    break;
  default:
    if (need.codings)
      code_some(at, l, a / 2, (int)(x >> 40) % need.codings);
    else
      some_go(at, l, x, a);
  }
}

static __device__ void compress_layer(kv_gpu_at &at, kv_gpu_lane *lane,
                                      int lanes) {
  uint64_t x = whim_hash(seed_of(at), at.layer->layer, 63, at.step, 0);
  kv_gpu_lane *one = &lane[x % (unsigned)lanes];
  for (int i = kv_thread(); i < lanes; i += KV_BLOCK) {
    whim_state *s = state_of(at, &lane[i]);
    if (s) s->fold = kv_mix(s->fold + (uint64_t)lane[(i + 1) % lanes].n);
  }
  __syncthreads();
  if (x >> 32 & 1 && one->n > 2) kv_gpu_move(at, one, one->n - 1, 0);
}

static __device__ bool publish(kv_gpu_at &at, const kv_gpu_lane *lane,
                               int lanes, void *message) {
  uint64_t x = whim_hash(seed_of(at), at.layer->layer, 62, at.step, 0);
  char *rest = (char *)message + sizeof x;
  for (int i = 0; i < lanes; i++)
    x += kv_mix(fold_of(at, &lane[i]) + (uint64_t)lane[i].n * 64 + (uint64_t)i);
  if (kv_thread() == 0) *(uint64_t *)message = x;
  for (size_t i = (size_t)kv_thread(); i < needs_of(at).message - sizeof x;
       i += KV_BLOCK)
    rest[i] = (char)(x >> i % 57);
  return x % 4 != 0;
}

KV_GPU_HOOKS(whim, sizeof(whim_params), .arrive = kv_on_arrive<arrive>,
             .view = kv_on_view<view>, .observe = kv_on_observe<observe>,
             .compress_lane = kv_on_compress_lane<compress_lane>,
             .compress_layer = kv_on_compress_layer<compress_layer>,
             .publish = kv_on_publish<publish>);
KV_GPU_HOOKS(whim_plain, sizeof(whim_params), .observe = kv_on_observe<observe>,
             .compress_lane = kv_on_compress_lane<compress_lane>);
