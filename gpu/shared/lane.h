/* SPDX-License-Identifier: Apache-2.0
 *
 * One method on one layer as it lies in device memory: plain structs that the
 * host fills (gpu/host/store.c) and kernels read and write. Names follow
 * ref/lane/lane.h; every pointer is a device pointer.
 *
 * What an entry holds lies in memory of its lane: unchanged rows in a pool, to
 * which append copies them from the uploaded trace, rewritten ones in the
 * blocks of a slab, whose bytes lie behind one another or in unified pages.
 * Only append reads K and V of the trace.
 */
#ifndef KV_GPU_LANE_H
#define KV_GPU_LANE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/lane/lane.h"
#ifdef __cplusplus
}
#endif

enum { KV_GPU_CHUNK = 128 }; /* arithmetic 3 */

/* Which elements form a pair that RoPE rotates. */
typedef enum kv_gpu_turned {
  KV_GPU_AS_IS,
  KV_GPU_HALVES,     /* i and i + d/2 */
  KV_GPU_INTERLEAVED /* 2i and 2i + 1 */
} kv_gpu_turned;

/* A slab whose blocks lie in unified pages: block b is token b of a tier of a
 * lane, of which the slab has one side. */
typedef struct kv_gpu_in_pages {
  const struct kv_gpu_paged *pages; /* gpu/shared/paged.h; NULL: in its data */
  int lane, tier, side;
} kv_gpu_in_pages;

/* Blocks of rewritten rows of one side in one format: ref/lane/lane.h kv_slab.
 */
typedef struct kv_gpu_slab {
  int format;           /* kv_gpu_format of gpu/formats/format.h */
  const void *settings; /* the format's struct */
  int pre_rope;         /* kv_gpu_turned; for keys coded before RoPE */
  size_t size;          /* bytes a block */
  size_t metadata_size; /* of them, before its codes */
  int width, type;      /* elements a row; of rows that are not coded, kv_dtype
                         */
  int part, parts; /* of a layered block (kv_coding_size); 0 parts: of none */
  int cap, used, n_free, held;
  int64_t codes, metadata;  /* bytes of its live blocks */
  int32_t *free;            /* [cap] */
  uint16_t *members, *live; /* [cap] */
  char *data;               /* [cap][size]; NULL: in pages */
  kv_gpu_in_pages in;
  /* Blocks written in the current step; a block may be listed twice. Blocks
   * beyond cap are counted only. */
  int32_t *fresh; /* [cap] */
  int n_fresh;
} kv_gpu_slab;

/* Unchanged rows of one side, in the trace's type: a lane's pool. A side of an
 * entry that is KV_RAW has the row kv_cell_ref.block. Append takes rows, the
 * last freed first; a row is freed when its entry goes or its side is
 * rewritten. The host adds pages between steps, so that there are as many as
 * the lane needed at once so far (gpu/host/pages.c). */
enum { KV_GPU_PAGE = 64 }; /* rows */
typedef struct kv_gpu_raw {
  size_t size;      /* bytes a row */
  int used, n_free; /* rows ever taken; those of them that are free */
  int fixed;        /* rows are places of regular indices: who enters takes the
                       next, whatever is free */
  int32_t *free;    /* [n_tokens] */
  char **page;      /* [kv_gpu_pages(n_tokens)] */
} kv_gpu_raw;

/* Pages of a pool of n rows. */
#define kv_gpu_pages(n) (((n) + KV_GPU_PAGE - 1) / KV_GPU_PAGE)

/* Why a lane cannot go on; the host makes the sentence. */
typedef enum kv_gpu_fault {
  KV_GPU_FINE,
  KV_GPU_SCALE,   /* a coded group's scale is not finite; fault_at: its first id
                   */
  KV_GPU_JOURNAL, /* more verbs in a step than the journal holds */
  KV_GPU_NO_PAGE, /* a block beyond the pages that the step reserved */
  KV_GPU_LATENT,  /* a latent vector is not finite; fault_at: its token's id */
  KV_GPU_DECODED, /* what one decodes to is not finite */
  KV_GPU_MEAN     /* what is merged is not finite; fault_at: its id before */
} kv_gpu_fault;

