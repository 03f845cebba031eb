/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of oracle_topk: its parameters as open resolved them (what
 * each means, its range and its unit stand in the table of
 * ref/methods/oracle_topk.c).
 */
#ifndef KV_REF_METHODS_ORACLE_TOPK_H
#define KV_REF_METHODS_ORACLE_TOPK_H

typedef struct params {
  int budget;
} params;

#endif
