/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of re-indexing: what a method with re-indexed keys attends is what
 * attention over keys makes that were never turned but to their places, in
 * binary64, whatever the positions, for every method that re-indexes. Against
 * that outputs differ by 1e-6 at most (relative L2, over a run), single ones by
 * what `kvreplay grade` takes for rounding of float32. And places are counted,
 * not measured: gaps between positions change neither what is attended nor what
 * a prompt's rows see. Asked again on the executor, where it was built.
 */
#include "gpu/host/backends.h"
#include "ref/ground/places.h"
#include "tests/support/rig.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADS = 2, GAPS = 3 };

/* A request whose keys and queries are known as before the model turned them,
 * and sines and cosines of the first places, [places][d]. */
typedef struct request {
  rig_case c;
  rig_case raw;
  double *sc;
  int places;
} request;

static void *take(size_t n, size_t size) {
  void *p = calloc(n, size);
  assert_non_null(p);
  return p;
}

/* --- the request -------------------------------------------------------- */

/* What the model does with rows of one head after the other. */
static float *turned(const rig_case *c, int heads, const float *x) {
  size_t d = (size_t)c->d, rows = (size_t)heads * (size_t)c->n_tokens;
  float *y = take(rows * d, sizeof *y), *sc = take(d, sizeof *sc);
  for (int t = 0; t < c->n_tokens; t++) {
    kv_rope_table(c->inv_freq, c->d, c->positions[t], sc);
    for (int h = 0; h < heads; h++) {
      size_t at = ((size_t)h * (size_t)c->n_tokens + (size_t)t) * d;
      kv_rope_rotate(c->d, c->interleaved, sc, x + at, y + at);
    }
  }
  free(sc);
  return y;
}

/* The angles of places are rounded as the model rounds those of positions. */
static void turn_places(request *r) {
  int half = r->c.d / 2;
  r->sc = take((size_t)(r->places * r->c.d), sizeof *r->sc);
  for (int i = 0; i < r->places; i++)
    for (int x = 0; x < half; x++) {
      float angle = (float)(r->c.positions[0] + i) * r->c.inv_freq[x];
      r->sc[i * r->c.d + 2 * x] = sin((double)angle);
      r->sc[i * r->c.d + 2 * x + 1] = cos((double)angle);
    }
}

static void request_make(rig_case c, float theta, int32_t start, int apart,
                         request *r) {
  float *f = take((size_t)c.d / 2, sizeof *f);
  int32_t *p = take((size_t)c.n_tokens, sizeof *p);
  for (int x = 0; x < c.d / 2; x++)
    f[x] = (float)pow((double)theta, -2.0 * x / c.d);
  for (int t = 0; t < c.n_tokens; t++) p[t] = start + apart * t;
  c.inv_freq = f;
  c.positions = p;
  rig_data(&c, (uint32_t)(c.d + start % 89));
  r->c = r->raw = c;
  r->c.q = turned(&c, c.heads, c.q);
  r->c.k = turned(&c, c.kv_heads, c.k);
  r->places = c.n_tokens < 4200 ? c.n_tokens : 4200;
  turn_places(r);
}

static void request_free(request *r) {
  free((void *)(uintptr_t)r->c.q);
  free((void *)(uintptr_t)r->c.k);
  free((void *)(uintptr_t)r->c.inv_freq);
  free((void *)(uintptr_t)r->c.positions);
  free(r->sc);
  rig_data_free(&r->raw);
}

/* --- attention in binary64 ---------------------------------------------- */

/* Row t of head h as it was before the model, turned to a place. */
static void placed(const request *r, const float *rows, int h, int t, int place,
                   double *out) {
  const rig_case *c = &r->c;
  int half = c->d / 2;
  const float *x =
      rows + ((size_t)h * (size_t)c->n_tokens + (size_t)t) * (size_t)c->d;
  assert_true(place < r->places);
  for (int i = 0; i < half; i++) {
    int a = c->interleaved ? 2 * i : i, b = c->interleaved ? a + 1 : a + half;
    double s = r->sc[place * c->d + 2 * i];
    double k = r->sc[place * c->d + 2 * i + 1];
    out[a] = (double)x[a] * k - (double)x[b] * s;
    out[b] = (double)x[b] * k + (double)x[a] * s;
  }
}

