/* SPDX-License-Identifier: Apache-2.0
 *
 * What a store holds, in bytes: a value that adds. Filled by walking lanes
 * (kv_lane_bytes), never by a method; slack stays 0, for layouts report theirs
 * apart (sim/replay/layout/layouts.h). Prices per entry: position 4 B once its
 * lane has dropped or merged anything; row index 4 B once rows are not in
 * order; neither while the entries are one unbroken run of tokens in a layer
 * with a sliding window of its own, whose store is a ring; weight 4 B if the
 * method merges; class 1 B if the method has classes, nothing where all it says
 * is whether an entry is read (kv_needs.unread: a bit that the method's own
 * memory counts); columns 8 or 4 B each; a group's bytes whole until its last
 * member goes. Where a method has classes (kv_needs.classes), tier_0 .. tell
 * what the entries of each hold: payload, metadata and columns, a group's bytes
 * with its first live member. Together they are the sum of these three kinds.
 * Classes that lie in the host's memory (kv_needs.host) are told the same way;
 * how many of their bytes steps fetched is a sum over steps, `fetched` of
 * sim/replay/measure/result.h, and no kind.
 *
 * KV_BYTE_KINDS is the only list of kinds. Struct, sum and total are made from
 * it, and whoever shows, stores or compares kinds walks kv_byte_kind_at: a new
 * kind is one line here and whatever fills it. New kinds go to the end, and
 * raise KV_SESSION_ABI (sim/run/session/session.h), for the struct grows.
 */
#ifndef KV_REF_LEDGER_H
#define KV_REF_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* KIND(name, counts, what): counts is true where the kind adds to the total,
 * false where its bytes are part of other kinds and only told apart. */
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

/* One of the list. */
typedef struct kv_byte_kind {
  const char *name; /* key in rows and databases */
  bool counts;      /* is part of the total */
  const char *what; /* for people */
  size_t offset;    /* bytes into kv_bytes */
} kv_byte_kind;

/* How many kinds there are: kv_bytes is that many int64_t and nothing else. */
enum { KV_N_BYTE_KINDS = sizeof(kv_bytes) / sizeof(int64_t) };

/* The i-th of the list; NULL past its end. */
const kv_byte_kind *kv_byte_kind_at(int i);
/* Where the bytes of the i-th kind stand, and what they are; asserts
 * 0 <= i < KV_N_BYTE_KINDS. */
int64_t *kv_bytes_of(kv_bytes *b, int i);
int64_t kv_bytes_get(const kv_bytes *b, int i);

/* Where the bytes of class `tier`, 0 .. KV_MAX_CLASSES - 1, stand. */
static inline int64_t *kv_bytes_of_tier(kv_bytes *b, int tier) {
  int64_t *const of[] = {&b->tier_0, &b->tier_1, &b->tier_2, &b->tier_3};
  return of[tier];
}
/* Should the i-th kind of these bytes be shown? One that counts always, the
 * bytes by class where any class holds some: a method without classes has
 * none. */
static inline bool kv_bytes_has(const kv_bytes *b, int i) {
  bool classes = b->tier_0 || b->tier_1 || b->tier_2 || b->tier_3;
  return kv_byte_kind_at(i)->counts || classes;
}

/* The sum of the kinds that count: what a store of these bytes takes. */
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
