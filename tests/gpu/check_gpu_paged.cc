/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over unified pages on the executor beside the reference's over
 * slots: the same lanes, the same queries, the same bits of outputs and LSE.
 * The lanes are leankv's after a replay, of a bundled trace and of made-up
 * data; their rows are copied, byte for byte, into pages that the device's page
 * manager gave them, and stand in a tier in any order and with numbers between
 * them that are nobody's, as they do where slots were used again. Groups of 1
 * to 13, both ways of the kernels, fast and slow; the copies made show which
 * was taken, and that pages are read without waste.
 */
#include "tests/gpu/gpupaged.h"
#include "tests/gpu/gpuplain.h"
#include "tests/support/test.h"

/* --- the layer ------------------------------------------------------------ */

static void open_layer(world *w) {
  const kv_lane *first = rig_lane(w->r, 0);
  kv_gpu_layer *l = &w->l;
  l->shape = *first->shape;
  l->lanes = rig_lanes(w->r);
  size_t heads = (size_t)l->shape.n_heads, d = (size_t)l->shape.d;
  l->lane = take<kv_gpu_lane>(w, l->lanes);
  take_attention(w, l);
  for (int i = 0; i < l->lanes; i++) {
    const kv_lane *from = rig_lane(w->r, i);
    l->lane[i] = kv_gpu_lane{};
    l->lane[i].first_head = from->first_head;
    l->lane[i].queries = from->queries;
    for (int h = 0; h < from->queries; h++)
      l->entries[from->first_head + h] = from->n;
  }
  /* The queries of the token that comes next. */
  for (size_t h = 0; h < heads; h++)
    memcpy(l->q + h * d,
           w->c->q + (h * (size_t)w->c->n_tokens + (size_t)rig_step(w->r)) * d,
           d * sizeof(float));
}

/* --- both ----------------------------------------------------------------- */

/* Copies of 16 bytes that keys of all numbers, and values of all entries, take
 * where they are read the fast way. */
static uint64_t pieces(const world *w, int side) {
  const kv_pages_count *rows = side == KV_SIDE_K ? w->count : w->entries;
  uint64_t n = 0;
  for (int i = 0; i < w->l.lanes; i++)
    for (int t = 0; t < KV_TIERS; t++)
      n += (uint64_t)(rows[i].of[t] * w->p.tier[t].side[side].codes / 16);
  return n;
}

/* Queries and what chunks left are copied too; a slow side's rows are not. */
static void must_have_copied(const world *w, uint64_t copied) {
  uint64_t fast = 0, rest = (uint64_t)w->l.shape.n_heads *
                            (uint64_t)(w->l.chunks * (w->l.shape.d_v / 4) +
                                       w->l.chunks * w->l.shape.d);
  for (int side = 0; side < KV_SIDES; side++)
    if (w->h->fast[side]) fast += pieces(w, side);
  assert_in_range(copied, fast, fast + rest);
}

/* Of the pages: a warp reads their bytes once, 32 of them at a time, and its
 * threads hardly wait for each other where they write them; beyond a quarter
 * and a half only where pages or chunks end. */
static void must_touch_once(kv_emu_touched t) {
  assert_true(8 * t.sectors <= 5 * t.copied);
  assert_true(16 * t.turns <= 3 * t.copied);
}

static void must_be_same(world *w) {
  size_t all = (size_t)w->l.shape.n_heads * (size_t)(w->l.shape.d_v + 1);
  float *want = (float *)calloc(all, sizeof *want);
  const kv_device *device = kv_device_emu();
  assert_non_null(want);
  for (int i = 0; i < w->l.lanes; i++) {
    const kv_lane *l = rig_lane(w->r, i);
    plain_output(&w->l, l, want + l->first_head * (w->l.shape.d_v + 1));
  }
  for (int order = 0; order < 2; order++) {
    kv_emu_order(order);
    memset(w->l.out, 0xaa, all * sizeof *want);
    uint64_t copied = kv_emu_copied();
    kv_emu_touch(w->p.pool, w->pool_bytes);
    device->attend_paged(device->stream(), &w->l, &w->p);
    must_touch_once(kv_emu_what_touched());
    kv_emu_touch(nullptr, 0);
    must_have_copied(w, kv_emu_copied() - copied);
    assert_memory_equal(w->l.out, want, all * sizeof *want);
    for (int i = 0; i < w->l.lanes; i++) assert_true(w->l.bad[i] == ~0ull);
  }
  kv_emu_order(0);
  free(want);
}

/* Both tiers have entries, some are gone, and some numbers are nobody's: or
 * else it shows nothing. */
