/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of the parts on a device: each gives what its twin of
 * ref/parts/parts.h gives, bit for bit and entry for entry - whatever the size,
 * however many scores are equal, whichever thread comes first. On the executor,
 * in both orders of its threads.
 */
#include "gpu/parts/parts.cuh"
#include "tests/gpu/gpupool.h"
#include "tests/support/draw.h"

extern "C" {
#include "ref/kernels/kernels.h"
}
#include "tests/support/test.h"

enum { MOST = 5000, LANES = 5, HEADS = 4, KINDS = 4 };

static const int size[] = {1, 2, 127, 128, 129, 1000, MOST};
static const int kernels[] = {1, 3, 7, 257};

static float score[LANES][MOST], floats[2][MOST];
static int64_t sums[HEADS * MOST], integers[2][HEADS * MOST];
static uint8_t flag[LANES][MOST];
static bool expected[LANES][MOST];
static int32_t list[2][MOST], spare[MOST];
static char device_room[KV_WORK(MOST)], host_room[KV_WORK(MOST)];
static kv_gpu_layer layer;
static int answer;
static uint64_t seed = 1;

static int below(int n) { return draw_below(&seed, n); }

static kv_gpu_at at_device(void) {
  kv_gpu_at at = {&layer, nullptr, nullptr, 1, device_room, sizeof device_room,
                  0,      nullptr, -1};
  return at;
}

static kv_at at_host(const kv_shape *shape) {
  static kv_work work;
  work = {host_room, sizeof host_room, 0, nullptr};
  kv_at at = {};
  at.shape = shape;
  at.kernels = kv_kernels_best();
  at.work = &work;
  return at;
}

/* All different, as good as; few values, both zeros among them; all equal;
 * small steps over a wide range. */
static void fill(int kind, int n, float *out) {
  static const float few[] = {0.0f, -0.0f, 1.5f, -2.0f, 0x1p-140f, 0x1p-140f};
  for (int i = 0; i < n; i++)
    out[i] = kind == 0   ? (float)(below(1 << 24) - (1 << 23)) * 0x1.3p-7f
             : kind == 1 ? few[below(6)]
             : kind == 2 ? 0.25f
                         : (float)below(900) * -0.07f;
}

/* fits(n, kind) for every size and kind, and each in both orders. */
static void everywhere(void (*fits)(int n, int kind)) {
  for (size_t s = 0; s < sizeof size / sizeof *size; s++)
    for (int kind = 0; kind < KINDS; kind++)
      for (int order = 0; order < 2; order++) {
        kv_emu_order(order);
        fits(size[s], kind);
      }
}

static void same(const void *a, const void *b, size_t n) {
  assert_memory_equal(a, b, n);
}

/* --- ranking ------------------------------------------------------------ */

static __global__ void run_top(kv_gpu_at at, int n, int k) {
  kv_gpu_top(at, score[0], n, k, flag[0]);
}

static void top_fits(int n, int kind) {
  const int ranks[] = {-1, 0, 1, n / 8, n / 2, n - 1, n, n + 1};
  fill(kind, n, score[0]);
  for (int k : ranks) {
    memset(flag[0], 7, (size_t)n);
    KV_LAUNCH(nullptr, run_top, 1, KV_BLOCK, at_device(), n, k);
    kv_top(score[0], n, k, expected[0]);
    same(flag[0], expected[0], (size_t)n);
  }
}

static __global__ void run_shared(kv_gpu_at at, const int *n, int k) {
  const float *in[LANES];
  uint8_t *out[LANES];
  for (int l = 0; l < LANES; l++) {
    in[l] = score[l];
    out[l] = flag[l];
  }
  kv_gpu_top_shared(at, in, n, LANES, k, out);
}

