/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane: the stored tokens of one (layer, KV head), as an ordered list of
 * entries. With lanes = QUERY_HEAD it belongs to a query head. Each lane has
 * its own length. Memory changes only by append, which the engine calls, and by
 * the verbs keep, merge, recode, move and retier below. Each verb writes its
 * record to the journal, so the journal says exactly what is stored.
 *
 * An entry whose K and V no verb has rewritten is read from the trace; its
 * bytes are counted as a real store would hold them.
 *
 * Methods call verbs and readers. The lane's owner, mostly a backend, calls
 * init, begin, copy, append and mark. Everybody may read the fields. A method
 * writes only its columns and its own state. The owner sets turns, places and
 * room, and fills in the host copy of a device's lane. Everything else is
 * written by ref/lane alone.
 */
#ifndef KV_REF_LANE_H
#define KV_REF_LANE_H

#include "ref/ground/rope.h"
#include "ref/lane/journal.h"
#include "ref/lane/ledger.h"
#include "ref/lane/method.h"
#include <assert.h>

/* Unused elements after the last entry in each array of entries. Laws check
 * them to find a hook that writes past the end (sim/run/laws/fence.h). */
enum { KV_BEYOND = 16 };

/* Format of a side (K or V) of an entry. */
enum {
  KV_RAW = 0,    /* as recorded */
  KV_MERGED = 1, /* a mean, of kv_merged_type */
  KV_CODED = 2,  /* KV_CODED + i: in needs.coding[i] */
  KV_SAME = -1   /* argument of kv_recode: do not change this side */
};

/* Where a side of an entry is stored. For KV_RAW only `format` counts. */
typedef struct kv_cell_ref {
  int32_t block;   /* in the slab of its format */
  uint16_t member; /* row of the block, from 0 */
  uint16_t format; /* KV_RAW, KV_MERGED, KV_CODED + index */
} kv_cell_ref;

/* Rewritten rows of one side in one format, in blocks of equal size. A block
 * holds the rows of a group that were coded together, or one mean. */
typedef struct kv_slab {
  size_t size;              /* bytes a block */
  int width;                /* elements a row: d or d_v */
  const kv_coding *coding;  /* NULL: rows of `type`, one a block */
  kv_dtype type;            /* of elements as read; KV_F32 for codes */
  int part, parts;          /* which share of a token's codes this slab holds,
                               if lanes divide them (kv_coding_size) */
  int cap, used, n_free;    /* blocks: capacity; ever taken; free again */
  int held;                 /* entries with this side in the slab */
  kv_coded_size bytes;      /* of its live blocks, as counted */
  int32_t *free;            /* [n_free] blocks */
  uint16_t *members, *live; /* [used] rows coded together; still stored */
  bool *walked; /* [used] false outside kv_lane_bytes; NULL if blocks have one
                   row or the method no classes */
  char *data;   /* [cap][size] */
} kv_slab;

enum { KV_SLABS = (int)KV_CODED + KV_MAX_CODINGS }; /* indexed by format */

/* The bytes that the ledger counts for a block of `members` rows. */
kv_coded_size kv_slab_bytes(const kv_slab *s, int members);
/* How many token ids a block of a layered coding names. */
int kv_slab_named(const kv_slab *s);

/* Element type of merged rows. */
static inline kv_dtype kv_merged_type(const kv_needs *n, const kv_shape *s) {
  return n->merged == KV_MEANS_FP32 ? KV_F32 : s->dtype;
}

/* A column, by its type in needs.column. */
typedef union kv_column_data {
  int64_t *i; /* KV_INT64 */
  float *f;   /* KV_FLOAT */
} kv_column_data;

/* Working memory of the verbs. The lane's owner assigns its own to l->room
 * before it calls a hook, so all lanes of a thread share one. */
typedef struct kv_lane_room {
  int32_t *list;   /* [n_tokens] entry indexes */
  uint64_t *spare; /* [n_tokens] */
} kv_lane_room;

/* KV_RESOURCE: no memory; the caller releases it then, too. */
kv_rc kv_lane_room_init(kv_lane_room *r, int n_tokens, kv_err *e);
void kv_lane_room_release(kv_lane_room *r); /* accepts a zeroed one */

