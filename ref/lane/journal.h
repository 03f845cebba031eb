/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal: a record of every decision, hashed per layer and step. It is the
 * contract between backends: equal journals, states and outputs mean the same
 * decisions and the same numbers. Verbs and views write records into their
 * lane's words. At the end of a step a backend hashes them into a leaf of a
 * tree (ref/backend/leaves.h) and clears them. H is SHA-256.
 *
 * Everything hashed is little-endian uint32 words; floats enter as their bits.
 * record = {kind, layer, step, head, count, payload[count]}: `layer` is the
 * model's number, `step` the tokens seen, `head` a view's query head or a
 * verb's lane. An entry is named by the token id of its oldest member.
 *   1 view     runs {first entry, count}, ascending, maximal; decode only, and
 *              none if views follow from classes (kv_needs.unread)
 *   2 keep     m, m dropped ids ascending, flag; flag 1: new order as ids.
 *              A keep that changes nothing writes no record
 *   3 merge    id(into), id(from) before the merge, bits of a, bits of b
 *   4 recode   K format, V format (0xffffffff: same), ids in call order
 *   5 retier   class, ids in call order
 *   6 move     id, new place
 *
 * D(l,t) = H(views by query head, then verbs by lane, in call order, then the
 * message, if the layer published one: {7, layer, step, bytes} and its bytes as
 * in memory). Without any of these it hashes the empty string. D(l) = H(D(l,t0)
 * || D(l,t1) || ..) over the ends of all blocks, prompt included, ascending;
 * journal = H(D(l0) || D(l1) || ..). The output digest is the same tree over
 * the decode steps; a leaf is, per query head, out[0..d_v) then LSE.
 *
 * The state digest is the same tree with a leaf before each due compression and
 * one after the last step. A leaf is H(S(0) || S(1) || ..) over lanes, S =
 * H(per entry in lane order: id, weight, K format, V format, columns (float:
 * bits; int64: low, high word) and, if any entry of the lane has another class
 * than 0, class; then the lane's rewrite digest R). R starts as zeros and
 * becomes H(R || id || K bits || V bits) each time a verb rewrites an entry,
 * both sides as kv_lane_key and kv_lane_value read them. A running digest finds
 * the same differences as hashing all rewritten rows in every leaf, and costs
 * words per entry, not rows.
 */
#ifndef KV_REF_JOURNAL_H
#define KV_REF_JOURNAL_H

#include "ref/ground/err.h"
#include "ref/ground/sha256.h"
#include <stdbool.h>
#include <stdint.h>

/* The one list of record kinds: X(symbol, number, name in messages, fewest and
 * most payload words). KV_RECORD_LONG: the words themselves say how many. Code
 * that interprets, compares or counts records walks this list
 * (ref/lane/records.h). A new kind is a line here and the code that records.c
 * then lacks at compile time. */
enum {
  KV_RECORD_HEAD = 5 /* words before the payload */,
  KV_RECORD_LONG = 1 << 30
};
#define KV_RECORD_KINDS(X)                                                     \
  X(KV_VIEW, 1, view, 2, KV_RECORD_LONG)                                       \
  X(KV_KEEP, 2, keep, 2, KV_RECORD_LONG)                                       \
  X(KV_MERGE, 3, merge, 4, 4)                                                  \
  X(KV_RECODE, 4, recode, 3, KV_RECORD_LONG)                                   \
  X(KV_RETIER, 5, retier, 2, KV_RECORD_LONG)                                   \
  X(KV_MOVE, 6, move, 2, 2)

/* KV_VIEW .. KV_MOVE, the first word of a record. */
#define KV_RECORD_NUMBER(symbol, number, name, least, most) symbol = number,
typedef enum kv_record { KV_RECORD_KINDS(KV_RECORD_NUMBER) } kv_record;
#undef KV_RECORD_NUMBER

/* First word of a message in a leaf of the journal; no lane's record has it. */
enum { KV_PUBLISHED = 7 };

/* Records of a step, one after another, in memory allocated once. */
typedef struct kv_words {
  uint32_t *word; /* [cap] */
  size_t n, cap;  /* words written; capacity */
} kv_words;

/* Allocates cap words; KV_RESOURCE without memory. */
kv_rc kv_words_init(kv_words *w, size_t cap, kv_err *e);
/* Empties it and returns pages that a long step has used to the system. w stays
 * usable. */
void kv_words_clear(kv_words *w);
/* Frees the memory; accepts a zeroed one. */
void kv_words_release(kv_words *w);

/* Appends a record's head and returns its `count` payload words for the caller
 * to fill in. NULL, and nothing written, if they do not fit. */
uint32_t *kv_words_record(kv_words *w, kv_record kind, int layer, int step,
                          int head, size_t count);

/* The 32 bits of f, as records hold floats. */
uint32_t kv_bits_of(float f);

/* Computes D(l) while leaves D(l,t) come in, or the root while layers do. */
typedef struct kv_tree {
  kv_sha256 layer; /* of what was added */
} kv_tree;

/* Call begin, then leaf in order, then end once, which returns the digest. */
void kv_tree_begin(kv_tree *t);
void kv_tree_leaf(kv_tree *t, const kv_digest *leaf);
kv_digest kv_tree_end(kv_tree *t);

#endif
