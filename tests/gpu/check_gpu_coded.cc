/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over coded rows on the executor, against plain loops that read
 * element after element: keys that share scales by channel, keys and values
 * that have scales of their own, all widths of a code, all arithmetics, sizes
 * of groups, widths and heads; lanes that are coded to the last entry, with a
 * tail of raw rows, or with one raw row amid. Codes and metadata are noise:
 * nothing here codes. The copies made show which of the kernels' two ways was
 * taken: whole rows of codes, or rows computed one by one.
 */
#include "gpu/emu/emu.h"
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"

#include "tests/support/test.h"

#include "tests/gpu/gpupool.h"
#include "tests/gpu/gpuroom.h"

enum { CHUNK = KV_GPU_CHUNK, K = KV_CODED, V = KV_CODED + 1 };

static uint32_t state = 1;
static uint32_t next(void) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

typedef struct how {
  int d, bits, group_k, group_v, rule, heads, n;
  int raw; /* entry that is raw, all from there on if tail; -1: none */
  bool tail;
  int format = KV_GPU_channel; /* of keys; of values token where it is that */
} how;

static int of_values(const how &a) {
  return a.format == KV_GPU_channel ? (int)KV_GPU_token : a.format;
}

struct world : gpuroom {
  kv_gpu_layer l;
  kv_gpu_lane lane;
  kv_minmax k, v; /* settings */
};

/* A half of either sign between 2^-6 and 2, or 0, or subnormal. */
static uint16_t half(void) {
  uint32_t u = next();
  uint16_t sign = (uint16_t)(u >> 20 & 1u) << 15;
  if (u % 31 == 0) return (uint16_t)(sign | (u >> 8 & 0xff));
  return (uint16_t)(sign | (0x2400 + (u >> 8) % 0x1c00));
}

static void fill_pool(world *w, int n, int width, kv_cell_ref *side,
                      kv_gpu_raw *pool) {
  int pages = kv_gpu_pages(n);
  size_t page = (size_t)KV_GPU_PAGE * (size_t)width;
  pool->size = (size_t)width * 2;
  pool->page = take<char *>(w, (size_t)pages);
  uint16_t *rows = take<uint16_t>(w, (size_t)pages * page);
  for (size_t i = 0; i < (size_t)pages * page; i++) rows[i] = half();
  for (int p = 0; p < pages; p++)
    pool->page[p] = (char *)(rows + (size_t)p * page);
  gpupool_fill(n, side, take<int32_t>(w, (size_t)n), pool);
}

/* Blocks of `members` rows, with metadata of halves or of floats. */
static void fill_slab(world *w, int n, int width, int format, int members,
                      const kv_minmax *c, kv_gpu_slab *s) {
  size_t blocks = (size_t)((n + members - 1) / members);
  s->format = format;
  s->settings = c;
  s->width = width;
  kv_gpu_coded_size size = kv_gpu_block_size(*s, members);
  s->size = ((size_t)size.metadata + (size_t)size.codes + 15) / 16 * 16;
  s->metadata_size = (size_t)size.metadata;
  s->data = take<char>(w, blocks * s->size);
  for (size_t i = 0; i < blocks * s->size; i++) s->data[i] = (char)next();
  for (char *at = s->data; at < s->data + blocks * s->size; at += s->size)
    for (int i = 0; i < size.metadata / 2; i++) ((uint16_t *)at)[i] = half();
  if (!kv_rule_floats(c->rule)) return;
  for (char *at = s->data; at < s->data + blocks * s->size; at += s->size)
    for (int i = 0; i < size.metadata / 4; i++)
      ((float *)at)[i] = kv_mul(kv_half(half()), 0x1.234568p-9f);
}

static void take_results(world *w, int heads) {
  kv_gpu_layer *l = &w->l;
  size_t h = (size_t)heads;
  l->place = take<int32_t>(w, h * (size_t)l->stride);
  l->run = take<kv_run>(w, h * ((size_t)l->stride / 2 + 1));
  l->runs = take<int32_t>(w, h);
}

