/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of oracle_evict as its open (ref/methods/oracle_evict.c) has
 * resolved them, for it and its CUDA twin. Defaults and sources stand in its
 * table of parameters.
 */
#ifndef KV_REF_METHODS_ORACLE_EVICT_H
#define KV_REF_METHODS_ORACLE_EVICT_H

/* group: a lane for the query heads of a KV head together, or for each. */
enum { SUM, QUERY };

typedef struct params {
  int budget; /* entries of a lane that stay */
  int group;  /* of the enum above */
} params;

#endif
