/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of computing decode rows ahead (sim/replay/measure/tile.h,
 * ref/backend/attend.h and ahead.h). Rows of a tile have the bits of the rows
 * one by one, for every type and group, across the ends of chunks, and beside a
 * row that is not finite. An attention that goes on from what was begun has the
 * bits of one that does not, and begins anew where its largest logit is
 * another. A verb leaves below kv_lane.touched what was there.
 */
#include "ref/ground/arith.h"
#include "sim/replay/measure/tile.h"
#include "tests/support/world.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void good(kv_rc rc) { assert_int_equal(rc, KV_OK); }

enum { LONG = 300, WIDE = 24, STEPS = 40 };

/* --- a tile ------------------------------------------------------------- */

static void *elements(size_t n, kv_dtype type) {
  char *x = malloc(n * kv_dtype_size(type));
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) {
    float v = (float)(world_below(2001) - 1000) / 500.0f;
    uint16_t half = type == KV_F16 ? kv_to_f16(v) : kv_to_bf16(v);
    if (type == KV_F32)
      memcpy(x + 4 * i, &v, 4);
    else
      memcpy(x + 2 * i, &half, 2);
  }
  return x;
}

typedef struct layer {
  kv_shape shape;
  kv_layer_data data;
  void *q, *k, *v;
} layer;

static void open_layer(layer *l, int group, kv_dtype type) {
  l->shape = (kv_shape){.n_layers = 4,
                        .n_heads = 2 * group,
                        .n_kv_heads = 2,
                        .d = WIDE,
                        .d_v = WIDE,
                        .n_tokens = LONG,
                        .prompt_len = LONG - STEPS,
                        .dtype = type,
                        .scale = 0.25f};
  l->q = elements((size_t)(2 * group * LONG * WIDE), type);
  l->k = elements((size_t)(2 * LONG * WIDE), type);
  l->v = elements((size_t)(2 * LONG * WIDE), type);
  l->data = (kv_layer_data){0,    l->q, l->k, l->v, type, LONG,
                            NULL, NULL, 0,    0,    NULL, NULL};
}

static void close_layer(layer *l) {
  free(l->q);
  free(l->k);
  free(l->v);
}

static void same_row(const layer *l, kv_tile_row a, kv_tile_row b, int t,
                     size_t stride) {
  int group = kv_group(&l->shape);
  size_t wide = (size_t)(group * WIDE) * sizeof(float);
  assert_int_equal(a.finite, b.finite);
  assert_memory_equal(a.q, b.q, wide);
  for (int h = 0; h < group; h++)
    assert_memory_equal(a.s + (size_t)h * stride, b.s + (size_t)h * stride,
                        (size_t)(t + 1) * sizeof(float));
  if (!a.finite) return;
  assert_memory_equal(a.out, b.out, wide);
  assert_memory_equal(a.lse, b.lse, (size_t)group * sizeof(float));
}

/* A tile of `steps` rows from token t on against each row by itself. */
static void compare_tile(const layer *l, int t, int steps) {
  kv_tile *many, *one;
  kv_attend_scratch x;
  const kv_kernels *kernels = kv_kernels_best();
  int group = kv_group(&l->shape);
  good(kv_tile_open(&l->shape, kernels, 2, STEPS, &many, NULL));
  good(kv_tile_open(&l->shape, kernels, 1, 1, &one, NULL));
  good(kv_attend_scratch_init(&x, WIDE, WIDE, STEPS * group, LONG, NULL));
  assert_false(kv_tile_has(many, 1, t));
  kv_tile_fill(many, 1, &l->data, 1, t, steps, &x);
  bool sound = true;
  for (int r = 0; r < steps; r++) {
    kv_tile_fill(one, 0, &l->data, 1, t + r, 1, &x);
    kv_tile_row row = kv_tile_at(one, 0, t + r);
    same_row(l, kv_tile_at(many, 1, t + r), row, t + r, many->stride);
    sound = sound && row.finite;
  }
  assert_int_equal(kv_tile_sound(many, 1), sound);
  assert_false(kv_tile_has(many, 1, t + steps));
  assert_false(kv_tile_has(many, 0, t));
  kv_attend_scratch_release(&x);
  kv_tile_close(many);
  kv_tile_close(one);
}

