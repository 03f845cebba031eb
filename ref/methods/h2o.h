/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of h2o: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/h2o.c).
 */
#ifndef KV_REF_METHODS_H2O_H
#define KV_REF_METHODS_H2O_H

enum { DROP, MASKED, PREFILL }; /* variant */
enum { NONE, SEEN };            /* scale */

typedef struct params {
  int budget, recent, variant, group, scale;
} params;

#endif
