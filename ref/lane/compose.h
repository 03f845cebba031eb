/* SPDX-License-Identifier: Apache-2.0
 *
 * Two methods on one lane, in order. The first selects (or does nothing). The
 * second codes what remains (snapkv+kivi), or chooses at each step among what
 * the first lets through (quest+twilight). The composition is a kv_method like
 * any other, so the engine has no branch for it. Each method has its own
 * columns, formats, state, parameters and schedule of compressions.
 *
 * The parameters of a composition are one struct of params_size bytes that
 * contains each method's own struct at an offset. In its table, the second
 * method's parameters are named method.name ("kivi.bits"). Code that opens
 * cells (sim/ask) calls, in order: kv_compose, kv_compose_begin on zeroed
 * parameters, the parser, the table's open.
 */
#ifndef KV_REF_COMPOSE_H
#define KV_REF_COMPOSE_H

#include "ref/lane/method.h"

enum { KV_MOST_PARTS = 2 }; /* most methods on one lane */

/* A method on the lane, alone or one of two, and where its data begins. */
typedef struct kv_method_part {
  const kv_method *method;
  size_t offset;         /* bytes, of its parameters in those of the whole */
  const kv_needs *needs; /* its own, as its open filled them in */
  int column, coding;    /* index of its first in the lane's */
  int asset;             /* index of the first tensor of its files */
  size_t state;          /* byte offset of its part of the lane's state */
} kv_method_part;

/* Sets *out to the table of first+second, which is made once and kept until the
 * process ends; thread-safe. Fails with KV_USAGE if either is itself composed,
 * and with KV_RESOURCE without memory; *out is then unchanged. The table's open
 * finds out whether the two can share a lane. */
kv_rc kv_compose(const kv_method *first, const kv_method *second,
                 const kv_method **out, kv_err *e);

/* Prepares zeroed parameters of any method m for the parser and open. A
 * composition stores in them which two methods it has. Cannot fail. */
void kv_compose_begin(const kv_method *m, void *params);

/* n bytes rounded up to a multiple of 64. */
#define KV_COMPOSE_ALIGNED(n) (((size_t)(n) + 63) / 64 * 64)
/* Combines needs: *sum holds the needs of part[0] and becomes the needs of
 * both; b are the needs of part[1]. KV_REFUSED, *sum unchanged, if the two
 * cannot share a lane; the sentence begins with `whole`, the composition's
 * name, and says why. */
kv_rc kv_compose_needs(const char *whole,
                       const kv_method *const part[KV_MOST_PARTS],
                       const kv_shape *shape, kv_needs *sum, const kv_needs *b,
                       kv_err *e);
/* --- */

/* Returns how many methods m consists of, 2 if it is composed, else 1; writes
 * them to part, in order, and to offset where their parameters begin in m's. */
int kv_parts_of(const kv_method *m, const kv_method *part[KV_MOST_PARTS],
                size_t offset[KV_MOST_PARTS]);
/* The same after m->open. `part` then points into params and needs. */
int kv_parts_opened(const kv_method *m, const void *params,
                    const kv_needs *needs, kv_method_part part[KV_MOST_PARTS]);

#endif
