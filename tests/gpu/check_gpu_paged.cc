/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over unified pages on the executor beside the reference's over
 * slots: the same lanes, the same queries, the same bits of outputs and LSE.
 * The lanes are leankv's after a replay, of a bundled trace and of made-up
 * data; their rows are copied, byte for byte, into pages that the device's page
 * manager gave them, and stand in a tier in any order, as they do where slots
 * were used again. Groups of 1 to 13, both ways of the kernels, fast and slow;
 * the copies made show which was taken.
 */
#include "gpu/emu/emu.h"
#include "gpu/host/unified.h"

#define _Thread_local __thread /* in headers that are C's alone */
extern "C" {
#include "ref/backend/attend.h"
#include "ref/pages/pages.h"
#include "tests/support/bundled.h"
#include "tests/support/draw.h"
#include "tests/support/rig.h"
}
#undef _Thread_local

#include <stdio.h>
#include <stdlib.h>

enum { TAKEN = 32, MOST_LANES = 8 };

/* Codes of the high and of the low tier, and which side is read the fast way.
 */
typedef struct how {
  kv_page_config tier[KV_TIERS];
  bool fast[KV_SIDES];
  const char *alpha; /* of a replay in which both tiers have entries */
} how;

struct world {
  const how *h;
  const rig_case *c;
  const rig *r;
  uint64_t seed;
  kv_gpu_layer l;
  kv_gpu_paged p;
  kv_gpu_unified u;
  kv_pages_count count[MOST_LANES];
  char *pool;
  int32_t *order;
  void *taken[TAKEN];
  int n_taken;
};

template <class T> static T *take(world *w, size_t n) {
  void *p = kv_emu_take(n * sizeof(T));
  assert_non_null(p);
  assert_true(w->n_taken < TAKEN);
  w->taken[w->n_taken++] = p;
  return (T *)p;
}

/* --- pages ---------------------------------------------------------------- */

static const kv_minmax *codes_of(const kv_slab *slab, const kv_cell_ref *ref) {
  assert_true(ref->format >= KV_CODED);
  return (const kv_minmax *)slab[ref->format].coding->settings;
}

static int tier_of(const world *w, const kv_lane *l, int i) {
  for (int t = 0; t < KV_TIERS; t++)
    if (codes_of(l->k_slab, &l->k[i])->bits == w->h->tier[t].bits[0] &&
        codes_of(l->v_slab, &l->v[i])->bits == w->h->tier[t].bits[1])
      return t;
  fail_msg("an entry of neither tier");
  return 0;
}

/* Entries take the numbers of their tier in a random order. */
static void draw_order(world *w, const kv_lane *l, int32_t *slot) {
  kv_pages_count *n = &w->count[l->lane];
  *n = {{0, 0}};
  for (int i = 0; i < l->n; i++) {
    int tier = tier_of(w, l, i);
    slot[i] = n->of[tier]++ * 2 + tier;
  }
  for (int i = l->n - 1; i > 0; i--) {
    int j = draw_below(&w->seed, i + 1);
    int32_t other = slot[j];
    if ((slot[i] ^ other) & 1) continue;
    slot[j] = slot[i];
    slot[i] = other;
  }
}

static void take_pages(world *w) {
  int lanes = rig_lanes(w->r), n = w->c->n_tokens;
  kv_err e;
  kv_pages_shape s = {KV_PAGES_CODE, 1, lanes, 0, 0, {0, 0}};
  w->p.page = kv_page_bytes(w->c->d, w->c->d_v);
  for (int t = 0; t < KV_TIERS; t++) {
    w->p.tier[t] = kv_gpu_paged_tier_of(w->p.page, w->c->d, w->c->d_v,
                                        &w->h->tier[t], KV_RULE_UNROUNDED);
    s.tokens[t] = w->p.tier[t].tokens;
  }
  s.table = kv_pages_table(s.variant, n, s.tokens, s.tokens[KV_HIGH]);
  s.pages = lanes * s.table;
  assert_int_equal(kv_gpu_unified_open(kv_device_emu(), &s, &w->u, &e), KV_OK);
  kv_pages_job prompt = {KV_PAGES_PROMPT, 0, n, nullptr, false, 0};
  kv_pages_job settled = {KV_PAGES_SETTLED, 0, 0, w->count, false, 0};
  assert_int_equal(kv_gpu_unified_compact(&w->u, 1, &prompt), 0);
  assert_int_equal(kv_gpu_unified_compact(&w->u, 1, &settled), 0);
  w->pool = take<char>(w, (size_t)(s.pages * w->p.page));
  w->p.pool = w->pool;
  w->p.entries = s.table;
  w->p.table = w->u.p.table;
  w->p.store = w->u.p.store;
  w->p.order = w->order;
}

