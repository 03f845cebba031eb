/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: tests/sim/alike.h.
 */
#include "tests/sim/alike.h"

#include <math.h>
#include <string.h>

#include "ref/ground/rope.h"
#include "tests/support/scratch.h"

enum { KV = ALIKE_KV, D = ALIKE_D, T = ALIKE_T, WIDTH = ALIKE_WIDTH };

float alike_k[KV][T][D], alike_v[KV][T][D], alike_frequency[D / 2];
int alike_tokens = T;
static float turned[KV][T][D];

/* Tokens come in kinds, which return every 7 to 40 tokens, and differ a bit. */
void alike_fill(void) {
  uint32_t x = 5;
  for (int t = 0; t < T; t++)
    for (int g = 0; g < KV; g++)
      for (int i = 0; i < D; i++) {
        int kind = t % (t % 3 ? 7 : 20);
        x = x * 1664525u + 1013904223u;
        alike_k[g][t][i] =
            (float)((kind * (3 + i + g) % 11 - 5) * 4 + (int)(x >> 30));
        alike_v[g][t][i] =
            (float)((kind * (5 + i) + g) % 7 + (int)(x >> 29 & 1));
      }
}

void alike_declare(kv_st_writer *w, const char *name, int rank, uint64_t a,
                   uint64_t b, uint64_t c) {
  uint64_t shape[3] = {a, b, c};
  assert_int_equal(kv_st_writer_declare(w, name, KV_ST_F32, rank, shape, NULL),
                   0);
}

static void append(kv_st_writer *w, float of[KV][T][D]) {
  for (int g = 0; g < KV; g++)
    kv_st_writer_append(w, (size_t)alike_tokens * sizeof *of[g], of[g], NULL);
}

/* The first `tokens` of them; keys stand turned by their positions. */
kv_trace *alike_made(bool frequencies) {
  static const char *const meta[][2] = {
      {"format", "kvtrace"}, {"version", "1"},       {"model", "test"},
      {"n_layers", "6"},     {"n_heads", "2"},       {"n_kv_heads", "2"},
      {"head_dim", "4"},     {"layers", "[5]"},      {"attn.scale", "0.5"},
      {"prompt_len", "1"},   {"rope.layout", "half"}};
  const char *path = scratch_path("t.safetensors");
  const kv_rope rope = {NULL, alike_frequency, 0};
  kv_turns turns;
  kv_st_writer *w;
  kv_trace *t;
  kv_err e = {0};
  assert_int_equal(kv_turns_open(&rope, T, D, 0, &turns, NULL), KV_OK);
  memcpy(turned, alike_k, sizeof alike_k);
  for (int g = 0; g < KV; g++)
    for (int i = 0; i < T; i++)
      kv_turn_forth(&turns, (uint32_t)i, turned[g][i]);
  kv_turns_close(&turns);
  assert_int_equal(kv_st_writer_open(path, 0, &w, NULL), KV_OK);
  alike_declare(w, "layers.5.q", 3, KV, (uint64_t)alike_tokens, D);
  alike_declare(w, "layers.5.k", 3, KV, (uint64_t)alike_tokens, D);
  alike_declare(w, "layers.5.v", 3, KV, (uint64_t)alike_tokens, D);
  if (frequencies) alike_declare(w, "rope.inv_freq", 1, D / 2, 0, 0);
  for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
    kv_st_writer_meta(w, meta[i][0], meta[i][1], NULL);
  append(w, alike_k);
  append(w, turned);
  append(w, alike_v);
  if (frequencies)
    kv_st_writer_append(w, sizeof alike_frequency, alike_frequency, NULL);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
  if (kv_trace_open(path, &t, &e)) fail_msg("%s", e.text);
  return t;
}

/* By the file of weights, where there is one. */
void alike_look_with(const char *weights, const kv_kernels *kernel, int threads,
                     kv_similarities *out) {
  static kv_compressors files;
  kv_err e = {0};
  kv_trace *t = alike_made(true);
  memset(out, 0, sizeof *out);
  if (kv_compressors_open(t, weights != NULL, &weights, &files, &e) ||
      kv_similarity_layer(t, 0, kernel, threads, &files, out->space,
                          out->rebuilt, &e) ||
      kv_entropy_layer(t, 0, kernel, out->entropy[0], &e))
    fail_msg("%s", e.text);
  kv_compressors_close(&files);
  kv_trace_close(t);
}

void alike_look(const kv_kernels *kernel, int threads, kv_similarities *out) {
  alike_look_with(NULL, kernel, threads, out);
}

/* --- by plain loops ------------------------------------------------------ */

double alike_element(int t, int i) {
  int g = i / D % KV;
  return (double)(i < KV * D ? alike_k : alike_v)[g][t][i % D];
}

double alike_square(int t, int width) {
  double sum = 0;
  for (int i = 0; i < width; i++)
    sum += alike_element(t, i) * alike_element(t, i);
  return sum;
}

double alike_between(int a, int b, int width, bool cosine) {
  double sum = 0;
  for (int i = 0; i < width; i++) {
    double gap = alike_element(a, i) - alike_element(b, i);
    sum += cosine ? alike_element(a, i) * alike_element(b, i) : gap * gap;
  }
  return cosine ? -sum / sqrt(alike_square(a, width) * alike_square(b, width))
                : sum;
}

/* The n-th nearest of those before t that stride takes; -1: there is none. */
int alike_nearest(int t, int stride, int n, int width, bool cosine) {
  double least = -HUGE_VAL;
  int at = -1;
  for (; n >= 0; n--) {
    int next = -1;
    for (int j = 0; j < t; j++) {
      double d = alike_between(t, j, width, cosine);
      if (j >= 8 && j % stride) continue;
      if (d < least || (d == least && j <= at)) continue;
      if (next < 0 || d < alike_between(t, next, width, cosine)) next = j;
    }
    if (next < 0) return -1;
    least = alike_between(t, next, width, cosine);
    at = next;
  }
  return at;
}

/* The mean of the k nearest of a stride. */
void alike_mean(int t, int stride, int most, double *mean) {
  int n = 0;
  for (int i = 0; i < WIDTH; i++) mean[i] = 0;
  for (int j; n < most && (j = alike_nearest(t, stride, n, WIDTH, false)) >= 0;
       n++)
    for (int i = 0; i < WIDTH; i++) mean[i] += alike_element(j, i);
  for (int i = 0; i < WIDTH; i++) mean[i] /= n;
}

/* Squares that it misses. */
double alike_missed(int t, int stride, int most) {
  double sum = 0, mean[WIDTH];
  alike_mean(t, stride, most, mean);
  for (int i = 0; i < WIDTH; i++) sum += pow(alike_element(t, i) - mean[i], 2);
  return sum;
}

void alike_near(double a, double b, const char *what) {
  if (!(fabs(a - b) <= 1e-9 * (1 + fabs(b))))
    fail_msg("%s: %.12g, not %.12g", what, a, b);
}
