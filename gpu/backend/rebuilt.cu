/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over tokens whose latent vectors a layer holds, without writing
 * their rows to memory: gather, mean, decode, re-rotation and attention in one
 * kernel (gpu/shared/rebuilt.h). A block has a chunk of arithmetic 3, 128
 * tokens of what the step attends, for one lane and up to 8 of its query heads.
 * It makes 64 keys at a time in shared memory - products of their latent
 * vectors with the lane's rows of the decoder's last layer in tiles, plus the
 * means of the references that they name, turned forward - and takes their
 * logits; then the weights; then it makes the values, 64 at a time, and adds
 * them up. Latent vectors and names are read once a lane and side, the
 * decoder's rows once a chunk. Unchanged rows are read into their places among
 * these.
 *
 * The chains are those of ref/parts/latents.h and of attention over the made
 * rows: a product along the latent vector is one thread's, so is a logit along
 * d, and a column of a_c along the chunk. Then join.cu, as for any lane.
 * Cost: w * deep products a token attended, which bind; 46 KiB of shared memory
 * a block.
 */
#include "gpu/backend/rebuilt.cuh"
#include "gpu/lane/weigh.cuh"
#include "ref/ground/softcap.h"

enum { CHUNK = KV_BLOCK, SOME = KV_SIDE, STRIDE = KV_GPU_REBUILT_WIDE + 1 };
enum { PARTS = (int)CHUNK / SOME };
static_assert(PARTS == 2, "a thread has a token of a part, and half the heads");

/* Memory of a block. */
typedef struct room {
  float *row;     /* [SOME][STRIDE] */
  float *a, *b;   /* stages of products */
  float *p;       /* [heads][CHUNK] logits, then weights */
  int32_t *token; /* [CHUNK] */
  int32_t *place; /* [CHUNK] */
} room;

/* --- rows ----------------------------------------------------------------- */

/* Puts rows of one side of tokens `from` on of the chunk, n of them, into
 * x.row, keys not turned yet. */
static __device__ void make_rows(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                                 const kv_hand &a, const room &x,
                                 kv_rebuilt_side side, int from, int n) {
  int width = kv_rebuilt_width(l.shape, side.key);
  const int32_t *place = x.place + from;
  bool coded = kv_thread() < n && place[kv_thread()] < 0;
  for (int at = kv_thread(); at < n * width; at += KV_BLOCK) {
    int j = at / width, column = at % width;
    if (place[j] >= 0)
      x.row[j * STRIDE + column] =
          kv_gpu_element(kv_rebuilt_row(l, r, side, place[j]), column);
  }
  if (!kv_block_any(coded)) return;
  size_t at = (size_t)(a.c * CHUNK + from) * (size_t)r.by.deep;
  for (int first = 0; first < width; first += KV_SIDE)
    kv_rebuilt_tile(
        l, r, side, first, n, x.a, x.b, [&](int j) { return place[j]; },
        r.by.hidden ? r.deep + at : nullptr,
        [&](int j, int column, float *mean) {
          kv_rebuilt_mean(l, r, side, ~place[j], column, mean);
        },
        [&](int j, int column) -> float & {
          return x.row[j * STRIDE + column];
        });
}

static __device__ void turn_rows(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                                 const room &x, int from, int n) {
  int pairs = l.shape.d / 2;
  __syncthreads();
  for (int at = kv_thread(); at < n * pairs; at += KV_BLOCK) {
    int j = at / pairs;
    if (x.place[from + j] < 0)
      kv_rebuilt_turn(l, r, x.token[from + j], at % pairs, x.row + j * STRIDE);
  }
}

/* --- logits --------------------------------------------------------------- */

/* Logits of the tokens in x.row: a thread has one of them, and half of the
 * heads. */
template <int HEADS>
static __device__ void logits(const kv_gpu_layer &l, const kv_hand &a,
                              const room &x, int from, int n) {
  constexpr int OWN = (HEADS + 1) / 2;
  int j = kv_thread() % SOME, base = kv_thread() / SOME * (HEADS - OWN);
  int d = l.shape.d;
  const float *q[OWN];
  float acc[OWN];
  KV_UNROLL
  for (int h = 0; h < OWN; h++) {
    int own = base + h < a.count ? base + h : a.count - 1;
    q[h] = l.q + (size_t)(a.first + own) * (size_t)d;
    acc[h] = 0;
  }
  __syncthreads();
  for (int i = 0; j < n && i < d; i++) {
    float key = x.row[j * STRIDE + i];
    KV_UNROLL
    for (int h = 0; h < OWN; h++) acc[h] = kv_fma(q[h][i], key, acc[h]);
  }
  KV_UNROLL
  for (int h = 0; h < OWN; h++) /* of an odd number both have the middle one */
    if (j < n && (kv_thread() < SOME || base + h >= OWN))
      x.p[(base + h) * CHUNK + from + j] =
          kv_logit(acc[h], l.shape.scale, l.shape.softcap);
  __syncthreads();
}

