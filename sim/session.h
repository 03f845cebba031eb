/* SPDX-License-Identifier: Apache-2.0
 *
 * A session: one method on one request whose tokens arrive now, from a model
 * or a kernel test, instead of from a recorded trace. It is the same engine
 * that `kvreplay run` walks with, so the same tokens give the same journal,
 * state and output digests, whatever pieces they come in.
 *
 *   open; for each layer its prompt in pieces, then its decode steps one by
 *   one (_block); _end_step when all layers have a step and its bytes are to
 *   be known; _lane, _view, _lse, _ledger at any time; _digest; _close.
 *
 * Layers advance independently: a layer may be as far ahead of another as it
 * likes, for no hook of a method is shown more than one (ref/method.h). Within
 * a layer tokens come in order.
 *
 * What does not fit - a call out of order, a shape or layer that is not there,
 * NaN or Inf - is an error with one sentence and changes nothing. A logit that
 * is not finite ends the layer: KV_REFUSED, then and from then on. A missing
 * session is an error too; so is a call after _digest that would change it.
 *
 * Two sessions share nothing and may live in two threads; one session is for
 * one thread at a time. The floating-point mode of the caller is put back.
 *
 * Memory: K and V of n_tokens as they come, the prompt's queries that the
 * method is shown and, per layer and lane, about 32 bytes a token; what is
 * not used is not touched, but for the rest of a large page. It is slow and
 * exact: nothing that a method drops is given back, only no longer counted.
 *
 * Everything here is plain C for C++ and any language that calls C.
 * KV_SESSION_ABI grows when a struct or a meaning changes; kv_session_abi says
 * what the library was built with, and open refuses a shape of another. Symbols
 * carry the version KVREPLAY_0.
 */
#ifndef KV_SIM_SESSION_H
#define KV_SIM_SESSION_H

#include "ref/err.h"
#include "ref/ledger.h"
#include "ref/sha256.h"
#include "ref/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KV_SESSION_ABI = 1 };
int kv_session_abi(void);

/* The request. Arrays are copied by open. */
typedef struct kv_session_shape {
  int32_t abi;                 /* KV_SESSION_ABI */
  int32_t n_layers;            /* of the model */
  int32_t n_heads, n_kv_heads; /* n_kv_heads divides n_heads */
  int32_t d, d_v;              /* of q and k; of v */
  int32_t n_tokens;            /* room for so many, prompt and decode */
  int32_t dtype;               /* kv_dtype in which K and V are stored */
  float scale;                 /* of logits; 0: 1/sqrt(d) */
  int32_t n_fed;               /* layers that will come; 0: all */
  const int32_t *fed;          /* [n_fed] the model's numbers, ascending */
  const float *inv_freq;       /* [d/2] of RoPE, inside q and k already; NULL:
                                  none. Methods that re-index need it */
  int32_t interleaved;         /* RoPE pairs 2i, 2i+1; else i, i + d/2 */
  const int32_t *positions;    /* [n_tokens] of RoPE, or NULL: 0, 1, .. */
} kv_session_shape;

typedef struct kv_session kv_session;

/* spec as behind -m ("quest:page=16"), one method; budget as behind -b, in
 * entries ("512") or of the prompt ("20%"), or NULL where spec has it or
 * needs none. prompt_len is 1..n_tokens. KV_USAGE: the call, the
 * specification or the budget is wrong; KV_REFUSED: the method cannot run on
 * this shape; KV_RESOURCE: memory. *out is NULL after a failure. */
kv_rc kv_session_open(const kv_session_shape *shape, const char *spec,
                      const char *budget, int prompt_len, kv_session **out,
                      kv_err *e);
void kv_session_close(kv_session *s); /* accepts NULL */

/* The method with every parameter written out; lives as long as s. */
const char *kv_session_spec(const kv_session *s);
/* Lanes a layer: KV heads, or query heads where the method keeps a lane for
 * each. 0 without a session. */
int kv_session_lanes(const kv_session *s);

/* Rows of tokens and heads, the d or d_v elements of each side by side. */
typedef struct kv_session_in {
  const void *data;    /* of the first token and head */
  int32_t dtype;       /* kv_dtype */
  int64_t token, head; /* elements from one to the next; any sign */
} kv_session_in;
typedef struct kv_session_out {
  void *data;
  int32_t dtype; /* F32 is exact; F16, BF16: rounded to nearest even */
  int64_t token, head;
} kv_session_out;

/* The next n tokens of a layer (the model's number): q of all query heads, k
 * and v of all KV heads, after RoPE. step: tokens seen by the layer after
 * them. Up to prompt_len they are prompt, in pieces of any size, which are
 * cut again into the blocks that the method asks for; after it n is 1.
 *
 * q may have any dtype, one for all of a layer's prompt. k and v of another
 * dtype than the shape's are taken where every element is the same number in
 * it, and refused otherwise, naming the first that is not: round them before.
 *
 * out, n tokens of all query heads, may be NULL. A decode step's is what the
 * method makes of attention: over the view of the step. A prompt token's is
 * the exact causal attention over what the layer has stored and the tokens of
 * its own block up to itself, by the same arithmetic: with block = 0 (most
 * methods) over everything so far, since nothing is dropped before the prompt
 * has ended. It is computed at once, whatever is still to come of the block,
 * and appears in no digest; without out it costs nothing. */
kv_rc kv_session_block(kv_session *s, int layer, int step, int n,
                       const kv_session_in *q, const kv_session_in *k,
                       const kv_session_in *v, const kv_session_out *out,
                       kv_err *e);

/* Closes the ledger up to `step` tokens seen, which every layer must have and
 * the ledger not. Within the prompt a step is where a block of the method
 * ends. Steps between this and the last one closed are closed too. */
kv_rc kv_session_end_step(kv_session *s, int step, kv_err *e);

/* What a lane of a layer holds now, in its order: the oldest token of each
 * entry, and how many tokens it stands for. *n says how many there are; id
 * and weight (each may be NULL) take the first `room` of them. */
kv_rc kv_session_lane(const kv_session *s, int layer, int lane, int room,
                      uint32_t *id, uint32_t *weight, int *n, kv_err *e);
/* What a query head attended at the layer's last decode step, in lane order:
 * as ids of entries when they were attended. */
kv_rc kv_session_view(const kv_session *s, int layer, int head, int room,
                      uint32_t *id, int *n, kv_err *e);
/* Logarithm of the sum of exponentials of that step: [n_heads]. */
kv_rc kv_session_lse(const kv_session *s, int layer, float *lse, kv_err *e);

/* All layers, up to the last step closed; `step` 0: none was. The peak is
 * over blocks, the mean over t from prompt_len to step, as in a row of
 * `kvreplay run`. */
typedef struct kv_session_bytes {
  int32_t step; /* tokens seen */
  kv_bytes now;
  int64_t peak;
  double mean;
} kv_session_bytes;
kv_rc kv_session_ledger(const kv_session *s, kv_session_bytes *out, kv_err *e);

/* Ends the session: all layers have seen the same number of tokens, at least
 * the prompt. Digests are those of `kvreplay run` of a trace of these tokens
 * whose n_tokens is the shape's and was reached. Asked again it says the
 * same. */
typedef struct kv_session_digests {
  kv_digest journal, state, output;
} kv_session_digests;
kv_rc kv_session_digest(kv_session *s, kv_session_digests *out, kv_err *e);

#ifdef __cplusplus
}
#endif

#endif