static void shared_fits(int longest, int kind) {
  const float *in[LANES];
  bool *out[LANES];
  int n[LANES], total = 0;
  for (int l = 0; l < LANES; l++) {
    in[l] = score[l];
    out[l] = expected[l];
    n[l] = l == 2 ? longest : 1 + below(longest);
    total += n[l];
    fill(l == 1 ? 1 : kind, n[l], score[l]);
  }
  const int ranks[] = {0, 1, total / 8, total / 2, total - 1, total};
  for (int k : ranks) {
    KV_LAUNCH(nullptr, run_shared, 1, KV_BLOCK, at_device(), n, k);
    kv_top_shared(in, n, LANES, k, out);
    for (int l = 0; l < LANES; l++) same(flag[l], expected[l], (size_t)n[l]);
  }
}

static __global__ void run_hash(kv_gpu_at at, const uint64_t *hash, int n,
                                int k) {
  kv_gpu_top_hash(at, hash, n, k, flag[0]);
}

static void hash_fits(int n, int kind) {
  static uint64_t hash[MOST];
  const int ranks[] = {-1, 0, 1, n / 8, n - 1, n};
  for (int i = 0; i < n; i++)
    hash[i] = kind == 0   ? kv_mix((uint64_t)i)
              : kind == 1 ? (uint64_t)below(3) << 63
              : kind == 2 ? 9
                          : (uint64_t)below(7);
  for (int k : ranks) {
    KV_LAUNCH(nullptr, run_hash, 1, KV_BLOCK, at_device(), hash, n, k);
    kv_top_hash(hash, n, k, expected[0]);
    same(flag[0], expected[0], (size_t)n);
  }
}

static __global__ void run_top_p(kv_gpu_at at, int n, int32_t p20) {
  int kept = kv_gpu_top_p(at, score[0], n, p20, flag[0]);
  if (kv_thread() == 0) answer = kept;
}

/* Logits have no -0. */
static void top_p_fits(int n, int kind) {
  static const int32_t share[] = {0,      1,       1 << 10,       1 << 18,
                                  567890, 1038090, (1 << 20) - 1, 1 << 20};
  fill(kind, n, score[0]);
  for (int i = 0; i < n; i++)
    score[0][i] = kv_add(kv_mul(score[0][i], kind ? 1.0f : 0x1p-12f), 0.0f);
  for (int32_t p20 : share) {
    kv_at at = at_host(&layer.shape);
    KV_LAUNCH(nullptr, run_top_p, 1, KV_BLOCK, at_device(), n, p20);
    assert_int_equal(answer, kv_top_p(&at, score[0], n, p20, expected[0]));
    same(flag[0], expected[0], (size_t)n);
  }
}

static __global__ void run_argmin(kv_gpu_at at, int n, const uint8_t *in) {
  int i = kv_gpu_argmin(at, score[0], n, in);
  if (kv_thread() == 0) answer = i;
}

static void arg_fits(int n, int kind) {
  fill(kind, n, score[0]);
  for (int share = 0; share < 4; share++) { /* of 3 entries, that are in */
    for (int i = 0; i < n; i++) {
      expected[0][i] = below(3) < share;
      flag[0][i] = expected[0][i];
    }
    int want = kv_argmin(score[0], n, expected[0]);
    KV_LAUNCH(nullptr, run_argmin, 1, KV_BLOCK, at_device(), n, flag[0]);
    assert_int_equal(answer, want);
    if (share < 3) continue;
    KV_LAUNCH(nullptr, run_argmin, 1, KV_BLOCK, at_device(), n, nullptr);
    assert_int_equal(answer, want);
  }
}

static __global__ void run_order(kv_gpu_at at, int n) {
  kv_gpu_order(at, score[0], n, list[0]);
}

static void order_fits(int n, int kind) {
  fill(kind, n, score[0]);
  for (int i = 0; i < n; i++) {
    int j = below(i + 1);
    list[0][i] = list[0][j];
    list[0][j] = i;
  }
  memcpy(list[1], list[0], sizeof list[0]);
  KV_LAUNCH(nullptr, run_order, 1, KV_BLOCK, at_device(), n);
  kv_order(score[0], n, list[1], spare);
  same(list[0], list[1], (size_t)n * sizeof **list);
}

/* --- scores ------------------------------------------------------------- */

static void draw_sums(int n, int kind) {
  for (int i = 0; i < n; i++)
    sums[i] = kind == 2 ? 3 : (int64_t)(kv_mix((uint64_t)i) >> (20 + kind * 8));
}

