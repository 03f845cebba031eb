/* SPDX-License-Identifier: Apache-2.0
 *
 * Two methods on one lane, in order: the first selects (or does nothing), the
 * second codes what it left (snapkv+kivi), or chooses at each step among what
 * it let through (quest+twilight). The composition is a kv_method like
 * any other, so the engine has no branch for it; each of the two has its own
 * part of the lane's columns, formats and state, its own parameters and its
 * own rhythm of compression.
 *
 * Its parameters are one struct of params_size bytes, in which each method's
 * own struct stands at an offset; in its table those of the second are called
 * method.name ("kivi.bits"). Order of calls, by who opens cells (sim/ask):
 * kv_compose, zeroed parameters, kv_compose_begin, the parser, the table's
 * open.
 */
#ifndef KV_REF_COMPOSE_H
#define KV_REF_COMPOSE_H

#include "ref/lane/method.h"

enum { KV_MOST_PARTS = 2 }; /* methods on one lane at most */

/* A method on the lane, alone or one of two: what its hooks are given. */
typedef struct kv_method_part {
  const kv_method *method;
  size_t offset;         /* bytes: its parameters in those of the whole */
  const kv_needs *needs; /* its own, as its open filled them in */
  int column, coding;    /* index of the first of its own in the lane's */
  int asset;             /* index of the first tensor of its own files */
  size_t state;          /* bytes of the lane's state before its own */
} kv_method_part;

/* *out becomes the table of first+second, made once and kept until the process
 * ends; safe from several threads. KV_USAGE where one of them is itself
 * composed, KV_RESOURCE without memory; then *out is left alone. Whether the
 * two can share a lane is found by the table's open. */
kv_rc kv_compose(const kv_method *first, const kv_method *second,
                 const kv_method **out, kv_err *e);

/* Prepares zeroed parameters of m, which may be any method, for the parser and
 * open: a composition finds its two methods by them. Cannot fail. */
void kv_compose_begin(const kv_method *m, void *params);

/* n bytes rounded up to a multiple of 64. */
#define KV_COMPOSE_ALIGNED(n) (((size_t)(n) + 63) / 64 * 64)
/* *sum, which holds the needs of part[0], becomes the needs of both; b are
 * those of part[1]. KV_REFUSED, *sum unchanged, where the two cannot share a
 * lane: the sentence begins with `whole`, the composition's name, and says why.
 */
kv_rc kv_compose_needs(const char *whole,
                       const kv_method *const part[KV_MOST_PARTS],
                       const kv_shape *shape, kv_needs *sum, const kv_needs *b,
                       kv_err *e);
/* --- */

/* The methods that m is made of, in order, into part and, as bytes within m's
 * parameters, where those of each begin, into offset. Returns how many: 2 where
 * m is composed, else 1, m itself at 0. */
int kv_parts_of(const kv_method *m, const kv_method *part[KV_MOST_PARTS],
                size_t offset[KV_MOST_PARTS]);
/* The same after m->open has filled in params and needs, to which `part` then
 * points. */
int kv_parts_opened(const kv_method *m, const void *params,
                    const kv_needs *needs, kv_method_part part[KV_MOST_PARTS]);

#endif
