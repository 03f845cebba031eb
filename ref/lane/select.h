/* SPDX-License-Identifier: Apache-2.0
 *
 * Observing a method's decisions. kv_top, kv_top_shared, kv_top_p and kv_argmin
 * pass their scores and what they chose, and keep passes its list before it
 * acts, to the observer of the calling thread; without one that is a branch.
 * Methods do not know of it. ref/lane/shown.h makes a digest of it.
 */
#ifndef KV_REF_SELECT_H
#define KV_REF_SELECT_H

#include "ref/ground/choice.h"
#include "ref/lane/method.h"

/* One selection, as it was made. What an index stands for is the method's
 * business: an entry, or a page of them. Valid during the call. */
typedef struct kv_selection {
  kv_chose chose;
  int lanes;
  const int *n;              /* [lanes] indexes */
  const float *const *score; /* [lanes][n] */
  bool *const *keep;         /* [lanes][n] the chosen; NULL: KV_CHOSE_ONE */
  const bool *in;            /* NULL: all */
  int one;
} kv_selection;

typedef struct kv_selecting {
  void *self;
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
