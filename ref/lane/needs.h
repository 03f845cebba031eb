/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of kv_needs as one table. Who compares, checks or widens needs
 * walks it, so that a field is forgotten in none of these: a new one is a line
 * of kv_need_list beside the member of kv_needs (tests/ref/check_needs.c finds
 * a member without one). What two methods on one lane need together is written
 * by hand in ref/lane/compose.c. Nothing here allocates.
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

/* Where layers have budgets of their own, the method is opened once for each,
 * and their needs may differ. One store has room for all of them, and needs of
 * its own (kv_needs_widen), in which a field is made of the layers' so: */
typedef enum kv_need_layers {
  KV_NEED_SAME, /* all must say the same: it decides what an entry holds */
  KV_NEED_MOST, /* the largest; of a set all bits; true if any is true */
  KV_NEED_ALL,  /* true if all are true */
  KV_NEED_OWN   /* each layer keeps its own; no room depends on it */
} kv_need_layers;

/* One field of kv_needs. */
typedef struct kv_need {
  const char *name; /* of the member; NULL ends the list */
  kv_need_kind kind;
  kv_need_layers layers;
  size_t offset, size; /* bytes: where in kv_needs, and of all elements */
  int elements;        /* 1, or as many as an array has */
  size_t used;         /* where in kv_needs the int is that says how many of the
                          elements count; 0: all count */
  double least, most;  /* what it may be, inclusive; not of KV_NEED_FLOAT,
                          _CODING and _META */
} kv_need;

extern const kv_need kv_need_list[];

/* The name of the first field in which a and b differ; NULL: they are alike.
 * Elements that do not count are not compared. */
const char *kv_needs_unlike(const kv_needs *a, const kv_needs *b);

/* Call it on what a method's `open` filled in. KV_REFUSED, with a sentence that
 * names the field, where a value is not between least and most, a coding or a
 * meta is incomplete, or a value does not agree with another field: a coding
 * before RoPE without `rope`, `host` or `unread` of a class that there is not,
 * a `message` of 0 bytes with KV_DOWN or of more without. */
kv_rc kv_needs_check(const kv_needs *n, kv_err *e);

/* Widens `wide`, the needs of a store, so that a layer that needs n has room in
 * it, too. wide begins as the needs of one layer. NULL: done; or the name of
 * the first field of KV_NEED_SAME in which the two differ: they cannot share a
 * store, and wide then means nothing. */
const char *kv_needs_widen(kv_needs *wide, const kv_needs *n);

#endif
