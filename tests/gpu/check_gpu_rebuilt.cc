/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that holds latent vectors, on the executor beside the reference: the
 * search names the references that the reference's kernel names; attention by
 * one kernel, and stage by stage through memory, has the outputs and LSE of the
 * reference over the rows that ref/parts/latents.c decodes, to the bit. Both
 * decoders and both ablations, the ways to store a latent vector, pairs of RoPE
 * of both kinds, groups of 1 to 13, rows that fit the one kernel and that do
 * not, a last chunk of less than a half; both orders of blocks and threads.
 */
#include "gpu/emu/emu.h"
#include "gpu/shared/device.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

#define _Thread_local __thread /* in headers that are C's alone */
extern "C" {
#include "ref/ground/rope.h"
#include "ref/parts/latents.h"
#include "tests/gpu/gpuplain.h"
#include "tests/support/draw.h"
}
#undef _Thread_local
#include "tests/gpu/gpuroom.h"

constexpr int LANES = 2, TOKENS = 340, SINK = 4, EVERY = 10, NEWEST = 45;

typedef struct shape {
  int group, d, d_v;
  kv_dtype type;
  int interleaved;
  int latent, hidden; /* hidden 0: swiglu; latent 0: no compressor */
  kv_latent_type stored;
  int nearest;
  int share; /* percent of what is compressed that a step attends */
} shape;

typedef struct world : gpuroom {
  const kv_device *device;
  const shape *as;
  uint64_t seed;
  kv_rope rope;
  kv_turns turns;
  kv_gpu_layer l;
  kv_gpu_rebuilt r;
  kv_compressor by;
  kv_tensor of[KV_LATENT_TENSORS];
  char *k, *v; /* [LANES][TOKENS][d], [d_v] as they came */
  float *x;    /* [TOKENS][w] vectors */
  int32_t *place, *coded, *token;
  int n_coded;
  kv_references references;
  float *z;    /* [n_coded][latent] as stored */
  float *rows; /* [n_coded][w] what they stand for, keys not turned */
} world;

static size_t width(const world *w) {
  return (size_t)kv_vector_width(&w->l.shape);
}

/* --- what is there -------------------------------------------------------- */

static float *numbers(world *w, size_t n, float most) {
  float *to = take_zeros<float>(w, n);
  for (size_t i = 0; i < n; i++)
    to[i] = ((float)draw_below(&w->seed, 2001) * 0.001f - 1.0f) * most;
  return to;
}

/* n of them in the rows' type. */
static char *noise(world *w, size_t n) {
  float *x = numbers(w, n, 2);
  if (w->as->type == KV_F32) return (char *)x;
  uint16_t *to = take_zeros<uint16_t>(w, n);
  for (size_t i = 0; i < n; i++) to[i] = kv_to_f16(x[i]);
  return (char *)to;
}

static const char *row_at(const world *w, const char *side, int d, int lane,
                          int t) {
  size_t at = (size_t)lane * TOKENS + (size_t)t;
  return side + at * (size_t)d * kv_dtype_size(w->as->type);
}

static bool is_reference(int t) {
  return t < SINK || (t % EVERY == 0 && t < TOKENS - NEWEST);
}

static void open_shape(world *w) {
  kv_shape *s = &w->l.shape;
  const shape *a = w->as;
  s->n_layers = 1;
  s->n_kv_heads = LANES;
  s->n_heads = LANES * a->group;
  s->d = a->d;
  s->d_v = a->d_v;
  s->n_tokens = TOKENS;
  s->prompt_len = 1;
  s->dtype = a->type;
  s->scale = 0.25f;
}

static void open_layer(world *w) {
  kv_gpu_layer *l = &w->l;
  kv_err e;
  float *frequency = numbers(w, (size_t)l->shape.d / 2, 1);
  l->lanes = LANES;
  take_attention(w, l);
  l->q = numbers(w, (size_t)(l->shape.n_heads * l->shape.d), 1);
  w->rope.inv_freq = frequency;
  w->rope.interleaved = w->as->interleaved;
  assert_int_equal(
      kv_turns_open(&w->rope, TOKENS, l->shape.d, 0, &w->turns, &e), KV_OK);
  l->turns = w->turns.sc;
}