struct kv_lane {
  const kv_shape *shape;
  const kv_needs *needs;
  const kv_layer_data *data;        /* the current layer's, for raw rows */
  const struct kv_kernels *kernels; /* widen and decode rows */
  /* The owner's, with needs.future, else NULL: [n_tokens] by token id, valid in
   * a compression. The exact probabilities that decode rows after `step` give
   * the token, summed over these rows and the lane's query heads, each RN(P *
   * 2^40). */
  const int64_t *future;
  const kv_turns *turns;    /* the owner's (ref/ground/rope.h); NULL without
                               needs.rope */
  struct kv_places *places; /* the owner's (ref/ground/places.h); NULL without
                               needs.reindex */
  int lane, kv_head;        /* number within the layer; KV head that it reads */
  int first_head, queries;  /* query heads that read it: the first, how many */
  int n;                    /* entries, marked ones included */
  int marked;               /* entries merged into others since the last sweep:
                               their weight is 0 */
  int first_marked, tail;   /* index of the first marked entry, if any; how many
                               marked entries end the lane */
  uint32_t *id;             /* [n] token id of the oldest member */
  uint32_t *weight;         /* [n] tokens it stands for; 0: marked */
  uint8_t *tier;            /* [n] class; NULL if needs.classes < 2 */
  kv_cell_ref *k, *v;       /* [n]; NULL if the method never rewrites */
  kv_column_data column[KV_MAX_COLUMNS]; /* [n] each */
  uint32_t *last, *next; /* tokens merged into an entry, from id[i] along
                            next[token] to last[i]; NULL where the method never
                            merges */
  kv_slab k_slab[KV_SLABS], v_slab[KV_SLABS]; /* [KV_MERGED ..] in use */
  bool dropped;  /* an entry was dropped or merged: from then on a real store
                    needs positions, which are charged */
  bool holes;    /* rows were not 0..n-1 in lane order at some time: the row
                    index is charged */
  int rewritten; /* entries with a side not KV_RAW */
  void *own;     /* the method's needs.lane_state bytes (kv_own) */
  int step;      /* tokens seen, for the journal */
  int touched;   /* first entry whose index, K or V a verb changed since
                    kv_lane_mark; INT_MAX: none */
  kv_words views, verbs; /* records of the block or step in progress */
  kv_digest rewrites;    /* running digest of all rewritten bits */
  kv_err fault;          /* the first verb that failed; rc 0: none. The engine
                            reads it between steps and fails the cell */
  /* Scratch of the verbs. */
  float *f32;         /* [rows of one group + 3][max(d, d_v)] */
  const float **rows; /* [rows of one group] */
  kv_lane_room room;  /* the owner's; set before verbs are called */
};

/* Allocates lane number `lane` of a layer, for requests of `shape` under
 * `needs`; both outlive it. KV_RESOURCE: no memory; the caller releases the
 * lane then, too. Call begin next. */
kv_rc kv_lane_init(kv_lane *l, const kv_shape *shape, const kv_needs *needs,
                   const struct kv_kernels *kernels, int lane, kv_err *e);
void kv_lane_release(kv_lane *l); /* accepts a zeroed lane */
/* Most rows that a lane's verbs may rewrite in one step. A merge rewrites one
 * row and removes one; a recode rewrites the rows that it names. */
static inline size_t kv_lane_rewrites(const kv_needs *n, int n_tokens) {
  int each = n->codings ? kv_needs_changes(n) : 1;
  return (size_t)each * (size_t)n_tokens + 64;
}
/* Empties the lane for the layer whose rows are `data`: no entries, state
 * zeroed, nothing freed. needs are those of init, or smaller ones. */
void kv_lane_begin(kv_lane *l, const kv_needs *needs,
                   const kv_layer_data *data);

/* Makes `to` equal to `from`, to the bit. `to` has the same shape, needs and
 * number, is begun and empty; it keeps its own data, turns and places. Call it
 * between two blocks or steps: nothing may be marked and no record open
 * (asserted). Cannot fail. Costs a copy of what is stored. */
