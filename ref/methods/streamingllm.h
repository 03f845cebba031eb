/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of streamingllm read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_STREAMINGLLM_H
#define KV_REF_METHODS_STREAMINGLLM_H

enum { CACHE, ORIGINAL }; /* positions */
enum { DROP, PREFILL };   /* variant */

typedef struct params {
  int budget, sink, recent, positions, variant;
} params;

#endif