/* A side's rows, which stand in vectors from `column` on: into these, keys
 * turned back, and those that stay as they came into what is returned. */
static char *open_side(world *w, const char *side, int d, int column,
                       bool key) {
  size_t size = (size_t)d * kv_dtype_size(w->as->type);
  char *to = take_zeros<char>(w, (size_t)LANES * (size_t)w->r.rows * size);
  for (int i = 0; i < LANES * TOKENS; i++) {
    int lane = i / TOKENS, t = i % TOKENS, p = w->place[t];
    const char *from = row_at(w, side, d, lane, t);
    float *x = w->x + (size_t)t * width(w) + column + lane * d;
    kv_kernels_best()->widen(w->as->type, from, (size_t)d, x);
    if (key) kv_turn_back(&w->turns, (uint32_t)t, x);
    if (p >= 0) memcpy(to + (size_t)(lane * w->r.rows + p) * size, from, size);
  }
  return to;
}

/* Tokens, those of them that are coded, and where they are. */
static void open_tokens(world *w) {
  const kv_shape *s = &w->l.shape;
  size_t all = (size_t)LANES * TOKENS;
  w->k = noise(w, all * (size_t)s->d);
  w->v = noise(w, all * (size_t)s->d_v);
  w->x = take_zeros<float>(w, TOKENS * width(w));
  w->place = take_zeros<int32_t>(w, TOKENS);
  w->coded = take_zeros<int32_t>(w, TOKENS);
  for (int t = 0; t < TOKENS; t++)
    if (is_reference(t) || t >= TOKENS - NEWEST)
      w->place[t] = w->r.rows++;
    else
      w->place[t] = ~w->n_coded, w->coded[w->n_coded++] = t;
  w->r.k = open_side(w, w->k, s->d, 0, true);
  w->r.v = open_side(w, w->v, s->d_v, LANES * s->d, false);
  w->r.place = w->place;
}

static void open_references(world *w) {
  kv_references *r = &w->references;
  r->id = take_zeros<int32_t>(w, TOKENS);
  r->row = take_zeros<float>(w, TOKENS * width(w));
  r->norm = take_zeros<float>(w, TOKENS);
  for (int t = 0; t < TOKENS; t++) {
    if (!is_reference(t)) continue;
    const float *x = w->x + (size_t)t * width(w);
    memcpy(r->row + (size_t)r->n * width(w), x, width(w) * sizeof *x);
    r->norm[r->n] = kv_dot(x, x, (int)width(w)) + 0.0f;
    r->id[r->n++] = t;
  }
}

static void tensor(world *w, int which, size_t n) {
  w->of[which].data = numbers(w, n, 0.2f);
}

static void open_decoder(world *w) {
  const shape *a = w->as;
  size_t deep = (size_t)(a->hidden ? a->hidden : a->latent);
  w->by.there = a->latent > 0;
  w->by.gated = a->hidden == 0;
  w->by.width = (int32_t)width(w);
  w->by.latent = a->latent;
  w->by.back = a->hidden;
  w->r.by.deep = (int32_t)deep;
  tensor(w, KV_LATENT_BACK, width(w) * deep);
  w->r.by.last = (const float *)w->of[KV_LATENT_BACK].data;
  if (!a->hidden) return;
  tensor(w, KV_LATENT_BACK_IN, deep * (size_t)a->latent);
  tensor(w, KV_LATENT_BACK_IN_BIAS, deep);
  tensor(w, KV_LATENT_BACK_BIAS, width(w));
  w->r.by.last_bias = (const float *)w->of[KV_LATENT_BACK_BIAS].data;
  w->r.by.hidden = (const float *)w->of[KV_LATENT_BACK_IN].data;
  w->r.by.hidden_bias = (const float *)w->of[KV_LATENT_BACK_IN_BIAS].data;
}

