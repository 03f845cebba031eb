/* SPDX-License-Identifier: Apache-2.0
 *
 * A digest of the scores that selections were shown, on which decisions depend.
 * Equal journals mean that the same was decided; equal scores, that it was
 * decided for the same reasons.
 *
 * Only the hooks that decide are covered: view, compress_lane, compress_layer.
 * Scores enter as the bits that rule 2 of the arithmetic orders by. Everything
 * hashed is little-endian uint32 words; a selection (ref/lane/select.h) writes,
 * for each of its lists,
 *   record = {chose, head, list, lists, n, F low, F high}
 * where `head` is the query head that views, else 0xffffffff, and F the fold
 * (ref/ground/fold.h) of its n words: the bits of score i, or KV_SHOWN_OUT if
 * entry i takes no part.
 *
 * S(lane) = H(records of its view hooks by query head, then of its
 * compression), S(layer) = H(records of compress_layer), zeros where there is
 * no record; D(l,t) = H(t || S(0) || S(1) || .. || S(layer)) for every end of a
 * block at which there is one; D(l) = H(D(l,t0) || D(l,t1) || ..), scores =
 * H(D(l0) || D(l1) || ..). A method that selects nothing has the digest of
 * nothing.
 *
 * Order of calls, by a backend: open once; clear for each layer; watch and
 * leave around each hook that decides (or, where a device ran it, add of each
 * list that it selected from); end at the end of each block and step. Not asked
 * for (kv_plan.scores), it costs a branch a hook. Asked for: every score
 * through the fold and, for each lane that selects, a few blocks of SHA-256 a
 * step. Different lanes may be added to at the same time.
 */
#ifndef KV_REF_SHOWN_H
#define KV_REF_SHOWN_H

#include "ref/ground/sha256.h"
#include "ref/lane/select.h"

enum { KV_SHOWN_LAYER = -1 }; /* as a lane: all of a layer's together */

/* One list of a selection. */
typedef struct kv_shown {
  int lane; /* that compresses or whose query head views, or KV_SHOWN_LAYER */
  int head; /* of the layer, that views; -1: a compression */
  kv_chose chose;
  int list, lists;    /* index and number of those that are ranked together */
  int n;              /* its length */
  const float *score; /* [n] */
  const bool *in;     /* [n] entries that take part; NULL: all */
} kv_shown;

/* Word i < n that enters the fold: the bits of a score, or KV_SHOWN_OUT. */
uint32_t kv_shown_word(const kv_shown *x, int i);

/* Somebody who wants each list itself, beside the digest: `shown` is called by
 * the thread that computes the list's lane. */
typedef struct kv_shown_to {
  void *self; /* passed to it */
  void (*shown)(void *self, const kv_shown *x);
} kv_shown_to;

/* The digests of a layer in flight; zeroed: not asked for. */
typedef struct kv_shows {
  int lanes;
  kv_sha256 *lane;       /* [lanes + 1], the last one the layer's */
  bool *any;             /* [lanes + 1] has a record in this step */
  const kv_shown_to *to; /* or NULL */
} kv_shows;

/* Room for a layer of so many lanes; `to` may be NULL and outlives it.
 * KV_RESOURCE without memory, *out is then zeroed. */
kv_rc kv_shows_open(int lanes, const kv_shown_to *to, kv_shows *out, kv_err *e);
void kv_shows_close(kv_shows *x); /* accepts a zeroed one */
/* A layer begins: nothing was shown. */
void kv_shows_clear(kv_shows *x);
/* Adds a list to its lane's digest and passes it to x->to; x has been opened.
 */
void kv_shows_add(kv_shows *x, const kv_shown *shown);
/* Ends a step of `step` tokens seen: *leaf becomes D(l,t). False: nothing was
 * shown in it, or x is zeroed, and *leaf is left alone. */
bool kv_shows_end(kv_shows *x, int step, kv_digest *leaf);

/* One hook that is recorded: of the caller, from watch to leave. */
typedef struct kv_shows_hook {
  kv_selecting looks;         /* the observer that adds to the digest */
  const kv_selecting *before; /* the one that was set; it is called, too */
  kv_shows *to;               /* NULL: not asked for */
  int lane, head;             /* as in kv_shown */
} kv_shows_hook;
/* Between watch and leave, selections of the calling thread are added to x as
 * those of `lane` and `head`; a zeroed x: neither does anything. */
void kv_shows_watch(kv_shows *x, int lane, int head, kv_shows_hook *hook);
void kv_shows_leave(const kv_shows_hook *hook);

#endif
