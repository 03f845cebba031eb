/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane: the stored tokens of one (layer, KV head) - or query head, with
 * lanes = QUERY_HEAD - as an ordered list of entries. Lanes are ragged: each
 * has its own length. Memory changes only by append (the engine's) and by
 * the verbs keep, merge, recode, move and retier below; each verb writes its
 * record to the journal, so what is stored is exactly what the journal says.
 *
 * An entry whose K and V no verb has rewritten is read from the trace; bytes
 * are counted as a real store would hold them. Methods call verbs and readers;
 * init, begin, copy, append and mark are for whoever owns the lane, mostly a
 * backend, and bytes are counted by whoever measures. Everybody may read the
 * fields. A method writes the numbers of its columns and its own state; the
 * owner sets turns, places and room, and fills the copy of a lane that lies on
 * a device; all else is written by ref/lane alone.
 */
#ifndef KV_REF_LANE_H
#define KV_REF_LANE_H

#include "ref/ground/rope.h"
#include "ref/lane/journal.h"
#include "ref/lane/ledger.h"
#include "ref/lane/method.h"
#include <assert.h>

/* Spare elements behind the last entry in each array of entries: unused, so
 * that laws see a hook that writes too far (sim/run/laws/fence.h). */
enum { KV_BEYOND = 16 };

/* Format of a side (K or V) of an entry. */
enum {
  KV_RAW = 0,    /* as recorded */
  KV_MERGED = 1, /* a mean, of kv_merged_type */
  KV_CODED = 2,  /* KV_CODED + i: in needs.coding[i] */
  KV_SAME = -1   /* an argument of kv_recode: leave this side as it is */
};

/* Where the side of an entry is stored. Of KV_RAW only the format counts. */
typedef struct kv_cell_ref {
  int32_t block;   /* in the slab of its format */
  uint16_t member; /* row of the block, from 0 */
  uint16_t format; /* KV_RAW, KV_MERGED, KV_CODED + index */
} kv_cell_ref;

/* Equal blocks of rewritten rows of one side in one format. A block holds the
 * rows of a group that were coded together, or one mean. */
typedef struct kv_slab {
  size_t size;              /* bytes a block */
  int width;                /* elements a row: d or d_v */
  const kv_coding *coding;  /* NULL: rows of `type`, one a block */
  kv_dtype type;            /* of elements as they are read: KV_F32 of codes */
  int part, parts;          /* which share of a token's codes lies here, where
                               lanes divide them (kv_coding_size) */
  int cap, used, n_free;    /* blocks: room; ever taken; of these, free again */
  int held;                 /* entries with this side in it */
  kv_coded_size bytes;      /* of its live blocks, as counted */
  int32_t *free;            /* [n_free] blocks */
  uint16_t *members, *live; /* [used] rows coded together; still stored */
  bool *walked; /* [used] false but within kv_lane_bytes; NULL where a block has
                   one row, or the method no classes */
  char *data;   /* [cap][size] */
} kv_slab;

enum { KV_SLABS = (int)KV_CODED + KV_MAX_CODINGS }; /* indexed by format */

/* The bytes that the ledger counts for a block of so many members. */
kv_coded_size kv_slab_bytes(const kv_slab *s, int members);
/* How many token ids a block names; of a layered coding's slab only. */
int kv_slab_named(const kv_slab *s);

/* The type in which rows are stored that verbs have merged. */
static inline kv_dtype kv_merged_type(const kv_needs *n, const kv_shape *s) {
  return n->merged == KV_MEANS_FP32 ? KV_F32 : s->dtype;
}

/* A column, by its type in needs.column. */
typedef union kv_column_data {
  int64_t *i; /* KV_INT64 */
  float *f;   /* KV_FLOAT */
} kv_column_data;

/* Room that verbs work in: whoever computes with a lane assigns its own to
 * l->room before it calls a hook, so that all lanes share one per thread. */
typedef struct kv_lane_room {
  int32_t *list;   /* [n_tokens] entry indexes */
  uint64_t *spare; /* [n_tokens] */
} kv_lane_room;

/* KV_RESOURCE without memory; release it then, too. */
kv_rc kv_lane_room_init(kv_lane_room *r, int n_tokens, kv_err *e);
void kv_lane_room_release(kv_lane_room *r); /* accepts a zeroed one */

struct kv_lane {
  const kv_shape *shape;
  const kv_needs *needs;
  const kv_layer_data *data;        /* of the layer in hand, for raw rows */
  const struct kv_kernels *kernels; /* that widen and decode its rows */
  /* The owner's, where needs.future, else NULL: [n_tokens] by token id, in a
   * compression, the exact probabilities that decode rows after `step` give the
   * token, summed over these rows and the lane's query heads, each RN(P * 2^40)
   */
  const int64_t *future;
  const kv_turns *turns;    /* the owner's (ref/ground/rope.h); NULL: needs.rope
                               is not set */
  struct kv_places *places; /* the owner's (ref/ground/places.h); NULL: the
                               method does not re-index */
  int lane, kv_head;       /* number within the layer; whose K and V it reads */
  int first_head, queries; /* query heads that read it: the first, how many */
  int n;                   /* entries, those marked included */
  int marked;              /* of these, merged into others since the last
                              sweep: their weight is 0 */
  int first_marked, tail; /* index of the first of them, where there is one; how
                             many are the lane's last entries */
  uint32_t *id;           /* [n] token id of the oldest member */
  uint32_t *weight;       /* [n] tokens it stands for; 0: marked */
  uint8_t *tier;          /* [n] class; NULL where needs.classes is < 2 */
  kv_cell_ref *k, *v;     /* [n]; NULL where the method never rewrites */
  kv_column_data column[KV_MAX_COLUMNS]; /* [n] each */
  uint32_t *last, *next; /* tokens merged into an entry, from id[i] along
                            next[token] to last[i]; NULL where the method never
                            merges */
  kv_slab k_slab[KV_SLABS], v_slab[KV_SLABS]; /* [KV_MERGED ..] in use */
  bool dropped;  /* anything was ever dropped or merged: a real store
                    needs positions, which are then charged */
  bool holes;    /* rows once were not 0..n-1 in lane order: the row index is
                    charged */
  int rewritten; /* entries with a side not KV_RAW */
  void *own;     /* the method's needs.lane_state bytes (kv_own) */
  int step;      /* tokens seen, for the journal */
  int touched;   /* index of the first entry whose place, K or V a verb
                    has changed since kv_lane_mark; INT_MAX: none */
  kv_words views, verbs; /* records of the block or step in progress */
  kv_digest rewrites;    /* running digest of all rewritten bits */
  kv_err fault;          /* the first verb that failed; rc 0: none. The engine
                            reads it between steps, and the cell fails */
  /* Scratch of the verbs. */
  float *f32;         /* [rows of one group + 3][max(d, d_v)] */
  const float **rows; /* [rows of one group] */
  kv_lane_room room;  /* lent before verbs are called; not owned */
};

/* Takes all memory of lane number `lane` of a layer, for requests of `shape`
 * under `needs`, both of which outlive it. KV_RESOURCE: no memory; the caller
 * releases the lane then, too. Call begin next. */
kv_rc kv_lane_init(kv_lane *l, const kv_shape *shape, const kv_needs *needs,
                   const struct kv_kernels *kernels, int lane, kv_err *e);
void kv_lane_release(kv_lane *l); /* accepts a zeroed lane */
/* Rows that a lane's verbs may rewrite in one step at most: a merge rewrites
 * one and removes one, a recode rewrites what it names. */
static inline size_t kv_lane_rewrites(const kv_needs *n, int n_tokens) {
  int each = n->codings ? kv_needs_changes(n) : 1;
  return (size_t)each * (size_t)n_tokens + 64;
}
/* Empties it for the layer whose rows are `data`: no entries, state zeroed,
 * nothing freed. needs are those of init, or of a layer for which init's have
 * room. */
void kv_lane_begin(kv_lane *l, const kv_needs *needs,
                   const kv_layer_data *data);

/* Between two blocks or steps, when nothing is marked and no record open
 * (asserted): `to`, of the same shape, needs and number, begun and still empty,
 * becomes what `from` is, to the bit. It keeps its own data, turns and places.
 * Cannot fail. Costs a copy of what is stored, not of the room. */
void kv_lane_copy(const kv_lane *from, kv_lane *to);

/* Tokens first..first+count-1 enter at the end, raw, of weight 1, class 0, with
 * columns of 0. The lane's step becomes first + count. Asserts that there is
 * room, n_tokens in all, and nothing marked. */
void kv_lane_append(kv_lane *l, int first, int count);

/* Begins anew with l->touched: entries before that index are, from here on,
 * what they are now. */
void kv_lane_mark(kv_lane *l);

/* --- verbs -------------------------------------------------------------
 * An entry is named by its index, 0..n-1 in lane order. Indexes mean the same
 * until the next keep, move or sweep, whatever is merged in between: a merge
 * marks the entry that goes and leaves it in its place, and all marked ones
 * are removed together. Backends sweep when a hook returns; a method calls
 * kv_sweep only where it needs places without gaps within a hook. A marked
 * entry has weight 0 and nothing in it means anything: no verb may name it.
 * Broken rules are asserted. Verbs return nothing: what fails sets l->fault
 * (KV_REFUSED for numbers that are not finite, KV_INTERNAL where needs.changes
 * was too low), which fails the cell with a sentence. */

/* The live entries list[0..n), in that order, remain, each listed once; the
 * rest is dropped and what is marked removed. */
void kv_keep(kv_lane *l, int n, const int32_t *list);
/* The same of the entries i whose flag keep[i] of [l->n] is true, in the order
 * they have; a marked entry's flag is not looked at. */
void kv_keep_mask(kv_lane *l, const bool *keep);
/* K and V of entry `into` become (a * into + b * from) / (a + b), arithmetic 8,
 * rounded once to the type that needs.merged says; its weight becomes the sum
 * of both, `from` is marked. A fault where a mean is not finite as stored.
 * O(d), whatever n is. */
void kv_merge(kv_lane *l, int into, int from, float a, float b);
/* Writes that fault into *e, in the same words on every backend, unless *e has
 * one already; id: of the token merged into. */
void kv_merge_fails(kv_err *e, int layer, int lane, int step, uint32_t id);
/* Removes what is marked; entries keep their order. Writes no record, for the
 * merges' records have said it. O(n), or nothing where nothing is marked. */
void kv_sweep(kv_lane *l);
/* True if i is the index of an entry that is not marked. */
static inline bool kv_is_live(const kv_lane *l, int i) {
  return i >= 0 && i < l->n && l->weight[i] != 0;
}
/* Codes K of n entries, at most kv_coding_members, as one group in k_format,
 * and V in v_format (kv_coded); KV_SAME leaves a side; n 0 does nothing. Of a
 * format whose groups have m > 1 rows a side has room for n_tokens / m + 1
 * groups, of one with rows by themselves for all; entries that are coded in the
 * format already may be coded again. Only sides that the coding is for
 * (kv_coding.sides) may be put into it. A fault where the format cannot code
 * them (kv_format.encode). */
void kv_recode(kv_lane *l, int n, const int32_t *entry, int k_format,
               int v_format);
/* The recode of a coding whose format is layered, which codes a token of all
 * lanes at once: both sides of the entry at index `entry` of each of a layer's
 * lanes, the same token in all. named: [kv_slab_named] ids of the tokens that
 * its block refers to, KV_NO_TOKEN behind the last; block: the bytes that the
 * format says; row: what it decodes to, K [lanes][d] (before their rotation
 * where the coding is pre_rope), then V [lanes][d_v]. One record a lane. */
void kv_recode_token(kv_lane *const *lane, int lanes, int entry, int format,
                     const int32_t *named, const void *block, const float *row);
/* The entry at `from` goes to place `to`; those between shift by one. After a
 * merge of the same hook a sweep comes first: places have gaps until then. */
void kv_move(kv_lane *l, int from, int to);
/* n entries become of class `to`, 0 <= to < needs.classes, in their places. A
 * class is a number that the method gives a meaning; it goes where its entry
 * goes, of a merge it is that of `into`, and the ledger tells what each class
 * holds. */
void kv_retier(kv_lane *l, int n, const int32_t *entry, int to);
/* The class of entry i, 0 where the method has no classes. */
static inline int kv_class_of(const kv_lane *l, int i) {
  return l->tier ? l->tier[i] : 0;
}

/* --- reading ----------------------------------------------------------- */
/* K or V of entry i, fp32, into out: as attention reads it or, where
 * needs.reindex, before the key is turned to its place (kv_place_row). */
void kv_lane_key(const kv_lane *l, int i, float *out);
void kv_lane_value(const kv_lane *l, int i, float *out);
/* Of an entry in a layered coding: the [kv_slab_named] ids that its block
 * names, valid until the entry is changed. */
const int32_t *kv_lane_named(const kv_lane *l, int i);
/* And the block's bytes, put together from all lanes of the layer into out. */
void kv_lanes_block(const kv_lane *const *lane, int lanes, int i, void *out);
/* Row of token t in the trace: [d] or [d_v] elements of shape->dtype, perhaps
 * unaligned. */
const void *kv_lane_raw_key(const kv_lane *l, uint32_t t);
const void *kv_lane_raw_value(const kv_lane *l, uint32_t t);
/* RN(merge_bias * ln(weight)) of entry i; 0 where nothing is biased. */
float kv_lane_bias(const kv_lane *l, int i);

/* True if its entries are one unbroken run of tokens, in their order. O(1)
 * where the first and the last say that they are not, else O(n). */
bool kv_lane_is_run(const kv_lane *l);

/* Adds the bytes that the lane holds now, by kind, to *sum. Asserts that
 * nothing is marked. O(1); O(n) where the method has classes, the layer a
 * sliding window, or where V is a part of K (kv_shape.shared) and entries are
 * rewritten. */
void kv_lane_bytes(const kv_lane *l, kv_bytes *sum);
/* Of these, K and V of all entries, with scales and other metadata of codes. */
int64_t kv_lane_row_bytes(const kv_lane *l);
/* Where V is a part of K (kv_shape.shared): bytes of V that an entry of that
 * format, KV_RAW or KV_MERGED, does not hold beside its K, and of entry i: 0
 * where either of its sides is coded, for then each is stored. Else 0. */
int64_t kv_lane_shared(const kv_lane *l, int format);
int64_t kv_lane_shared_entry(const kv_lane *l, int i);
/* Bytes that a method with a view looks at in this decode step in order to
 * choose: what its needs declare (kv_meta), and every key as it is stored where
 * the view is given logits. Called after the token's entry was appended. */
int64_t kv_lane_scanned(const kv_lane *l);
/* S of the lane: the digest of its state (ref/lane/journal.h). O(n). */
kv_digest kv_lane_state(const kv_lane *l);

/* What a method was compiled against. From the release of 0.1.0 on raised with
 * every change, but of comments, in a header that a method includes, which
 * tests/check_abi.sh sees to. A plugin of another number is refused by a
 * sentence. */
enum { KV_METHOD_ABI = 24 };

/* --- what a hook calls its own ------------------------------------------ */
/* Its needs.lane_state bytes. */
static inline void *kv_own(const kv_at *at, const kv_lane *l) {
  return (char *)l->own + at->state;
}
/* Its column c, [n] of the type that its needs say. */
static inline int64_t *kv_column_int64(const kv_at *at, const kv_lane *l,
                                       int c) {
  assert(l->needs->column[at->column + c] == KV_INT64);
  return l->column[at->column + c].i;
}
static inline float *kv_column_float(const kv_at *at, const kv_lane *l, int c) {
  assert(l->needs->column[at->column + c] == KV_FLOAT);
  return l->column[at->column + c].f;
}
/* Its coding i, as recode names formats. */
static inline int kv_coded(const kv_at *at, int i) {
  return (int)KV_CODED + at->coding + i;
}

#endif
