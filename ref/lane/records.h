/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading records (ref/lane/journal.h): their kinds, the walk over them, and an
 * interpreter that computes what a lane stores by reading what was decided
 * about it. It was written from journal.h alone and shares no code with the
 * memory operations, so that laws can compare the two. It also reports to a
 * listener every row written and left and every class that kv_retier gives, so
 * that memory layouts can be measured beside the replay.
 *
 * An entry has a place: the token with which it entered. The place never
 * changes. keep and merge end it (of a merge, `from`'s; `into` stays where it
 * is and takes the smaller id), move and a new order do not touch it, recode
 * and merge rewrite the rows that stand at it. A row is one side (K or V) of
 * an entry in one format. The rows of a coded group are all there until the
 * last of its members has left it, as the ledger counts them.
 *
 * Cost: O(1) a row, O(n) a keep or move, whatever else was merged. Memory: 44
 * bytes a token and lane, and 40 a token, side and coding.
 */
#ifndef KV_REF_RECORDS_H
#define KV_REF_RECORDS_H

#include "ref/lane/lane.h"

/* --- kinds and the walk --------------------------------------------------- */

/* One of KV_RECORD_KINDS. */
typedef struct kv_record_kind {
  const char *name;   /* "keep" */
  size_t least, most; /* payload words; most may be KV_RECORD_LONG */
} kv_record_kind;

/* The kind of a record's first word; NULL: there is no such kind. */
const kv_record_kind *kv_record_kind_of(uint32_t kind);

/* Writes what payload word i of a record means into out, as "dropped id 2 of
 * 5"; record points to its head. Payload words before i are read, the word
 * itself is not. A kind that is unknown gives "word i". */
enum { KV_RECORD_MEANING = 128 };
void kv_record_word(const uint32_t *record, size_t i,
                    char out[KV_RECORD_MEANING]);

/* One record where it stands. */
typedef struct kv_record_at {
  const uint32_t *head;    /* {kind, layer, step, head, count} */
  const uint32_t *payload; /* [count] */
  size_t count;
} kv_record_at;

/* Puts the record that begins at word *at of w into *out and moves *at behind
 * it; begin with *at = 0. False: there is none, or it is cut short; then *at
 * stays, and is w->n only where all was read. */
bool kv_records_next(const kv_words *w, size_t *at, kv_record_at *out);

/* --- a replica of a lane, kept by reading its records ------------------- */

enum { KV_SIDE_K, KV_SIDE_V, KV_SIDES };
enum { KV_RECORDS_GONE = -1 }; /* what kv_replica_owner says of a token */

/* Bytes of a row of one side (KV_SIDE_K or _V) in a format (KV_RAW, KV_MERGED,
 * KV_CODED + index); of a coding its codes, without scales and the like. */
size_t kv_row_bytes(const kv_shape *shape, const kv_needs *needs, int side,
                    int format);

/* Do means lie where the entries' raw rows were? Yes where they are of the same
 * type and the method does not code. */
static inline bool kv_means_in_place(const kv_shape *shape,
                                     const kv_needs *needs) {
  return kv_merged_type(needs, shape) == shape->dtype && !needs->codings;
}

/* Called by enter and follow for every row that is written and every one whose
 * memory is free again, and for every entry that a retier names (to: its
 * class). A row that changes its format is left and then written at the same
 * place; a raw one that becomes a mean in its place (kv_means_in_place) is
 * neither. Called thousands of times a step: must not allocate. */
typedef struct kv_rows_listener {
  void *self; /* of whoever listens */
  /* side: KV_SIDE_x; format: KV_RAW, KV_MERGED, KV_CODED + index; place: of the
   * entry whose row it is. */
  void (*write)(void *self, int lane, int side, int format, int32_t place);
  void (*leave)(void *self, int lane, int side, int format, int32_t place);
  void (*retier)(void *self, int lane, int32_t place, int to); /* or NULL */
} kv_rows_listener;

/* What stands at a place. */
typedef struct kv_replica_entry {
  uint32_t id, weight;      /* of the oldest token; tokens, 0: gone */
  int tier;                 /* class */
  int16_t format[KV_SIDES]; /* KV_RAW, KV_MERGED, KV_CODED + index */
  int32_t group[KV_SIDES];  /* index of its coded group; -1: not coded */
  int32_t mark;             /* the last keep that listed it, for its checks */
} kv_replica_entry;

/* Rows that one recode coded together. */
typedef struct kv_replica_group {
  int32_t members, live; /* coded together; still in it */
  int32_t first;         /* index of the first of its nodes; of a free group the
                            next free one */
} kv_replica_group;

/* A member of a group, in its list or among the free ones. */
typedef struct kv_replica_node {
  int32_t place, next; /* next: index of a node; -1: the last */
} kv_replica_node;

/* A lane as its records say. Read by anybody, written by records.c. */
typedef struct kv_replica {
  const kv_rows_listener *listener; /* or NULL */
  int lane;                         /* its number, for the listener */
  int n_tokens, codings;            /* room */
  int step, n;                      /* tokens seen; live entries */
  int32_t *order;                   /* [ordered] places in lane order */
  int32_t *spare;                   /* [n_tokens] */
  kv_replica_entry *entry;          /* [n_tokens] by place */
  int32_t *place;                   /* [n_tokens] by id; -1: no such entry */
  int32_t *into; /* [n_tokens] place merged into, or itself */
  int32_t nodes, nodes_used, groups_used; /* room; ever taken of each */
  int32_t free_node, free_group;          /* the first free ones; -1: none */
  kv_replica_node *node;                  /* [nodes] members of groups */
  kv_replica_group *group;                /* [nodes] */
  int ordered;     /* length of `order`; n but within a step's merges */
  int mark;        /* keeps with a new order so far */
  int64_t dropped; /* tokens that went with dropped entries */
  bool lost;       /* anything was ever dropped or merged */
  bool gaps;       /* rows once were not 0..n-1 in lane order */
  size_t read;     /* words of the step in progress that were read */
} kv_replica;

/* Takes room for lanes of n_tokens and so many codings. KV_RESOURCE without
 * memory; close it then, too. */
kv_rc kv_replica_open(int n_tokens, int codings, kv_replica *s, kv_err *e);
void kv_replica_close(kv_replica *s); /* accepts a zeroed one */
/* Begins an empty lane of that number in its layer; listener: called from here
 * on, or NULL. It and what it points to outlive the lane. */
void kv_replica_begin(kv_replica *s, int lane,
                      const kv_rows_listener *listener);

/* Tokens up to `step` tokens seen enter, raw: the one change that writes no
 * record. Asserts step <= n_tokens; does nothing where they have entered. */
void kv_replica_enter(kv_replica *s, int step);
/* The same up to l->step; then reads the records in l->verbs that came since
 * the last call. Call it before the lane's words are cleared, once a step at
 * least. KV_DIFFERENT where a record makes no sense: the sentence says which.
 */
kv_rc kv_replica_follow(kv_replica *s, const kv_lane *l, kv_err *e);

/* The i-th live entry in lane order, 0 <= i < s->n, after a follow. */
static inline const kv_replica_entry *kv_replica_at(const kv_replica *s,
                                                    int i) {
  return &s->entry[s->order[i]];
}
/* The id of the entry that a token, of those entered, is part of;
 * KV_RECORDS_GONE where that was dropped. */
int32_t kv_replica_owner(const kv_replica *s, uint32_t token);

#endif
