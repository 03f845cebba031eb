/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of oracle_topk as its open (ref/methods/oracle_topk.c) has
 * resolved them, for it and its CUDA twin. Defaults and sources stand in its
 * table of parameters.
 */
#ifndef KV_REF_METHODS_ORACLE_TOPK_H
#define KV_REF_METHODS_ORACLE_TOPK_H

typedef struct params {
  int budget; /* entries that a query head attends to */
} params;

#endif
