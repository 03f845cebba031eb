/* SPDX-License-Identifier: Apache-2.0
 *
 * The table and the frequencies of traces/trace/geometry.h.
 */
#include "traces/trace/geometry.h"

#include <string.h>

#include "ref/ground/arith.h"

static const kv_geometry table[] = {
    {"llama-3.1-8b", 32, 32, 8, 128, 500000.0f, 1, KV_BF16},
    {"llama-3.1-70b", 80, 64, 8, 128, 500000.0f, 1, KV_BF16},
    {"qwen2.5-7b", 28, 28, 4, 128, 1000000.0f, 0, KV_BF16},
    {"mistral-7b", 32, 32, 8, 128, 1000000.0f, 0, KV_BF16},
    {"llama-2-7b", 32, 32, 32, 128, 10000.0f, 0, KV_F16},
    {"tiny", 4, 8, 4, 32, 10000.0f, 0, KV_F16},
};

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

/* Llama 3.1: wavelengths beyond 8,192 tokens are stretched eightfold, those
 * below a quarter of it stay, and between the two it is interpolated. */
static float stretch(float w) {
  float turns = kv_mul(w, kv_div(8192.0f, 0x1.921fb6p+2f)); /* by 2 pi */
  float smooth = kv_div(kv_sub(turns, 1.0f), 3.0f);
  if (turns >= 4.0f) return w;
  if (turns <= 1.0f) return kv_mul(w, 0.125f);
  float slow = kv_mul(kv_mul(kv_sub(1.0f, smooth), w), 0.125f);
  return kv_fma(smooth, w, slow);
}

void kv_geometry_frequencies(const kv_geometry *g, float *out) {
  float base = kv_log(g->theta);
  for (int i = 0; i < g->d / 2; i++) {
    float x = kv_mul(kv_div((float)(2 * i), (float)g->d), base);
    float w = kv_expm(-x);
    out[i] = g->llama3 ? stretch(w) : w;
  }
}
