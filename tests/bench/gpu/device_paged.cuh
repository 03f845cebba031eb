/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme paged: attention over unified pages in LeanKV's two precisions, K8V4
 * and K4V2, d = 128, 1,024 to 32,768 tokens a lane, groups of 1, 4 and 8,
 * against the same attention over fp16 rows: times faster, as a share of times
 * fewer bytes. Of groups of 4 and 8 also as a share of what memory's bandwidth
 * and the fma of the chains allow, whichever is slower; both are printed. The
 * pages are noise, codes and metadata; page manager and tables are real.
 */
#ifndef KV_TESTS_BENCH_DEVICE_PAGED_CUH
#define KV_TESTS_BENCH_DEVICE_PAGED_CUH

#include "tests/bench/gpu/device_compact.cuh"

typedef struct paged {
  lanes w;
  kv_gpu_paged p;
  kv_gpu_unified u;
} paged;

/* Bytes of a token's K and V: codes, and a scale and a minimum each. */
constexpr double PAGED_BYTES_HIGH = 128 + 4 + 64 + 4;
constexpr double PAGED_BYTES_LOW = 64 + 4 + 32 + 4;

/* Which tokens are low: none, all, every other one. */
typedef enum paged_mix { PAGED_HIGH, PAGED_LOW, PAGED_BOTH } paged_mix;

KV_FN int32_t paged_slot(int mix, int j) {
  if (mix == PAGED_BOTH) return j;
  return 2 * j + (mix == PAGED_LOW);
}

/* Makes the lanes' tokens coded ones, in pages. */
static __global__ void refer_to_pages(kv_gpu_layer l, const kv_gpu_paged *p,
                                      int n, int mix) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  for (int j = (int)threadIdx.x; j < n; j += KV_BLOCK) {
    int32_t slot = paged_slot(mix, j);
    const kv_gpu_paged_side *s = p->tier[slot & 1].side;
    lane->k[j] = {slot >> 1, 0, (uint16_t)s[KV_SIDE_K].slab};
    lane->v[j] = {slot >> 1, 0, (uint16_t)s[KV_SIDE_V].slab};
  }
  if (threadIdx.x >= (unsigned)KV_TIERS * (unsigned)KV_SIDES) return;
  int tier = (int)threadIdx.x / KV_SIDES, side = (int)threadIdx.x % KV_SIDES;
  const kv_gpu_paged_side *s = &p->tier[tier].side[side];
  kv_gpu_slab *slab = (side ? lane->v_slab : lane->k_slab) + s->slab;
  int all = mix == PAGED_BOTH ? (n + 1 - tier) / 2 : n;
  slab->format = KV_GPU_token;
  slab->settings = &s->how;
  slab->width = s->width;
  slab->used = mix == PAGED_BOTH || tier == (mix == PAGED_LOW) ? all : 0;
  slab->in = {p, (int)blockIdx.x, tier, side};
}

static __global__ void all_see(kv_gpu_layer l, int n) {
  int h = (int)(blockIdx.x * KV_BLOCK + threadIdx.x);
  if (h < l.shape.n_heads) l.entries[h] = n;
}

