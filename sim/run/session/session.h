/* SPDX-License-Identifier: Apache-2.0
 *
 * A session: one method on one request whose tokens arrive as they are
 * computed, by a model or a kernel test, and not from a recorded trace. It uses
 * the engine of `kvreplay run`, so the same tokens give the same journal, state
 * and output digests, in pieces of any size.
 *
 *   kv_session_open
 *   for each layer: kv_session_block with its prompt, in pieces, then with its
 *     decode steps, one by one
 *   kv_session_keep after its prompt, if the program decides what is kept
 *   kv_session_end_step when all layers have seen a step, to count its bytes
 *   kv_session_lane, _held, _view, _lse, _ledger at any time
 *   kv_session_fork at any time, for several continuations of one prompt
 *   kv_session_digest; kv_session_close
 *
 * Layers advance independently, because no hook of a method sees more than one
 * layer (ref/lane/method.h). A layer may be any number of steps ahead of
 * another. Exception: if layers read messages from layers above them (KV_DOWN
 * there), no layer may be ahead of the one above it. Within a layer tokens come
 * in order.
 *
 * A wrong call (out of order, a shape or layer that does not exist, NaN or Inf
 * in the data, no session) fails with one sentence and changes nothing. A logit
 * that is not finite ends the layer: this kv_session_block and all later ones
 * on it return KV_REFUSED. After kv_session_digest no token can be fed and no
 * step closed.
 *
 * Two sessions share nothing and may be used by two threads; one session by one
 * thread at a time. Calls restore the caller's floating-point mode.
 *
 * Memory: K and V of n_tokens in the given dtype, the prompt's queries that the
 * method needs and, per layer and lane, about 32 bytes a token. Pages are
 * touched only when used, up to the size of a huge page. What a method drops is
 * no longer counted, but not freed.
 *
 * Plain C, usable from C++ and any language that calls C. KV_SESSION_ABI rises
 * when a struct or a meaning changes. kv_session_abi returns the library's
 * number, and kv_session_open refuses a shape with another. Symbols have the
 * version KVREPLAY_0.
 */
#ifndef KV_SIM_SESSION_H
#define KV_SIM_SESSION_H

#include "ref/ground/err.h"
#include "ref/ground/sha256.h"
#include "ref/ground/shape.h"
#include "ref/lane/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KV_SESSION_ABI = 5 };
int kv_session_abi(void); /* the library's */

/* The request. Open copies the arrays; the caller may free them afterwards. */
typedef struct kv_session_shape {
  int32_t abi;                 /* KV_SESSION_ABI */
  int32_t n_layers;            /* of the model */
  int32_t n_heads, n_kv_heads; /* n_kv_heads divides n_heads */
  int32_t d, d_v;              /* of q and k; of v */
  int32_t n_tokens;            /* the most tokens, prompt and decode */
  int32_t dtype;               /* kv_dtype of the stored K and V */
  float scale;                 /* of logits; 0: 1/sqrt(d) */
  int32_t n_fed;               /* layers that will be fed; 0: all */
  const int32_t *fed;          /* [n_fed] the model's numbers, ascending */
  const float *inv_freq; /* [d/2] of RoPE, already in q and k; NULL: none. Only
                            re-indexing methods need it */
  int32_t interleaved;   /* RoPE pairs are 2i, 2i+1; else i, i + d/2 */
  const int32_t *positions; /* [n_tokens] RoPE positions; NULL: 0, 1, .. */
  /* Properties of models of traces of version 2 (traces/README.md); all zero
   * for other models. */
  float softcap;         /* c > 0: a logit s becomes c tanh(s / c); 0: none */
  const int32_t *window; /* [n_layers] tokens that a row of the layer sees, its
                            own included, at least 2; 0: all. NULL: all. Such
                            layers keep their window, or, with
                            windowed=compress, the method runs within it */
  const float *sinks; /* [n_layers][n_heads] a learned logit in addition to the
                         tokens'; NULL: no layer has one */
  const float *inv_freq_windowed; /* [d/2] for layers with a window, if they
                                     differ from inv_freq, else NULL */
  const float *k_bias; /* [n_layers][n_kv_heads][d] what the model adds to each
                          key before RoPE, for key_bias=subtract; NULL: nothing,
                          or it normalises keys */
} kv_session_shape;

