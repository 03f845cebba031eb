/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of random: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/random.c).
 */
#ifndef KV_REF_METHODS_RANDOM_H
#define KV_REF_METHODS_RANDOM_H

enum { DROP, PREFILL }; /* variant */

typedef struct params {
  int budget, recent, seed, variant;
} params;

#endif
