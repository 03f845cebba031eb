/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading records (ref/lane/journal.h): their kinds, the walk over them, and an
 * interpreter that computes what a lane stores by reading what was decided
 * about it. It was written from journal.h alone and shares no code with the
 * memory operations, so that laws can compare the two. It also reports every
 * row written and left and every class to a listener, so that memory layouts
 * can be measured beside the replay.
 *
 * An entry has a place: the token with which it entered. The place never
 * changes. keep and merge end it (of a merge, `from`'s; `into` stays where it
 * is and takes the smaller id), move and a new order do not touch it, recode
 * and merge rewrite the rows that stand at it. A row is one side (K or V) of
 * an entry in one format. The rows of a coded group are all there until the
 * last of its members has left it, as the ledger counts them.
 *
 * Cost: O(1) a row, O(n) a keep or move, whatever else was merged. Memory: 48
 * bytes a token and lane, and 24 a token, side and coding.
 */
#ifndef KV_REF_RECORDS_H
#define KV_REF_RECORDS_H

#include "ref/lane/lane.h"

/* --- kinds and the walk --------------------------------------------------- */

typedef struct kv_record_kind {
  const char *name;   /* "keep" */
  size_t least, most; /* payload words; most may be KV_RECORD_LONG */
} kv_record_kind;

/* NULL: no such kind. */
const kv_record_kind *kv_record_kind_of(uint32_t kind);

/* What payload word i of the record means, in words for people; the words
 * before it are read, the word itself is not. */
enum { KV_RECORD_MEANING = 128 };
void kv_record_word(const uint32_t *record, size_t i,
                    char out[KV_RECORD_MEANING]);

/* One record where it stands. */
typedef struct kv_record_at {
  const uint32_t *head;    /* {kind, layer, step, head, count} */
  const uint32_t *payload; /* [count] */
  size_t count;
} kv_record_at;

/* The record at word *at of w, which moves behind it. False: there is none, or
 * it is cut short; then *at stays, and is w->n only where all is read. */
bool kv_records_next(const kv_words *w, size_t *at, kv_record_at *out);

/* --- a replica of a lane, kept by reading its records ------------------- */

enum { KV_SIDE_K, KV_SIDE_V, KV_SIDES };
enum { KV_RECORDS_GONE = -1 };

/* Bytes of a row of one side in a format, without what a group shares. */
size_t kv_row_bytes(const kv_shape *shape, const kv_needs *needs, int side,
                    int format);

/* Do means lie where the entries' raw rows were? As large as these, of a method
 * that does not code. */
static inline bool kv_means_in_place(const kv_shape *shape,
                                     const kv_needs *needs) {
  return kv_merged_type(needs, shape) == shape->dtype && !needs->codings;
}

/* Called for every row that is written and left, and for every entry that a
 * retier names. A row that changes its format is left and then written at the
 * same place, but that a raw one becomes a mean in its place is not told.
 * Called thousands of times a step: must not allocate. */
typedef struct kv_rows_listener {
  void *self;
  void (*write)(void *self, int lane, int side, int format, int32_t place);
  void (*leave)(void *self, int lane, int side, int format, int32_t place);
  void (*retier)(void *self, int lane, int32_t place, int to); /* or NULL */
} kv_rows_listener;

typedef struct kv_replica_entry {
  uint32_t id, weight;           /* weight 0: gone */
  int tier;                      /* class */
  int16_t format[KV_SIDES];      /* KV_RAW, KV_MERGED, KV_CODED + index */
  int32_t group[KV_SIDES], mark; /* which recode call made it; -1: none */
} kv_replica_entry;

typedef struct kv_replica_group {
  int32_t members, live; /* coded together; still in it */
  int32_t first;         /* node */
} kv_replica_group;

typedef struct kv_replica_node {
  int32_t place, next;
} kv_replica_node;

typedef struct kv_replica {
  const kv_rows_listener *listener; /* or NULL */
  int lane;                         /* its number, for the listener */
  int n_tokens, codings;            /* room */
  int step, n;                      /* tokens seen; live entries */
  int32_t *order;                   /* [n] places in lane order */
  int32_t *spare;                   /* [n_tokens] */
  kv_replica_entry *entry;          /* [n_tokens] by place */
  int32_t *place;                   /* [n_tokens] by id; -1: no such entry */
  int32_t *into; /* [n_tokens] place merged into, or itself */
  int32_t nodes, nodes_used, groups_used, free_node, free_group;
  kv_replica_node *node;   /* [nodes] members of groups */
  kv_replica_group *group; /* [nodes] */
  int ordered, mark;       /* of `order`, gone ones included */
  int64_t dropped;         /* tokens that went with dropped entries */
  bool lost;               /* anything was ever dropped or merged */
  bool gaps;               /* rows once were not 0..n-1 in lane order */
  size_t read;             /* words of the step in progress */
} kv_replica;

/* Room for n_tokens and so many codings. close accepts zeroed. */
kv_rc kv_replica_open(int n_tokens, int codings, kv_replica *s, kv_err *e);
void kv_replica_close(kv_replica *s);
/* Begins an empty lane; listener: who hears of rows from here on, or NULL. */
void kv_replica_begin(kv_replica *s, int lane,
                      const kv_rows_listener *listener);

/* Tokens up to `step` enter, raw: the one change that writes no record. */
void kv_replica_enter(kv_replica *s, int step);
/* Tokens up to the lane's step enter; then the records that the lane has
 * written since the last call. KV_DIFFERENT where a record makes no sense. */
kv_rc kv_replica_follow(kv_replica *s, const kv_lane *l, kv_err *e);

/* The i-th live entry in lane order, after a follow. */
static inline const kv_replica_entry *kv_replica_at(const kv_replica *s,
                                                    int i) {
  return &s->entry[s->order[i]];
}
/* The id of the entry that a token is part of; KV_RECORDS_GONE. */
int32_t kv_replica_owner(const kv_replica *s, uint32_t token);

#endif
