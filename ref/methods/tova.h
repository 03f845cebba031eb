/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of tova as its open (ref/methods/tova.c) has resolved them,
 * for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_TOVA_H
#define KV_REF_METHODS_TOVA_H

enum { NO, YES };       /* protect_newest */
enum { DROP, PREFILL }; /* variant */

typedef struct params {
  int budget;                  /* entries of a lane that stay */
  int protect_newest, variant; /* of the enums above */
} params;

#endif