/* A block of the format is metadata, and then codes. */
static void put_row(world *w, int lane, int32_t slot, int side,
                    const kv_slab *slab, const kv_cell_ref *ref) {
  const kv_gpu_paged_tier *t = &w->p.tier[slot & 1];
  const kv_gpu_paged_side *s = &t->side[side];
  int page = (slot >> 1) / t->tokens, at = (slot >> 1) % t->tokens;
  int entry = slot & 1 ? w->p.entries - 1 - page : page;
  char *to = w->pool + w->p.table[lane * w->p.entries + entry] * w->p.page;
  const kv_slab *of = &slab[ref->format];
  const char *from = of->data + (size_t)ref->block * of->size;
  assert_int_equal(codes_of(slab, ref)->group, s->how.group);
  memcpy(to + s->meta_at + at * s->meta, from, (size_t)s->meta);
  memcpy(to + s->codes_at + at * s->codes, from + s->meta, (size_t)s->codes);
}

static void fill(world *w) {
  int lanes = rig_lanes(w->r);
  w->order = take<int32_t>(w, (size_t)lanes * (size_t)w->l.stride);
  for (int i = 0; i < lanes; i++)
    draw_order(w, rig_lane(w->r, i), w->order + i * w->l.stride);
  take_pages(w);
  for (int i = 0; i < lanes; i++) {
    const kv_lane *l = rig_lane(w->r, i);
    for (int j = 0; j < l->n; j++) {
      int32_t slot = w->order[i * w->l.stride + j];
      put_row(w, i, slot, KV_SIDE_K, l->k_slab, &l->k[j]);
      put_row(w, i, slot, KV_SIDE_V, l->v_slab, &l->v[j]);
    }
  }
}

/* --- the layer ------------------------------------------------------------ */

static void open_layer(world *w) {
  const kv_lane *first = rig_lane(w->r, 0);
  kv_gpu_layer *l = &w->l;
  l->shape = *first->shape;
  l->lanes = rig_lanes(w->r);
  l->stride = (l->shape.n_tokens + 15) / 16 * 16;
  l->chunks = (l->shape.n_tokens + KV_GPU_CHUNK - 1) / KV_GPU_CHUNK;
  size_t heads = (size_t)l->shape.n_heads, stride = (size_t)l->stride;
  size_t d = (size_t)l->shape.d, d_v = (size_t)l->shape.d_v;
  size_t chunks = heads * (size_t)l->chunks;
  l->lane = take<kv_gpu_lane>(w, (size_t)l->lanes);
  l->entries = take<int32_t>(w, heads);
  l->q = take<float>(w, heads * d);
  l->s = take<float>(w, heads * stride);
  l->top = take<float>(w, chunks);
  l->mass = take<float>(w, chunks);
  l->part = take<float>(w, chunks * d_v);
  l->out = take<float>(w, heads * (d_v + 1));
  l->bad = take<uint64_t>(w, (size_t)l->lanes);
  for (int i = 0; i < l->lanes; i++) {
    const kv_lane *from = rig_lane(w->r, i);
    l->lane[i] = kv_gpu_lane{};
    l->lane[i].first_head = from->first_head;
    l->lane[i].queries = from->queries;
    l->bad[i] = ~0ull;
    for (int h = 0; h < from->queries; h++)
      l->entries[from->first_head + h] = from->n;
  }
  /* The queries of the token that comes next. */
  for (size_t h = 0; h < heads; h++)
    memcpy(l->q + h * d,
           w->c->q + (h * (size_t)w->c->n_tokens + (size_t)rig_step(w->r)) * d,
           d * sizeof(float));
}