static void open_latents(world *w) {
  const shape *a = w->as;
  kv_delta *how = &w->r.how;
  size_t n = (size_t)w->n_coded, latent = (size_t)a->latent;
  how->latent = a->latent;
  how->type = a->latent ? a->stored : KV_LATENT_NONE;
  how->nearest = a->nearest;
  w->r.bytes = (int32_t)kv_delta_bytes(how);
  char *bytes = take_zeros<char>(w, n * (size_t)w->r.bytes);
  w->z = numbers(w, n * latent, 1);
  for (size_t i = 0; a->latent && i < n; i++) {
    char *at = bytes + i * (size_t)w->r.bytes;
    assert_true(kv_delta_put(how, w->z + i * latent, at));
    kv_delta_get(kv_kernels_best(), how, at, w->z + i * latent);
  }
  w->r.latent = bytes;
}

/* What the step attends: sinks, a share of what is compressed, the newest. */
static void open_step(world *w) {
  kv_gpu_rebuilt *r = &w->r;
  w->token = take_zeros<int32_t>(w, TOKENS);
  for (int t = 0; t < TOKENS; t++)
    if (t < SINK || t >= TOKENS - NEWEST ||
        draw_below(&w->seed, 100) < w->as->share)
      w->token[r->attended++] = t;
  size_t n = (size_t)r->attended;
  r->token = w->token;
  r->turned = w->as->interleaved ? KV_GPU_INTERLEAVED : KV_GPU_HALVES;
  r->z = take_zeros<float>(w, n * (size_t)w->as->latent);
  r->deep = take_zeros<float>(w, n * (size_t)r->by.deep);
  r->mean = take_zeros<float>(w, n * width(w));
  r->materialised.room = r->attended;
  r->materialised.words = (r->attended + 31) / 32;
  r->materialised.which = take_zeros<int32_t>(w, 1);
  kv_gpu_regular_half *h = &r->materialised.half[0];
  h->k = take_zeros<char>(w, LANES * n * (size_t)w->l.shape.d * 4);
  h->v = take_zeros<char>(w, LANES * n * (size_t)w->l.shape.d_v * 4);
  h->mask = take_zeros<uint32_t>(w, (size_t)(LANES * r->materialised.words));
  h->taken = take_zeros<int32_t>(w, LANES);
}

/* --- search --------------------------------------------------------------- */

static void search(world *w) {
  const kv_references *r = &w->references;
  kv_gpu_searched *s = &w->r.search;
  size_t n = (size_t)w->n_coded, k = (size_t)w->as->nearest;
  int32_t *named = take_zeros<int32_t>(w, n * k);
  float *x = take_zeros<float>(w, n * width(w));
  for (size_t i = 0; i < n; i++)
    memcpy(x + i * width(w), w->x + (size_t)w->coded[i] * width(w),
           width(w) * sizeof *x);
  *s = {w->n_coded, r->n, w->coded, r->id, x, r->row, r->norm, named};
  w->r.named = named;
  if (k)
    w->device->rebuilt(w->device->stream(), &w->l, &w->r,
                       KV_GPU_REBUILT_SEARCH);
}

/* Means of what was named, which is what the reference names. */
static void means(world *w, float *mean) {
  const kv_references *r = &w->references;
  int k = w->as->nearest;
  constexpr int MOST = (int)KV_PACK * (int)KV_MOST_NEAREST;
  int32_t seen[KV_PACK], found[KV_PACK], which[MOST];
  float value[MOST];
  float *pack = take_zeros<float>(w, KV_PACK * width(w));
  for (int first = 0; k && first < w->n_coded; first += KV_PACK) {
    int n = w->n_coded - first < KV_PACK ? w->n_coded - first : (int)KV_PACK;
    for (int i = 0; i < n; i++) {
      seen[i] = 0;
      while (seen[i] < r->n && r->id[seen[i]] < w->coded[first + i]) seen[i]++;
    }
    const float *x = w->r.search.x + (size_t)first * width(w);
    kv_kernels_best()->nearest(n, (int)width(w), x, r->n, r->row, r->norm, seen,
                               k, which, found, value, pack);
    for (int i = 0; i < n * k; i++) {
      bool there = i % k < found[i / k];
      assert_int_equal(w->r.named[first * k + i],
                       there ? r->id[which[i]] : KV_NO_TOKEN);
    }
    kv_latents_means(r, (int)width(w), n, k, which, found,
                     mean + (size_t)first * width(w));
  }
}

/* --- attention ------------------------------------------------------------ */

