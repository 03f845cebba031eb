/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of checking and making traces. Recorded outputs agree with recomputed
 * ones, and wrong ones do not. A synthetic trace is one for any number of
 * threads and any kernels, and the structures that are claimed are in it.
 */
#define _GNU_SOURCE 1
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/tracefile.h"
#include "traces/trace/check.h"
#include "traces/trace/synth.h"

static void make(const kv_synth *s, const char *name) {
  snprintf(tracefile, sizeof tracefile, "%s", scratch_path(name));
  if (kv_synth_write(s, kv_kernels_best(), tracefile, &told)) {
    fail_msg("%s", told.text);
  }
}

static kv_synth small(int tokens) {
  kv_synth s = {.like = *kv_geometry_find("tiny"),
                .n_tokens = tokens,
                .prompt_len = kv_synth_prompt(tokens),
                .seed = 7,
                .output = 1};
  return s;
}

TEST(outputs_agree_and_wrong_ones_do_not) {
  for (int type = 0; type < 3; type++) {
    kv_synth s = small(300);
    s.like.n_layers = 1;
    s.like.dtype = (kv_dtype)type;
    make(&s, "o.safetensors");
    kv_trace *t = tracefile_open();
    kv_check c;
    kv_second second;
    assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &c, NULL), KV_OK);
    assert_true(c.has_o);
    static const double near[] = {2e-3, 4e-3, 1e-4};
    assert_true(c.tolerance == near[type]);
    assert_true(c.relative < (type == 1 ? 3e-3 : 4e-4));
    assert_true(type != 2 || c.relative == 0.0);
    assert_int_equal(kv_second_layer(t, 0, kv_kernels_best(), &second, NULL),
                     KV_OK);
    assert_true(second.relative < 1e-6);
    assert_true(!second.by || second.relative > 0);
    /* The other KV heads' keys: right shape, wrong numbers. */
    size_t rows = (size_t)s.n_tokens * 32 * kv_dtype_size(s.like.dtype);
    t->layer[0].data.k = (const char *)t->layer[0].data.k - rows;
    assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &c, NULL), KV_OK);
    assert_true(c.relative > 10 * c.tolerance);
    assert_true(c.error > 0.1);
    kv_trace_close(t);
  }
}

/* One row by the rules of the arithmetic, one operation at a time. */
static void by_the_rules(const kv_shape *s, int n, const float *q,
                         const float *k, const float *v, float *out) {
  float p[128], top[8], sum[8], part[8][64] = {{0}}, most = -1e30f, all = 0;
  int d = s->d, chunks = (n + 127) / 128;
  for (int c = 0; c < chunks; c++) {
    int m = n - c * 128 < 128 ? n - c * 128 : 128;
    int64_t mass = 0;
    top[c] = -1e30f;
    for (int j = 0; j < m; j++) {
      p[j] = 0;
      for (int i = 0; i < d; i++) {
        p[j] = kv_fma(q[i], k[(c * 128 + j) * d + i], p[j]);
      }
      p[j] = kv_add(kv_mul(p[j], s->scale), 0.0f);
      top[c] = kv_max(p[j], top[c]);
    }
    for (int j = 0; j < m; j++) {
      p[j] = kv_expm(kv_sub(p[j], top[c]));
      mass += kv_fix(p[j]);
      for (int i = 0; i < d; i++) {
        part[c][i] = kv_fma(p[j], v[(c * 128 + j) * d + i], part[c][i]);
      }
    }
    sum[c] = kv_unfix(mass);
    most = kv_max(top[c], most);
  }
  memset(out, 0, (size_t)d * sizeof *out);
  for (int c = 0; c < chunks; c++) {
    float w = kv_expm(kv_sub(top[c], most));
    all = kv_fma(w, sum[c], all);
    for (int i = 0; i < d; i++) out[i] = kv_fma(w, part[c][i], out[i]);
  }
  for (int i = 0; i < d; i++) out[i] = kv_div(out[i], all);
}

/* F32 with full mantissas, where a wrong order would show. */
TEST(outputs_follow_the_arithmetic) {
  static const int rows[] = {0, 1, 126, 127, 128, 129, 255, 256, 600, 776};
  kv_synth s = small(777);
  s.like.dtype = KV_F32;
  s.like.n_layers = 1;
  make(&s, "rules.safetensors");
  kv_trace *t = tracefile_open();
  const float *q = t->layer[0].data.q, *k = t->layer[0].data.k;
  const float *v = t->layer[0].data.v, *o = t->layer[0].o;
  for (int h = 0; h < 8; h++) {
    for (int i = 0; i < 10; i++) {
      float out[64];
      int at = (h * 777 + rows[i]) * 32, lane = h / 2 * 777 * 32;
      by_the_rules(&t->shape, rows[i] + 1, q + at, k + lane, v + lane, out);
      assert_memory_equal(out, o + at, 32 * sizeof *out);
    }
  }
  kv_trace_close(t);
}

