/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: tests/methods/palu_bases.h.
 */
#include "tests/methods/palu_bases.h"

#include <math.h>
#include <string.h>

enum {
  T = PALU_T,
  D = PALU_D,
  DV = PALU_DV,
  H = PALU_H,
  G = PALU_G,
  KW = PALU_KW,
  VW = PALU_VW
};

const float palu_freq[D / 2] = {1.0f, 0.1f};

static double drawn(void) {
  static uint32_t seed = 11;
  seed = seed * 1664525u + 1013904223u;
  return (double)(int32_t)seed * 0x1p-31;
}

/* Rows at right angles and of unit length, by Gram and Schmidt. */
static void orthonormal(int n, float *out) {
  double row[KW][KW] = {{0}};
  for (int i = 0; i < n; i++) {
    for (int x = 0; x < n; x++) row[i][x] = drawn();
    for (int pass = 0; pass < 2; pass++)
      for (int j = 0; j < i; j++) {
        double dot = 0;
        for (int x = 0; x < n; x++) dot += row[i][x] * row[j][x];
        for (int x = 0; x < n; x++) row[i][x] -= dot * row[j][x];
      }
    double square = 0;
    for (int x = 0; x < n; x++) square += row[i][x] * row[i][x];
    for (int x = 0; x < n; x++) row[i][x] /= sqrt(square);
    for (int x = 0; x < n; x++) out[i * n + x] = (float)row[i][x];
  }
}

void palu_fill(palu_bases *b) {
  memset(b, 0, sizeof *b);
  for (int g = 0; g < G; g++) {
    orthonormal(KW, b->key[g][0]);
    orthonormal(VW, b->value[g][0]);
    /* of keys .50 .10 .04 .. and .10 .08 ..; of values all alike */
    for (int i = 0; i < KW; i++)
      b->key_energy[g][i] =
          g ? .1f - .02f * (float)(i / 2) : .25f / (float)(1 << i);
    for (int i = 0; i < VW; i++) b->value_energy[g][i] = 1.f / 12;
  }
  b->tensor[KV_KEY_BASIS] = (kv_tensor){b->key, G * KW * KW, {G, KW, KW}};
  b->tensor[KV_VALUE_BASIS] = (kv_tensor){b->value, G * VW * VW, {G, VW, VW}};
  b->tensor[KV_KEY_ENERGY] = (kv_tensor){b->key_energy, G * KW, {G, KW}};
  b->tensor[KV_VALUE_ENERGY] = (kv_tensor){b->value_energy, G * VW, {G, VW}};
  b->text = (kv_asset_text){"turn", "1"};
  b->asset = (kv_asset){.path = "b.safetensors",
                        .ask = kv_lowrank_kind.tensors,
                        .asked = KV_LOWRANK_TENSORS,
                        .layers = 1,
                        .layer = &b->layer,
                        .tensor = b->tensor,
                        .texts = 1,
                        .text = &b->text};
}

rig_case palu_case(const palu_bases *b) {
  rig_case c = RIG_SHAPE(H, H, D, DV, T, 40, .inv_freq = palu_freq);
  rig_data(&c, 5);
  c.inv_freq = palu_freq;
  c.asset = &b->asset;
  return c;
}
