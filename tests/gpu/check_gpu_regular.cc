/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores of regular indices on the executor beside lanes of the reference: a
 * token enters and is attended at every step by one recorded sequence, bits are
 * cleared and what is left is rewritten between its replays, and outputs and
 * LSE are always, to the bit, those of plain attention over the lanes that
 * dropped the same tokens. The copies made show that what is masked is not
 * read. Both orders of blocks and threads; groups of 1 to 13; rows of 2 and 4
 * bytes an element, whole pieces and not.
 */
#include "gpu/emu/emu.h"
#include "gpu/host/regular.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

#define _Thread_local __thread /* in headers that are C's alone */
extern "C" {
#include "tests/gpu/gpuplain.h"
#include "tests/support/draw.h"
}
#undef _Thread_local
#include "tests/gpu/gpuroom.h"

/* More tokens than the 512 places that one block rewrites. */
constexpr int LANES = 3, TOKENS = 600, PROMPT = 530, EVERY = 10;
constexpr int CHUNK = KV_GPU_CHUNK;

typedef struct shape {
  int group, d, d_v;
  kv_dtype type;
} shape;

typedef struct world : gpuroom {
  const kv_device *device;
  kv_shape shape;
  kv_needs needs;
  kv_layer_data data;
  kv_lane lane[LANES]; /* of the reference */
  kv_lane_room room;
  kv_gpu_layer l;
  kv_gpu_regular_store s;
  kv_gpu_clock *clock;
  int recorded;
  uint64_t seed;
} world;

/* --- both sides ----------------------------------------------------------- */

/* n numbers of about 1 in the rows' type. */
static void *noise(world *w, size_t n) {
  bool wide = w->shape.dtype == KV_F32;
  char *to = take_zeros<char>(w, n * (wide ? 4 : 2));
  for (size_t i = 0; i < n; i++) {
    float x = (float)draw_below(&w->seed, 2001) * 0.002f - 2.0f;
    uint16_t half = (uint16_t)(kv_bits(x) >> 16); /* bf16, cut off */
    if (wide)
      memcpy(to + 4 * i, &x, 4);
    else
      memcpy(to + 2 * i, &half, 2);
  }
  return to;
}

static void open_layer(world *w) {
  kv_gpu_layer *l = &w->l;
  l->shape = w->shape;
  l->lanes = LANES;
  take_attention(w, l);
  size_t rows = (size_t)LANES * TOKENS;
  l->k = (const char *)noise(w, rows * (size_t)w->shape.d);
  l->v = (const char *)noise(w, rows * (size_t)w->shape.d_v);
  l->clock = w->clock = take_zeros<kv_gpu_clock>(w, 1);
}

static void open_world(world *w, const shape *s) {
  kv_err e;
  w->device = kv_device_emu();
  w->seed = 11;
  w->shape.n_layers = 1;
  w->shape.n_kv_heads = LANES;
  w->shape.n_heads = LANES * s->group;
  w->shape.d = s->d;
  w->shape.d_v = s->d_v;
  w->shape.n_tokens = TOKENS;
  w->shape.prompt_len = 1;
  w->shape.dtype = s->type;
  w->shape.scale = 0.25f;
  open_layer(w);
  w->data.k = w->l.k;
  w->data.v = w->l.v;
  assert_int_equal(kv_lane_room_init(&w->room, TOKENS, &e), KV_OK);
  for (int i = 0; i < LANES; i++) {
    assert_int_equal(kv_lane_init(&w->lane[i], &w->shape, &w->needs,
                                  kv_kernels_best(), i, &e),
                     KV_OK);
    w->lane[i].room = w->room;
    kv_lane_begin(&w->lane[i], &w->needs, &w->data);
  }
  assert_int_equal(kv_gpu_regular_open(w->device, &w->shape, LANES, TOKENS,
                                       false, &w->s, &e),
                   KV_OK);
}

static void close_world(world *w) {
  kv_gpu_regular_close(&w->s);
  give_all(w);
  for (int i = 0; i < LANES; i++) kv_lane_release(&w->lane[i]);
  kv_lane_room_release(&w->room);
}

static const kv_gpu_regular_half *half_of(const world *w) {
  return &w->s.r.half[*w->s.r.which];
}

/* --- a step --------------------------------------------------------------- */

static void step(void *self, void *stream) {
  world *w = (world *)self;
  w->recorded++;
  w->device->regular(stream, &w->l, &w->s.r, KV_GPU_REGULAR_ENTER);
  w->device->regular(stream, &w->l, &w->s.r, KV_GPU_REGULAR_ATTEND);
}

/* Rows in pieces of 16 bytes: those of tokens that count, once for every pass
 * of up to 8 heads, and of what is masked none. Beside them queries, once a
 * chunk, and what chunks left. */
static void must_have_copied(const world *w, uint64_t copied) {
  int group = w->shape.n_heads / LANES, passes = (group + 7) / 8;
  size_t row =
      (size_t)(w->shape.d + w->shape.d_v) * kv_dtype_size(w->shape.dtype) / 16;
  uint64_t rows = 0, chunks = 0;
  for (int i = 0; i < LANES; i++) {
    rows += (uint64_t)passes * (uint64_t)w->lane[i].n * row;
    chunks += (uint64_t)((w->lane[i].n + CHUNK - 1) / CHUNK);
  }
  uint64_t rest = chunks * (uint64_t)(group + passes) *
                  (uint64_t)((w->shape.d + w->shape.d_v) / 4);
  assert_in_range(copied, rows, rows + rest);
}