static void must_differ(const world *w) {
  kv_pages_count all = {{0, 0}}, numbers = {{0, 0}};
  for (int i = 0; i < w->l.lanes; i++)
    for (int t = 0; t < KV_TIERS; t++) {
      all.of[t] += w->entries[i].of[t];
      numbers.of[t] += w->count[i].of[t];
    }
  assert_true(all.of[KV_HIGH] > 0 && all.of[KV_LOW] > 0);
  assert_true(numbers.of[KV_HIGH] > all.of[KV_HIGH]);
  assert_true(all.of[KV_HIGH] + all.of[KV_LOW] < w->l.lanes * rig_step(w->r));
}

static void one(const rig_case *c, const how *h, int steps) {
  char spec[256];
  world w = {};
  const kv_page_config *high = &h->tier[0], *low = &h->tier[1];
  snprintf(spec, sizeof spec,
           "leankv:%s:window=8:high=k%dv%d:low=k%dv%d:"
           "high_k_groups=%d:high_v_groups=%d:low_k_groups=%d:low_v_groups=%d",
           h->alpha, high->bits[0], high->bits[1], low->bits[0], low->bits[1],
           high->groups[0], high->groups[1], low->groups[0], low->groups[1]);
  rig *r = rig_open(c, spec);
  rig_to(r, c->prompt_len + steps);
  w.h = h;
  w.c = c;
  w.r = r;
  w.seed = 5;
  open_layer(&w);
  fill(&w);
  must_differ(&w);
  must_be_same(&w);
  kv_gpu_unified_close(&w.u);
  give_all(&w);
  rig_close(r);
}

/* --- cases ---------------------------------------------------------------- */

#define FEW "alpha_h=1.1:alpha_l=0.7"
#define SOME "alpha_h=1.4:alpha_l=1.2"
#define MANY "alpha_h=1.9:alpha_l=1.6"

static const how lean = {
    {{{8, 4}, {1, 1}}, {{4, 2}, {1, 1}}}, {true, true}, FEW};

static float *widened(size_t n, kv_dtype type, const void *from, float *to) {
  assert_int_equal(type, KV_BF16);
  for (size_t i = 0; i < n; i++) {
    uint16_t h;
    memcpy(&h, (const char *)from + i * sizeof h, sizeof h);
    to[i] = kv_from_bf16(h);
  }
  return to;
}

/* The last layer of a trace, as the rig wants it. */
TEST(bundled) {
  kv_trace *t = bundled_open("text_400.safetensors");
  const kv_shape *s = &t->shape;
  const kv_layer_data *data = &t->layer[t->n_layers - 1].data;
  rig_case c = {};
  size_t d = (size_t)s->d, n = (size_t)s->n_tokens;
  size_t q = (size_t)s->n_heads * n * d, k = (size_t)s->n_kv_heads * n * d;
  float *room = (float *)calloc(q + 2 * k, sizeof *room);
  assert_true(room && !data->rows && s->d == s->d_v);
  c.heads = s->n_heads;
  c.kv_heads = s->n_kv_heads;
  c.d = c.d_v = s->d;
  c.n_tokens = s->n_tokens;
  c.prompt_len = s->prompt_len;
  c.scale = s->scale;
  c.q = widened(q, data->q_dtype, data->q, room);
  c.k = widened(k, s->dtype, data->k, room + q);
  c.v = widened(k, s->dtype, data->v, room + q + k);
  one(&c, &lean, 99);
  free(room);
  kv_trace_close(t);
}

typedef struct made_up {
  int heads, kv_heads, d, d_v, n_tokens;
  how h;
} made_up;

TEST(made) {
  static const made_up all[] = {
      {2, 2, 128, 128, 530, lean},
      {8,
       1,
       128,
       128,
       400,
       {{{{8, 4}, {2, 2}}, {{4, 2}, {2, 4}}}, {true, true}, MANY}},
      {13,
       1,
       64,
       128,
       300,
       {{{{8, 4}, {1, 1}}, {{2, 1}, {1, 2}}}, {true, true}, MANY}},
      {4,
       2,
       256,
       256,
       200,
       {{{{8, 4}, {1, 1}}, {{4, 2}, {1, 1}}}, {false, true}, SOME}},
      {4,
       1,
       128,
       64,
       200,
       {{{{8, 8}, {1, 1}}, {{4, 4}, {1, 1}}}, {true, false}, MANY}},
      {6,
       2,
       36,
       20,
       300,
       {{{{8, 4}, {3, 2}}, {{4, 2}, {1, 4}}}, {false, false}, MANY}}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    rig_case c = {};
    c.heads = all[i].heads;
    c.kv_heads = all[i].kv_heads;
    c.d = all[i].d;
    c.d_v = all[i].d_v;
    c.n_tokens = all[i].n_tokens;
    c.prompt_len = all[i].n_tokens - 40;
    rig_data(&c, 7 + (uint32_t)i);
    one(&c, &all[i].h, 37);
    rig_data_free(&c);
  }
}

int main(void) {
  kv_float_ground();
  return tests_run("gpu paged", nullptr, nullptr);
}
