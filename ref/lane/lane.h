/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane: the stored tokens of one (layer, KV head) - or query head, with
 * lanes = QUERY_HEAD - as an ordered list of entries. Lanes are ragged: each
 * has its own length. Memory changes only by append (the engine's) and by
 * the verbs keep, merge, recode, move and retier below; each verb writes its
 * record to the journal, so what is stored is exactly what the journal says.
 *
 * An entry whose K and V no verb has rewritten is read from the trace; bytes
 * are counted as a real store would hold them. Fields may be read by
 * everybody and written only by lane.c.
 */
#ifndef KV_REF_LANE_H
#define KV_REF_LANE_H

#include "ref/ground/rope.h"
#include "ref/lane/journal.h"
#include "ref/lane/ledger.h"
#include "ref/lane/method.h"
#include <assert.h>

/* Places behind the last that an entry can have, in arrays of entries:
 * nobody's, and looked at by fences (sim/laws/fence.h). */
enum { KV_BEYOND = 16 };

/* Format of a side of an entry. */
enum { KV_RAW = 0, KV_MERGED = 1, KV_CODED = 2, KV_SAME = -1 };

typedef struct kv_cell_ref {
  int32_t block; /* in the slab of its format */
  uint16_t member;
  uint16_t format; /* KV_RAW, KV_MERGED, KV_CODED + index */
} kv_cell_ref;

/* Equal blocks of rewritten rows of one side in one format. */
typedef struct kv_slab {
  size_t size;             /* bytes a block */
  int width;               /* elements a row */
  const kv_coding *coding; /* NULL: rows of `type`, one a block */
  kv_dtype type;           /* of elements as they are read: KV_F32 of codes */
  int part, parts;         /* of a layered block (kv_coding_size) */
  int cap, used, n_free;
  int held;            /* entries with this side in it */
  kv_coded_size bytes; /* of its live blocks, as counted */
  int32_t *free;
  uint16_t *members, *live; /* of each block: coded together, still there */
  bool *walked; /* of each block, false but within kv_lane_bytes; NULL where a
                   block has one row, or the method no classes */
  char *data;
} kv_slab;

enum { KV_SLABS = (int)KV_CODED + KV_MAX_CODINGS };

/* What a block of so many members counts as. */
kv_coded_size kv_slab_bytes(const kv_slab *s, int members);
/* Of a layered coding, the ids that a block names. */
int kv_slab_named(const kv_slab *s);

/* The type in which rows are stored that verbs have merged. */
static inline kv_dtype kv_merged_type(const kv_needs *n, const kv_shape *s) {
  return n->merged == KV_MEANS_FP32 ? KV_F32 : s->dtype;
}

typedef union kv_column_data {
  int64_t *i;
  float *f;
} kv_column_data;

/* Room that verbs work in: lent by the caller's scratch, so that lanes of a
 * layer share one per thread. */
typedef struct kv_lane_room {
  int32_t *list;   /* [n_tokens] entry indexes */
  uint64_t *spare; /* [n_tokens] */
} kv_lane_room;

kv_rc kv_lane_room_init(kv_lane_room *r, int n_tokens, kv_err *e);
void kv_lane_room_release(kv_lane_room *r);

struct kv_lane {
  const kv_shape *shape;
  const kv_needs *needs;
  const kv_layer_data *data;
  const struct kv_kernels *kernels; /* that widen and decode its rows: the
                                       plan's */
  const kv_turns *turns;            /* of the store; NULL: no coding is
                                       pre_rope */
  struct kv_places *places;         /* the same; NULL: not re-indexed */
  int lane, kv_head;                /* number within the layer; whose K and V */
  int first_head, queries;          /* query heads that read it */
  int n;                            /* entries; live ones but within a hook */
  int marked;             /* of these, merged into others since the last
                             sweep: their weight is 0 */
  int first_marked, tail; /* the first of them; how many stand last */
  uint32_t *id;           /* [n] token id of the oldest member */
  uint32_t *weight;       /* [n] tokens it stands for; 0: marked */
  uint8_t *tier;          /* [n] class; NULL where needs.classes is < 2 */
  kv_cell_ref *k, *v;     /* [n]; NULL where the method never rewrites */
  kv_column_data column[KV_MAX_COLUMNS]; /* [n] each */
  uint32_t *last, *next; /* member lists: last[i] of entry i; next[token];
                            NULL where the method never merges */
  kv_slab k_slab[KV_SLABS], v_slab[KV_SLABS]; /* [KV_MERGED ..] in use */
  bool dropped;          /* anything ever: positions are stored */
  bool holes;            /* rows are not in order: the index is stored */
  int rewritten;         /* entries with a side not KV_RAW */
  void *own;             /* the method's lane_state */
  int step;              /* tokens seen, for the journal */
  int touched;           /* the first entry whose place, K or V a verb has
                            changed since kv_lane_mark; INT_MAX: none */
  kv_words views, verbs; /* records of the step in progress */
  kv_digest rewrites;    /* running digest of all rewritten bits */
  kv_err fault;          /* first failure of arithmetic; rc 0 = none */
  /* Scratch of the verbs. */
  float *f32;         /* rows of one group, and three more */
  const float **rows; /* [rows of one group] */
  kv_lane_room room;  /* lent before verbs are called; not owned */
};

/* All memory of a lane of `shape` under `needs`; release accepts a zeroed
 * lane. Lanes are numbered as in the layer. */
kv_rc kv_lane_init(kv_lane *l, const kv_shape *shape, const kv_needs *needs,
                   const struct kv_kernels *kernels, int lane, kv_err *e);
void kv_lane_release(kv_lane *l);
/* Words that a lane's records of one step may take: 8 whenever a verb names an
 * entry (a recode of one takes 8, a move and a retier 7, a merge of two 9), 2
 * for an entry of a keep. And rows that its verbs may rewrite in a step: a
 * merge rewrites one and removes one, a recode rewrites what it names. */
static inline size_t kv_lane_words(const kv_needs *n, int n_tokens) {
  return (8 * (size_t)kv_needs_changes(n) + 2) * (size_t)n_tokens + 64;
}
static inline size_t kv_lane_rewrites(const kv_needs *n, int n_tokens) {
  int each = n->codings ? kv_needs_changes(n) : 1;
  return (size_t)each * (size_t)n_tokens + 64;
}
/* Empties it for another layer: state zeroed, nothing freed. needs are those
 * of init, or of a layer for which init's have room. */
void kv_lane_begin(kv_lane *l, const kv_needs *needs,
                   const kv_layer_data *data);

/* Tokens first..first+count-1 enter at the end, uncompressed. */
void kv_lane_append(kv_lane *l, int first, int count);

/* From here on l->touched tells what verbs leave as it is. */
void kv_lane_mark(kv_lane *l);

/* --- verbs -------------------------------------------------------------
 * An entry is named by its index, 0..n-1 in lane order. Indexes mean the same
 * until the next keep, move or sweep, whatever is merged in between: a merge
 * marks the entry that goes and leaves it in its place, and all marked ones
 * are removed together. The engine sweeps when a hook returns; a method calls
 * kv_sweep only where it needs places without gaps within a hook. A marked
 * entry has weight 0 and nothing in it means anything: no verb may name it.
 * Broken rules are asserted. */

/* The live entries list[0..n), in that order, remain, each listed once; the
 * rest is dropped and what is marked removed. */
void kv_keep(kv_lane *l, int n, const int32_t *list);
/* The same by flag, in the order they have; a marked entry's flag is not
 * looked at. */
void kv_keep_mask(kv_lane *l, const bool *keep);
/* arithmetic 8: `into` takes the weighted mean of both in its place, rounded
 * once to the type that needs.merged says, `from` is marked. The cell fails
 * where that is not finite. O(d), whatever n is. */
void kv_merge(kv_lane *l, int into, int from, float a, float b);
/* Its sentence, the same on every backend: the mean of token `id`. */
void kv_merge_fails(kv_err *e, int layer, int lane, int step, uint32_t id);
/* Removes what is marked; entries keep their order. Writes no record, for the
 * merges' records have said it. O(n), or nothing where nothing is marked. */
void kv_sweep(kv_lane *l);
static inline bool kv_is_live(const kv_lane *l, int i) {
  return i >= 0 && i < l->n && l->weight[i] != 0;
}
/* Codes both sides of n entries as one group; KV_SAME leaves a side. Of a
 * format whose groups have m > 1 rows a side has room for T / m + 1 groups, of
 * one with rows by themselves for all; entries that are coded in the format
 * already may be coded again. Only sides that the coding is for
 * (kv_coding.sides) may be put into it. */
void kv_recode(kv_lane *l, int n, const int32_t *entry, int k_format,
               int v_format);
/* Of a coding whose format is layered: the entry at `entry` of each of a
 * layer's lanes, the same token in all, both sides. `named` are the ids of the
 * tokens that its block names, or KV_NO_TOKEN; `block` the bytes that it holds
 * beside them; `row` what it stands for, K of all lanes (before their rotation
 * where the coding is pre_rope), then V. One record a lane, as of any recode.
 */
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
/* The class of entry i; 0 where the method has no classes. */
static inline int kv_class_of(const kv_lane *l, int i) {
  return l->tier ? l->tier[i] : 0;
}

/* --- reading ----------------------------------------------------------- */
/* K or V of entry i as attention reads it, fp32, into out. */
void kv_lane_key(const kv_lane *l, int i, float *out);
void kv_lane_value(const kv_lane *l, int i, float *out);
/* Of an entry in a layered coding: the tokens that its block names, one after
 * the other, and its bytes, put together from all lanes into out. */
const int32_t *kv_lane_named(const kv_lane *l, int i);
void kv_lanes_block(const kv_lane *const *lane, int lanes, int i, void *out);
/* Row of token t in the trace: [d] or [d_v] elements of shape->dtype. */
const void *kv_lane_raw_key(const kv_lane *l, uint32_t t);
const void *kv_lane_raw_value(const kv_lane *l, uint32_t t);
/* RN(merge_bias * ln(weight)) of entry i; 0 where nothing is biased. */
float kv_lane_bias(const kv_lane *l, int i);

/* Adds what the lane holds now. */
void kv_lane_bytes(const kv_lane *l, kv_bytes *sum);
/* Of these, K and V of all entries and what their codes need. */
int64_t kv_lane_row_bytes(const kv_lane *l);
/* Bytes that a method with a view looks at in this decode step in order to
 * choose: what its needs declare (kv_meta), and every key as it is stored where
 * the view is given logits. Called after the token's entry was appended. */
int64_t kv_lane_scanned(const kv_lane *l);
/* Digest of its state (journal.h). */
kv_digest kv_lane_state(const kv_lane *l);

/* What a method was compiled against. Raised with every change of a header
 * that a method includes; tests/check_abi.sh sees to it. A plugin of another
 * number is refused by a sentence. */
enum { KV_METHOD_ABI = 20 };

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
