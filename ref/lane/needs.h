/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of kv_needs as one table. Code that compares, checks or widens
 * needs walks this table, so that no field is forgotten. A new field needs a
 * line of kv_need_list; tests/ref/check_needs.c finds a member without one.
 * What two methods on one lane need together is written by hand in
 * ref/lane/compose.c. Nothing here allocates.
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

/* If layers have budgets of their own, the method is opened once for each, and
 * their needs may differ. One store serves all layers. Its needs
 * (kv_needs_widen) combine each field of the layers' needs in one of these
 * ways: */
typedef enum kv_need_layers {
  KV_NEED_SAME, /* all must be equal: the field decides what an entry holds */
  KV_NEED_MOST, /* the largest; of sets the union; true if any is true */
  KV_NEED_ALL,  /* true if all are true */
  KV_NEED_OWN   /* each layer keeps its own; no buffer's size depends on it */
} kv_need_layers;

/* One field of kv_needs. */
typedef struct kv_need {
  const char *name; /* of the member; NULL ends the list */
  kv_need_kind kind;
  kv_need_layers layers;
  size_t offset, size; /* bytes: offset in kv_needs; size of all elements */
  int elements;        /* 1, or the length of an array */
  size_t used;         /* offset in kv_needs of the int that says how many
                          elements count; 0: all count */
  double least, most;  /* allowed values, inclusive; not for KV_NEED_FLOAT,
                          _CODING and _META */
} kv_need;

extern const kv_need kv_need_list[];

/* The name of the first field in which a and b differ, or NULL. Elements that
 * do not count are not compared. */
const char *kv_needs_unlike(const kv_needs *a, const kv_needs *b);

/* Checks what a method's `open` filled in. KV_REFUSED, with a sentence that
 * names the field, if a value is out of range, a coding or a meta is
 * incomplete, or two fields contradict each other: a pre_rope or
 * shifted coding without `rope`, `host` or `unread` for a class that does not
 * exist, KV_DOWN with a `message` of 0 bytes, or a message without KV_DOWN. */
kv_rc kv_needs_check(const kv_needs *n, kv_err *e);

/* Widens `wide`, the needs of a store, so that it also serves a layer that
 * needs n. `wide` begins as the needs of one layer. Returns NULL, or the name
 * of the first KV_NEED_SAME field in which the two differ: they cannot share a
 * store, and `wide` is then undefined. */
const char *kv_needs_widen(kv_needs *wide, const kv_needs *n);

#endif
