/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of quant: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/quant.c).
 */
#ifndef KV_REF_METHODS_QUANT_H
#define KV_REF_METHODS_QUANT_H

#include "ref/formats/named.h"
#include "ref/lane/lane.h"

enum { AFTER, BEFORE };            /* rope */
enum { KEYS, VALUES, SIDES };      /* of an entry */
enum { AS_IT_CAME = -1, RAW = 0 }; /* coding of a side, and its name */

typedef struct params {
  int named[SIDES]; /* k, v: numbers of ref/formats/named.h */
  int groups, side_groups[SIDES], residual, rope;
  int coding[SIDES];    /* by open: which of its codings, or AS_IT_CAME */
  kv_minmax how[SIDES]; /* settings of both, by open */
} params;

#endif
