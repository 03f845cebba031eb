/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme regular: Hard-KV's question whether what head-adaptive selection leaves
 * should stay in place behind masks (HA-Sparse) or be rewritten (HA-Max), in
 * its shapes: 36 layers of 8 KV heads, 4 query heads each, 32 requests, fp16,
 * d = 128, 2,048 to 20,480 tokens, of which head h of layer l keeps whole parts
 * of N / 2 0.93389^l 0.87215^h. A step's attention over all places, which is
 * what the paper's masked kernel loads; over masks whose clear bits are
 * skipped; and over what a rewrite left; and from which step on the rewrite has
 * paid, by the memory-time integral. Layers are measured one after another in
 * the memory of one, which is larger than the caches; a step is their sum.
 */
#ifndef KV_TESTS_BENCH_DEVICE_REGULAR_CUH
#define KV_TESTS_BENCH_DEVICE_REGULAR_CUH

#include "gpu/host/regular.h"
#include "tests/bench/gpu/device_attend.cuh"

constexpr int REGULAR_HEADS = 8, REGULAR_LAYERS = 36;

typedef struct regulars {
  lanes w; /* of it the layer, and where its heads are */
  kv_gpu_regular_store s;
  int32_t *kept; /* [REGULAR_HEADS] of the device: tokens of a head */
} regulars;

/* --- the store ------------------------------------------------------------ */

/* How many of n tokens a head keeps: 12.5 % on average over heads and layers,
 * half in the fullest head of the first layer. */
static int regular_kept(int n, int layer, int head) {
  double x = n / 2.0;
  for (int i = 0; i < layer; i++) x *= 0.93389;
  for (int i = 0; i < head; i++) x *= 0.87215;
  return x < 1 ? 1 : (int)x;
}

/* The steps after which the memory-time integral of a rewrite is no more than
 * that of the store before it, by the seconds of the rewrite, of a step before
 * and of a step after it; a rewritten store has room for half of the tokens.
 * Below 0: never. */
static double regular_paid(double rewrite, double step, double rewritten) {
  double gain = step - 0.5 * rewritten;
  return gain > 0 ? 1.5 * rewrite / gain : -1;
}

/* Of `room` places kept[head] count, evenly spread. Lane blockIdx.x. */
static __global__ void regular_masks(const __grid_constant__ kv_gpu_regular r,
                                     const int32_t *kept) {
  int lane = (int)blockIdx.x, n = kept[lane % REGULAR_HEADS];
  for (int w = kv_thread(); w < r.words; w += KV_BLOCK) {
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) {
      int64_t at = 32 * w + i;
      if (at < r.room && at * n / r.room != (at + 1) * n / r.room)
        bits |= 1u << i;
    }
    r.half[0].mask[lane * r.words + w] = bits;
  }
  if (kv_thread() > 0) return;
  r.half[0].taken[lane] = r.room;
  if (lane == 0) *r.which = 0;
}

static void regular_mask(void *self, void *stream) {
  const regulars *x = (const regulars *)self;
  KV_LAUNCH(stream, regular_masks, (unsigned)x->w.layer.lanes, KV_BLOCK, x->s.r,
            x->kept);
}

static void regular_rewrite(void *self, void *stream) {
  const regulars *x = (const regulars *)self;
  x->w.b->dev->regular(stream, &x->w.layer, &x->s.r, KV_GPU_REGULAR_REWRITE);
}

static void regular_attend(void *self, void *stream) {
  const regulars *x = (const regulars *)self;
  x->w.b->dev->regular(stream, &x->w.layer, &x->s.r, KV_GPU_REGULAR_ATTEND);
}

static void regular_open(bench *b, const lanes_case *c, regulars *x) {
  kv_err e;
  kv_gpu_layer *l = &x->w.layer;
  *x = {};
  x->w.b = b;
  lanes_shape(b, c->lanes, c->group, c->tokens, l);
  size_t all = (size_t)c->lanes * (size_t)c->tokens * LANES_D;
  x->kept = bench_take<int32_t>(b, REGULAR_HEADS);
  if (kv_gpu_regular_open(b->dev, &l->shape, l->lanes, c->tokens, false, &x->s,
                          &e))
    bench_fail("%s", e.text);
  void *stream = b->dev->stream();
  const kv_gpu_regular_half *h = &x->s.r.half[0];
  KV_LAUNCH(stream, noise_f16, bench_grid(all), KV_BLOCK, (uint16_t *)h->k, all,
            1u);
  KV_LAUNCH(stream, noise_f16, bench_grid(all), KV_BLOCK, (uint16_t *)h->v, all,
            2u);
}

static void regular_close(regulars *x) {
  kv_gpu_regular_close(&x->s);
  bench_give(x->w.b);
}

