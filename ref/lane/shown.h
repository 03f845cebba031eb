/* SPDX-License-Identifier: Apache-2.0
 *
 * A digest of the scores that decisions are based on. Equal journals mean that
 * two runs decided the same; equal score digests mean that they decided it from
 * the same scores.
 *
 * It covers the hooks that decide: view, compress_lane, compress_layer. Scores
 * enter as the bits that rule 2 of the arithmetic orders by. Everything hashed
 * is little-endian uint32 words. A selection (ref/lane/select.h) writes for
 * each of its lists
 *   record = {chose, head, list, lists, n, F low, F high}
 * `head` is the query head that views, else 0xffffffff. F is the fold
 * (ref/ground/fold.h) of its n words: the bits of score i, or KV_SHOWN_OUT if
 * entry i takes no part.
 *
 * S(lane) = H(records of its view hooks by query head, then of its
 * compression), S(layer) = H(records of compress_layer), zeros if there is no
 * record. D(l,t) = H(t || S(0) || S(1) || .. || S(layer)) for every end of a
 * block at which there is a record. D(l) = H(D(l,t0) || D(l,t1) || ..), scores
 * = H(D(l0) || D(l1) || ..). A method that selects nothing has the digest of
 * nothing.
 *
 * A backend calls, in this order: open once; clear for each layer; watch and
 * leave around each hook that decides (if a device ran the hook, add for each
 * list that it selected from); end at the end of each block and step. Without
 * kv_plan.scores it costs a branch a hook. With it, every score goes through
 * the fold, and each lane that selects costs a few blocks of SHA-256 a step.
 * Different lanes may be added at the same time.
 */
#ifndef KV_REF_SHOWN_H
#define KV_REF_SHOWN_H

#include "ref/ground/sha256.h"
#include "ref/lane/select.h"

enum { KV_SHOWN_LAYER = -1 }; /* as a lane: all of a layer's together */

/* One list of a selection. */
typedef struct kv_shown {
  int lane; /* the lane that compresses or is viewed, or KV_SHOWN_LAYER */
  int head; /* the query head that views, within the layer; -1: a compression */
  kv_chose chose;
  int list, lists;    /* index and number of the lists ranked together */
  int n;              /* length of the list */
  const float *score; /* [n] */
  const bool *in;     /* [n] entries that take part; NULL: all */
} kv_shown;

/* Word i < n of the fold: the bits of a score, or KV_SHOWN_OUT. */
uint32_t kv_shown_word(const kv_shown *x, int i);

/* A receiver of each list, in addition to the digest. `shown` runs in the
 * thread that computes the list's lane. */
typedef struct kv_shown_to {
  void *self; /* passed to it */
  void (*shown)(void *self, const kv_shown *x);
} kv_shown_to;

/* The digests of a layer in flight. Zeroed: switched off. */
typedef struct kv_shows {
  int lanes;
  kv_sha256 *lane;       /* [lanes + 1], the last one the layer's */
  bool *any;             /* [lanes + 1] has a record in this step */
  const kv_shown_to *to; /* or NULL */
} kv_shows;

/* Allocates them for a layer of so many lanes. `to` may be NULL; it outlives
 * them. KV_RESOURCE without memory; *out is then zeroed. */
kv_rc kv_shows_open(int lanes, const kv_shown_to *to, kv_shows *out, kv_err *e);
void kv_shows_close(kv_shows *x); /* accepts a zeroed one */
/* A layer begins: nothing was shown. */
void kv_shows_clear(kv_shows *x);
/* Adds a list to its lane's digest and passes it to x->to; x must be open. */
void kv_shows_add(kv_shows *x, const kv_shown *shown);
/* Ends the step of `step` tokens seen and sets *leaf to D(l,t). Returns false,
 * *leaf unchanged, if nothing was shown in it or x is zeroed. */
bool kv_shows_end(kv_shows *x, int step, kv_digest *leaf);

/* One watched hook, the caller's from watch to leave. */
typedef struct kv_shows_hook {
  kv_selecting looks;         /* the observer that adds to the digest */
  const kv_selecting *before; /* the observer set before; still called */
  kv_shows *to;               /* NULL: switched off */
  int lane, head;             /* as in kv_shown */
} kv_shows_hook;
/* Between watch and leave, selections of the calling thread are added to x
 * under `lane` and `head`. With a zeroed x neither does anything. */
void kv_shows_watch(kv_shows *x, int lane, int head, kv_shows_hook *hook);
void kv_shows_leave(const kv_shows_hook *hook);

#endif
