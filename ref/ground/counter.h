/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters to which layers in flight on several threads add, for the ledger and
 * memory layouts (sim/replay/measure/cost.c, sim/replay/layout/layouts_part.h).
 * They are integers, so the order of adding does not matter. Read them once no
 * thread adds. Cannot fail.
 */
#ifndef KV_REF_COUNTER_H
#define KV_REF_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic int64_t kv_counter;

/* The value, exact once no thread adds. */
static inline int64_t kv_counter_get(const kv_counter *c) {
  return atomic_load_explicit(c, memory_order_relaxed);
}

static inline void kv_counter_add(kv_counter *c, int64_t x) {
  atomic_fetch_add_explicit(c, x, memory_order_relaxed);
}

/* Raises it to x if it is less. */
static inline void kv_counter_raise(kv_counter *c, int64_t x) {
  int64_t old = kv_counter_get(c);
  while (old < x && !atomic_compare_exchange_weak_explicit(
                        c, &old, x, memory_order_relaxed, memory_order_relaxed))
    ;
}

#endif
