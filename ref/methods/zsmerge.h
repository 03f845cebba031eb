/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of zsmerge read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_ZSMERGE_H
#define KV_REF_METHODS_ZSMERGE_H

enum { PAPER, CODE };              /* variant */
enum { DOT, L2 };                  /* metric */
enum { PLAIN, RESIDUAL, CLASSES }; /* of entries, variant=paper */

typedef struct params {
  int budget, residual, context, proximity, variant, metric;
  int merged; /* a kv_means */
  float decay, merge_bias;
} params;

#endif