/* Query head h of token t over n tokens at places 0 .. n - 1. */
static void attention(const request *r, int h, int t, int n, const uint32_t *id,
                      double *out) {
  const rig_case *c = &r->c;
  int g = h / (c->heads / c->kv_heads);
  double *q = take((size_t)c->d, sizeof *q), *k = take((size_t)c->d, sizeof *k);
  double *s = take((size_t)n, sizeof *s), best = -INFINITY, sum = 0;
  placed(r, r->raw.q, h, t, n - 1, q);
  for (int j = 0; j < n; j++) {
    placed(r, r->raw.k, g, (int)id[j], j, k);
    for (int x = 0; x < c->d; x++) s[j] += q[x] * k[x];
    s[j] *= (double)(float)(1 / sqrt((double)c->d));
    best = s[j] > best ? s[j] : best;
  }
  memset(out, 0, (size_t)c->d_v * sizeof *out);
  for (int j = 0; j < n; j++) {
    const float *v = c->v + (size_t)((g * c->n_tokens + (int)id[j]) * c->d_v);
    double p = exp(s[j] - best);
    sum += p;
    for (int x = 0; x < c->d_v; x++) out[x] += p * (double)v[x];
  }
  for (int x = 0; x < c->d_v; x++) out[x] /= sum;
  free(q);
  free(k);
  free(s);
}

/* --- the law ------------------------------------------------------------ */

/* Adds the squares of a row, and fails where an element is further from what it
 * should be than `grade` lets a row in F32 be (sim/run/grade/outputs.h). */
static void add_row(int n, const float *is, const double *should, double *off,
                    double *all) {
  double most = 0, worst = 0;
  for (int x = 0; x < n; x++) {
    double by = fabs((double)is[x] - should[x]);
    *off += by * by;
    *all += should[x] * should[x];
    most = fabs(should[x]) > most ? fabs(should[x]) : most;
    worst = by > worst ? by : worst;
  }
  assert_true(worst <= 1e-5 + 1.3e-6 * most);
}

/* The relative error of all outputs of a replay. */
static double error_of(const request *r, const char *spec) {
  const rig_case *c = &r->c;
  double *should = take((size_t)c->d_v, sizeof *should), off = 0, all = 0;
  uint32_t *id = take((size_t)c->n_tokens, sizeof *id);
  rig *replay = rig_open(c, spec);
  for (int t = c->prompt_len; t < c->n_tokens; t++) {
    rig_to(replay, t + 1);
    for (int h = 0; h < c->heads; h++) {
      int n = rig_seen(replay, h, id);
      attention(r, h, t, n, id, should);
      add_row(c->d_v, rig_out(replay, h), should, &off, &all);
    }
  }
  rig_close(replay);
  free(should);
  free(id);
  return sqrt(off / all);
}

static void hold(const request *r, float theta, const char *spec, double *top) {
  double error = error_of(r, spec);
  *top = error > *top ? error : *top;
  if (error <= 1e-6) return;
  fail_msg("%s, d %d, theta %g, %d tokens from %d on: relative L2 %.2g", spec,
           r->c.d, (double)theta, r->c.n_tokens, r->c.positions[0], error);
}

/* Every method that re-indexes; of a table that ends with NULL. */
static const char *const specs[] = {"streamingllm:budget=40",
                                    "streamingllm:budget=40:variant=prefill",
                                    "keydiff:budget=40:reindex=yes",
                                    "lagkv:budget=40:lag=16:reindex=yes",
                                    "expected:budget=40:future=64:reindex=yes",
                                    "chunkkv:budget=40:reindex=yes",
                                    "criticalkv:budget=40:reindex=yes",
                                    NULL};

static bool on_device(void) { return rig_backend() != &kv_backend_ref; }

static const int32_t starts[] = {0, 4096, 131072, 1 << 20};

/* Of d and theta every pair, the first method from every start on, the others
 * from the last. */
TEST(many_starts) {
  const int d[] = {64, 128};
  const float theta[] = {1e4f, 5e5f};
  int n = on_device() ? 120 : 300;
  double top = 0;
  for (int i = 0; i < 16; i++) {
    request r;
    int32_t start = starts[i / 4];
    rig_case c = {.heads = HEADS,
                  .kv_heads = 1,
                  .d = d[i % 2],
                  .d_v = 32,
                  .n_tokens = n,
                  .prompt_len = n - n / 3,
                  .interleaved = i % 4 == 3};
    if (on_device() && c.d == 128) continue;
    request_make(c, theta[i / 2 % 2], start, 1, &r);
    for (int m = 0; specs[m] && (m == 0 || i >= 12); m++)
      hold(&r, theta[i / 2 % 2], specs[m], &top);
    request_free(&r);
  }
  printf("%d tokens: relative L2 up to %.2g\n", n, top);
}

/* Far from where they were, many of them and few. */
TEST(many_tokens) {
  double top = 0;
  if (on_device()) skip();
  for (int i = 0; i < 2; i++) {
    request r;
    rig_case c = {.heads = 1,
                  .kv_heads = 1,
                  .d = i ? 128 : 64,
                  .d_v = 16,
                  .n_tokens = 32768,
                  .prompt_len = 32762};
    float theta = i ? 5e5f : 1e4f;
    request_make(c, theta, 0, 1, &r);
    hold(&r, theta, "streamingllm:budget=4096", &top);
    hold(&r, theta, "streamingllm:budget=300", &top);
    request_free(&r);
  }
  printf("32,768 tokens: relative L2 up to %.2g\n", top);
}

