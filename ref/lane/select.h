/* SPDX-License-Identifier: Apache-2.0
 *
 * Observing a method's decisions. kv_top, kv_top_shared, kv_top_p and kv_argmin
 * pass their scores and what they chose, and keep passes its list before it
 * acts, to the observer of the calling thread; without one that costs a branch.
 * Methods do not know of it. A keep while entries are marked as merged is not
 * passed. Whoever looks on, as the digests of scores do (ref/lane/shown.h),
 * sets an observer around a hook; a composition takes it away around the hooks
 * of its second method.
 */
#ifndef KV_REF_SELECT_H
#define KV_REF_SELECT_H

#include "ref/ground/choice.h"
#include "ref/lane/method.h"

/* One selection, as it was made. What an index stands for is the method's
 * business: an entry, or a page of them. Valid during the call. */
typedef struct kv_selection {
  kv_chose chose;            /* by which rule */
  int lanes;                 /* lists that are ranked together */
  const int *n;              /* [lanes] length of each */
  const float *const *score; /* [lanes][n] */
  bool *const *keep;         /* [lanes][n] true of the chosen; NULL:
                                KV_CHOSE_ONE */
  const bool *in;            /* [n] entries that take part; NULL: all */
  int one;                   /* of KV_CHOSE_ONE: the index; -1: none */
} kv_selection;

/* An observer. Both functions are to be given. */
typedef struct kv_selecting {
  void *self; /* passed to both */
  /* A selection was made. */
  void (*selected)(void *self, const kv_selection *s);
  /* The verb keep is about to leave list[0..*n) of the lane's entries, from
   * these flags (NULL: it was called with a list). Answers with what it is to
   * leave instead, *n of them: list itself, or another that lives until keep
   * returns. */
  const int32_t *(*keeps)(void *self, const kv_lane *lane, const bool *flags,
                          const int32_t *list, int *n);
} kv_selecting;

/* The observer of this thread; NULL: none. Code that sets it restores it. */
extern _Thread_local const kv_selecting *kv_selecting_now;

#endif