void kv_lane_copy(const kv_lane *from, kv_lane *to);

/* Tokens first..first+count-1 enter at the end: raw, weight 1, class 0, columns
 * 0. The lane's step becomes first + count. Asserts that at most n_tokens are
 * held and nothing is marked. */
void kv_lane_append(kv_lane *l, int first, int count);

/* Resets l->touched, so that it reports changes from now on. */
void kv_lane_mark(kv_lane *l);

/* --- verbs -------------------------------------------------------------
 * An entry is named by its index, 0..n-1 in lane order. Indexes stay the same
 * until the next keep, move or sweep: a merge only marks the entry that goes,
 * and a sweep removes all marked ones together. Backends sweep when a hook
 * returns; a method calls kv_sweep only if it needs indexes without gaps within
 * a hook. A marked entry has weight 0 and undefined contents; no verb may name
 * it. Broken rules are asserted. Verbs return nothing: a failure sets l->fault,
 * which fails the cell with a sentence (KV_REFUSED: a number is not finite;
 * KV_INTERNAL: needs.changes was too low). */

/* The live entries list[0..n), each listed once, remain in that order. All
 * others are dropped, and marked ones removed. */
void kv_keep(kv_lane *l, int n, const int32_t *list);
/* Keeps the entries i whose flag keep[i], of [l->n], is true, in their order.
 * Flags of marked entries are ignored. */
void kv_keep_mask(kv_lane *l, const bool *keep);
/* K and V of entry `into` become (a * into + b * from) / (a + b), arithmetic 8,
 * rounded once to the type in needs.merged. Its weight becomes the sum of both,
 * and `from` is marked. Faults if a stored mean is not finite. O(d). */
void kv_merge(kv_lane *l, int into, int from, float a, float b);
/* Writes that fault into *e, in the same words on every backend, unless *e
 * holds a fault already. id: the token merged into. */
void kv_merge_fails(kv_err *e, int layer, int lane, int step, uint32_t id);
/* Removes marked entries; the others keep their order. Writes no record: the
 * merges wrote theirs. O(n), or nothing if nothing is marked. */
void kv_sweep(kv_lane *l);
/* Is i the index of an entry that is not marked? */
static inline bool kv_is_live(const kv_lane *l, int i) {
  return i >= 0 && i < l->n && l->weight[i] != 0;
}
/* Codes K of n entries, at most kv_coding_members, as one group in k_format,
 * and V in v_format (kv_coded). KV_SAME leaves a side alone; n 0 does nothing.
 * For a format whose groups have m > 1 rows, a side has memory for n_tokens / m
 * + 1 groups; else for all rows. Entries may be coded again in the same format.
 * A side must be one that the coding is for (kv_coding.sides). Faults if the
 * format cannot code the rows (kv_format.encode). */
void kv_recode(kv_lane *l, int n, const int32_t *entry, int k_format,
               int v_format);
/* Recode for a layered coding, which codes one token of all lanes of the layer
 * at once. Both sides of the entry at index `entry` of each lane, the same
 * token in all, are coded. named: [kv_slab_named] ids of the tokens that the
 * block refers to, then KV_NO_TOKEN; block: the format's bytes; row: what the
 * block decodes to, K [lanes][d] (before rotation if the coding is pre_rope),
 * then V [lanes][d_v]. Writes one record a lane. */
void kv_recode_token(kv_lane *const *lane, int lanes, int entry, int format,
                     const int32_t *named, const void *block, const float *row);
/* Moves the entry at index `from` to index `to`; those between shift by one.
 * After a merge in the same hook, sweep first. */
void kv_move(kv_lane *l, int from, int to);
/* Gives n entries the class `to`, 0 <= to < needs.classes. The method defines
 * what a class means. A class stays with its entry, a merge keeps the class of
 * `into`, and the ledger counts what each class holds. */
void kv_retier(kv_lane *l, int n, const int32_t *entry, int to);
/* The class of entry i; 0 if the method has no classes. */
static inline int kv_class_of(const kv_lane *l, int i) {
  return l->tier ? l->tier[i] : 0;
}