/* --- gaps --------------------------------------------------------------- */

static void same_ids(const request *a, const request *b, const char *spec) {
  rig *x = rig_open(&a->c, spec), *y = rig_open(&b->c, spec);
  uint32_t *id = take((size_t)a->c.n_tokens, sizeof *id);
  for (int t = a->c.prompt_len; t < a->c.n_tokens; t++) {
    int list[512];
    int n = rig_ids(x, 0, id);
    for (int i = 0; i < n; i++) list[i] = (int)id[i];
    list[n] = -1;
    rig_holds(y, 0, list);
    rig_to(x, t + 1);
    rig_to(y, t + 1);
  }
  rig_close(x);
  rig_close(y);
  free(id);
}

/* Positions that the prompt's rows see are places: with gaps between the
 * recorded ones the same tokens stay, and outputs keep the law. */
TEST(gaps) {
  double top = 0;
  for (int i = 0; i < 2; i++) {
    request with, without;
    rig_case c = {.heads = HEADS,
                  .kv_heads = 1,
                  .d = 64,
                  .d_v = 32,
                  .n_tokens = 120,
                  .prompt_len = 90,
                  .interleaved = i};
    request_make(c, 1e4f, 7, GAPS, &with);
    request_make(c, 1e4f, 7, 1, &without);
    for (int m = 0; specs[m]; m++) hold(&with, 1e4f, specs[m], &top);
    same_ids(&with, &without, "chunkkv:budget=40:reindex=yes");
    same_ids(&with, &without, "criticalkv:budget=40:reindex=yes");
    request_free(&with);
    request_free(&without);
  }
  printf("gaps: relative L2 up to %.2g\n", top);
}

/* --- one table for all -------------------------------------------------- */

enum { TOKENS = 300, WIDTH = 8, THREADS = 4 };

typedef struct asked {
  kv_places *places;
  const kv_rope *rope;
  bool wrong;
} asked;

static void *ask(void *self) {
  asked *a = self;
  for (int t = 0; t < TOKENS; t++)
    for (int i = 0; i <= t; i += 7) {
      float room[KV_PLACE_ROOM(WIDTH)], sc[WIDTH], is[WIDTH], should[WIDTH];
      for (int x = 0; x < WIDTH; x++) is[x] = should[x] = (float)(t - x) / 3;
      int32_t from = kv_rope_position(a->rope, (uint32_t)t);
      int32_t to = kv_rope_position(a->rope, 0) + i;
      kv_place_row(a->places, (uint32_t)t, i, room, is);
      kv_rope_table(a->rope->inv_freq, WIDTH, from, sc);
      if (from != to) kv_rope_unrotate(WIDTH, 0, sc, should, should);
      kv_rope_table(a->rope->inv_freq, WIDTH, to, sc);
      if (from != to) kv_rope_rotate(WIDTH, 0, sc, should, should);
      a->wrong = a->wrong || memcmp(is, should, sizeof is) != 0;
    }
  return NULL;
}

/* Whoever opens them while they are open gets the same, and every thread the
 * same bits. */
TEST(shared) {
  static const float f[WIDTH / 2] = {1, 0.1f, 0.01f, 0.001f};
  int32_t p[TOKENS];
  pthread_t thread[THREADS];
  asked of[THREADS];
  for (int gap = 1; gap < 3; gap++) {
    for (int t = 0; t < TOKENS; t++) p[t] = 5 + gap * t;
    kv_rope rope = {p, f, 0}, other = rope;
    kv_places *a, *b, *c;
    assert_int_equal(kv_places_open(&rope, TOKENS, WIDTH, &a, NULL), KV_OK);
    assert_int_equal(kv_places_open(&rope, TOKENS, WIDTH, &b, NULL), KV_OK);
    assert_int_equal(kv_places_open(&other, TOKENS, WIDTH, &c, NULL), KV_OK);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    kv_places_close(b);
    for (int i = 0; i < THREADS; i++) {
      of[i] = (asked){a, &rope, false};
      assert_int_equal(pthread_create(&thread[i], NULL, ask, &of[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
      pthread_join(thread[i], NULL);
      assert_false(of[i].wrong);
    }
    kv_places_close(a);
    kv_places_close(c);
  }
}

static int on_emu(char **argv) {
  kv_err e;
  if (getenv("KV_TEST_BACKEND") || !kv_backend_find("emu", &e)) return 0;
  setenv("KV_TEST_BACKEND", "emu", 1);
  fflush(NULL);
  execv("/proc/self/exe", argv);
  return 1;
}

int main(int argc, char **argv) {
  (void)argc;
  int rc = tests_run("places", NULL, NULL);
  return rc ? rc : on_emu(argv);
}