typedef struct kv_gpu_lane {
  int lane, kv_head; /* its number in the layer; the KV head that it stores */
  int first_head, queries;        /* query heads that read it */
  int n;                          /* entries; between hooks all are live */
  int marked, first_marked, tail; /* as in ref/lane/lane.h */
  int step;                       /* tokens seen */
  int rewritten;                  /* entries with a side not KV_RAW */
  int dropped, holes;             /* as in ref/lane/lane.h */
  uint32_t *id, *weight;          /* [n] */
  uint8_t *tier;      /* [n], room for a multiple of 4; NULL: no classes */
  kv_cell_ref *k, *v; /* [n] */
  kv_column_data column[KV_MAX_COLUMNS]; /* [n] each */
  uint32_t *last, *next; /* member lists; NULL where nothing is merged */
  kv_gpu_raw k_raw, v_raw;
  kv_gpu_slab k_slab[KV_SLABS], v_slab[KV_SLABS];
  void *own; /* the method's lane_state */
  /* Records of the current step, and every row rewritten in it. */
  uint32_t *verbs; /* [cap_verbs] */
  int n_verbs, cap_verbs;
  int wrote; /* has a compression written columns? They are reported then, as
                they are where a verb was called */
  uint32_t *log_id; /* [cap_log] */
  float *log;       /* [cap_log][d + d_v] K, then V */
  int n_log, cap_log;
  uint32_t *joined; /* [n_tokens] tokens whose `next` was set in it */
  int n_joined;
  int fault, fault_at; /* kv_gpu_fault, the first one; an entry's id */
  /* Scratch of memory operations and hooks. */
  int32_t *list;   /* [n_tokens] */
  uint64_t *spare; /* [n_tokens] */
  char *work;      /* [work_size] */
  size_t work_size;
} kv_gpu_lane;

/* The scores shown to selections in a step, if they are asked for: for each
 * list of a selection the words {chose, head, list, lists, n}, then the bits of
 * n scores, as in ref/lane/shown.h. */
enum { KV_GPU_SHOWN_HEAD = 5 };
typedef struct kv_gpu_shown {
  uint32_t *word; /* [cap] */
  int n, cap;
  int lost; /* lists that did not fit */
} kv_gpu_shown;

/* The tokens and rows of a step; written by the host before it starts the step.
 */
typedef struct kv_gpu_clock {
  int first, count; /* tokens that enter */
  int row, rows;    /* first query row of the current tile; number of rows */
  int at;           /* index of that row among the recorded ones */
} kv_gpu_clock;

/* A piece of the report that a step leaves for the host
 * (gpu/backend/report.cu): `count` elements of `size` bytes, one after another
 * from `from`, or those that `index` names. */
typedef struct kv_gpu_piece {
  const char *from;     /* NULL: blocks of a slab in pages */
  const int32_t *index; /* or NULL */
  const kv_gpu_slab *slab;
  uint32_t size, count;
  uint64_t to; /* byte of the report's data; a multiple of 16 */
} kv_gpu_piece;

/* Pieces of the report, in the order of the stages of a step:
 *   views    outputs and LSE, bad, runs, entries of all heads; then for each
 *            head its runs and, if asked for, its logits in view
 *   columns  for each lane its columns, before it is compressed
 *   scores   if asked for: the structs of what was shown; then for each lane,
 *            and last for the layer, what its selections were shown
 *   lanes    the lanes' structs, bad; then for each lane in which a memory
 *            operation was called or columns were written, what it holds now
 * (kv_gpu_lane_piece) */
typedef enum kv_gpu_stage {
  KV_GPU_SAY_VIEWS,
  KV_GPU_SAY_COLUMNS,
  KV_GPU_SAY_SCORES,
  KV_GPU_SAY_LANES,
  KV_GPU_STAGES
} kv_gpu_stage;
enum {
  KV_GPU_OF_VIEWS = 4,
  KV_GPU_OF_HEAD = 2,
  KV_GPU_OF_SCORES = 1,
  KV_GPU_OF_LANES = 2
};
typedef enum kv_gpu_lane_piece {
  KV_GPU_SAY_ID,
  KV_GPU_SAY_WEIGHT,
  KV_GPU_SAY_TIER, /* four entries a word */
  KV_GPU_SAY_COLUMN,
  KV_GPU_SAY_VERBS = KV_GPU_SAY_COLUMN + KV_MAX_COLUMNS,
  KV_GPU_SAY_PLAIN, /* pieces of a lane that is never rewritten */
  KV_GPU_SAY_K = KV_GPU_SAY_PLAIN,
  KV_GPU_SAY_V,
  KV_GPU_SAY_LOG_ID,
  KV_GPU_SAY_LOG,
  KV_GPU_SAY_LAST,
  KV_GPU_SAY_JOINED,
  KV_GPU_SAY_NEXT,
  KV_GPU_SAY_SLABS /* fresh blocks, their members, their data: for each K slab
                      from KV_MERGED on, then for the V slabs */
} kv_gpu_lane_piece;
/* Slabs of a side, and pieces of a lane that is rewritten. */
#define KV_GPU_SLABS(needs) (KV_CODED - KV_MERGED + (needs)->codings)
#define KV_GPU_SAY_ALL(needs)                                                  \
  ((int)KV_GPU_SAY_SLABS + 2 * 3 * (int)KV_GPU_SLABS(needs))

/* The report begins with this, then come the pieces, then the data. */
typedef struct kv_gpu_front {
  uint64_t used;    /* bytes of data of the stages so far */
  uint64_t reserve; /* padding */
} kv_gpu_front;