/* All heads keep what head h of a layer does; layer -1: everything. */
static void regular_keep(const regulars *x, int layer) {
  int32_t kept[REGULAR_HEADS];
  int n = x->w.layer.shape.n_tokens;
  for (int h = 0; h < REGULAR_HEADS; h++)
    kept[h] = layer < 0 ? n : regular_kept(n, layer, h);
  x->w.b->dev->put(x->kept, kept, sizeof kept);
}

/* --- the check ------------------------------------------------------------ */

/* A side's rows of lane i that a mask of n of `room` leaves, for free(). */
static float *regular_rows(const regulars *x, const char *side, int i, int n) {
  int room = x->s.r.room, j = 0;
  float *all = host_rows(&x->w, side, i, room);
  for (int64_t at = 0; at < room; at++)
    if (at * n / room != (at + 1) * n / room)
      memmove(all + (size_t)LANES_D * (size_t)j++, all + LANES_D * at,
              LANES_D * sizeof *all);
  return all;
}

static void regular_same(regulars *x, int layer) {
  static const char *const what[] = {"attention over masks",
                                     "attention over what was rewritten"};
  int n = x->s.r.room;
  for (int rewritten = 0; rewritten < 2; rewritten++) {
    if (rewritten) regular_rewrite(x, x->w.b->dev->stream());
    regular_attend(x, x->w.b->dev->stream());
    for (int i = 0; i < x->w.layer.lanes; i++) {
      int kept = regular_kept(n, layer, i % REGULAR_HEADS);
      float *k = regular_rows(x, x->s.r.half[0].k, i, kept);
      float *v = regular_rows(x, x->s.r.half[0].v, i, kept);
      host_same_lane(&x->w, what[rewritten], i, kept, k, v);
      free(v);
      free(k);
    }
  }
}

static void regular_check(bench *b) {
  static const int group[] = {1, 4, 8};
  for (int g : group) {
    lanes_case c = {2, g, 300, false};
    kv_gpu_lane place[2] = {};
    regulars x;
    regular_open(b, &c, &x);
    x.w.lane = place;
    for (int i = 0; i < c.lanes; i++) {
      place[i].first_head = i * g;
      place[i].queries = g;
    }
    regular_keep(&x, 1);
    regular_mask(&x, b->dev->stream());
    regular_same(&x, 1);
    regular_close(&x);
  }
}

/* --- timing --------------------------------------------------------------- */

static double regular_seconds(regulars *x, kv_gpu_sequence *before,
                              kv_gpu_sequence *timed) {
  lap what = {before, timed, x, false};
  return bench_seconds(x->w.b, &what);
}

/* Of a step, and of a rewrite, all layers. */
typedef struct regular_times {
  double all, masked, rewritten, rewrite;
} regular_times;

static regular_times regular_measure(regulars *x) {
  void *stream = x->w.b->dev->stream();
  regular_times t = {};
  regular_keep(x, -1);
  regular_mask(x, stream);
  t.all = REGULAR_LAYERS * regular_seconds(x, regular_attend, regular_attend);
  for (int layer = 0; layer < REGULAR_LAYERS; layer++) {
    regular_keep(x, layer);
    t.rewrite += regular_seconds(x, regular_mask, regular_rewrite);
    regular_mask(x, stream);
    t.masked += regular_seconds(x, regular_attend, regular_attend);
    regular_rewrite(x, stream);
    t.rewritten += regular_seconds(x, regular_attend, regular_attend);
  }
  return t;
}

static void regular_lines(const bench *b, int n, const regular_times *t) {
  const double goal = n > 10000 ? GOAL_REGULAR : 0;
  char what[64];
  snprintf(what, sizeof what, "all places, %d tokens", n);
  table_line(b, {what, "ms", t->all * 1e3, 0, 0, 0});
  table_line(b,
             {"  masks that skip", "ms", t->masked * 1e3, t->all * 1e3, 0, 0});
  table_line(b,
             {"  rewritten", "ms", t->rewritten * 1e3, t->all * 1e3, 0, goal});
  table_line(b, {"  the rewrite", "ms", t->rewrite * 1e3, 0, 0, 0});
  table_line(b,
             {"  has paid against all places", "steps",
              regular_paid(t->rewrite, t->all, t->rewritten), 0, 0, GOAL_PAID});
  table_line(b, {"  has paid against masks", "steps",
                 regular_paid(t->rewrite, t->masked, t->rewritten), 0, 0, 0});
}

static void regular_time(bench *b) {
  static const int tokens[] = {2048, 4096, 8192, 12288, 20480};
  int requests = b->quick ? 4 : 32;
  table_theme("36 layers of 8 heads, 32 requests / all places", "all");
  for (int n : tokens) {
    lanes_case c = {REGULAR_HEADS * requests, 4, n, false};
    regulars x;
    regular_open(b, &c, &x);
    regular_times t = regular_measure(&x);
    regular_lines(b, n, &t);
    regular_close(&x);
  }
}

#endif
