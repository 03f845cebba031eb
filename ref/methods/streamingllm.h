/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of streamingllm as its open (ref/methods/streamingllm.c) has
 * resolved them, for it and its CUDA twin. Defaults and sources stand in its
 * table of parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_STREAMINGLLM_H
#define KV_REF_METHODS_STREAMINGLLM_H

enum { CACHE, ORIGINAL }; /* positions */
enum { DROP, PREFILL };   /* variant */

typedef struct params {
  int budget, sink, recent; /* entries: sink + recent; the first; the last */
  int positions, variant;   /* of the enums above */
} params;

#endif
