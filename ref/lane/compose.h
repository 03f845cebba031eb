/* SPDX-License-Identifier: Apache-2.0
 *
 * Two methods on one lane, in order: the first selects (or does nothing), the
 * second codes what it left (snapkv+kivi), or chooses at each step among what
 * it let through (quest+twilight). The composition is a kv_method like
 * any other, so the engine has no branch for it; each of the two has its own
 * part of the lane's columns, formats and state, its own parameters and its
 * own rhythm of compression.
 *
 * Its parameters are the two methods' structs behind one kv_block; in its
 * table those of the second are called method.name ("kivi.bits").
 */
#ifndef KV_REF_COMPOSE_H
#define KV_REF_COMPOSE_H

#include "ref/lane/method.h"

enum { KV_MOST_PARTS = 2 };

/* A method on the lane, alone or one of two: what its hooks are given. */
typedef struct kv_method_part {
  const kv_method *method;
  size_t offset; /* of its parameters in those of the whole */
  const kv_needs *needs;
  int column, coding; /* the first of its own */
  size_t state;       /* bytes of state before its own */
} kv_method_part;

/* first+second, made once and kept until the process ends; safe from several
 * threads. KV_USAGE where one of them is itself composed. */
kv_rc kv_compose(const kv_method *first, const kv_method *second,
                 const kv_method **out, kv_err *e);

/* Prepares zeroed parameters of m, which may be any method, for its open. */
void kv_compose_begin(const kv_method *m, void *params);

/* --- compose_needs.c: for compose.c alone. */
#define KV_COMPOSE_ALIGNED(n) (((size_t)(n) + 63) / 64 * 64)
/* sum, the first's needs, becomes that of both. KV_REFUSED where they cannot
 * share a lane; the sentence names them, and `whole` the two. */
kv_rc kv_compose_needs(const char *whole,
                       const kv_method *const part[KV_MOST_PARTS],
                       const kv_shape *shape, kv_needs *sum, const kv_needs *b,
                       kv_err *e);
/* --- */

/* The methods of m in order: 2 where it is composed, else m itself; and where
 * the i-th one's parameters are in its own. */
int kv_parts_of(const kv_method *m, const kv_method *part[KV_MOST_PARTS],
                size_t offset[KV_MOST_PARTS]);
/* The same of an opened method, whose params and needs outlive `part`. */
int kv_parts_opened(const kv_method *m, const void *params,
                    const kv_needs *needs, kv_method_part part[KV_MOST_PARTS]);

#endif