static void open_world(const how &a, world *w) {
  *w = {};
  kv_gpu_layer *l = &w->l;
  kv_gpu_lane *lane = &w->lane;
  l->shape = {1, a.heads, 1,       a.d, a.d, a.n,    a.n - 1,
              0, KV_F16,  0.0625f, 0,   0,   nullptr};
  l->lanes = 1;
  l->lane = lane;
  l->needs.codings = 2;
  kv_gpu_clock *clock = take<kv_gpu_clock>(w, 1);
  *clock = {0, a.n, a.n - 1, 1, 0};
  l->clock = clock;
  take_attention(w, l);
  lane->queries = a.heads;
  lane->n = a.n;
  lane->k = take<kv_cell_ref>(w, (size_t)a.n);
  lane->v = take<kv_cell_ref>(w, (size_t)a.n);
  fill_pool(w, a.n, a.d, lane->k, &lane->k_raw);
  fill_pool(w, a.n, a.d, lane->v, &lane->v_raw);
  w->k = {a.bits, a.group_k, a.rule};
  w->v = {a.bits, a.group_v, a.rule};
  bool channel = a.format == KV_GPU_channel;
  int members = channel ? a.group_k : 1;
  l->needs.coding[0] = {channel ? &kv_format_channel : &kv_format_token, &w->k,
                        false, KV_KEYS_ONLY};
  l->needs.coding[1] = {&kv_format_token, &w->v, false, KV_VALUES_ONLY};
  fill_slab(w, a.n, a.d, a.format, members, &w->k, &lane->k_slab[K]);
  fill_slab(w, a.n, a.d, of_values(a), 1, &w->v, &lane->v_slab[V]);
  for (int i = 0; i < a.n; i++) {
    if (a.raw >= 0 && (i == a.raw || (a.tail && i > a.raw))) continue;
    lane->k[i] = {i / members, (uint16_t)(i % members), K};
    lane->v[i] = {i, 0, V};
  }
  for (int i = 0; i < a.heads * a.d; i++)
    l->q[i] = (float)(next() % 65536) * 0x1p-15f - 1;
  take_results(w, a.heads);
}

/* --- by plain loops ------------------------------------------------------ */

static float plain_logit(const world &w, int h, int i) {
  const kv_gpu_layer &l = w.l;
  float a = 0;
  for (int x = 0; x < l.shape.d; x++)
    a = kv_fma(l.q[h * l.shape.d + x], kv_gpu_key(l, &w.lane, i, x), a);
  return kv_add(kv_mul(a, l.shape.scale), 0.0f);
}

/* a_c of a chunk whose largest logit is known, column x. */
static float plain_part(const world &w, int h, int c, int x) {
  const float *s = w.l.s + h * w.l.stride;
  float top = w.l.top[h * w.l.chunks + c], a = 0;
  int end = w.lane.n < (c + 1) * CHUNK ? w.lane.n : (c + 1) * CHUNK;
  for (int i = c * CHUNK; i < end; i++)
    a = kv_fma(kv_expm(kv_sub(s[i], top)), kv_gpu_value(w.l, &w.lane, i, x), a);
  return a;
}

static void same(const world &w, int heads) {
  for (int h = 0; h < heads; h++) {
    for (int i = 0; i < w.lane.n; i++)
      assert_int_equal(kv_bits(w.l.s[h * w.l.stride + i]),
                       kv_bits(plain_logit(w, h, i)));
    for (int c = 0; c < w.l.chunks; c++)
      for (int x = 0; x < w.l.shape.d; x++)
        assert_int_equal(
            kv_bits(w.l.part[(h * w.l.chunks + c) * w.l.shape.d + x]),
            kv_bits(plain_part(w, h, c, x)));
  }
}

/* Copies of logits, and of the chunks. */
typedef struct counts {
  int keys, values;
} counts;

static counts attend(const how &a) {
  world w;
  open_world(a, &w);
  uint64_t before = kv_emu_copied();
  kv_gpu_start_logits(nullptr, &w.l, 1, 0);
  uint64_t keys = kv_emu_copied();
  kv_gpu_start_name_views(nullptr, &w.l, 0);
  kv_gpu_start_attend(nullptr, &w.l, 0);
  same(w, a.heads);
  int joins = a.heads * w.l.chunks * a.d / 4;
  counts made = {(int)(keys - before),
                 (int)(kv_emu_copied() - keys) - (a.d % 4 ? 0 : joins)};
  give_all(&w);
  return made;
}

