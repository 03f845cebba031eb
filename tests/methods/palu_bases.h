/* SPDX-License-Identifier: Apache-2.0
 *
 * A small layer for the tests of Palu, and directions that no file holds: of
 * unit length and at right angles, by Gram and Schmidt.
 */
#ifndef KV_TESTS_PALU_BASES_H
#define KV_TESTS_PALU_BASES_H

#include "ref/parts/lowrank.h"
#include "tests/support/rig.h"

/* 4 KV heads in 2 groups: keys of 8 numbers, values of 6. */
enum {
  PALU_T = 50,
  PALU_D = 4,
  PALU_DV = 3,
  PALU_H = 4,
  PALU_G = 2,
  PALU_KW = 2 * PALU_D,
  PALU_VW = 2 * PALU_DV
};

typedef struct palu_bases {
  float key[PALU_G][PALU_KW][PALU_KW], value[PALU_G][PALU_VW][PALU_VW];
  float key_energy[PALU_G][PALU_KW], value_energy[PALU_G][PALU_VW];
  kv_tensor tensor[KV_LOWRANK_TENSORS];
  kv_asset_text text;
  int layer;
  kv_asset asset;
} palu_bases;

extern const float palu_freq[PALU_D / 2];

void palu_fill(palu_bases *b);
/* A layer with these, 40 tokens of prompt. rig_data_free. */
rig_case palu_case(const palu_bases *b);

#endif