/* Pages of all lanes' tokens, which are of one request. */
static void paged_take(bench *b, const lanes_case *c, paged_mix mix, paged *x) {
  kv_err e;
  kv_pages_shape s = {KV_PAGES_CODE, 1, c->lanes, 0, 0, {0, 0}};
  for (int t = 0; t < KV_TIERS; t++) s.tokens[t] = x->p.tier[t].tokens;
  s.table = kv_pages_table(s.variant, c->tokens, s.tokens, s.tokens[KV_HIGH]);
  s.pages = c->lanes * s.table;
  if (kv_gpu_unified_open(b->dev, &s, &x->u, &e)) bench_fail("%s", e.text);
  size_t lanes = (size_t)c->lanes;
  kv_pages_count *count = bench_room<kv_pages_count>(lanes);
  kv_pages_count *there = bench_take<kv_pages_count>(b, lanes);
  for (size_t i = 0; i < lanes; i++)
    for (int j = 0; j < c->tokens; j++) count[i].of[paged_slot(mix, j) & 1]++;
  b->dev->put(there, count, lanes * sizeof *count);
  free(count);
  kv_pages_job prompt = {KV_PAGES_PROMPT, 0, c->tokens, nullptr, false, 0};
  kv_pages_job compressed = {KV_PAGES_COMPRESSED, 0, 0, there, false, 0};
  if (kv_gpu_unified_compact(&x->u, 1, &prompt) ||
      kv_gpu_unified_compact(&x->u, 1, &compressed))
    bench_fail("a lane found no page");
  size_t halves = (size_t)s.pages * (size_t)x->p.page / 2;
  uint16_t *pool = bench_take<uint16_t>(b, halves);
  KV_LAUNCH(b->dev->stream(), noise_f16, bench_grid(halves), KV_BLOCK, pool,
            halves, 7u);
  x->p.pool = (char *)pool;
  x->p.entries = s.table;
  x->p.table = x->u.p.table;
  x->p.held = x->u.p.held;
  x->p.where =
      bench_take<int32_t>(b, lanes * KV_TIERS * (size_t)x->w.layer.stride);
}

static kv_gpu_paged_tier paged_tier(int64_t page, int t) {
  static const kv_page_config config[] = {{{8, 4}, {1, 1}}, {{4, 2}, {1, 1}}};
  kv_page_token token = kv_page_token_of(LANES_D, LANES_D, &config[t]);
  kv_gpu_tier_side side[KV_SIDES];
  for (int i = 0; i < KV_SIDES; i++)
    side[i] = {{config[t].bits[i], LANES_D, KV_RULE_UNROUNDED},
               LANES_D,
               KV_CODED + 2 * t + i};
  return kv_gpu_paged_tier_of(page, &token, side);
}

static void paged_open(bench *b, const lanes_case *c, paged_mix mix, paged *x) {
  *x = {};
  lanes_open(b, c, &x->w);
  lanes_begin(&x->w, c->tokens);
  const kv_gpu_layer *l = &x->w.layer;
  x->p.page = kv_page_bytes(LANES_D, LANES_D);
  for (int t = 0; t < KV_TIERS; t++) x->p.tier[t] = paged_tier(x->p.page, t);
  paged_take(b, c, mix, x);
  kv_gpu_paged *there = bench_take<kv_gpu_paged>(b, 1);
  b->dev->put(there, &x->p, sizeof *there);
  KV_LAUNCH(b->dev->stream(), refer_to_pages, (unsigned)l->lanes, KV_BLOCK, *l,
            there, c->tokens, (int)mix);
  KV_LAUNCH(b->dev->stream(), all_see,
            (unsigned)((l->shape.n_heads + KV_BLOCK - 1) / KV_BLOCK), KV_BLOCK,
            *l, c->tokens);
}

static void paged_close(paged *x) {
  kv_gpu_unified_close(&x->u);
  lanes_close(&x->w);
}

static void paged_run(void *self, void *stream) {
  const paged *x = (const paged *)self;
  x->w.b->dev->attend_paged(stream, &x->w.layer, &x->p);
}

/* --- the check ------------------------------------------------------------ */

