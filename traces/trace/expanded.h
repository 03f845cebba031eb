/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises a trace of multi-head latent attention (DeepSeek) that was
 * recorded after expansion. In such a trace every query head has its own keys
 * and values, computed from one latent vector a token, and the rotated part of
 * a token's key is the same in all heads. No model stores such rows: its cache
 * has the latent vector and the rotated part. The trace is recognised by keys
 * that agree at one end, bit for bit, in all KV heads. Only metadata
 * `attn.latent` says how long the latent vector is. For `kvtrace info`.
 */
#ifndef KV_TRACES_EXPANDED_H
#define KV_TRACES_EXPANDED_H

#include "traces/trace/trace.h"

typedef struct kv_expanded {
  int shared; /* elements of a key that are equal in all KV heads; 0: not such a
                 trace */
  bool first; /* they are the key's first elements, not its last */
  int latent; /* elements a token and layer of the model's own cache; 0: not
                 recorded */
} kv_expanded;

/* Reads the keys of at most eight tokens, of all KV heads, in the first and
 * last recorded layer. Call kv_trace_damaged before you trust the result. */
kv_expanded kv_trace_expanded(const kv_trace *t);

/* Writes one sentence about it into out, for x->shared > 0. Returns out. */
enum { KV_EXPANDED_TEXT = 400 }; /* bytes, with the NUL */
const char *kv_expanded_text(const kv_trace *t, const kv_expanded *x,
                             char out[KV_EXPANDED_TEXT]);

#endif
