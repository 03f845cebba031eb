/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of oracle_topk read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_ORACLE_TOPK_H
#define KV_REF_METHODS_ORACLE_TOPK_H

typedef struct params {
  int budget;
} params;

#endif
