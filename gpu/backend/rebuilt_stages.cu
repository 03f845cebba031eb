/* SPDX-License-Identifier: Apache-2.0
 *
 * What gpu/backend/rebuilt.cu does in one kernel, stage by stage through
 * memory, to the same bits; the search for references, which comes before; and
 * the hidden layer of a decoder that has one, which both variants run first.
 *
 *   search   a block for each 64 tokens: their nearest references
 *   hidden   a block for each 64 tokens by 64 elements: GELU of the first layer
 *   gather   a block for each token: its latent vector as floats, the mean of
 *            its references, or its rows as they came
 *   decode   a block for each 64 tokens by 64 columns of a side: products of
 *            the last layer, and the means
 *   turn     a block for each token: its keys turned forward
 *   read     attention over the rows that lie there now (regular.cu)
 */
#include "gpu/backend/rebuilt.cuh"
#include "gpu/parts/latents.cuh"

/* --- search --------------------------------------------------------------- */

/* References of ids below i. */
static __device__ int before(const kv_gpu_searched &s, int32_t i) {
  int low = 0, n = s.n;
  while (low < n) {
    int middle = (low + n) / 2;
    if (s.reference[middle] < i)
      low = middle + 1;
    else
      n = middle;
  }
  return low;
}

static __global__ void search(const __grid_constant__ kv_gpu_layer l,
                              const __grid_constant__ kv_gpu_rebuilt r) {
  KV_SHARED(kv_gpu_search_room, room, 1);
  const kv_gpu_searched &s = r.search;
  size_t w = (size_t)kv_rebuilt_vector(l);
  int k = r.how.nearest, first = (int)blockIdx.x * KV_SIDE;
  int m = s.m - first < KV_SIDE ? s.m - first : (int)KV_SIDE;
  auto token = [&](int j, int x) {
    return s.x[(size_t)(first + j) * w + (size_t)x];
  };
  auto seen = [&](int j) { return before(s, s.token[first + j]); };
  kv_gpu_search((int)w, m, token, s.row, s.norm, seen(m - 1), k, seen, room,
                [&](int j, int found, const int32_t *which) {
                  int32_t *to = s.named + (size_t)(first + j) * (size_t)k;
                  for (int i = 0; i < k; i++)
                    to[i] = i < found ? s.reference[which[i * KV_SIDE]]
                                      : KV_NO_TOKEN;
                });
}

/* --- rows through memory -------------------------------------------------- */

static __device__ int place_of(const kv_gpu_rebuilt &r, int j) {
  return r.place[r.token[j]];
}

static __global__ void hidden(const __grid_constant__ kv_gpu_rebuilt r) {
  KV_SHARED(float, a, KV_TILE_ROOM);
  KV_SHARED(float, b, KV_TILE_ROOM);
  float acc[KV_DOWN_ROWS][KV_ACROSS];
  int base = (int)blockIdx.x * KV_SIDE, first = (int)blockIdx.y * KV_SIDE;
  int n = kv_rebuilt_attended(r) - base, width = r.by.deep - first;
  int deep = r.how.latent;
  if (n <= 0) return;
  auto token = [&](int j, int i) {
    int p = place_of(r, base + j);
    return p < 0 ? kv_rebuilt_latent(r, ~p, i) : 0.0f;
  };
  auto weight = [&](int c, int i) {
    return r.by.hidden[(size_t)(first + c) * (size_t)deep + (size_t)i];
  };
  kv_tile_products(deep, n, token, width, weight, a, b, acc);
  KV_UNROLL
  for (int u = 0; u < KV_DOWN_ROWS; u++) {
    KV_UNROLL
    for (int v = 0; v < KV_ACROSS; v++) {
      int j = kv_tile_row() + u, c = kv_tile_column() + v;
      if (j >= n || c >= width) continue;
      float y = kv_add(kv_add(acc[u][v], 0.0f), r.by.hidden_bias[first + c]);
      r.deep[(size_t)(base + j) * (size_t)r.by.deep + (size_t)(first + c)] =
          kv_gelu(y);
    }
  }
}

/* Column 0 of what is made of a side of the token attended at place j. */
static __device__ float *made_row(const kv_gpu_layer &l,
                                  const kv_gpu_rebuilt &r, kv_rebuilt_side side,
                                  int j) {
  size_t at = (size_t)side.lane * (size_t)r.materialised.room + (size_t)j;
  float *rows =
      (float *)(side.key ? r.materialised.half[0].k : r.materialised.half[0].v);
  return rows + at * (size_t)kv_rebuilt_width(l.shape, side.key);
}

/* All of the rows that will be made count. */
static __device__ void all_count(const kv_gpu_layer &l,
                                 const kv_gpu_rebuilt &r) {
  const kv_gpu_regular_half &h = r.materialised.half[0];
  for (int at = kv_thread(); at < l.lanes * r.materialised.words;
       at += KV_BLOCK) {
    int left = r.attended - 32 * (at % r.materialised.words);
    h.mask[at] = left >= 32 ? ~0u : left > 0 ? (1u << left) - 1 : 0;
  }
  for (int i = kv_thread(); i < l.lanes; i += KV_BLOCK) h.taken[i] = r.attended;
  if (kv_thread() == 0) *r.materialised.which = 0;
}

