/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of window, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_WINDOW_H
#define KV_REF_METHODS_WINDOW_H

#include "ref/lane/params.h"

/* variant: the oldest entries go after the prompt and after every step, or
 * after the prompt alone. */
enum { DROP, PREFILL };

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens left after a compression; must be given")                  \
  P(CHOICE, variant, "drop", "drop|prefill",                                   \
    "drop: after every step, as in the paper; prefill: once after the prompt")
KV_PARAMS(PARAMS);

#endif