/* --- values --------------------------------------------------------------- */

/* Adds the values in x.row: a thread has a column. */
template <int HEADS>
static __device__ void add_values(const kv_gpu_layer &l, const room &x,
                                  int from, int n, float *sum) {
  int column = kv_thread();
  __syncthreads();
  for (int j = 0; column < l.shape.d_v && j < n; j++) {
    float v = x.row[j * STRIDE + column];
    KV_UNROLL
    for (int h = 0; h < HEADS; h++)
      sum[h] = kv_fma(x.p[h * CHUNK + from + j], v, sum[h]);
  }
  __syncthreads();
}

template <int HEADS>
static __device__ void keep(const kv_gpu_layer &l, const kv_hand &a,
                            const float *sum) {
  int column = kv_thread();
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    size_t chunk = (size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c;
    if (h < a.count && column < l.shape.d_v)
      l.part[chunk * (size_t)l.shape.d_v + (size_t)column] = sum[h];
  }
}

/* --- the kernel ----------------------------------------------------------- */

/* Past the chunk's end logits are 0. */
static __device__ void find_tokens(const kv_gpu_rebuilt &r, const kv_hand &a,
                                   const room &x, int heads) {
  int j = kv_thread();
  for (int h = 0; h < heads; h++) x.p[h * CHUNK + j] = 0;
  if (j < a.n) {
    x.token[j] = r.token[a.c * CHUNK + j];
    x.place[j] = r.place[x.token[j]];
  }
  __syncthreads();
}

template <int HEADS>
static __global__ void
rebuilt_chunks(const __grid_constant__ kv_gpu_layer l,
               const __grid_constant__ kv_gpu_rebuilt r) {
  KV_SHARED(float, row, SOME *STRIDE);
  KV_SHARED(float, left, KV_TILE_ROOM);
  KV_SHARED(float, right, KV_TILE_ROOM);
  KV_SHARED(kv_quad, weight, HEADS * CHUNK / 4);
  KV_SHARED(int32_t, token, CHUNK);
  KV_SHARED(int32_t, place, CHUNK);
  const kv_hand a = kv_hand_take<HEADS>(l, kv_rebuilt_attended(r));
  const room x = {row, left, right, (float *)weight, token, place};
  if (!r.count && a.c == 0 && kv_thread() < a.count)
    l.entries[a.first + kv_thread()] = r.attended;
  if (a.n <= 0) return;
  find_tokens(r, a, x, HEADS);
  float sum[HEADS];
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) sum[h] = 0;
  /* Keys, then values, in one loop: the code that makes rows is here once. */
  KV_ROLLED
  for (int part = 0; part < 2 * PARTS; part++) {
    int from = part % PARTS * SOME, more = a.n - from;
    int n = more < SOME ? more : (int)SOME;
    if (part == PARTS) kv_hand_weigh<HEADS>(l, a, x.p, token);
    if (n <= 0) continue;
    make_rows(l, r, a, x, {a.lane, part < PARTS}, from, n);
    if (part >= PARTS) {
      add_values<HEADS>(l, x, from, n, sum);
      continue;
    }
    turn_rows(l, r, x, from, n);
    logits<HEADS>(l, a, x, from, n);
  }
  keep<HEADS>(l, a, sum);
}

/* --- starts --------------------------------------------------------------- */

/* EACH heads share what is made; those past a lane's last repeat it. */
template <int EACH>
static void start(void *stream, const kv_gpu_layer *l,
                  const kv_gpu_rebuilt *r) {
  int heads = l->shape.n_heads / l->lanes;
  dim3 grid((unsigned)((r->attended + CHUNK - 1) / CHUNK), (unsigned)l->lanes,
            (unsigned)((heads + EACH - 1) / EACH));
  KV_LAUNCH(stream, (rebuilt_chunks<EACH>), grid, KV_BLOCK, *l, *r);
}

extern "C" void kv_gpu_start_rebuilt_attend(void *stream, const kv_gpu_layer *l,
                                            const kv_gpu_rebuilt *r) {
  int heads = l->shape.n_heads / l->lanes;
  if (heads == 1)
    start<1>(stream, l, r);
  else if (heads == 2)
    start<2>(stream, l, r);
  else if (heads <= 4)
    start<4>(stream, l, r);
  else
    start<8>(stream, l, r);
  kv_gpu_start_join(stream, l);
}