static void decode(world *w) {
  size_t n = (size_t)w->n_coded, all = n * width(w);
  float *mean = take_zeros<float>(w, all);
  float *hidden = take_zeros<float>(w, n * (kv_compressor_hidden(&w->by) + 1));
  float *pack = take_zeros<float>(w, KV_PACK * (width(w) + 512));
  w->rows = take_zeros<float>(w, all);
  means(w, mean);
  kv_latents_rows(kv_kernels_best(), &w->by, w->of, w->n_coded, w->z,
                  w->as->nearest ? mean : nullptr, hidden, w->rows, pack);
}

/* The lane's row of token t as attention reads it. */
static void read_row(const world *w, int lane, int t, float *k, float *v) {
  const kv_shape *s = &w->l.shape;
  int p = w->place[t];
  if (p >= 0) {
    const kv_kernels *by = kv_kernels_best();
    by->widen(s->dtype, row_at(w, w->k, s->d, lane, t), (size_t)s->d, k);
    by->widen(s->dtype, row_at(w, w->v, s->d_v, lane, t), (size_t)s->d_v, v);
    return;
  }
  const float *x = w->rows + (size_t)~p * width(w);
  memcpy(k, x + lane * s->d, (size_t)s->d * sizeof *k);
  memcpy(v, x + LANES * s->d + lane * s->d_v, (size_t)s->d_v * sizeof *v);
  kv_turn_forth(&w->turns, (uint32_t)t, k);
}

static void attend(world *w) {
  const kv_shape *s = &w->l.shape;
  size_t n = (size_t)w->r.attended, heads = (size_t)s->n_heads;
  float *k = take_zeros<float>(w, LANES * n * (size_t)s->d);
  float *v = take_zeros<float>(w, LANES * n * (size_t)s->d_v);
  void *stream = w->device->stream();
  for (size_t i = 0; i < LANES * n; i++)
    read_row(w, (int)(i / n), w->token[i % n], k + i * (size_t)s->d,
             v + i * (size_t)s->d_v);
  for (int apart = 0; apart < 2; apart++) {
    memset(w->l.out, 0xff, heads * (size_t)(s->d_v + 1) * sizeof(float));
    int act = apart ? (int)KV_GPU_REBUILT_GATHER : KV_GPU_REBUILT_ATTEND;
    int last = apart ? (int)KV_GPU_REBUILT_READ : act;
    for (; act <= last; act++) w->device->rebuilt(stream, &w->l, &w->r, act);
    plain_rows(&w->l, w->r.attended, k, v);
    for (int i = 0; i < LANES; i++) assert_true(w->l.bad[i] == ~0ull);
  }
}

static void one(const shape *s, int order) {
  world w = {};
  kv_emu_order(order);
  w.device = kv_device_emu();
  w.as = s;
  w.seed = 7;
  open_shape(&w);
  open_layer(&w);
  open_tokens(&w);
  open_references(&w);
  open_decoder(&w);
  open_latents(&w);
  open_step(&w);
  search(&w);
  decode(&w);
  attend(&w);
  kv_turns_close(&w.turns);
  give_all(&w);
  kv_emu_order(0);
}

TEST(same_bits) {
  static const shape all[] = {
      {4, 64, 64, KV_F16, 0, 48, 0, KV_LATENT_FP16, 4, 50},
      {2, 24, 40, KV_F16, 0, 20, 32, KV_LATENT_FP16, 4, 50},
      {1, 32, 48, KV_F32, 1, 33, 70, KV_LATENT_FP32, 4, 90},
      {7, 20, 12, KV_F16, 0, 24, 0, KV_LATENT_INT4, 3, 30},
      {8, 128, 128, KV_F16, 0, 16, 0, KV_LATENT_BF16, 0, 40},
      {13, 16, 16, KV_F32, 0, 0, 0, KV_LATENT_NONE, 5, 70},
      {3, 16, 136, KV_F32, 1, 20, 0, KV_LATENT_FP16, 2, 60}};
  for (const shape &s : all)
    for (int order = 0; order < 2; order++) one(&s, order);
}

int main(void) { return tests_run("gpu rebuilt", nullptr, nullptr); }
