/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane: the stored tokens of one (layer, KV head) - or query head, with
 * lanes = QUERY_HEAD - as an ordered list of entries. Lanes are ragged: each
 * has its own length. Memory changes only by append (the engine's) and by
 * the verbs keep, merge, recode, move and reclass below; each verb writes its
 * record to the journal, so what is stored is exactly what the journal says.
 *
 * An entry whose K and V no verb has rewritten is read from the trace; bytes
 * are counted as a real store would hold them. Fields may be read by
 * everybody and written only by lane.c.
 */
#ifndef KV_REF_LANE_H
#define KV_REF_LANE_H

#include "ref/journal.h"
#include "ref/ledger.h"
#include "ref/method.h"

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
  const kv_coding *coding; /* NULL: fp32 rows, one a block */
  int cap, used, n_free;
  int held;            /* entries with this side in it */
  kv_coded_size bytes; /* of its live blocks, as counted */
  int32_t *free;
  uint16_t *members, *live; /* of each block: coded together, still there */
  char *data;
} kv_slab;

enum { KV_SLABS = (int)KV_CODED + KV_MAX_CODINGS };

/* What a block of so many members counts as. */
kv_coded_size kv_slab_bytes(const kv_slab *s, int members);

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
  int lane, kv_head;       /* number within the layer; whose K and V */
  int first_head, queries; /* query heads that read it */
  int n;                   /* live entries */
  uint32_t *id;            /* [n] token id of the oldest member */
  uint32_t *weight;        /* [n] tokens it stands for */
  kv_cell_ref *k, *v;      /* [n]; NULL where the method never rewrites */
  kv_column_data column[KV_MAX_COLUMNS]; /* [n] each */
  uint32_t *last, *next; /* member lists: last[i] of entry i; next[token];
                            NULL where the method never merges */
  kv_slab k_slab[KV_SLABS], v_slab[KV_SLABS]; /* [KV_MERGED ..] in use */
  bool dropped;          /* anything ever: positions are stored */
  bool holes;            /* rows are not in order: the index is stored */
  int rewritten;         /* entries with a side not KV_RAW */
  void *own;             /* the method's lane_state */
  int step;              /* tokens seen, for the journal */
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
                   int lane, kv_err *e);
void kv_lane_release(kv_lane *l);
/* Empties it for another layer: state zeroed, nothing freed. */
void kv_lane_begin(kv_lane *l, const kv_layer_data *data);

/* Tokens first..first+count-1 enter at the end, uncompressed. */
void kv_lane_append(kv_lane *l, int first, int count);

/* --- verbs ------------------------------------------------------------- */
/* The entries list[0..n), in that order, remain; the rest is dropped. */
void kv_keep(kv_lane *l, int n, const int32_t *list);
/* The same by flag, in the order they have. */
void kv_keep_mask(kv_lane *l, const bool *keep);
/* arithmetic 8: the place of `into` takes the weighted mean, `from` goes. */
void kv_merge(kv_lane *l, int into, int from, float a, float b);
/* Codes both sides of n entries as one group; KV_SAME leaves a side. Of a
 * format whose groups have m > 1 rows a side has room for T / m + 1 groups. */
void kv_recode(kv_lane *l, int n, const int32_t *entry, int k_format,
               int v_format);
/* The entry at `from` goes to place `to`; those between shift by one. */
void kv_move(kv_lane *l, int from, int to);
/* The entry changes its class in place (ZSMerge: becomes residual). */
void kv_reclass(kv_lane *l, int entry);

/* --- reading ----------------------------------------------------------- */
/* K or V of entry i as attention reads it, fp32, into out. */
void kv_lane_key(const kv_lane *l, int i, float *out);
void kv_lane_value(const kv_lane *l, int i, float *out);
/* Row of token t in the trace: [d] or [d_v] elements of shape->dtype. */
const void *kv_lane_raw_key(const kv_lane *l, uint32_t t);
const void *kv_lane_raw_value(const kv_lane *l, uint32_t t);
/* RN(merge_bias * ln(weight)) of entry i; 0 where nothing is biased. */
float kv_lane_bias(const kv_lane *l, int i);

/* Adds what the lane holds now. */
void kv_lane_bytes(const kv_lane *l, kv_bytes *sum);
/* Digest of its state (journal.h). */
kv_digest kv_lane_state(const kv_lane *l);

/* What a method was compiled against: the number in front is raised when the
 * meaning of something changes, the sizes when a layout does. */
#define KV_METHOD_ABI                                                          \
  ((int)(2 + 16 * (sizeof(kv_method) + sizeof(kv_param) + sizeof(kv_at) +      \
                   sizeof(kv_query) + sizeof(kv_rows) +                        \
                   16 * sizeof(kv_needs) + 256 * sizeof(kv_lane))))

static inline void *kv_lane_own(const kv_lane *l) { return l->own; }

#endif
