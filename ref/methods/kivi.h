/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of kivi: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/kivi.c).
 */
#ifndef KV_REF_METHODS_KIVI_H
#define KV_REF_METHODS_KIVI_H

#include "ref/formats/minmax.h"
#include "ref/lane/lane.h"

enum { AUTO, PAPER, CODE }; /* variant */
enum { AFTER, BEFORE };     /* rope */
enum { KEYS, VALUES };      /* codings */

typedef struct params {
  int bits, k_bits, v_bits, group, residual, variant, rope;
  kv_minmax k, v; /* settings of both codings, by open */
} params;

#endif
