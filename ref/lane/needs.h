/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of kv_needs as one table. Who compares, checks or joins needs
 * walks it, so that a field is forgotten nowhere: a new one is a line of
 * kv_need_list beside the member of kv_needs (tests/ref/check_needs.c finds a
 * member without one). Nothing here allocates.
 */
#ifndef KV_REF_NEEDS_H
#define KV_REF_NEEDS_H

#include "ref/ground/err.h"
#include "ref/lane/method.h"

/* How the bytes of an element are read. */
typedef enum kv_need_kind {
  KV_NEED_INT,    /* int, or an enum */
  KV_NEED_BITS,   /* unsigned: a set */
  KV_NEED_BOOL,   /* bool */
  KV_NEED_SIZE,   /* size_t */
  KV_NEED_FLOAT,  /* float, compared by its bits */
  KV_NEED_CODING, /* kv_coding */
  KV_NEED_META    /* kv_meta */
} kv_need_kind;

/* Layers whose budgets differ are opened one by one. What they may say of a
 * field, and what one store with room for all of them says. */
typedef enum kv_need_layers {
  KV_NEED_SAME, /* the same in each: it decides what an entry holds */
  KV_NEED_MOST, /* the largest; of a set all bits; true if any is */
  KV_NEED_ALL,  /* true if all are */
  KV_NEED_OWN   /* each its own; nothing has its size */
} kv_need_layers;

typedef struct kv_need {
  const char *name; /* of the member; NULL ends the list */
  kv_need_kind kind;
  kv_need_layers layers;
  size_t offset, size; /* in kv_needs, bytes: of all elements */
  int elements;        /* 1, or those of an array, */
  size_t used;         /* of which the int at this offset says how many count;
                          0: all */
  double least, most;  /* inclusive; of KV_NEED_INT, _BITS and _SIZE */
} kv_need;

extern const kv_need kv_need_list[];

/* The first field that says something else; NULL: none does. */
const char *kv_needs_unlike(const kv_needs *a, const kv_needs *b);

/* KV_REFUSED where a field has a value that nothing can follow: which one, and
 * what it may be. */
kv_rc kv_needs_check(const kv_needs *n, kv_err *e);

/* Makes room in `wide` for a layer that needs n. The first field in which
 * layers have to be alike and are not; NULL: none. */
const char *kv_needs_widen(kv_needs *wide, const kv_needs *n);

#endif
