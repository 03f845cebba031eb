/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme delta: what a decode step over DeltaKV's residual latents costs on a
 * layer of Llama-3.1-8B's shape, 8 KV heads of d = 128 with 4 query heads each,
 * fp16: vectors of 2,048, latent vectors of 512 decoded by a linear layer,
 * every tenth token a reference, the 4 nearest named. A step attends 17 % of
 * the compressed tokens, evenly spread, 8 sinks and the newest 192. Compares
 * the stages through memory, each timed, with the one kernel that makes rows
 * where they are attended, and with attention over every token's fp16 rows.
 * Also times the search for references: for all tokens of a prompt at once, and
 * for 128, as decoding has every 128 steps.
 */
#ifndef KV_TESTS_BENCH_DEVICE_DELTA_CUH
#define KV_TESTS_BENCH_DEVICE_DELTA_CUH

#include "ref/ground/rope.h"
#include "tests/bench/gpu/device_attend.cuh"

typedef struct delta_case {
  int lanes, group, tokens, latent, newest;
} delta_case;
constexpr int DELTA_WIDTH = 2048, DELTA_LATENT = 512;
constexpr int DELTA_SINK = 8, DELTA_STRIDE = 10, DELTA_NEAREST = 4;
constexpr int DELTA_BLOCK = 128; /* tokens compressed at once in decoding */

typedef struct deltas {
  lanes w; /* of it the layer, and where its heads are */
  kv_gpu_rebuilt r;
  int coded, *token, *place; /* on the host: coded tokens; those attended */
  int act;                   /* what is timed */
} deltas;

/* --- the store ------------------------------------------------------------ */

static bool delta_is_reference(int t) {
  return t < DELTA_SINK || t % DELTA_STRIDE == 0;
}

/* Of the tokens before the newest 17 in 100 are attended, evenly spread. */
static bool delta_is_attended(const delta_case *c, int t) {
  return t < DELTA_SINK || t >= c->tokens - c->newest ||
         t * 17 / 100 != (t + 1) * 17 / 100;
}

template <class T>
static const T *delta_put(bench *b, const T *from, size_t n) {
  T *to = bench_take<T>(b, n);
  b->dev->put(to, from, n * sizeof(T));
  return to;
}

static float *delta_floats(bench *b, size_t n, uint64_t seed) {
  float *to = bench_take<float>(b, n);
  KV_LAUNCH(b->dev->stream(), noise_f32, bench_grid(n), KV_BLOCK, to, n, seed);
  return to;
}

static char *delta_halves(bench *b, size_t n, uint64_t seed) {
  uint16_t *to = bench_take<uint16_t>(b, n);
  KV_LAUNCH(b->dev->stream(), noise_f16, bench_grid(n), KV_BLOCK, to, n, seed);
  return (char *)to;
}

/* Which tokens are where; those of the prompt that are searched for. */
static void delta_open_tokens(const delta_case *c, deltas *x) {
  bench *b = x->w.b;
  kv_gpu_rebuilt *r = &x->r;
  size_t n = (size_t)c->tokens;
  int32_t *coded = bench_room<int32_t>(n), *reference = bench_room<int32_t>(n);
  int references = 0;
  x->token = bench_room<int>(n);
  x->place = bench_room<int>(n);
  for (int t = 0; t < c->tokens; t++) {
    bool newest = t >= c->tokens - c->newest, refers = delta_is_reference(t);
    if (!newest && refers) reference[references++] = t;
    if (!newest && !refers) coded[x->coded] = t;
    x->place[t] = newest || refers ? r->rows++ : ~x->coded++;
    if (delta_is_attended(c, t)) x->token[r->attended++] = t;
  }
  r->place = delta_put(b, x->place, n);
  r->token = delta_put(b, x->token, (size_t)r->attended);
  r->search.m = x->coded;
  r->search.n = references;
  r->search.token = delta_put(b, coded, (size_t)x->coded);
  r->search.reference = delta_put(b, reference, (size_t)references);
  free(reference);
  free(coded);
}

