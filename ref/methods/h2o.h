/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of h2o read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_H2O_H
#define KV_REF_METHODS_H2O_H

enum { DROP, MASKED, PREFILL }; /* variant */
enum { NONE, SEEN };            /* scale */

typedef struct params {
  int budget, recent, variant, group, scale;
} params;

#endif