typedef struct kv_session kv_session;

/* Opens a session. spec: one method, as for the option -m ("quest:page=16").
 * budget: as for -b, in entries ("512"), as a share of the prompt ("20%") or as
 * a compression ratio ("ratio:0.8"); NULL if spec contains it or the method
 * needs none. prompt_len: 1..n_tokens. KV_USAGE: an argument, the specification
 * or the budget is wrong. KV_INPUT: a plugin, or a file of budgets, is bad.
 * KV_REFUSED: the method cannot run on this shape. KV_RESOURCE: memory. *out is
 * NULL after a failure. */
kv_rc kv_session_open(const kv_session_shape *shape, const char *spec,
                      const char *budget, int prompt_len, kv_session **out,
                      kv_err *e);
void kv_session_close(kv_session *s); /* accepts NULL */

/* Copies the state of s to a second session, to the bit: what its lanes hold,
 * tokens fed but not yet entered, ledger, digests so far. Both continue
 * independently; each gives the same results as a session that was fed all of
 * its tokens. Allowed between any two calls, also within a prompt and after
 * kv_session_digest. s must not be fed meanwhile; it may be closed before *out.
 *
 * Costs an open and a copy of what s has been fed, whatever its capacity; files
 * of the method are shared. KV_USAGE: s or out is NULL. KV_REFUSED: the method
 * is a plugin that, opened again with its own specification, has other needs.
 * KV_RESOURCE: memory. After a failure *out is NULL and s unchanged. */
kv_rc kv_session_fork(const kv_session *s, kv_session **out, kv_err *e);

/* The specification with every parameter, valid as long as s; s NULL: "". */
const char *kv_session_spec(const kv_session *s);
/* Number of lanes of a layer: one for each KV head, or for each query head if
 * the method needs that. 0 if s is NULL. */
int kv_session_lanes(const kv_session *s);

/* Rows in the caller's memory: one for each token and head. The d (q, k) or d_v
 * (v, out) elements of a row are contiguous. */
typedef struct kv_session_in {
  const void *data;    /* row of the first token and head */
  int32_t dtype;       /* kv_dtype: F32, F16 or BF16 */
  int64_t token, head; /* strides in elements; may be negative */
} kv_session_in;
typedef struct kv_session_out {
  void *data;
  int32_t dtype; /* F32 is exact; F16, BF16: rounded to nearest even */
  int64_t token, head;
} kv_session_out;

/* Feeds the next n tokens of a layer (the model's number): q of all query
 * heads, k and v of all KV heads, after RoPE. step: tokens that the layer has
 * seen after this call. The first prompt_len tokens are the prompt; they may
 * come in pieces of any size, which the session cuts into the blocks that the
 * method needs. After that n must be 1.
 *
 * q may have any dtype, but only one within a layer's prompt. k and v may have
 * another dtype than the shape's if every element is exactly representable in
 * the shape's. Otherwise the call is refused and names the first element that
 * is not: round such data before.
 *
 * out (NULL or n tokens of all query heads) receives the attention outputs. For
 * a decode step they are the method's, over the view of the step. For a prompt
 * token they are exact causal attention over what the layer has stored and the
 * tokens of its own block up to itself, by the same arithmetic. With block = 0
 * (most methods) that is everything so far, because nothing is dropped before
 * the prompt has ended. They are computed at once, even if the block is
 * incomplete, and enter no digest. With out NULL they cost nothing.
 *
 * With prefill=N, tokens after the first N attend like decode steps: to what
 * was stored when their chunk of N began, and to the chunk's tokens up to their
 * own. out is then the method's, and in the digest. If layers read messages, a
 * piece must end where a chunk ends.
 *
 * KV_USAGE: a wrong call, as above. KV_REFUSED: a logit is not finite, or the
 * layer has ended because of one. */
kv_rc kv_session_block(kv_session *s, int layer, int step, int n,
                       const kv_session_in *q, const kv_session_in *k,
                       const kv_session_in *v, const kv_session_out *out,
                       kv_err *e);