TEST(rows_of_a_tile) {
  static const int group[] = {1, 3, 4, 8};
  static const kv_dtype type[] = {KV_F32, KV_F16, KV_BF16};
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 3; j++) {
      layer l;
      open_layer(&l, group[i], type[j]);
      for (int steps = 1; steps <= STEPS; steps += 13)
        compare_tile(&l, LONG - STEPS, steps);
      compare_tile(&l, LONG - 7, 7);
      close_layer(&l);
    }
}

/* Of the tile's rows some see a key that others do not. */
TEST(a_row_that_is_not_finite) {
  layer l;
  open_layer(&l, 4, KV_F32);
  float *k = l.k, large = 3e38f;
  for (int x = 0; x < WIDE; x++)
    memcpy(k + ((LONG + LONG - 9) * WIDE + x), &large, sizeof large);
  compare_tile(&l, LONG - 20, 20);
  close_layer(&l);
}

/* --- going on ----------------------------------------------------------- */

static int rows_of(void *ctx, int first, int count, kv_attend_scratch *x,
                   kv_row_kind *kind) {
  const float *v = ctx;
  int n = count < KV_CHUNK ? count : KV_CHUNK;
  for (int i = 0; i < n; i++) x->row[i] = v + (first + i) * WIDE;
  kind->type = KV_F32;
  return n;
}

/* One head over LONG entries, its largest logit at `peak`, after a beginning of
 * 256 entries that was told it would be `told`. */
static void go_on(int peak, float told) {
  const kv_kernels *kernels = kv_kernels_best();
  float s[LONG], o[WIDE], out[WIDE], want[WIDE], l, lse, want_lse;
  float *v = elements(LONG * WIDE, KV_F32);
  kv_attend_scratch x;
  good(kv_attend_scratch_init(&x, WIDE, WIDE, 1, LONG, NULL));
  for (int i = 0; i < LONG; i++)
    s[i] = (float)world_below(1000) / 100.0f - 5.0f;
  s[peak] = 8;
  float first = kernels->max(s, 256);
  kv_attend_rows(kernels, 1, LONG, WIDE, s, LONG, rows_of, v, &x, want,
                 &want_lse);
  kv_attend_begin(kernels, 1, 256, WIDE, s, LONG, rows_of, v, &x, &told, &l, o);
  kv_begun begun = {256, &first, &told, &l, o};
  x.begun = &begun;
  kv_attend_rows(kernels, 1, LONG, WIDE, s, LONG, rows_of, v, &x, out, &lse);
  assert_memory_equal(out, want, sizeof out);
  assert_true(lse == want_lse);
  /* It did go on, if it was told right: from another O it gets elsewhere. */
  for (int i = 0; i < WIDE; i++) o[i] += 1000;
  kv_attend_rows(kernels, 1, LONG, WIDE, s, LONG, rows_of, v, &x, out, &lse);
  assert_int_equal(memcmp(out, want, sizeof out) != 0, told == 8);
  kv_attend_scratch_release(&x);
  free(v);
}

TEST(going_on) {
  go_on(17, 8);
  go_on(280, 8);
  go_on(17, 7.5f);
  go_on(280, 8.5f);
}

/* --- what verbs touch --------------------------------------------------- */

typedef void verb(world *w);

/* Every entry below l->touched is what it was. */
static void leaves_the_rest(verb *change, bool merges) {
  float before[T][D], after[D];
  uint32_t id[T];
  world w;
  world_open(&w, 2, 2, KV_HEAD, 1, merges);
  kv_lane *l = &w.lane;
  kv_lane_append(l, 0, P);
  for (int round = 0; round < 20 && l->n > 4; round++) {
    for (int i = 0; i < l->n; i++) {
      kv_lane_key(l, i, before[i]);
      id[i] = l->id[i];
    }
    int n = l->n;
    kv_lane_mark(l);
    assert_int_equal(l->touched, INT_MAX);
    change(&w);
    kv_sweep(l);
    int stay = l->touched < n ? l->touched : n;
    assert_true(stay <= l->n);
    for (int i = 0; i < stay; i++) {
      kv_lane_key(l, i, after);
      assert_int_equal(l->id[i], id[i]);
      assert_memory_equal(after, before[i], sizeof after);
    }
    kv_words_clear(&l->verbs);
  }
  world_close(&w);
}

TEST(verbs_say_what_they_touch) {
  for (int i = 0; i < 10; i++) {
    leaves_the_rest(world_drop, false);
    leaves_the_rest(world_move, false);
    leaves_the_rest(world_code, false);
    leaves_the_rest(world_merge, true);
  }
}

int main(void) {
  kv_float_ground();
  return tests_run("tile", NULL, NULL);
}