/* Stands before the bytes of a message. */
typedef struct kv_gpu_message {
  int32_t layer; /* that published it; -1: there is none */
  int32_t unused[15];
} kv_gpu_message;

/* Everything a kernel needs of the layer; passed by value. Heads are query
 * heads of the layer. Row r of a tile and head h have index r * n_heads + h in
 * q, s and p. */
typedef struct kv_gpu_layer {
  kv_shape shape;
  kv_needs needs;
  int layer; /* the model's number */
  int lanes;
  int stride;         /* floats a row: n_tokens, rounded up to 16 */
  int chunks;         /* of n_tokens */
  kv_gpu_lane *lane;  /* [lanes] */
  const void *params; /* the method's struct */
  int column, coding; /* where the method's own columns, codings and state
                         begin: kv_gpu_own */
  size_t state;
  int within;     /* the mask holds what the method before it on the lanes
                     chose: kv_query.within */
  int one_of_two; /* two methods share the lanes, and may compress at different
                     steps */
  const char *k, *v; /* [n_kv_heads][n_tokens][d], .. of the trace; append's */
  const char *query; /* [n_heads][query_rows][d] of the trace, query_type */
  kv_dtype query_type;
  int query_rows;
  const kv_gpu_clock *clock;
  float *q;       /* [rows][n_heads][d] */
  float *s, *p;   /* [rows][n_heads][stride] logits, by entry;
                     probabilities */
  int64_t *sum;   /* [n_heads][stride] over the rows of the tile */
  uint8_t *mask;  /* [n_heads][stride] 1 if the entry is in the view */
  int32_t *place; /* [n_heads][stride] entry at each place of the view; where
                     all see all entries, written for `logits` alone */
  kv_run *run;    /* [n_heads][stride / 2 + 1] */
  int32_t *runs, *entries; /* [n_heads] */
  /* What the layers above published at the step, and what this one does; NULL
   * where needs.across is KV_ALONE. */
  const kv_gpu_message *above;
  kv_gpu_message *message;
  float *more;   /* [n_heads][2] m and l of the method's own chunk, l 0: none;
                    NULL: it has no such hook */
  float *more_a; /* [n_heads][d_v] a of that chunk */
  /* [lanes][n_tokens][d_v] decoded values of the coded entries in view; NULL:
   * decoded where they are read */
  float *materialised;
  float *top, *mass;       /* [n_heads][chunks] m_c, l_c */
  float *part;             /* [n_heads][chunks][d_v] a_c */
  float *out;              /* [n_heads][d_v + 1] output, then LSE */
  uint64_t *bad;           /* [lanes] the first logit that is not finite:
                              head << 32 | entry; in the prompt
                              row << 32 | head; all ones: none */
  const int32_t *position; /* [n_tokens], or NULL: 0.. */
  /* [n_tokens][d] sines and cosines of the tokens' positions and of the places
   * that entries may have, where needs.reindex; or NULL. May be one table. */
  const float *back, *forth;
  int interleaved;
  const float *turns;       /* [n_tokens][d] sines and cosines of the tokens'
                               positions, where needs.rope; or NULL. With
                               needs.ahead one row more */
  char *report;             /* kv_gpu_front, pieces, data */
  int stage[KV_GPU_STAGES]; /* index of each stage's first piece */
  int pieces, lane_pieces;  /* pieces in all; pieces of a lane */
  uint64_t report_room;     /* bytes of data that the area holds */
  int logits;               /* copy them to the host */
  kv_gpu_shown *shown;      /* [lanes + 1], last the layer's; or NULL */
  const kv_tensor *asset;   /* of this layer, if the method reads a file */
} kv_gpu_layer;

/* The context of a hook's call; each thread has its own copy. */
typedef struct kv_gpu_at {
  const kv_gpu_layer *layer;
  const void *params;
  const kv_tensor *asset; /* as in kv_at */
  int step;
  char *work; /* the lane's workspace; `used` is the same in all threads */
  size_t work_size, used;
  kv_gpu_shown *shown; /* where to record scores, or NULL */
  int head;            /* query head of the layer that views; -1: none */
} kv_gpu_at;

/* One query head at a decode step. */
typedef struct kv_gpu_query {
  int head; /* within the lane */
  int queries;
  const float *q;       /* [d] */
  const float *group_q; /* [queries][d] */
  const float *s; /* [n] logits by entry if needs.view_logits, else NULL */
  const uint8_t *within; /* [n] a flag each, or NULL; the mask that view fills
                            in: an entry's is read before it is written */
} kv_gpu_query;

/* Query rows, as kv_rows of ref/lane/method.h. s and p of row r begin at r *
 * places * stride, q at r * places * d; places is the layer's number of query
 * heads. */
typedef struct kv_gpu_rows {
  int first, rows, heads, entries;
  int places;
  size_t stride;
  const float *q, *s, *p; /* of the lane's first head */
  const int64_t *sum;
} kv_gpu_rows;

#endif