static void delta_open_search(deltas *x, size_t width) {
  bench *b = x->w.b;
  kv_gpu_searched *s = &x->r.search;
  size_t m = (size_t)s->m, n = (size_t)s->n;
  s->x = delta_floats(b, m * width, 5);
  s->row = delta_floats(b, n * width, 6);
  s->norm = delta_floats(b, n, 7);
  s->named = bench_take<int32_t>(b, m * DELTA_NEAREST);
  x->r.named = s->named;
}

static void delta_open_stages(deltas *x, size_t width) {
  bench *b = x->w.b;
  kv_gpu_rebuilt *r = &x->r;
  size_t n = (size_t)r->attended, lanes = (size_t)x->w.layer.lanes;
  r->z = bench_take<float>(b, n * (size_t)r->how.latent);
  r->mean = bench_take<float>(b, n * width);
  r->materialised.room = r->attended;
  r->materialised.words = (r->attended + 31) / 32;
  r->materialised.which = bench_take<int32_t>(b, 1);
  kv_gpu_regular_half *h = &r->materialised.half[0];
  h->k = (char *)bench_take<float>(b, lanes * n * LANES_D);
  h->v = (char *)bench_take<float>(b, lanes * n * LANES_D);
  h->mask = bench_take<uint32_t>(b, lanes * (size_t)r->materialised.words);
  h->taken = bench_take<int32_t>(b, lanes);
}

static void delta_rebuilt(void *self, void *stream) {
  const deltas *x = (const deltas *)self;
  x->w.b->dev->rebuilt(stream, &x->w.layer, &x->r, x->act);
}

static void delta_open(bench *b, const delta_case *c, deltas *x) {
  size_t width = 2 * (size_t)c->lanes * LANES_D;
  *x = {};
  x->w.b = b;
  lanes_shape(b, c->lanes, c->group, c->tokens, &x->w.layer);
  x->w.layer.turns = delta_floats(b, (size_t)c->tokens * LANES_D, 4);
  delta_open_tokens(c, x);
  kv_gpu_rebuilt *r = &x->r;
  size_t rows = (size_t)c->lanes * (size_t)r->rows * LANES_D;
  r->k = delta_halves(b, rows, 1);
  r->v = delta_halves(b, rows, 2);
  r->how.latent = c->latent;
  r->how.type = KV_LATENT_FP16;
  r->how.nearest = DELTA_NEAREST;
  r->bytes = 2 * c->latent;
  r->latent = delta_halves(b, (size_t)x->coded * (size_t)c->latent, 8);
  r->by.deep = c->latent;
  r->by.last = delta_floats(b, width * (size_t)c->latent, 9);
  r->turned = KV_GPU_HALVES;
  delta_open_search(x, width);
  delta_open_stages(x, width);
  x->act = KV_GPU_REBUILT_SEARCH;
  delta_rebuilt(x, b->dev->stream());
}

static void delta_close(deltas *x) {
  bench_give(x->w.b);
  free(x->place);
  free(x->token);
}

/* --- the check ------------------------------------------------------------ */

/* The names that the search gave, against plain loops. */
static void delta_same_names(const deltas *x) {
  const kv_gpu_searched *s = &x->r.search;
  bench *b = x->w.b;
  size_t w = 2 * (size_t)x->w.layer.lanes * LANES_D, m = (size_t)s->m;
  float *token = bench_get(b, s->x, m * w), *norm = bench_get(b, s->norm, s->n);
  float *row = bench_get(b, s->row, (size_t)s->n * w);
  int32_t *id = bench_get(b, s->token, m), *got = bench_get(b, s->named, m * 4);
  int32_t *reference = bench_get(b, s->reference, (size_t)s->n);
  for (size_t i = 0; i < m; i++) {
    int32_t want[DELTA_NEAREST] = {-1, -1, -1, -1};
    float best[DELTA_NEAREST];
    for (int j = 0, found = 0; j < s->n && reference[j] < id[i]; j++) {
      float dot = 0;
      for (size_t e = 0; e < w; e++)
        dot = kv_fma(token[i * w + e], row[(size_t)j * w + e], dot);
      float v = kv_fma(-2.0f, kv_add(dot, 0.0f), norm[j]);
      int at = found < DELTA_NEAREST ? found++ : (int)DELTA_NEAREST;
      for (; at > 0 && v < best[at - 1]; at--)
        if (at < DELTA_NEAREST)
          best[at] = best[at - 1], want[at] = want[at - 1];
      if (at < DELTA_NEAREST) best[at] = v, want[at] = reference[j];
    }
    bench_same("the search for references", got + i * DELTA_NEAREST, want,
               sizeof want);
  }
  free(reference);
  free(got);
  free(id);
  free(row);
  free(norm);
  free(token);
}

