/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of quant as its open (ref/methods/quant.c) has resolved them,
 * for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_QUANT_H
#define KV_REF_METHODS_QUANT_H

#include "ref/formats/named.h"
#include "ref/lane/lane.h"

enum { AFTER, BEFORE };            /* rope */
enum { KEYS, VALUES, SIDES };      /* of an entry */
enum { AS_IT_CAME = -1, RAW = 0 }; /* coding of a side, and its name */

typedef struct params {
  int named[SIDES];               /* k, v: numbers of ref/formats/named.h */
  int groups, side_groups[SIDES]; /* of a row; of each side as resolved */
  int residual;                   /* newest entries, which are not coded */
  int rope;                       /* of the enum above */
  int coding[SIDES];    /* by open: which of its codings, or AS_IT_CAME */
  kv_minmax how[SIDES]; /* settings of both, by open */
} params;

#endif