/* A side of lane i's n tokens, decoded from a copy of the pool, for free(). */
static float *paged_rows(const paged *x, const char *pool, const int32_t *table,
                         int i, int n, paged_mix mix, int side) {
  float *to = bench_room<float>((size_t)n * LANES_D);
  for (int j = 0; j < n; j++) {
    int32_t slot = paged_slot(mix, j), number = slot >> 1;
    const kv_gpu_paged_tier *t = &x->p.tier[slot & 1];
    const kv_gpu_paged_side *s = &t->side[side];
    int page = number / t->tokens, at = number % t->tokens;
    int entry = slot & 1 ? x->p.entries - 1 - page : page;
    const char *from = pool + table[i * x->p.entries + entry] * x->p.page;
    const uint16_t *range =
        (const uint16_t *)(from + s->meta_at + at * s->meta);
    const uint8_t *codes = (const uint8_t *)from + s->codes_at + at * s->codes;
    for (int d = 0; d < LANES_D; d++) {
      int code = codes[d % s->codes] >> d / s->codes * s->how.bits &
                 ((1 << s->how.bits) - 1);
      to[j * LANES_D + d] =
          kv_fma((float)code, kv_from_f16(range[0]), kv_from_f16(range[1]));
    }
  }
  return to;
}

static void paged_check(bench *b) {
  static const int group[] = {1, 4, 8};
  for (int g : group) {
    lanes_case c = {2, g, 300, false};
    paged_mix mix = g == 1 ? PAGED_HIGH : g == 4 ? PAGED_LOW : PAGED_BOTH;
    paged x;
    paged_open(b, &c, mix, &x);
    paged_run(&x, b->dev->stream());
    size_t pages = (size_t)x.u.p.shape.pages;
    char *pool = bench_get(b, x.p.pool, pages * (size_t)x.p.page);
    int32_t *table = bench_get(b, x.p.table, pages);
    for (int i = 0; i < c.lanes; i++) {
      float *k = paged_rows(&x, pool, table, i, c.tokens, mix, KV_SIDE_K);
      float *v = paged_rows(&x, pool, table, i, c.tokens, mix, KV_SIDE_V);
      host_same_lane(&x.w, "attention over pages", i, c.tokens, k, v);
      free(v);
      free(k);
    }
    free(table);
    free(pool);
    paged_close(&x);
  }
}

/* --- timing --------------------------------------------------------------- */

static double paged_seconds(bench *b, const lanes_case *c, paged_mix mix) {
  paged x;
  paged_open(b, c, mix, &x);
  lap what = {paged_run, paged_run, &x, false};
  double seconds = bench_seconds(b, &what);
  paged_close(&x);
  return seconds;
}

static void paged_lines(bench *b, const lanes_case *c, double plain) {
  static const char *const name[] = {"K8V4", "K4V2"};
  for (int t = 0; t < KV_TIERS; t++) {
    char what[64];
    int low = t == KV_LOW;
    double each = paged_seconds(b, c, low ? PAGED_LOW : PAGED_HIGH);
    double bytes = low ? PAGED_BYTES_LOW : PAGED_BYTES_HIGH;
    double all = (double)c->lanes * c->tokens;
    double memory = all * bytes / (b->read * 1e9);
    double fma = all * 2 * LANES_D * c->group / bench_fma(b);
    snprintf(what, sizeof what, "%s, %d tokens, group %d", name[t], c->tokens,
             c->group);
    table_line(b, {what, "times", plain / each, 512 / bytes,
                   c->group == 1 ? GOAL_PAGED : 0, 0});
    if (c->group == 1) continue;
    snprintf(what, sizeof what, "  ceilings: memory %.0f us, fma %.0f us",
             memory * 1e6, fma * 1e6);
    table_line(b, {what, "1/s", 1 / each, 1 / (memory > fma ? memory : fma),
                   GOAL_PAGED_8, 0});
  }
}

static void paged_time(bench *b) {
  static const int tokens[] = {1024, 8192, 32768}, group[] = {1, 4, 8};
  table_theme("attention over pages: times faster / fewer bytes", "bytes");
  for (int n : tokens)
    for (int g : group) {
      lanes w;
      lanes_case c = {attend_lanes(b, n), g, n, false};
      lanes_open(b, &c, &w);
      lanes_begin(&w, n);
      double plain = attend_seconds(&w);
      lanes_close(&w);
      paged_lines(b, &c, plain);
    }
}

#endif