/* What recode does to the row of an entry of token t before coding c encodes
 * it, and how reading undoes it: kv_coding. row: [d] of a key, or [d_v]. */
void kv_lane_prepare(const kv_lane *l, const kv_coding *c, bool key, uint32_t t,
                     float *row);
void kv_lane_restore(const kv_lane *l, const kv_coding *c, bool key, uint32_t t,
                     float *row);

/* The settings by which the lane's rows of a coding are coded and read. */
static inline const void *kv_lane_settings(const kv_lane *l,
                                           const kv_coding *c) {
  return c->own_settings ? (const char *)l->own + c->own_at : c->settings;
}

/* --- reading ----------------------------------------------------------- */
/* Writes K or V of entry i, fp32, into out as attention reads it. With
 * needs.reindex the key is not yet turned to its place (kv_place_row). */
void kv_lane_key(const kv_lane *l, int i, float *out);
void kv_lane_value(const kv_lane *l, int i, float *out);
/* For an entry in a layered coding: the [kv_slab_named] ids that its block
 * names, valid until the entry changes. */
const int32_t *kv_lane_named(const kv_lane *l, int i);
/* Writes that block's bytes, joined from all lanes of the layer, into out. */
void kv_lanes_block(const kv_lane *const *lane, int lanes, int i, void *out);
/* Row of token t in the trace: [d] or [d_v] elements of shape->dtype, possibly
 * unaligned; owned by the trace. */
const void *kv_lane_raw_key(const kv_lane *l, uint32_t t);
const void *kv_lane_raw_value(const kv_lane *l, uint32_t t);
/* RN(merge_bias * ln(weight)) of entry i; 0 without a bias. */
float kv_lane_bias(const kv_lane *l, int i);

/* Are its entries one unbroken run of tokens, in order? O(1) if the first and
 * the last entry rule it out, else O(n). */
bool kv_lane_is_run(const kv_lane *l);

/* Adds the bytes that the lane holds now, by kind, to *sum. Asserts that
 * nothing is marked. O(1). O(n) with classes, with a sliding window, or if V is
 * a part of K (kv_shape.shared) and entries are rewritten. */
void kv_lane_bytes(const kv_lane *l, kv_bytes *sum);
/* The part of these bytes that is K and V, with the metadata of codes. */
int64_t kv_lane_row_bytes(const kv_lane *l);
/* Bytes of V that an entry does not store because its V is a part of its K
 * (kv_shape.shared). First for an entry of `format`, KV_RAW or KV_MERGED; then
 * for entry i: 0 if either side is coded, because each is then stored. */
int64_t kv_lane_shared(const kv_lane *l, int format);
int64_t kv_lane_shared_entry(const kv_lane *l, int i);
/* Bytes that a method with a view reads in this decode step to choose: what its
 * needs declare (kv_meta), and every key as stored if the view gets logits.
 * Call it after the token's entry was appended. */
int64_t kv_lane_scanned(const kv_lane *l);
/* S of the lane: the digest of its state (ref/lane/journal.h). O(n). */
kv_digest kv_lane_state(const kv_lane *l);

/* The version of the headers that a method includes. From release 0.1.0 on it
 * rises with every change of these headers except comments
 * (tests/check_abi.sh). A plugin with another number is refused. */
enum { KV_METHOD_ABI = 27 };

/* --- a method's own part of the lane ----------------------------------- */
/* Its needs.lane_state bytes. */
static inline void *kv_own(const kv_at *at, const kv_lane *l) {
  return (char *)l->own + at->state;
}
/* Its column c, [n], of the type in needs.column. */
static inline int64_t *kv_column_int64(const kv_at *at, const kv_lane *l,
                                       int c) {
  assert(l->needs->column[at->column + c] == KV_INT64);
  return l->column[at->column + c].i;
}
static inline float *kv_column_float(const kv_at *at, const kv_lane *l, int c) {
  assert(l->needs->column[at->column + c] == KV_FLOAT);
  return l->column[at->column + c].f;
}
/* Its coding i, as kv_recode names formats. */
static inline int kv_coded(const kv_at *at, int i) {
  return (int)KV_CODED + at->coding + i;
}

#endif
