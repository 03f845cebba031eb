/* SPDX-License-Identifier: Apache-2.0
 *
 * LESS on a device: the twin of ref/methods/less.c. A block a lane; its own
 * chunk of attention has a block a head. One thread computes an output of a
 * perceptron, or an element of the state, to which dropped tokens are added in
 * order.
 */
#include "gpu/parts/parts.cuh"
#include "gpu/parts/perceptron.cuh"
#include "ref/methods/less.h"

enum { TILE = 16 }; /* tokens that go at once: the reference's workspace */

/* --- perceptrons ---------------------------------------------------------- */

/* Head h's rows of a tensor of the layer. */
static __device__ const float *of_head(const kv_gpu_at &at, int which, int h) {
  const kv_tensor &t = at.asset[which];
  size_t each = (size_t)t.dim[1] * (size_t)(t.dim[2] ? t.dim[2] : 1);
  return (const float *)t.data + (size_t)h * each;
}

/* out[m][rank] = g(g(x in) out). */
/* Called and not copied in: of the copies nvcc makes one, of which it no longer
 * says where its fma came from, and tests/check_ptx.sh asks. */
static KV_APART __device__ float gelu(float x) { return kv_gelu(x); }

template <int ROWS>
static __device__ void perceptron(const kv_gpu_at &at, int m, const float *x,
                                  const float *in, const float *to,
                                  float *hidden, float *out) {
  const params *o = (const params *)at.params;
  int wide = o->hidden, rank = o->rank, d = at.layer->shape.d;
  kv_gpu_products<ROWS>(m, wide, d, x, d, in, [&](int i, int j, float y) {
    hidden[i * wide + j] = gelu(y);
  });
  kv_gpu_products<ROWS>(
      m, rank, wide, hidden, wide, to,
      [&](int i, int j, float y) { out[i * rank + j] = gelu(y); });
}

/* psi of m keys; kappa: room for as much. */
template <int ROWS>
static __device__ void features(const kv_gpu_at &at, int head, int m,
                                const float *key, float *hidden, float *kappa,
                                float *psi) {
  int rank = ((const params *)at.params)->rank;
  const float *scale = of_head(at, KEY_SCALE, head);
  const float *mix_scale = of_head(at, KEY_MIX_SCALE, head);
  perceptron<ROWS>(at, m, key, of_head(at, KEY_IN, head),
                   of_head(at, KEY_OUT, head), hidden, kappa);
  for (int i = kv_thread(); i < m * rank; i += KV_BLOCK)
    kappa[i] = kv_less_kappa(scale[i % rank], kappa[i]);
  __syncthreads();
  kv_gpu_products<ROWS>(m, rank, rank, kappa, rank, of_head(at, KEY_MIX, head),
                        [&](int i, int j, float mixed) {
                          int x = i * rank + j;
                          psi[x] = kv_less_psi(mix_scale[j], mixed, kappa[x]);
                        });
}

/* --- attention ------------------------------------------------------------ */

/* What a head's chunk takes of the workspace. */
static __device__ size_t chunk_room(const kv_gpu_at &at, const kv_gpu_lane *) {
  const params *o = (const params *)at.params;
  return ((size_t)o->hidden + (size_t)o->rank) * sizeof(float) + 2 * 64;
}

