/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of window read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_WINDOW_H
#define KV_REF_METHODS_WINDOW_H

enum { DROP, PREFILL }; /* variant */

typedef struct params {
  int budget, variant;
} params;

#endif