static __global__ void run_pools(int n, int kernel) {
  kv_gpu_scores(sums, n, floats[0]);
  kv_gpu_pool_max(floats[0], n, kernel, score[0]);
  kv_gpu_pool_avg(floats[0], n, kernel, score[1]);
  kv_gpu_pool_sum(sums, n, kernel, integers[0]);
}

static void pools_fit(int n, int kind) {
  draw_sums(n, kind);
  for (int kernel : kernels) {
    KV_LAUNCH(nullptr, run_pools, 1, KV_BLOCK, n, kernel);
    kv_scores(sums, n, floats[1]);
    same(floats[0], floats[1], (size_t)n * sizeof(float));
    kv_pool_max(floats[0], n, kernel, floats[1]);
    same(score[0], floats[1], (size_t)n * sizeof(float));
    kv_pool_avg(floats[0], n, kernel, floats[1]);
    same(score[1], floats[1], (size_t)n * sizeof(float));
    kv_pool_sum(sums, n, kernel, integers[1]);
    same(integers[0], integers[1], (size_t)n * sizeof(int64_t));
  }
}

/* The observation of n entries by the heads: what stands in sums. */
static kv_gpu_rows rows_of(int heads, int n) {
  return {0, 1, heads, n, heads, MOST, nullptr, nullptr, nullptr, sums};
}

static kv_rows host_rows(int heads, int n) {
  return {0, 1, heads, heads, n, MOST, nullptr, nullptr, nullptr, sums};
}

static __global__ void run_observe(kv_gpu_at at, kv_gpu_lane *lane,
                                   kv_gpu_rows rows, kv_window_options o) {
  kv_gpu_window_add(at, lane, rows, o.group);
}

static __global__ void run_past(kv_gpu_at at, kv_gpu_lane *lane,
                                kv_window_options o) {
  kv_gpu_window_score_from(at, lane, o.group, o.pooling, o.kernel, 0,
                           lane->n - 1, floats[0]);
}

/* A window of one entry. */
static void window_fits_with(int n, const kv_window_options *o) {
  int queries = o->group == KV_GROUP_QUERY_HEAD ? 1 : HEADS;
  kv_gpu_lane device = {};
  kv_lane host = {};
  device.queries = host.queries = queries;
  device.n = host.n = n;
  device.own = memset(integers[0], 0, sizeof integers[0]);
  host.own = memset(integers[1], 0, sizeof integers[1]);
  kv_rows rows = host_rows(queries, n);
  kv_at at = at_host(&layer.shape);
  KV_LAUNCH(nullptr, run_observe, dim3(1, 3), KV_BLOCK, at_device(), &device,
            rows_of(queries, n), *o);
  KV_LAUNCH(nullptr, run_past, 1, KV_BLOCK, at_device(), &device, *o);
  kv_window_observe(&at, &host, &rows, o);
  const float *out = kv_window_past(&at, &host, o);
  same(floats[0], out, (size_t)(n - o->window) * sizeof(float));
  same(integers[0], integers[1], sizeof integers[0]);
}

static void window_fits(int n, int kind) {
  draw_sums(HEADS * MOST, kind);
  for (int group = KV_GROUP_MEAN; group <= KV_GROUP_QUERY_HEAD; group++)
    for (int pooling = KV_POOL_NONE; pooling <= KV_POOL_MAX; pooling++) {
      kv_window_options o = {1, 7, pooling, group};
      if (n > 1) window_fits_with(n, &o);
    }
}

/* --- keeping ------------------------------------------------------------ */

/* A lane on either side, with a column of sums. */
typedef struct twins {
  kv_shape shape;
  kv_needs needs;
  kv_layer_data data;
  kv_lane host;
  kv_gpu_lane device;
} twins;

