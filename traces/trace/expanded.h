/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-head latent attention as a forward expands it: every query head has
 * keys and values of its own, made from one latent vector a token, and the
 * rotated part of a token's key is one for all heads. A cache of such rows is
 * held by nobody: the model's own has the latent vector and the rotated part.
 * A trace shows it by keys that have one end in common, bit for bit, which
 * nothing else makes; how long the latent vector is, only its recorder knows
 * (metadata `attn.latent`).
 */
#ifndef KV_TRACES_EXPANDED_H
#define KV_TRACES_EXPANDED_H

#include "traces/trace/trace.h"

typedef struct kv_expanded {
  int shared; /* numbers of a key that all KV heads have in common; 0: it is
                 no expanded trace */
  bool first; /* they come first in it, not last */
  int latent; /* numbers a token and layer of the model's own cache; 0: nobody
                 says */
} kv_expanded;

/* Reads a few rows of two layers: before what is found is believed,
 * kv_trace_damaged must say KV_OK. */
kv_expanded kv_trace_expanded(const kv_trace *t);

/* One sentence about it, for x.shared > 0. Returns out. */
enum { KV_EXPANDED_TEXT = 400 };
const char *kv_expanded_text(const kv_trace *t, const kv_expanded *x,
                             char out[KV_EXPANDED_TEXT]);

#endif