static __device__ bool chunk(kv_gpu_at &at, const kv_gpu_lane *lane,
                             const kv_gpu_query &q, float *m, float *l,
                             float *a) {
  const params *o = (const params *)at.params;
  state *s = (state *)kv_gpu_own(at, lane);
  int head = lane->first_head + q.head, d_v = at.layer->shape.d_v;
  if (s->gone == 0) return false;
  float *hidden = KV_GPU_TAKE(at, float, o->hidden);
  float *phi = KV_GPU_TAKE(at, float, o->rank), mass = 0;
  perceptron<1>(at, 1, q.q, of_head(at, QUERY_IN, head),
                of_head(at, QUERY_OUT, head), hidden, phi);
  for (int j = 0; j < o->rank; j++)
    mass = kv_fma(kv_less_abs(phi[j]), s->z[j], mass);
  mass = kv_less_floor(mass);
  for (int x = kv_thread(); x < d_v; x += KV_BLOCK) {
    const float *h = kv_less_h(s, o) + x;
    float sum = 0;
    for (int j = 0; j < o->rank; j++)
      sum = kv_fma(kv_less_floor(kv_less_abs(phi[j])),
                   h[(size_t)j * (size_t)d_v], sum);
    a[x] = kv_div(sum, mass);
  }
  *m = kv_finite(mass) ? kv_log(mass) : mass;
  *l = 1;
  return true;
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  kv_gpu_column_add(at, lane, 0, rows);
}

/* --- compression --------------------------------------------------------- */

/* Entries list[0..m) go into the state, one after another. */
static __device__ void forget(kv_gpu_at &at, const kv_gpu_lane *lane, int m,
                              const int32_t *list) {
  const params *o = (const params *)at.params;
  const kv_gpu_layer &l = *at.layer;
  state *s = (state *)kv_gpu_own(at, lane);
  size_t used = at.used;
  int d = l.shape.d, d_v = l.shape.d_v, rank = o->rank;
  float *key = KV_GPU_TAKE(at, float, m *d);
  float *hidden = KV_GPU_TAKE(at, float, m * o->hidden);
  float *kappa = KV_GPU_TAKE(at, float, m *rank);
  float *psi = KV_GPU_TAKE(at, float, m *rank);
  for (int x = kv_thread(); x < m * d; x += KV_BLOCK)
    key[x] = kv_gpu_key(l, lane, list[x / d], x % d);
  __syncthreads();
  if (m == 1)
    features<1>(at, lane->kv_head, m, key, hidden, kappa, psi);
  else
    features<8>(at, lane->kv_head, m, key, hidden, kappa, psi);
  for (int x = kv_thread(); x < d_v; x += KV_BLOCK)
    for (int i = 0; i < m; i++) {
      float v = kv_gpu_value(l, lane, list[i], x);
      float *h = kv_less_h(s, o) + x;
      for (int j = 0; j < rank; j++, h += d_v)
        *h = kv_fma(psi[i * rank + j], v, *h);
    }
  for (int j = kv_thread(); j < rank; j += KV_BLOCK)
    for (int i = 0; i < m; i++) s->z[j] = kv_add(s->z[j], psi[i * rank + j]);
  if (kv_thread() == 0) s->gone += m;
  __syncthreads();
  at.used = used;
}

static __device__ void choose(kv_gpu_at &at, const kv_gpu_lane *lane,
                              uint8_t *stays) {
  const params *o = (const params *)at.params;
  int past = lane->n - o->recent, first = o->budget - o->recent;
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    stays[i] = i >= past || i < first;
  __syncthreads();
  if (o->policy == LAMBDA) return;
  float *score = KV_GPU_TAKE(at, float, past);
  kv_gpu_scores(kv_gpu_column_int64(at, lane, 0), past, score);
  kv_gpu_top(at, score, past, first, stays);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  if (lane->n <= o->budget) return;
  uint8_t *stays = KV_GPU_TAKE(at, uint8_t, lane->n);
  int32_t *gone = KV_GPU_TAKE(at, int32_t, lane->n);
  choose(at, lane, stays);
  int m = kv_gpu_indexes(0, lane->n, stays, false, gone);
  __syncthreads();
  for (int i = 0; i < m; i += TILE)
    forget(at, lane, m - i < TILE ? m - i : TILE, gone + i);
  kv_gpu_keep_mask(at, lane, stays);
}

KV_GPU_METHOD(less, .chunk = (kv_on_chunk<chunk, chunk_room>),
              .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);
