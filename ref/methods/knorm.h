/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of knorm read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_KNORM_H
#define KV_REF_METHODS_KNORM_H

enum { PREFILL, DROP }; /* variant */

typedef struct params {
  int budget, skip, variant;
} params;

#endif
