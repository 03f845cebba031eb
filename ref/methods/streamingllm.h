/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of streamingllm: its parameters as open resolved them
 * (what each means, its range and its unit stand in the table of
 * ref/methods/streamingllm.c).
 */
#ifndef KV_REF_METHODS_STREAMINGLLM_H
#define KV_REF_METHODS_STREAMINGLLM_H

enum { CACHE, ORIGINAL }; /* positions */
enum { DROP, PREFILL };   /* variant */

typedef struct params {
  int budget, sink, recent, positions, variant;
} params;

#endif
