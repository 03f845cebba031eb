/* SPDX-License-Identifier: Apache-2.0
 *
 * What a store holds, in bytes by kind: a value that adds up. kv_lane_bytes
 * fills it in by walking lanes; no method reports its own. slack stays 0,
 * because layouts report theirs separately (sim/replay/layout/layouts.h). Bytes
 * per entry:
 *
 *   position   4, once its lane has dropped or merged anything
 *   row index  4, once rows are not in order
 *   weight     4, if the method merges
 *   class      1, if the method has classes; 0 if a class only says whether an
 *   entry is read (kv_needs.unread: a bit in the method's own memory)
 *   column     8 or 4 each
 *
 * Position and row index cost nothing while the entries are one unbroken run of
 * tokens in a layer with a sliding window, whose store is a ring. A coded group
 * counts whole until its last member goes.
 *
 * With classes (kv_needs.classes), tier_0 .. count the payload, metadata and
 * columns of the entries of each class; a group's bytes go to its first live
 * member's class. The tiers add up to these three kinds. Classes in host memory
 * (kv_needs.host) count the same way. `fetched` in sim/replay/measure/result.h
 * is a sum over steps, and no kind.
 *
 * KV_BYTE_KINDS is the only list of kinds. Struct, sum and total are made from
 * it; code that shows, stores or compares kinds walks kv_byte_kind_at. A new
 * kind is one line at the end of the list, and the code that fills it in. It
 * raises KV_SESSION_ABI (sim/run/session/session.h), because the struct grows.
 */
#ifndef KV_REF_LEDGER_H
#define KV_REF_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* KIND(name, counts, what). counts: true if the kind adds to the total; false
 * if its bytes are also part of other kinds. */
#define KV_BYTE_KINDS(KIND)                                                    \
  KIND(payload, true, "K and V, or their codes")                               \
  KIND(metadata, true, "scales, minima, positions, weights, row index")        \
  KIND(columns, true, "per-entry numbers of the method")                       \
  KIND(side, true, "the method's declared memory")                             \
  KIND(slack, true, "held and unused: page fragmentation")                     \
  KIND(tier_0, false, "of entries of class 0, where the method has classes")   \
  KIND(tier_1, false, "of entries of class 1")                                 \
  KIND(tier_2, false, "of entries of class 2")                                 \
  KIND(tier_3, false, "of entries of class 3")

#define KV_BYTE_FIELD(name, counts, what) int64_t name;
typedef struct kv_bytes {
  KV_BYTE_KINDS(KV_BYTE_FIELD)
} kv_bytes;
#undef KV_BYTE_FIELD

/* One row of the list. */
typedef struct kv_byte_kind {
  const char *name; /* key in rows and databases */
  bool counts;      /* is part of the total */
  const char *what; /* for people */
  size_t offset;    /* bytes into kv_bytes */
} kv_byte_kind;

/* Number of kinds: kv_bytes is that many int64_t and nothing else. */
enum { KV_N_BYTE_KINDS = sizeof(kv_bytes) / sizeof(int64_t) };

/* Row i of the list; NULL past its end. */
const kv_byte_kind *kv_byte_kind_at(int i);
/* Pointer to, and value of, the bytes of kind i; assert 0 <= i <
 * KV_N_BYTE_KINDS. */
int64_t *kv_bytes_of(kv_bytes *b, int i);
int64_t kv_bytes_get(const kv_bytes *b, int i);

/* Pointer to the bytes of class `tier`, 0 .. KV_MAX_CLASSES - 1. */
static inline int64_t *kv_bytes_of_tier(kv_bytes *b, int tier) {
  int64_t *const of[] = {&b->tier_0, &b->tier_1, &b->tier_2, &b->tier_3};
  return of[tier];
}
/* Should tables show kind i of these bytes? Bytes by class are shown only if
 * some class holds bytes: most methods have no classes. */
static inline bool kv_bytes_has(const kv_bytes *b, int i) {
  bool classes = b->tier_0 || b->tier_1 || b->tier_2 || b->tier_3;
  return kv_byte_kind_at(i)->counts || classes;
}

/* The size of a store: the sum of the kinds that count. */
#define KV_BYTE_COUNTED(name, counts, what) +((counts) ? b->name : 0)
static inline int64_t kv_bytes_total(const kv_bytes *b) {
  return 0 KV_BYTE_KINDS(KV_BYTE_COUNTED);
}
#undef KV_BYTE_COUNTED

/* *sum += *b, kind by kind. */
#define KV_BYTE_SUM(name, counts, what) sum->name += b->name;
static inline void kv_bytes_add(kv_bytes *sum, const kv_bytes *b) {
  KV_BYTE_KINDS(KV_BYTE_SUM)
}
#undef KV_BYTE_SUM

#endif