/* Says what stays in a lane when the prompt has ended. Only for a session
 * opened with the method `replay` without a file ("replay", or "replay+int4"),
 * whose lanes are those of KV heads. id[n] are tokens of the prompt, each once,
 * in the lane's new order. Call it for a layer (the model's number) after the
 * last block of its prompt and before its first decode step.
 *
 * A lane without a call keeps everything. The layer is compressed when all its
 * lanes have had a call, or by its first decode step, kv_session_end_step or
 * kv_session_digest; until then kv_session_lane does not show the result.
 * Everything else is as with -m replay:file= and a file with the same lists.
 * KV_REFUSED: another method, or the layer has ended. KV_USAGE: no such layer
 * or lane, a wrong time, n is 0, or a token is outside the prompt or named
 * twice. KV_RESOURCE: memory. */
kv_rc kv_session_keep(kv_session *s, int layer, int lane, int n,
                      const uint32_t *id, kv_err *e);

/* Closes the ledger up to `step` tokens seen: counts the bytes of that step and
 * of all steps since the last closed one. Every layer must have seen them, and
 * the step must not be closed yet. Within the prompt, a step must be the end of
 * one of the method's blocks. KV_USAGE: any of this is violated, a layer has
 * ended, or kv_session_digest was called. */
kv_rc kv_session_end_step(kv_session *s, int step, kv_err *e);

/* What a lane of a layer (the model's number) holds now, in its order: for each
 * entry the id of its oldest token, and how many tokens it stands for. *n is
 * the number of entries; id and weight receive the first `room` of them. All
 * three may be NULL. KV_USAGE: no such layer or lane. */
kv_rc kv_session_lane(const kv_session *s, int layer, int lane, int room,
                      uint32_t *id, uint32_t *weight, int *n, kv_err *e);
/* K and V of these entries, in that order, as attention reads them: codes are
 * decoded, merged entries are means. k [room][d] and v [room][d_v] receive the
 * first `room`; each may be NULL. For a program that computes attention itself
 * over exactly these rows. KV_USAGE: no such layer or lane. KV_REFUSED: the
 * method's attention is something else: it reads only some rows, rotates keys
 * to other positions, adds a bias to merged entries, or adds what no row holds.
 */
kv_rc kv_session_held(const kv_session *s, int layer, int lane, int room,
                      float *k, float *v, kv_err *e);
/* What a query head attended at the layer's last decode step, in lane order:
 * ids of the entries at that time. *n, id and room as above. KV_USAGE also if
 * there was no decode step yet. */
kv_rc kv_session_view(const kv_session *s, int layer, int head, int room,
                      uint32_t *id, int *n, kv_err *e);
/* Log-sum-exp (natural) of the logits of that step, into lse[n_heads]. KV_USAGE
 * as above, or if lse is NULL. */
kv_rc kv_session_lse(const kv_session *s, int layer, float *lse, kv_err *e);

/* Bytes of all layers up to the last closed step. The peak is over all blocks,
 * the mean over t from prompt_len to step, as in a row of `kvreplay run`. */
typedef struct kv_session_bytes {
  int32_t step; /* tokens seen; 0 if no step was closed */
  kv_bytes now; /* at that step, by kind */
  int64_t peak; /* bytes, the most at any step so far */
  double mean;  /* bytes */
} kv_session_bytes;
/* The name of the i-th member of kv_bytes, NULL past the last, for languages
 * that do not read this header. */
const char *kv_session_byte_kind(int i);
/* KV_USAGE: s or out is NULL. */
kv_rc kv_session_ledger(const kv_session *s, kv_session_bytes *out, kv_err *e);

/* Ends the session and computes its digests. All layers must have seen the same
 * number of tokens, at least the prompt. If that is the shape's n_tokens, the
 * digests equal those of `kvreplay run` on a trace of these tokens. May be
 * called again, with the same result. */
typedef struct kv_session_digests {
  kv_digest journal, state, output; /* every decision; what is stored at the
                                       end; the outputs of decode steps and of
                                       chunks, bit by bit */
} kv_session_digests;
/* out may be NULL. KV_USAGE: s is NULL, or layers have seen different numbers
 * of tokens, or less than the prompt. KV_REFUSED: a layer has ended. */
kv_rc kv_session_digest(kv_session *s, kv_session_digests *out, kv_err *e);

#ifdef __cplusplus
}
#endif

#endif
