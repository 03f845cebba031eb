/* SPDX-License-Identifier: Apache-2.0
 *
 * Observes a method's decisions. kv_top, kv_top_shared, kv_top_p and kv_argmin
 * pass their scores and choices to the observer of the calling thread; kv_keep
 * passes its list before it acts, except while entries are marked as merged.
 * Without an observer this costs a branch, and methods never see it. Code that
 * observes, as the digests of scores do (ref/lane/shown.h), sets an observer
 * around a hook. A composition removes it around the hooks of its second
 * method.
 */
#ifndef KV_REF_SELECT_H
#define KV_REF_SELECT_H

#include "ref/ground/choice.h"
#include "ref/lane/method.h"

/* One selection, valid during the call. The method defines what an index stands
 * for: an entry, or a page. */
typedef struct kv_selection {
  kv_chose chose;            /* by which rule */
  int lanes;                 /* number of lists ranked together */
  const int *n;              /* [lanes] length of each */
  const float *const *score; /* [lanes][n] */
  bool *const *keep;         /* [lanes][n] true if chosen; NULL with
                                KV_CHOSE_ONE */
  const bool *in;            /* [n] entries that take part; NULL: all */
  int one;                   /* KV_CHOSE_ONE: the index; -1: none */
} kv_selection;

/* An observer. Neither function may be NULL. */
typedef struct kv_selecting {
  void *self; /* passed to both */
  /* A selection was made. */
  void (*selected)(void *self, const kv_selection *s);
  /* The verb keep is about to keep list[0..*n) of the lane's entries. flags are
   * its argument, or NULL if it was called with a list. Returns what it must
   * keep instead, *n entries: list itself, or another list that lives until
   * keep returns. */
  const int32_t *(*keeps)(void *self, const kv_lane *lane, const bool *flags,
                          const int32_t *list, int *n);
} kv_selecting;

/* The observer of this thread, or NULL. Code that sets it must restore it. */
#ifdef __cplusplus
extern __thread const kv_selecting *kv_selecting_now;
#else
extern _Thread_local const kv_selecting *kv_selecting_now;
#endif

#endif
