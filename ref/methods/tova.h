/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of tova, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_TOVA_H
#define KV_REF_METHODS_TOVA_H

#include "ref/lane/params.h"

enum { NO, YES };       /* protect_newest */
enum { DROP, PREFILL }; /* variant */

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens left after a compression; must be given")                  \
  P(CHOICE, protect_newest, "no", "no|yes",                                    \
    "always keep the newest token? no as in the authors' code, yes as in "     \
    "kvpress")                                                                 \
  P(CHOICE, variant, "drop", "drop|prefill",                                   \
    "drop: after every step, as in the authors' code; prefill: once after "    \
    "the prompt, as in kvpress")
KV_PARAMS(PARAMS);

#endif
