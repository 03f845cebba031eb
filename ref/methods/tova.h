/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of tova read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_TOVA_H
#define KV_REF_METHODS_TOVA_H

enum { NO, YES };       /* protect_newest */
enum { DROP, PREFILL }; /* variant */

typedef struct params {
  int budget, protect_newest, variant;
} params;

#endif
