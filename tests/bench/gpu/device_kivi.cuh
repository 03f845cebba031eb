/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme kivi: attention over entries coded in KIVI's 2 bits, groups of 32,
 * against the same attention over fp16 rows: how much faster, against how
 * many times fewer bytes the codes are with their scales and minima. The rows
 * are coded by the kernels' own coder, which is no part of what is timed.
 */
#ifndef KV_TESTS_BENCH_DEVICE_KIVI_CUH
#define KV_TESTS_BENCH_DEVICE_KIVI_CUH

#include "gpu/lane/entry.cuh"
#include "tests/bench/gpu/device_attend.cuh"

constexpr int KIVI_GROUP = 32;
constexpr int KIVI_CODES = LANES_D / 4;         /* bytes a row, 2 bits */
constexpr int KIVI_RUNS = LANES_D / KIVI_GROUP; /* of a value row */
/* Bytes of a block of keys and of one value row: scales and minima, codes. */
constexpr int KIVI_K = 4 * LANES_D + KIVI_GROUP * KIVI_CODES;
constexpr int KIVI_V = 4 * KIVI_RUNS + KIVI_CODES;
constexpr uint16_t KEYS = KV_CODED, VALUES = KV_CODED + 1;

/* What a token's K and V take: fp16, coded. */
static const double kivi_plain = 4.0 * LANES_D;
static const double kivi_coded = 1.0 * KIVI_K / KIVI_GROUP + KIVI_V;

/* Group blockIdx.x of lane blockIdx.y: its keys as one block, its values as a
 * block each. */
static __global__ void code_group(kv_gpu_layer l, int *wrong) {
  kv_gpu_lane *lane = &l.lane[blockIdx.y];
  uint32_t first = blockIdx.x * KIVI_GROUP;
  const kv_gpu_slab *k = &lane->k_slab[KEYS], *v = &lane->v_slab[VALUES];
  auto key = [&](int, int m, int x) {
    return kv_gpu_key(l, lane, (int)first + m, x);
  };
  auto value = [&](int j, int, int x) {
    return kv_gpu_value(l, lane, (int)first + j, x);
  };
  bool fits = kv_gpu_encode(*k, 1, KIVI_GROUP, key, [&](int) {
                return kv_gpu_block_at(*k, (int32_t)blockIdx.x);
              }) == 1;
  fits &= kv_gpu_encode(*v, KIVI_GROUP, 1, value, [&](int j) {
            return kv_gpu_block_at(*v, (int32_t)first + j);
          }) == KIVI_GROUP;
  for (uint32_t m = (uint32_t)kv_thread(); m < KIVI_GROUP; m += KV_BLOCK) {
    lane->k[first + m] = {(int32_t)blockIdx.x, (uint16_t)m, KEYS};
    lane->v[first + m] = {(int32_t)(first + m), 0, VALUES};
  }
  if (kv_thread() == 0 && !fits) *wrong = 1;
}

static void kivi_slab(bench *b, int format, size_t size, int ranges,
                      size_t blocks, kv_gpu_slab *s) {
  const kv_minmax settings = {2, KIVI_GROUP, 0};
  kv_minmax *to = bench_take<kv_minmax>(b, 1);
  b->dev->put(to, &settings, sizeof settings);
  s->format = format;
  s->settings = to;
  s->size = size;
  s->metadata_size = 4 * (size_t)ranges;
  s->width = LANES_D;
  s->cap = s->used = (int)blocks;
  s->data = bench_take<char>(b, blocks * size);
}

/* Lanes of c->tokens tokens, a multiple of KIVI_GROUP, all of them coded. */
static void kivi_open(bench *b, const lanes_case *c, lanes *w) {
  unsigned groups = (unsigned)c->tokens / KIVI_GROUP;
  lanes_open(b, c, w);
  w->layer.needs.codings = 2;
  for (int i = 0; i < c->lanes; i++) {
    kv_gpu_lane *l = &w->lane[i];
    kivi_slab(b, KV_GPU_channel, KIVI_K, LANES_D, groups, &l->k_slab[KEYS]);
    kivi_slab(b, KV_GPU_token, KIVI_V, LANES_D / KIVI_GROUP, (size_t)c->tokens,
              &l->v_slab[VALUES]);
    l->rewritten = c->tokens;
  }
  lanes_begin(w, c->tokens);
  int *wrong = bench_take<int>(b, 1);
  KV_LAUNCH(b->dev->stream(), code_group, dim3(groups, (unsigned)c->lanes),
            KV_BLOCK, w->layer, wrong);
  int *said = bench_get(b, wrong, 1);
  if (*said) bench_fail("a row cannot be coded");
  free(said);
}

