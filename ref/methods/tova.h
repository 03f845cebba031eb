/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of tova: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/tova.c).
 */
#ifndef KV_REF_METHODS_TOVA_H
#define KV_REF_METHODS_TOVA_H

enum { NO, YES };       /* protect_newest */
enum { DROP, PREFILL }; /* variant */

typedef struct params {
  int budget, protect_newest, variant;
} params;

#endif
