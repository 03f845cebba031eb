/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of kivi as its open (ref/methods/kivi.c) has resolved them,
 * for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_KIVI_H
#define KV_REF_METHODS_KIVI_H

#include "ref/formats/minmax.h"
#include "ref/lane/lane.h"

enum { AUTO, PAPER, CODE }; /* variant */
enum { AFTER, BEFORE };     /* rope */
enum { KEYS, VALUES };      /* codings */

typedef struct params {
  int bits, k_bits, v_bits; /* of a code, 2 or 4; of K and V as resolved */
  int group;         /* tokens (K), elements (V) that share scale and minimum */
  int residual;      /* newest values not coded; keys are coded so many at
                        once; a multiple of group */
  int variant, rope; /* of the enums above */
  kv_minmax k, v;    /* settings of both codings, by open */
} params;

#endif