/* The host's data of one lane and side: unchanged rows [rows][LANES_D], the
 * decoder's rows [LANES_D][latent]; and of the layer latent vectors, names and
 * turns. */
typedef struct delta_host {
  float *row, *last, *z, *turns;
  int32_t *named;
  bool key;
} delta_host;

static float *delta_widened(bench *b, const char *from, size_t n) {
  uint16_t *half = bench_get(b, (const uint16_t *)from, n);
  float *to = bench_room<float>(n);
  for (size_t i = 0; i < n; i++) to[i] = kv_from_f16(half[i]);
  free(half);
  return to;
}

static void delta_turn(const delta_host *h, int t, bool back, float *row) {
  const float *turn = h->turns + (size_t)t * LANES_D;
  if (t == 0 || !h->key) return;
  if (back)
    kv_rope_unrotate(LANES_D, 0, turn, row, row);
  else
    kv_rope_rotate(LANES_D, 0, turn, row, row);
}

/* The row of token t as attention reads it. */
static void delta_row(const deltas *x, const delta_host *h, int t, float *out) {
  int p = x->place[t], n = x->r.how.latent, found = 0;
  float mean[LANES_D] = {}, one[LANES_D];
  if (p >= 0) {
    memcpy(out, h->row + (size_t)p * LANES_D, sizeof one);
    return;
  }
  const int32_t *named = h->named + (size_t)~p * DELTA_NEAREST;
  for (; found < DELTA_NEAREST && named[found] >= 0; found++) {
    size_t at = (size_t)x->place[named[found]] * LANES_D;
    memcpy(one, h->row + at, sizeof one);
    delta_turn(h, named[found], true, one);
    for (int e = 0; e < LANES_D; e++) mean[e] = kv_add(mean[e], one[e]);
  }
  for (int e = 0; e < LANES_D; e++) {
    float y = 0;
    for (int i = 0; i < n; i++)
      y = kv_fma(h->z[(size_t)~p * (size_t)n + (size_t)i],
                 h->last[(size_t)e * (size_t)n + (size_t)i], y);
    out[e] = kv_add(kv_add(y, 0.0f), kv_div(mean[e], (float)found));
  }
  delta_turn(h, t, false, out);
}

/* All attended rows of a side of lane i, for free(). */
static float *delta_rows(const deltas *x, int i, bool key) {
  const kv_gpu_rebuilt *r = &x->r;
  bench *b = x->w.b;
  int latent = r->how.latent, lanes = x->w.layer.lanes;
  size_t all = (size_t)r->rows * LANES_D, part = (size_t)LANES_D * latent;
  size_t at = (size_t)(key ? i : lanes + i) * part, n = (size_t)x->coded;
  const char *side = (key ? r->k : r->v) + (size_t)i * all * 2;
  delta_host h = {delta_widened(b, side, all),
                  bench_get(b, r->by.last + at, part),
                  delta_widened(b, r->latent, n * (size_t)latent),
                  bench_get(b, x->w.layer.turns,
                            (size_t)x->w.layer.shape.n_tokens * LANES_D),
                  bench_get(b, r->named, n * DELTA_NEAREST),
                  key};
  float *out = bench_room<float>((size_t)r->attended * LANES_D);
  for (int j = 0; j < r->attended; j++)
    delta_row(x, &h, x->token[j], out + (size_t)j * LANES_D);
  free(h.named);
  free(h.turns);
  free(h.z);
  free(h.last);
  free(h.row);
  return out;
}

static void delta_do(deltas *x, int act) {
  x->act = act;
  delta_rebuilt(x, x->w.b->dev->stream());
}

