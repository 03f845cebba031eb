/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of random read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_RANDOM_H
#define KV_REF_METHODS_RANDOM_H

enum { DROP, PREFILL }; /* variant */

typedef struct params {
  int budget, recent, seed, variant;
} params;

#endif