TEST(check_any_threads) {
  kv_synth s = small(200);
  kv_check a, b;
  make(&s, "o.safetensors");
  kv_trace *t = tracefile_open();
  omp_set_num_threads(1);
  assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &a, NULL), KV_OK);
  omp_set_num_threads(5);
  assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &b, NULL), KV_OK);
  assert_memory_equal(&a.relative, &b.relative, sizeof a.relative);
  assert_memory_equal(&a.error, &b.error, sizeof a.error);
  kv_trace_close(t);
}

TEST(synthetic_traces_are_one) {
  kv_synth s = small(777);
  make(&s, "a.safetensors");
  kv_digest five = tracefile_identity();
  omp_set_num_threads(2);
  make(&s, "b.safetensors");
  assert_true(same_digest(tracefile_identity(), five));
  const kv_kernels *portable;
  works(kv_kernels_named("portable", &portable, NULL, &told));
  works(kv_synth_write(&s, portable, tracefile, &told));
  assert_true(same_digest(tracefile_identity(), five));
  s.seed++;
  make(&s, "c.safetensors");
  assert_false(same_digest(tracefile_identity(), five));
}

/* Rows do not know how long the tensor around them is: a layer subset holds
 * the same numbers as the whole. */
TEST(recorded_layers_stay_themselves) {
  kv_synth s = small(100);
  const int list[] = {1, 3};
  make(&s, "all.safetensors");
  kv_trace *all = tracefile_open();
  s.n_recorded = 2;
  s.layers = list;
  make(&s, "some.safetensors");
  kv_trace *some = tracefile_open();
  assert_int_equal(some->n_layers, 2);
  assert_int_equal(some->layer[1].data.layer, 3);
  assert_memory_equal(some->layer[1].data.q, all->layer[3].data.q,
                      8 * 100 * 32 * 2);
  assert_memory_equal(some->layer[0].o, all->layer[1].o, 8 * 100 * 32 * 2);
  kv_trace_close(all);
  kv_trace_close(some);
}

/* Probability of each token for row t of query head h, in binary64. */
static void attend(const kv_trace *t, int i, int h, int row, double *p) {
  const kv_shape *s = &t->shape;
  const uint16_t *q = t->layer[i].data.q, *k = t->layer[i].data.k;
  size_t d = (size_t)s->d, n = (size_t)s->n_tokens;
  q += ((size_t)h * n + (size_t)row) * d;
  k += (size_t)(h / kv_group(s)) * n * d;
  double sum = 0, most = -1e300;
  for (int j = 0; j <= row; j++) {
    p[j] = 0;
    for (size_t c = 0; c < d; c++) {
      p[j] +=
          (double)kv_from_f16(q[c]) * (double)kv_from_f16(k[(size_t)j * d + c]);
    }
    p[j] *= (double)s->scale;
    most = p[j] > most ? p[j] : most;
  }
  for (int j = 0; j <= row; j++) sum += p[j] = exp(p[j] - most);
  for (int j = 0; j <= row; j++) p[j] /= sum;
}

/* Head h of layer l is of kind (h + 2 l) mod 6: 0 local, 1 sink, 2
 * retrieval. Mass where each kind looks, averaged over the decode rows. */
TEST(structures_are_there) {
  kv_synth s = small(2048);
  s.output = 0;
  s.like.n_layers = 1;
  s.like.d = 64;
  make(&s, "s.safetensors");
  kv_trace *t = tracefile_open();
  double *p = calloc(2048, sizeof *p), sink = 0, local = 0, needle = 0,
         cold = 0;
  int rows = 0, asked = 0;
  assert_int_equal(t->n_answers, 16);
  for (int row = t->shape.prompt_len; row < 2048; row += 8, rows++) {
    attend(t, 0, 1, row, p);
    sink += p[0];
    attend(t, 0, 0, row, p);
    for (int j = row - 31; j <= row; j++) local += p[j];
  }
  for (int a = 0; a < t->n_answers; a++) {
    const kv_answer *x = &t->answer[a];
    assert_int_equal(t->tokens[x->start], t->tokens[x->source_start]);
    for (int i = 0; i < x->end - x->start; i++, asked++) {
      attend(t, 0, 2, x->start - 1 + i, p);
      needle += p[x->source_start + i];
      attend(t, 0, 1, x->start - 1 + i, p);
      cold += p[x->source_start + i];
    }
  }
  assert_true(sink / rows > 0.4);
  assert_true(local / rows > 0.5);
  assert_true(needle / asked > 0.7);
  assert_true(cold / asked < 0.01);
  free(p);
  kv_trace_close(t);
}