/* What whole rows of codes and queries take, where all entries are coded. */
static counts of_codes(const how &a) {
  int tiles = (a.n + 2 * CHUNK - 1) / (2 * CHUNK), row = a.d * a.bits / 8;
  int range = a.rule == KV_RULE_INTEGER ? 2 : 4;
  int block = range * ((a.d + a.group_v - 1) / a.group_v) + row;
  int key = a.format == KV_GPU_channel ? row / 16 : row / 16 + 1;
  counts c = {a.n * key + tiles * a.heads * a.d / 4, a.n * ((block + 15) / 16)};
  return c;
}

TEST(whole_rows_are_copied) {
  static const how cases[] = {
      {128, 2, 32, 32, 0, 1, 256, -1, false},
      {128, 2, 32, 32, 1, 4, 600, -1, false},
      {128, 4, 64, 32, 0, 3, 385, -1, false},
      {128, 4, 32, 64, 1, 8, 130, -1, false},
      {64, 2, 32, 16, 1, 2, 300, -1, false},
      {64, 4, 128, 64, 0, 5, 257, -1, false},
      {32, 4, 32, 8, 1, 1, 129, -1, false},
      {128, 8, 128, 128, KV_RULE_UNROUNDED, 1, 256, -1, false, KV_GPU_token},
      {128, 4, 64, 64, KV_RULE_UNROUNDED, 4, 300, -1, false, KV_GPU_token},
      {128, 1, 128, 16, KV_RULE_UNROUNDED, 2, 130, -1, false, KV_GPU_token},
      {64, 2, 64, 64, KV_RULE_STORED, 2, 140, -1, false, KV_GPU_token},
      {64, 8, 64, 64, KV_RULE_FP16, 1, 140, -1, false, KV_GPU_token},
      {96, 8, 96, 96, KV_RULE_INTEGER, 3, 257, -1, false, KV_GPU_token},
      {64, 4, 32, 8, KV_RULE_INTEGER, 8, 130, -1, false, KV_GPU_token},
      {128, 8, 64, 128, KV_RULE_E4M3, 5, 257, -1, false, KV_GPU_token},
      {32, 8, 32, 16, KV_RULE_E5M2, 1, 129, -1, false, KV_GPU_token},
      {128, 8, 128, 64, KV_RULE_FRACTION, 2, 129, -1, false, KV_GPU_token},
      {128, 4, 64, 128, KV_RULE_BASE, 7, 258, -1, false, KV_GPU_token},
  };
  for (const how &a : cases)
    for (int order = 0; order < 2; order++) {
      kv_emu_order(order);
      counts made = attend(a), want = of_codes(a);
      assert_int_equal(made.keys, want.keys);
      assert_int_equal(made.values, want.values);
    }
}

TEST(what_does_not_suit_is_the_same) {
  static const how cases[] = {
      {128, 2, 32, 32, 1, 2, 512, 400, true},
      {128, 2, 32, 32, 0, 2, 512, 300, false},
      {128, 2, 16, 32, 0, 2, 512, -1, false}, /* too many blocks of keys */
      {128, 2, 3, 32, 1, 1, 300, -1, false},  /* pairs in two blocks */
      {80, 2, 32, 32, 0, 2, 200, -1, false},  /* rows of 20 bytes */
      {33, 2, 32, 5, 1, 1, 150, -1, false},
      {256, 4, 32, 32, 0, 1, 270, -1, false}, /* rows of 128 bytes */
      {128, 4, 32, 4, 1, 1, 140, -1, false},  /* many ranges of values */
      {64, 8, 64, 64, KV_RULE_FRACTION, 2, 300, 270, true, KV_GPU_token},
      {64, 8, 64, 64, KV_RULE_E4M3, 1, 300, 100, false, KV_GPU_token},
      {64, 8, 16, 16, KV_RULE_E4M3, 1, 140, -1, false, KV_GPU_token},
      {80, 8, 40, 40, KV_RULE_INTEGER, 1, 140, -1, false, KV_GPU_token},
      {160, 8, 160, 160, KV_RULE_UNROUNDED, 1, 130, -1, false, KV_GPU_token},
  };
  for (const how &a : cases) {
    kv_emu_order((int)(&a - cases) % 2);
    attend(a);
  }
}

int main(void) {
  int failed = tests_run("gpu coded", nullptr, nullptr);
  kv_emu_release();
  return failed;
}
