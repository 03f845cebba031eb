/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of knorm: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/knorm.c).
 */
#ifndef KV_REF_METHODS_KNORM_H
#define KV_REF_METHODS_KNORM_H

enum { PREFILL, DROP }; /* variant */

typedef struct params {
  int budget, skip, variant;
} params;

#endif