TEST(odd_requests_are_made) {
  static const int tokens[] = {1, 2, 7, 33, 128, 129};
  for (int i = 0; i < 6; i++) {
    for (int dim = 8; dim <= 256; dim *= 2) {
      kv_synth s = small(tokens[i]);
      s.like.d = dim + (dim == 32 ? 48 : 0);
      s.like.n_layers = 1;
      s.like.n_heads = 7;
      s.like.n_kv_heads = i % 2 ? 7 : 1;
      s.prompt_len = i % 3 ? tokens[i] : 1;
      make(&s, "odd.safetensors");
      kv_trace *t = tracefile_open();
      kv_check c;
      assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &c, NULL),
                       KV_OK);
      assert_true(c.relative <= c.tolerance);
      kv_trace_close(t);
    }
  }
  kv_synth bad = small(10);
  bad.like.n_kv_heads = 3;
  assert_int_equal(kv_synth_write(&bad, kv_kernels_best(), tracefile, &told),
                   KV_USAGE);
}

static void count(void *self, int64_t rows) { *(int64_t *)self += rows; }

/* Every row is told of once: progress ends at the whole. */
TEST(rows_are_told) {
  const int layers[] = {1, 3};
  for (int i = 0; i < 4; i++) {
    kv_synth s = small(90);
    int64_t counted = 0;
    s.output = i & 1;
    s.n_recorded = i & 2;
    s.layers = layers;
    s.tick = count;
    s.self = &counted;
    make(&s, "told.safetensors");
    const kv_geometry *g = &s.like;
    int recorded = i & 2 ? 2 : g->n_layers;
    int heads = (1 + (i & 1)) * g->n_heads + 2 * g->n_kv_heads;
    assert_int_equal(counted, recorded * heads * 90);
    assert_int_equal(counted, kv_synth_rows(&s));
  }
}

/* Of a model's frequencies, in binary64 and by other formulas than those of the
 * library: that of pair i of layers without a window. */
static double frequency(const kv_geometry *g, int i) {
  double w = pow(g->theta, -2.0 * i / g->d), tau = 6.283185307179586;
  double turns = w * 8192 / tau, part = fmin(fmax((turns - 1) / 3, 0), 1);
  if (g->scaling == KV_ROPE_LLAMA3) return w / 8 + part * (w - w / 8);
  if (g->scaling == KV_ROPE_LINEAR) return w / 8;
  if (g->scaling == KV_ROPE_PLAIN) return w;
  double unit = g->d / 2 / log(g->theta);
  double low = unit * log(4096 / (32 * tau)), high = unit * log(4096 / tau);
  part = fmin(fmax((i - low) / (high - low), 0), 1);
  return part * w / 32 + (1 - part) * w;
}

static void near(double a, double b) { assert_true(fabs(a - b) <= 2e-6 * b); }

/* Each model of the table is made with its shape, windows, sinks and
 * frequencies; where layers with a window have others, those turn their keys.
 */
TEST(models_are_themselves) {
  int n;
  const kv_geometry *g = kv_geometries(&n);
  assert_int_equal(n, 13);
  for (; n--; g++) {
    kv_synth s = {.like = *g, .n_tokens = 20, .prompt_len = 16, .seed = 1};
    s.like.n_layers = 6;
    make(&s, "model.safetensors");
    kv_trace *t = tracefile_open();
    assert_true(t->shape.n_heads == g->n_heads && t->shape.d == g->d);
    assert_true(t->shape.n_kv_heads == g->n_kv_heads);
    assert_int_equal(t->shape.dtype, g->dtype);
    for (int l = 0; l < 6; l++) {
      int full = !g->window || (l + 1) % g->full_every == 0;
      assert_int_equal(t->layer[l].data.window, full ? 0 : g->window);
      assert_int_equal(t->layer[l].data.sinks != NULL, g->sinks);
    }
    for (int i = 0; i < g->d / 2; i++)
      near(t->rope.inv_freq[i], frequency(g, i));
    assert_int_equal(t->windowed_inv_freq != NULL, g->theta_windowed > 0);
    for (int i = 0; t->windowed_inv_freq && i < g->d / 2; i++)
      near(t->windowed_inv_freq[i], pow(g->theta_windowed, -2.0 * i / g->d));
    kv_trace_close(t);
  }
}

/* Whether layer 0 without a window and with one have the same keys. */
static int same_keys(float theta_windowed) {
  kv_synth s = small(90);
  size_t bytes = (size_t)90 * (size_t)s.like.d * 2;
  char *first = malloc(bytes);
  for (int i = 0; i < 2; i++) {
    s.like.theta_windowed = theta_windowed;
    s.like.window = i ? 32 : 0;
    make(&s, "turned.safetensors");
    kv_trace *t = tracefile_open();
    if (i == 0) memcpy(first, t->layer[0].data.k, bytes);
    int same = memcmp(first, t->layer[0].data.k, bytes) == 0;
    kv_trace_close(t);
    if (i == 0) continue;
    free(first);
    return same;
  }
  return -1;
}

TEST(windowed_layers_turn_by_theirs) {
  assert_int_equal(same_keys(0), 1);
  assert_int_equal(same_keys(1000000.0f), 0);
}

int main(void) { return tests_run("synth", scratch_make, scratch_remove); }