/* The reference's output and LSE of a lane's heads, as l.out has them. */
static void attend_slots(const world *w, const kv_lane *l, float *to) {
  size_t d = (size_t)l->shape->d, d_v = (size_t)l->shape->d_v;
  size_t m = (size_t)l->queries, n = (size_t)l->n;
  float *s = (float *)calloc(m * n, sizeof *s);
  float *out = (float *)calloc(m * (d_v + 1), sizeof *out);
  kv_attend_scratch x;
  kv_err e;
  kv_run run = {0, l->n};
  kv_view view = {1, l->n, &run};
  kv_lane_values values = {l, &view, 0, 0};
  assert_true(s && out);
  assert_int_equal(
      kv_attend_scratch_init(&x, (int)d, (int)d_v, l->queries, l->n, &e),
      KV_OK);
  kv_lane_logits(l->kernels, l, nullptr, l->queries,
                 w->l.q + (size_t)l->first_head * d, d, 0, l->n, nullptr, 0, s,
                 n, &x);
  kv_attend_rows(l->kernels, l->queries, l->n, (int)d_v, s, n,
                 kv_lane_value_rows, &values, &x, out, out + m * d_v);
  for (size_t h = 0; h < m; h++) {
    memcpy(to + h * (d_v + 1), out + h * d_v, d_v * sizeof *out);
    to[h * (d_v + 1) + d_v] = out[m * d_v + h];
  }
  kv_attend_scratch_release(&x);
  free(out);
  free(s);
}

/* --- both ----------------------------------------------------------------- */

/* Copies of 16 bytes that keys, and values, of all entries take where they are
 * read the fast way. */
static uint64_t pieces(const world *w, int side) {
  uint64_t n = 0;
  for (int i = 0; i < w->l.lanes; i++)
    for (int t = 0; t < KV_TIERS; t++)
      n += (uint64_t)(w->count[i].of[t] * w->p.tier[t].side[side].codes / 16);
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

static void must_be_same(world *w) {
  size_t all = (size_t)w->l.shape.n_heads * (size_t)(w->l.shape.d_v + 1);
  float *want = (float *)calloc(all, sizeof *want);
  const kv_device *device = kv_device_emu();
  assert_non_null(want);
  for (int i = 0; i < w->l.lanes; i++) {
    const kv_lane *l = rig_lane(w->r, i);
    attend_slots(w, l, want + l->first_head * (w->l.shape.d_v + 1));
  }
  for (int order = 0; order < 2; order++) {
    kv_emu_order(order);
    memset(w->l.out, 0xaa, all * sizeof *want);
    uint64_t copied = kv_emu_copied();
    device->attend_paged(device->stream(), &w->l, &w->p);
    must_have_copied(w, kv_emu_copied() - copied);
    assert_memory_equal(w->l.out, want, all * sizeof *want);
    for (int i = 0; i < w->l.lanes; i++) assert_true(w->l.bad[i] == ~0ull);
  }
  kv_emu_order(0);
  free(want);
}

/* Both tiers have entries, and some are gone: or else it shows nothing. */
static void must_differ(const world *w) {
  kv_pages_count all = {{0, 0}};
  for (int i = 0; i < w->l.lanes; i++)
    for (int t = 0; t < KV_TIERS; t++) all.of[t] += w->count[i].of[t];
  assert_true(all.of[KV_HIGH] > 0 && all.of[KV_LOW] > 0);
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
  while (w.n_taken) kv_emu_give(w.taken[--w.n_taken]);
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
static void bundled(void **) {
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

static void made(void **) {
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(bundled),
                                     cmocka_unit_test(made)};
  kv_float_ground();
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