/* --- the check ---------------------------------------------------------- */

/* A coded number: codes of 4 planes in a byte. */
static float host_decode(const char *block, int ranges, int g, int row, int x) {
  const uint16_t *scale = (const uint16_t *)block;
  const uint8_t *codes = (const uint8_t *)block + 4 * ranges;
  int byte = codes[row * KIVI_CODES + x % KIVI_CODES];
  float code = (float)(byte >> 2 * (x / KIVI_CODES) & 3);
  return kv_fma(code, kv_from_f16(scale[g]), kv_from_f16(scale[ranges + g]));
}

/* Decodes lane i, and every number is within its scale of what was coded. */
static void host_decode_lane(const lanes *w, int i, int n, float *k, float *v) {
  const kv_gpu_lane *l = &w->lane[i];
  char *ks =
      bench_get(w->b, l->k_slab[KEYS].data, (size_t)(n / KIVI_GROUP) * KIVI_K);
  char *vs = bench_get(w->b, l->v_slab[VALUES].data, (size_t)n * KIVI_V);
  for (int t = 0; t < n; t++)
    for (int x = 0; x < LANES_D; x++) {
      const char *kb = ks + (size_t)(t / KIVI_GROUP) * KIVI_K;
      const char *vb = vs + (size_t)t * KIVI_V;
      float a = host_decode(kb, LANES_D, x, t % KIVI_GROUP, x);
      float c = host_decode(vb, KIVI_RUNS, x / KIVI_GROUP, 0, x);
      float ka = kv_from_f16(((const uint16_t *)kb)[x]);
      float va = kv_from_f16(((const uint16_t *)vb)[x / KIVI_GROUP]);
      float *ko = k + t * LANES_D + x, *vo = v + t * LANES_D + x;
      if (kv_bits(a - *ko) << 1 > kv_bits(ka) << 1 ||
          kv_bits(c - *vo) << 1 > kv_bits(va) << 1)
        bench_fail("token %d is not what was coded", t);
      *ko = a;
      *vo = c;
    }
  free(vs);
  free(ks);
}

static void kivi_check(bench *b) {
  static const int group[] = {1, 4};
  for (int g : group) {
    lanes_case c = {2, g, 320, false};
    lanes w;
    kivi_open(b, &c, &w);
    attend_run(&w, b->dev->stream());
    for (int i = 0; i < c.lanes; i++) {
      float *k = host_rows(&w, w.layer.k, i, c.tokens);
      float *v = host_rows(&w, w.layer.v, i, c.tokens);
      host_decode_lane(&w, i, c.tokens, k, v);
      host_same_lane(&w, "attention over codes", i, c.tokens, k, v);
      free(v);
      free(k);
    }
    lanes_close(&w);
  }
}

/* --- timing ------------------------------------------------------------- */

static void kivi_time(bench *b) {
  static const int group[] = {1, 4};
  table_theme("attention over KIVI 2 bit: times faster / fewer", "bytes");
  for (int g : group) {
    lanes w;
    char what[64];
    lanes_case c = {attend_lanes(b, 32768), g, 32768, false};
    lanes_open(b, &c, &w);
    lanes_begin(&w, c.tokens);
    double plain = attend_seconds(&w);
    lanes_close(&w);
    kivi_open(b, &c, &w);
    double coded = attend_seconds(&w);
    lanes_close(&w);
    snprintf(what, sizeof what, "fp16 rows / codes, %d lanes, group %d",
             c.lanes, g);
    table_line(b, {what, "times", plain / coded, kivi_plain / kivi_coded,
                   GOAL_KIVI, 0});
  }
}

#endif
