/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of tova, for it and its CUDA twin; its open resolves what has
 * no default. An enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_TOVA_H
#define KV_REF_METHODS_TOVA_H

#include "ref/lane/params.h"

enum { NO, YES };       /* protect_newest */
enum { DROP, PREFILL }; /* variant */

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens left after a compression; must be given")                  \
  P(CHOICE, protect_newest, "no", "no|yes",                                    \
    "may the newest token go? no protection, as in the authors' code; "        \
    "kvpress protects it")                                                     \
  P(CHOICE, variant, "drop", "drop|prefill",                                   \
    "drop: after every step, as in the authors' code; prefill: once after "    \
    "the prompt, as in kvpress")
KV_PARAMS(PARAMS);

#endif