static void delta_same(deltas *x) {
  static const char *const what[] = {"rows made where they are attended",
                                     "rows made stage by stage"};
  delta_same_names(x);
  for (int apart = 0; apart < 2; apart++) {
    if (!apart) delta_do(x, KV_GPU_REBUILT_ATTEND);
    for (int a = KV_GPU_REBUILT_GATHER; apart && a <= KV_GPU_REBUILT_READ; a++)
      delta_do(x, a);
    for (int i = 0; i < x->w.layer.lanes; i++) {
      float *k = delta_rows(x, i, true), *v = delta_rows(x, i, false);
      host_same_lane(&x->w, what[apart], i, x->r.attended, k, v);
      free(v);
      free(k);
    }
    x->w.b->dev->clear(x->w.layer.out, 4 * (LANES_D + 1));
  }
}

static void delta_check(bench *b) {
  static const int group[] = {1, 4, 8};
  for (int g : group) {
    delta_case c = {2, g, 420, 48, 70};
    kv_gpu_lane place[2] = {};
    deltas x;
    delta_open(b, &c, &x);
    x.w.lane = place;
    for (int i = 0; i < c.lanes; i++) {
      place[i].first_head = i * g;
      place[i].queries = g;
    }
    delta_same(&x);
    delta_close(&x);
  }
}

/* --- timing --------------------------------------------------------------- */

static double delta_seconds(deltas *x, int act) {
  x->act = act;
  lap what = {delta_rebuilt, delta_rebuilt, x, false};
  return bench_seconds(x->w.b, &what);
}

/* Of a search for m tokens, the last of those of the prompt. */
static void delta_search_line(deltas *x, int m, const char *name) {
  kv_gpu_searched *s = &x->r.search, all = *s;
  const bench *b = x->w.b;
  size_t w = 2 * (size_t)x->w.layer.lanes * LANES_D, from = (size_t)(s->m - m);
  double seen = m == s->m ? 0.5 : 1; /* of the references, on average */
  s->m = m;
  s->token += from;
  s->x += from * w;
  s->named += from * DELTA_NEAREST;
  double t = delta_seconds(x, KV_GPU_REBUILT_SEARCH);
  double flops = 2.0 * seen * m * s->n * (double)w;
  *s = all;
  table_line(
      b, {name, "GFLOP/s", flops / t * 1e-9, 2 * bench_fma(b) * 1e-9, 0, 0});
}

static void delta_stage_lines(deltas *x) {
  const bench *b = x->w.b;
  static const char *const name[] = {"  gather, means", "  decode",
                                     "  re-rotate", "  attend"};
  double sum = 0, t[4], one = delta_seconds(x, KV_GPU_REBUILT_ATTEND);
  for (int i = 0; i < 4; i++)
    sum += t[i] = delta_seconds(x, KV_GPU_REBUILT_GATHER + i);
  double products = (double)x->r.attended * DELTA_WIDTH * DELTA_LATENT;
  table_line(b, {"stages through memory", "us", sum * 1e6, 0, 0, 0});
  for (int i = 0; i < 4; i++)
    table_line(b, {name[i], "us", t[i] * 1e6, sum * 1e6, 0, 0});
  table_line(b, {"one kernel", "us", one * 1e6, sum * 1e6, 0, 0});
  table_line(b, {"  what its products need at the peak", "us", one * 1e6,
                 products / bench_fma(b) * 1e6, 0, 0});
}

static void delta_dense_line(bench *b, const delta_case *c) {
  lanes_case plain = {c->lanes, c->group, c->tokens, false};
  lanes w;
  lanes_open(b, &plain, &w);
  lanes_begin(&w, c->tokens);
  double t = attend_seconds(&w);
  table_line(
      b, {"attention over every token's fp16 rows", "us", t * 1e6, 0, 0, 0});
  lanes_close(&w);
}

static void delta_time(bench *b) {
  delta_case c = {8, 4, b->quick ? 4096 : 32768, 512, 192};
  char what[80];
  deltas x;
  delta_open(b, &c, &x);
  snprintf(what, sizeof what,
           "residual latents, a layer of %d tokens, %d of "
           "them attended",
           c.tokens, x.r.attended);
  table_theme(what, "");
  delta_search_line(&x, x.r.search.m, "search of the prompt's tokens / FMA");
  delta_search_line(&x, DELTA_BLOCK, "search of 128 tokens / FMA");
  delta_stage_lines(&x);
  delta_close(&x);
  delta_dense_line(b, &c);
}

#endif
