/* SPDX-License-Identifier: Apache-2.0
 *
 * The table, which is models.csv, and the frequencies of
 * traces/trace/geometry.h.
 */
#include "traces/trace/geometry.h"

#include <string.h>

#include "ref/ground/arith.h"
#include "traces/trace/parameters.h"

/* What a config.json leaves out is transformers' default: theta 10000 of Llama
 * 2 and Falcon; d 256, both thetas and full_every of Gemma 3. */
#include "traces/trace/models_csv.h"

const kv_geometry *kv_geometries(int *n) {
  *n = (int)(sizeof table / sizeof *table);
  return table;
}

const kv_geometry *kv_geometry_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].name, name) == 0) return &table[i];
  }
  return NULL;
}

kv_parameters kv_geometry_parameters(const kv_geometry *g) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].name, g->name) == 0) return sizes[i];
  }
  return (kv_parameters){0};
}

int kv_geometry_window(const kv_geometry *g, int layer) {
  int full = g->full_every && (layer + 1) % g->full_every == 0;
  return full ? 0 : g->window;
}

static const float TURN = 0x1.921fb6p+2f; /* 2 pi */

/* Llama 3.1: wavelengths above 8,192 tokens are stretched eightfold, those
 * below a quarter of that stay, and those between are interpolated. */
static float stretch(float w) {
  float turns = kv_mul(w, kv_div(8192.0f, TURN));
  float smooth = kv_div(kv_sub(turns, 1.0f), 3.0f);
  if (turns >= 4.0f) return w;
  if (turns <= 1.0f) return kv_mul(w, 0.125f);
  float slow = kv_mul(kv_mul(kv_sub(1.0f, smooth), w), 0.125f);
  return kv_fma(smooth, w, slow);
}

/* The index of the pair, a real number, that turns `turns` times in 4,096
 * tokens. */
static float pair_of(const kv_geometry *g, float turns) {
  float x = kv_log(kv_div(4096.0f, kv_mul(turns, TURN)));
  return kv_div(kv_mul((float)(g->d / 2), x), kv_log(g->theta));
}

/* gpt-oss: pairs that turn 32 times or more stay, those that do not turn once
 * are stretched 32 times, and between them the stretch is interpolated by the
 * pair's index, which is not rounded. */
static float yarn(const kv_geometry *g, int i, float w) {
  float low = pair_of(g, 32.0f), high = pair_of(g, 1.0f);
  float part = kv_div(kv_sub((float)i, low), kv_sub(high, low));
  float slow = kv_mul(w, 0x1p-5f);
  part = part < 0 ? 0 : part > 1 ? 1 : part;
  return kv_fma(part, slow, kv_mul(kv_sub(1.0f, part), w));
}

static float scaled(const kv_geometry *g, int i, float w) {
  if (g->scaling == KV_ROPE_LLAMA3) return stretch(w);
  if (g->scaling == KV_ROPE_LINEAR) return kv_mul(w, 0.125f);
  return g->scaling == KV_ROPE_YARN ? yarn(g, i, w) : w;
}

void kv_geometry_frequencies(const kv_geometry *g, int windowed, float *out) {
  int other = windowed && g->theta_windowed > 0;
  float base = kv_log(other ? g->theta_windowed : g->theta);
  for (int i = 0; i < g->d / 2; i++) {
    float x = kv_mul(kv_div((float)(2 * i), (float)g->d), base);
    float w = kv_expm(-x);
    out[i] = other ? w : scaled(g, i, w);
  }
}