static __global__ void gather(const __grid_constant__ kv_gpu_layer l,
                              const __grid_constant__ kv_gpu_rebuilt r) {
  int j = (int)blockIdx.x, p = place_of(r, j), n = r.how.latent;
  size_t w = (size_t)kv_rebuilt_vector(l);
  if (j == 0) all_count(l, r);
  for (int i = kv_thread(); p < 0 && r.by.deep && i < n; i += KV_BLOCK)
    r.z[(size_t)j * (size_t)n + (size_t)i] = kv_rebuilt_latent(r, ~p, i);
  for (int s = 0; s < 2 * l.lanes; s++) {
    kv_rebuilt_side side = {s / 2, s % 2 == 0};
    int width = kv_rebuilt_width(l.shape, side.key);
    float *mean = r.mean + (size_t)j * w + kv_rebuilt_first(l, side);
    for (int x = kv_thread(); p >= 0 && x < width; x += KV_BLOCK)
      made_row(l, r, side, j)[x] =
          kv_gpu_element(kv_rebuilt_row(l, r, side, p), x);
    for (int x = 4 * kv_thread(); p < 0 && r.how.nearest && x < width;
         x += 4 * KV_BLOCK) {
      float four[4];
      kv_rebuilt_mean(l, r, side, ~p, x, four);
      KV_UNROLL
      for (int e = 0; e < 4; e++)
        if (x + e < width) mean[x + e] = four[e];
    }
  }
}

static __global__ void KV_BLOCKS(6)
    decode(const __grid_constant__ kv_gpu_layer l,
           const __grid_constant__ kv_gpu_rebuilt r) {
  KV_SHARED(float, a, KV_TILE_ROOM);
  KV_SHARED(float, b, KV_TILE_ROOM);
  kv_rebuilt_side side = {(int)blockIdx.y / 2, blockIdx.y % 2 == 0};
  int base = (int)blockIdx.x * KV_SIDE, first = (int)blockIdx.z * KV_SIDE;
  int left = r.attended - base, n = left < KV_SIDE ? left : (int)KV_SIDE;
  size_t w = (size_t)kv_rebuilt_vector(l);
  const float *rows =
      (r.by.hidden ? r.deep : r.z) + (size_t)base * (size_t)r.by.deep;
  if (first >= kv_rebuilt_width(l.shape, side.key)) return;
  kv_rebuilt_tile(
      l, r, side, first, n, a, b, [&](int j) { return place_of(r, base + j); },
      rows,
      [&](int j, int x, float *mean) {
        const float *own =
            r.mean + (size_t)(base + j) * w + kv_rebuilt_first(l, side);
        int width = kv_rebuilt_width(l.shape, side.key);
        KV_UNROLL
        for (int e = 0; e < 4; e++)
          if (x + e < width) mean[e] = own[x + e];
      },
      [&](int j, int x) -> float & {
        return made_row(l, r, side, base + j)[x];
      });
}

static __global__ void turn(const __grid_constant__ kv_gpu_layer l,
                            const __grid_constant__ kv_gpu_rebuilt r) {
  int j = (int)blockIdx.x, pairs = l.shape.d / 2;
  if (place_of(r, j) >= 0) return;
  for (int at = kv_thread(); at < l.lanes * pairs; at += KV_BLOCK)
    kv_rebuilt_turn(l, r, r.token[j], at % pairs,
                    made_row(l, r, {at / pairs, true}, j));
}

/* --- starts --------------------------------------------------------------- */

static unsigned tiles(int n) { return (unsigned)((n + KV_SIDE - 1) / KV_SIDE); }

static void start_hidden(void *stream, const kv_gpu_rebuilt *r) {
  dim3 grid(tiles(r->attended), tiles(r->by.deep));
  if (r->by.hidden) KV_LAUNCH(stream, hidden, grid, KV_BLOCK, *r);
}

static void start_decode(void *stream, const kv_gpu_layer *l,
                         const kv_gpu_rebuilt *r) {
  int wide = l->shape.d > l->shape.d_v ? l->shape.d : l->shape.d_v;
  dim3 grid(tiles(r->attended), 2 * (unsigned)l->lanes, tiles(wide));
  start_hidden(stream, r);
  KV_LAUNCH(stream, decode, grid, KV_BLOCK, *l, *r);
}

static void start_read(void *stream, const kv_gpu_layer *l,
                       const kv_gpu_rebuilt *r) {
  kv_gpu_layer made = *l;
  made.shape.dtype = KV_F32;
  kv_gpu_start_regular_attend(stream, &made, &r->materialised);
}

static void start_attend(void *stream, const kv_gpu_layer *l,
                         const kv_gpu_rebuilt *r) {
  int wide = KV_GPU_REBUILT_WIDE;
  if (l->shape.d <= wide && l->shape.d_v <= wide) {
    start_hidden(stream, r);
    kv_gpu_start_rebuilt_attend(stream, l, r);
    return;
  }
  for (int act = KV_GPU_REBUILT_GATHER; act <= KV_GPU_REBUILT_READ; act++)
    kv_gpu_start_rebuilt(stream, l, r, act);
}

extern "C" void kv_gpu_start_rebuilt(void *stream, const kv_gpu_layer *l,
                                     const kv_gpu_rebuilt *r, int act) {
  unsigned tokens = (unsigned)r->attended;
  if (act == KV_GPU_REBUILT_ATTEND)
    start_attend(stream, l, r);
  else if (act == KV_GPU_REBUILT_SEARCH)
    KV_LAUNCH(stream, search, tiles(r->search.m), KV_BLOCK, *l, *r);
  else if (act == KV_GPU_REBUILT_GATHER)
    KV_LAUNCH(stream, gather, tokens, KV_BLOCK, *l, *r);
  else if (act == KV_GPU_REBUILT_DECODE)
    start_decode(stream, l, r);
  else if (act == KV_GPU_REBUILT_TURN)
    KV_LAUNCH(stream, turn, tokens, KV_BLOCK, *l, *r);
  else if (act == KV_GPU_REBUILT_READ)
    start_read(stream, l, r);
  else
    kv_gpu_start_rebuilt_lanes(stream, l, r, act);
}