static void tell(world *w, int t) {
  const kv_gpu_clock clock = {t, 1, t, 1, t};
  w->device->put(w->clock, &clock, sizeof clock);
  for (int i = 0; i < LANES; i++) {
    kv_lane_append(&w->lane[i], t, 1);
    w->lane[i].verbs.n = 0;
  }
}

/* Token t enters and is attended. */
static void take_step(world *w, void *recorded, int t) {
  size_t n = (size_t)(w->shape.n_heads * w->shape.d);
  tell(w, t);
  for (size_t i = 0; i < n; i++)
    w->l.q[i] = (float)draw_below(&w->seed, 2001) * 0.001f - 1.0f;
  uint64_t copied = kv_emu_copied();
  w->device->replay(recorded);
  copied = kv_emu_copied() - copied;
  for (int i = 0; i < LANES; i++) {
    plain_attention(&w->l, &w->lane[i]);
    assert_true(w->l.bad[i] == ~0ull);
  }
  if (w->shape.d % 8 == 0 && w->shape.d_v % 8 == 0) must_have_copied(w, copied);
}

/* --- a trigger ------------------------------------------------------------ */

/* Every lane loses another share of its tokens, some of them in long runs; the
 * reference drops those whose bit is cleared. */
static void clear_bits(world *w) {
  bool keep[TOKENS];
  for (int i = 0; i < LANES; i++) {
    uint32_t *mask = half_of(w)->mask + i * w->s.r.words;
    int from = draw_below(&w->seed, TOKENS), to = from + 70, n = 0;
    for (int at = 0; at < half_of(w)->taken[i]; at++) {
      if (!(mask[at / 32] >> at % 32 & 1)) continue;
      bool stays = (at < from || at >= to) && draw_below(&w->seed, 5) < 2 + i;
      keep[n] = stays || n == 0;
      n++;
      if (!keep[n - 1]) mask[at / 32] &= ~(1u << at % 32);
    }
    assert_int_equal(n, w->lane[i].n);
    kv_keep_mask(&w->lane[i], keep);
  }
}

/* The store's rows are the lanes', one behind another, all of them set. */
static void must_be_rewritten(const world *w) {
  size_t size = kv_dtype_size(w->shape.dtype);
  size_t k = (size_t)w->shape.d * size, v = (size_t)w->shape.d_v * size;
  const kv_gpu_regular_half *h = half_of(w);
  for (int i = 0; i < LANES; i++) {
    const kv_lane *l = &w->lane[i];
    size_t base = (size_t)i * TOKENS;
    assert_int_equal(h->taken[i], l->n);
    for (int j = 0; j < 32 * w->s.r.words; j++)
      assert_int_equal(h->mask[i * w->s.r.words + j / 32] >> j % 32 & 1,
                       j < l->n);
    for (int j = 0; j < l->n; j++) {
      assert_memory_equal(h->k + (base + (size_t)j) * k,
                          kv_lane_raw_key(l, l->id[j]), k);
      assert_memory_equal(h->v + (base + (size_t)j) * v,
                          kv_lane_raw_value(l, l->id[j]), v);
    }
  }
}

/* Bits are cleared at every trigger; at every second one lanes are rewritten.
 */
static void trigger(world *w, int number) {
  clear_bits(w);
  if (number % 2 == 0) return;
  int was = *w->s.r.which;
  w->device->regular(w->device->stream(), &w->l, &w->s.r,
                     KV_GPU_REGULAR_REWRITE);
  assert_int_equal(*w->s.r.which, 1 - was);
  must_be_rewritten(w);
}

static void one(const shape *s, int order) {
  world w = {};
  int triggers = 0;
  kv_emu_order(order);
  open_world(&w, s);
  void *recorded = w.device->record(step, &w);
  assert_non_null(recorded);
  for (int t = 0; t < TOKENS; t++) {
    if (t < PROMPT) {
      tell(&w, t);
      w.device->regular(w.device->stream(), &w.l, &w.s.r, KV_GPU_REGULAR_ENTER);
      continue;
    }
    take_step(&w, recorded, t);
    if (t % EVERY == EVERY - 1) trigger(&w, triggers++);
  }
  assert_true(triggers >= 6);
  assert_int_equal(w.recorded, 1); /* it served before and after them all */
  w.device->forget(recorded);
  close_world(&w);
  kv_emu_order(0);
}

TEST(same_bits) {
  static const shape all[] = {{1, 64, 64, KV_BF16},
                              {4, 32, 48, KV_F32},
                              {7, 20, 12, KV_BF16},
                              {8, 64, 64, KV_BF16},
                              {13, 16, 136, KV_F32}};
  for (const shape &s : all)
    for (int order = 0; order < 2; order++) one(&s, order);
}

int main(void) { return tests_run("gpu regular", nullptr, nullptr); }
