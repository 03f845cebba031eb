/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads records (ref/lane/journal.h): their kinds, the walk over them, and a
 * replica that computes what a lane stores from the records of its decisions.
 * The replica was written from journal.h alone and shares no code with the
 * memory operations, so that laws can compare the two. It also reports to a
 * listener every row that is written or left and every class that kv_retier
 * gives, so that memory layouts can be measured during the replay.
 *
 * An entry's place is the token with which it entered; it never changes. keep
 * and merge end a place. In a merge `from` goes; `into` stays at its place and
 * takes the smaller id. move and a new order change no place; recode and merge
 * rewrite the rows at a place. A row is one side (K or V) of an entry in one
 * format. The rows of a coded group exist until its last member has left, as in
 * the ledger.
 *
 * Cost: O(1) a row, O(n) a keep or move. Memory: 44 bytes a token and lane, and
 * 40 a token, side and coding.
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

/* The kind with that number, the first word of a record; NULL: none. */
const kv_record_kind *kv_record_kind_of(uint32_t kind);

/* Writes the meaning of payload word i of a record to out, as "dropped id 2 of
 * 5"; record points to its head. Reads the payload words before i, not the word
 * itself. An unknown kind gives "word i". */
enum { KV_RECORD_MEANING = 128 };
void kv_record_word(const uint32_t *record, size_t i,
                    char out[KV_RECORD_MEANING]);

/* One record in memory; points into the words. */
typedef struct kv_record_at {
  const uint32_t *head;    /* {kind, layer, step, head, count} */
  const uint32_t *payload; /* [count] */
  size_t count;
} kv_record_at;

/* Sets *out to the record that begins at word *at of w and advances *at; begin
 * with *at = 0. False at the end, where *at is w->n, or if the record is cut
 * short; *at is then unchanged. */
bool kv_records_next(const kv_words *w, size_t *at, kv_record_at *out);

/* --- a replica of a lane, kept by reading its records ------------------- */

enum { KV_SIDE_K, KV_SIDE_V, KV_SIDES };
enum { KV_RECORDS_GONE = -1 }; /* kv_replica_owner: the entry was dropped */

/* Bytes of a row of one side (KV_SIDE_K or _V) in a format (KV_RAW, KV_MERGED,
 * KV_CODED + index). For a coding: its codes without scales and minima. */
size_t kv_row_bytes(const kv_shape *shape, const kv_needs *needs, int side,
                    int format);

/* Are means stored in place of the entries' raw rows? Yes, if they have the
 * same type and the method does not code. */
static inline bool kv_means_in_place(const kv_shape *shape,
                                     const kv_needs *needs) {
  return kv_merged_type(needs, shape) == shape->dtype && !needs->codings;
}

/* Called by enter and follow for every row that is written, for every row whose
 * memory becomes free, and for every entry that a retier names (to: its new
 * class). A row that changes its format is left, then written at the same
 * place. A raw row that becomes a mean in place (kv_means_in_place) is neither.
 * Called thousands of times a step: must not allocate. */
typedef struct kv_rows_listener {
  void *self; /* passed to the functions */
  /* side: KV_SIDE_x; format: KV_RAW, KV_MERGED, KV_CODED + index; place: the
   * entry's. */
  void (*write)(void *self, int lane, int side, int format, int32_t place);
  void (*leave)(void *self, int lane, int side, int format, int32_t place);
  void (*retier)(void *self, int lane, int32_t place, int to); /* or NULL */
} kv_rows_listener;

/* The entry at a place. */
typedef struct kv_replica_entry {
  uint32_t id, weight;      /* oldest token; number of tokens, 0: gone */
  int tier;                 /* class */
  int16_t format[KV_SIDES]; /* KV_RAW, KV_MERGED, KV_CODED + index */
  int32_t group[KV_SIDES];  /* index of its coded group; -1: not coded */
  int32_t mark;             /* the last keep that listed it, for its checks */
} kv_replica_entry;

/* Rows that one recode coded together. */
typedef struct kv_replica_group {
  int32_t members, live; /* coded together; still in it */
  int32_t first;         /* index of its first node; in a free group, of the
                            next free group */
} kv_replica_group;

/* A member of a group, or a free node. */
typedef struct kv_replica_node {
  int32_t place, next; /* next: index of a node; -1: the last */
} kv_replica_node;

/* A lane as its records describe it. Written only by records.c. */
typedef struct kv_replica {
  const kv_rows_listener *listener; /* or NULL */
  int lane;                         /* its number, for the listener */
  int n_tokens, codings;            /* capacity */
  int step, n;                      /* tokens seen; live entries */
  int32_t *order;                   /* [ordered] places in lane order */
  int32_t *spare;                   /* [n_tokens] */
  kv_replica_entry *entry;          /* [n_tokens] by place */
  int32_t *place;                   /* [n_tokens] by id; -1: no such entry */
  int32_t *into; /* [n_tokens] place merged into, or itself */
  int32_t nodes, nodes_used, groups_used; /* capacity; ever taken of each */
  int32_t free_node, free_group;          /* the first free ones; -1: none */
  kv_replica_node *node;                  /* [nodes] members of groups */
  kv_replica_group *group;                /* [nodes] */
  int ordered;     /* length of `order`; differs from n only within a step's
                      merges */
  int mark;        /* number of keeps with a new order so far */
  int64_t dropped; /* tokens of dropped entries */
  bool lost;       /* anything was ever dropped or merged */
  bool gaps;       /* rows were not 0..n-1 in lane order at some time */
  size_t read;     /* words of the current step that were read */
} kv_replica;

/* Allocates a replica for lanes of n_tokens and so many codings. KV_RESOURCE
 * without memory; close it then, too. */
kv_rc kv_replica_open(int n_tokens, int codings, kv_replica *s, kv_err *e);
void kv_replica_close(kv_replica *s); /* accepts a zeroed one */
/* Begins an empty lane with that number in its layer. listener, or NULL, is
 * called from here on; it outlives the lane. */
void kv_replica_begin(kv_replica *s, int lane,
                      const kv_rows_listener *listener);

/* Tokens up to `step` tokens seen enter, raw: the only change without a record.
 * Asserts step <= n_tokens; does nothing if they have entered. */
void kv_replica_enter(kv_replica *s, int step);
/* Enters tokens up to l->step, then reads the records that l->verbs got since
 * the last call. Call it at least once a step, before the lane's words are
 * cleared. KV_DIFFERENT if a record makes no sense; the sentence names it. */
kv_rc kv_replica_follow(kv_replica *s, const kv_lane *l, kv_err *e);

/* The i-th live entry in lane order, 0 <= i < s->n, after a follow. */
static inline const kv_replica_entry *kv_replica_at(const kv_replica *s,
                                                    int i) {
  return &s->entry[s->order[i]];
}
/* The id of the entry that an entered token is part of; KV_RECORDS_GONE if that
 * entry was dropped. */
int32_t kv_replica_owner(const kv_replica *s, uint32_t token);

#endif
