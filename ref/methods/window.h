/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of window (ref/methods/window.c), read by both twins after
 * open has resolved them: budget is at least 1.
 */
#ifndef KV_REF_METHODS_WINDOW_H
#define KV_REF_METHODS_WINDOW_H

/* variant: the oldest entries go after the prompt and after every step, or
 * after the prompt alone. */
enum { DROP, PREFILL };

typedef struct params {
  int budget;  /* entries of a lane that stay: the last ones */
  int variant; /* of the enum above */
} params;

#endif
