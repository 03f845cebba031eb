/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of zsmerge: its parameters as open resolved them (what
 * each means, its range and its unit stand in the table of
 * ref/methods/zsmerge.c).
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
