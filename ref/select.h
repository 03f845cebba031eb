/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking on while a method decides. kv_top, kv_top_shared, kv_top_p and
 * kv_argmin show their scores and what they chose, and the verb keep shows
 * its list before it carries it out, to the onlooker of the calling thread;
 * without one that is a branch. Methods know nothing of it.
 */
#ifndef KV_REF_SELECT_H
#define KV_REF_SELECT_H

#include "ref/method.h"

typedef enum kv_chose {
  KV_CHOSE_K,    /* so many of the largest, of all lanes together */
  KV_CHOSE_MASS, /* the largest until their mass was reached */
  KV_CHOSE_ONE   /* the smallest of those in `in`, to go: `one` */
} kv_chose;

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

/* Of this thread; NULL: nobody looks on. Whoever sets it takes it back. */
extern _Thread_local const kv_selecting *kv_selecting_now;

#endif