static void open_twins(twins *t, int n) {
  static uint32_t id[MOST], weight[MOST], verbs[16 * MOST];
  static uint64_t words[MOST];
  static kv_cell_ref k[MOST], v[MOST];
  static int32_t room[2][MOST];
  kv_err e;
  *t = twins{};
  t->shape = layer.shape;
  t->needs.columns = 1;
  layer.needs = t->needs;
  assert_false(
      kv_lane_init(&t->host, &t->shape, &t->needs, kv_kernels_best(), 0, &e));
  assert_int_equal(kv_lane_room_init(&t->host.room, MOST, &e), KV_OK);
  kv_lane_begin(&t->host, t->host.needs, &t->data);
  kv_lane_append(&t->host, 0, n);
  t->device.n = n;
  t->device.k = gpupool_fill(n, k, room[0], &t->device.k_raw);
  t->device.v = gpupool_fill(n, v, room[1], &t->device.v_raw);
  t->device.queries = HEADS;
  t->device.id = (uint32_t *)memcpy(id, t->host.id, sizeof id);
  t->device.weight = (uint32_t *)memcpy(weight, t->host.weight, sizeof weight);
  memset(integers[0], 0, sizeof integers[0]);
  t->device.column[0].i = integers[0];
  t->device.list = list[0];
  t->device.spare = words;
  t->device.verbs = verbs;
  t->device.cap_verbs = 16 * MOST;
}

static void close_twins(twins *t) {
  kv_lane_room_release(&t->host.room);
  kv_lane_release(&t->host);
}

static void twins_agree(const twins *t) {
  size_t n = (size_t)t->host.n;
  assert_null(gpupool_wrong(&t->device));
  assert_int_equal(t->device.n, t->host.n);
  same(t->device.id, t->host.id, n * sizeof *t->host.id);
  same(t->device.column[0].i, t->host.column[0].i, n * sizeof(int64_t));
}

static __global__ void run_column(kv_gpu_at at, kv_gpu_lane *lane,
                                  kv_gpu_rows rows) {
  kv_gpu_column_add(at, lane, 0, rows);
}

static __global__ void run_ends(kv_gpu_at at, kv_gpu_lane *lane, int sink,
                                int recent) {
  kv_gpu_keep_ends(at, lane, sink, recent);
}

static __global__ void run_recent(kv_gpu_at at, kv_gpu_lane *lane, int heavy,
                                  int recent) {
  kv_gpu_keep_top_recent(at, lane, score[0], lane->n - recent, heavy);
}

/* First the heavy ones and the recent, then of these the ends; or one goes. */
static void keeping_fits(int n, int kind) {
  twins t;
  kv_rows rows = host_rows(HEADS, n);
  int recent = n / 4, heavy = kind % 2 ? n / 3 : n - recent - 1, sink = n / 5;
  draw_sums(HEADS * MOST, kind);
  fill(kind, n, score[0]);
  open_twins(&t, n);
  KV_LAUNCH(nullptr, run_column, 1, KV_BLOCK, at_device(), &t.device,
            rows_of(HEADS, n));
  kv_at at = at_host(&t.shape);
  kv_column_add(&at, &t.host, 0, &rows);
  twins_agree(&t);
  KV_LAUNCH(nullptr, run_recent, 1, KV_BLOCK, at_device(), &t.device, heavy,
            recent);
  kv_keep_top_recent(&at, &t.host, score[0], heavy, recent);
  twins_agree(&t);
  KV_LAUNCH(nullptr, run_ends, 1, KV_BLOCK, at_device(), &t.device, sink,
            recent);
  kv_keep_ends(&t.host, sink, recent);
  twins_agree(&t);
  close_twins(&t);
}

#define EVERYWHERE(fits)                                                       \
  TEST(fits##_everywhere) { everywhere(fits); }
EVERYWHERE(top_fits)
EVERYWHERE(shared_fits)
EVERYWHERE(hash_fits)
EVERYWHERE(top_p_fits)
EVERYWHERE(arg_fits)
EVERYWHERE(order_fits)
EVERYWHERE(pools_fit)
EVERYWHERE(window_fits)
EVERYWHERE(keeping_fits)

int main(void) {
  kv_float_ground();
  layer.shape = {1, HEADS, 1, 1, 1, MOST, MOST, 0, KV_F32, 0, 0, 0, nullptr};
  return tests_run("gpu parts", NULL, NULL);
}
