/* SPDX-License-Identifier: Apache-2.0
 *
 * A small layer for the tests of Palu and the bases of its low-rank projection,
 * made in memory: orthonormal, by Gram and Schmidt.
 */
#ifndef KV_TESTS_PALU_BASES_H
#define KV_TESTS_PALU_BASES_H

#include "ref/parts/lowrank.h"
#include "tests/support/rig.h"

/* 4 KV heads in 2 groups: keys of 8 numbers, values of 6. */
enum {
  PALU_T = 50,          /* tokens */
  PALU_D = 4,           /* elements of a key, */
  PALU_DV = 3,          /* of a value */
  PALU_H = 4,           /* KV heads */
  PALU_G = 2,           /* groups of them */
  PALU_KW = 2 * PALU_D, /* elements of a group's keys, */
  PALU_VW = 2 * PALU_DV /* of its values */
};

/* As an asset points to them: do not copy one. */
typedef struct palu_bases {
  /* Of each group: basis vectors, one a row, and the energy along each. */
  float key[PALU_G][PALU_KW][PALU_KW], value[PALU_G][PALU_VW][PALU_VW];
  float key_energy[PALU_G][PALU_KW], value_energy[PALU_G][PALU_VW];
  kv_tensor tensor[KV_LOWRANK_TENSORS];
  kv_asset_text text; /* metadata */
  int layer;          /* the only one of asset */
  kv_asset asset;     /* what the method reads */
} palu_bases;

/* RoPE frequencies of the layer. */
extern const float palu_freq[PALU_D / 2];

/* Makes the bases from random numbers that go on from the call before: the n-th
 * call in a process always makes the same ones. */
void palu_fill(palu_bases *b);
/* The layer with these bases, 40 tokens of prompt and random data
 * (rig_data_free). */
rig_case palu_case(const palu_bases *b);

#endif
