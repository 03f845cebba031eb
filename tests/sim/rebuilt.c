/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compressor misses of tokens that are alike (sim/inspect/rebuilt.h),
 * against plain loops in binary64; the same by every kernel set and any
 * threads.
 */
#include "tests/sim/alike.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/scratch.h"

enum { T = ALIKE_T, WIDTH = ALIKE_WIDTH, FROM = KV_NEAREST_FROM };

enum { HIDDEN = 5, LATENT = 3 };
static float in[2 * HIDDEN][WIDTH], out[LATENT][HIDDEN], back[WIDTH][LATENT];

/* A file; of other latents than LATENT it contradicts itself. */
static const char *weights(const char *name, const char *length,
                           uint64_t latent) {
  static char path[512];
  kv_st_writer *w;
  uint32_t x = 3;
  float *all[] = {in[0], out[0], back[0]};
  size_t size[] = {sizeof in, latent * sizeof *out, sizeof back};
  snprintf(path, sizeof path, "%s", scratch_path(name));
  assert_int_equal(kv_st_writer_open(path, 0, &w, NULL), KV_OK);
  alike_declare(w, "layers.5.compress.in.weight", 2, 2 * HIDDEN, WIDTH, 0);
  alike_declare(w, "layers.5.compress.out.weight", 2, latent, HIDDEN, 0);
  alike_declare(w, "layers.5.decompress.out.weight", 2, WIDTH, LATENT, 0);
  kv_st_writer_meta(w, "format", "kvreplay-deltakv", NULL);
  kv_st_writer_meta(w, "compressor", "swiglu", NULL);
  if (length) kv_st_writer_meta(w, "trained_length", length, NULL);
  for (int a = 0; a < 3; a++) {
    for (size_t i = 0; i < size[a] / sizeof(float); i++) {
      x = x * 1664525u + 1013904223u;
      all[a][i] = (float)((int)(x >> 28) - 8) / 64;
    }
    kv_st_writer_append(w, size[a], all[a], NULL);
  }
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
  return path;
}

static void compressed(const double *x, double sign, double *z) {
  double h[HIDDEN];
  for (int j = 0; j < HIDDEN; j++) {
    double gate = 0, up = 0;
    for (int i = 0; i < WIDTH; i++) {
      gate += (double)in[j][i] * x[i];
      up += (double)in[HIDDEN + j][i] * x[i];
    }
    h[j] = gate / (1 + exp(-gate)) * up;
  }
  for (int l = 0; l < LATENT; l++)
    for (int j = 0; j < HIDDEN; j++) z[l] += sign * (double)out[l][j] * h[j];
}

/* Squares that token t misses, rebuilt with its references or without. */
static double rebuilt(int t, bool references) {
  double x[WIDTH], mean[WIDTH] = {0}, z[LATENT] = {0}, sum = 0;
  for (int i = 0; i < WIDTH; i++) x[i] = alike_element(t, i);
  if (references) alike_mean(t, 10, 4, mean);
  compressed(x, 1, z);
  compressed(mean, -1, z); /* 0 of zeros */
  for (int i = 0; i < WIDTH; i++) {
    double y = mean[i];
    for (int l = 0; l < LATENT; l++) y += (double)back[i][l] * z[l];
    sum += pow(x[i] - y, 2);
  }
  return sum;
}

static void close_to(double a, double b, const char *what) {
  if (!(fabs(a - b) <= 1e-5 * fabs(b))) fail_msg("%s: %g, not %g", what, a, b);
}

void test_rebuilt(void **state); /* called by check_residuals.c */
void test_rebuilt(void **state) {
  static kv_similarities found, again; /* static: gaps are zero */
  const char *path = weights("w.safetensors", "64", LATENT);
  double of[2] = {0}, octave[2] = {0}, all = 0, late = 0;
  (void)state;
  alike_look_with(path, kv_kernels_best(), 1, &found);
  const kv_rebuilt *x = found.rebuilt;
  for (int t = FROM; t < T; t++) {
    if (t % 10 == 0) continue;
    all += alike_square(t, WIDTH);
    late += t < 64 ? 0 : alike_square(t, WIDTH);
    for (int way = 0; way < 2; way++) {
      double one = rebuilt(t, way == KV_REBUILT_NEAREST);
      of[way] += one;
      octave[way] += t < 64 ? 0 : one;
    }
  }
  assert_true(x->there && !found.rebuilt[1].there);
  assert_string_equal(x->file, "w.safetensors");
  assert_int_equal(x->of.hidden, HIDDEN);
  assert_int_equal(x->of.latent, LATENT);
  assert_int_equal(x->length, 64);
  for (int way = 0; way < 2; way++) {
    close_to(x->share[way], of[way] / all, kv_rebuilt_way[way]);
    close_to(x->by_position[way][6], octave[way] / late, "64 to 127");
    assert_true(isnan(x->by_position[way][7]));
  }
  /* of no file beside the trace, z is not told */
  assert_int_equal(found.space[0].residual[KV_LATENT_VECTOR].tokens, 0);
  alike_look_with(path, kv_kernels_best(), 3, &again);
  assert_memory_equal(&found, &again, sizeof found);
  const kv_kernels *portable;
  assert_int_equal(kv_kernels_named("portable", &portable, NULL, NULL), 0);
  alike_look_with(path, portable, 2, &again);
  assert_memory_equal(&found, &again, sizeof found);
}

void test_weights_refused(void **state); /* called by check_residuals.c */
void test_weights_refused(void **state) {
  static kv_compressors files;
  const char *path[2];
  kv_trace *t = alike_made(true);
  kv_err e = {0};
  (void)state;
  path[0] = weights("other.safetensors", NULL, LATENT - 1);
  assert_int_equal(kv_compressors_open(t, 1, path, &files, &e), KV_INPUT);
  assert_int_equal(e.rc, KV_INPUT);
  assert_non_null(strstr(e.text, "is [16, 3] and should be [16, 2]"));
  assert_int_equal(files.n, 0);
  /* one file twice is one */
  path[0] = path[1] = weights("one.safetensors", NULL, LATENT);
  assert_int_equal(kv_compressors_open(t, 2, path, &files, &e), KV_OK);
  assert_int_equal(files.n, 1);
  assert_int_equal(kv_compressors_layers(&files, 0), 1);
  kv_compressors_close(&files);
  kv_trace_close(t);
}
