/* SPDX-License-Identifier: Apache-2.0
 *
 * One method on one layer as it lies in device memory: plain structs that the
 * host fills (gpu/store.c) and kernels read and write. Names follow
 * ref/lane.h; every pointer is a device pointer.
 *
 * Rows of the trace stand where they were uploaded and are never moved:
 * dropping an entry changes the lane's index only. Rewritten rows stand in
 * the blocks of a slab.
 */
#ifndef KV_GPU_LANE_H
#define KV_GPU_LANE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/decisions.h"
#include "ref/lane.h"
#ifdef __cplusplus
}
#endif

enum { KV_GPU_CHUNK = 128 }; /* arithmetic 3 */

typedef enum kv_gpu_kind {
  KV_GPU_ROWS,
  KV_GPU_CHANNEL,
  KV_GPU_TOKEN
} kv_gpu_kind;

/* Blocks of rewritten rows of one side in one format: ref/lane.h kv_slab. */
typedef struct kv_gpu_slab {
  kv_gpu_kind kind;          /* fp32 rows, or a format of ref/format.h */
  int bits, group, fp16_ops; /* of that format */
  size_t size;               /* bytes a block */
  int width;                 /* elements a row */
  int cap, used, n_free, held;
  int64_t codes, metadata;  /* bytes of its live blocks */
  int32_t *free;            /* [cap] */
  uint16_t *members, *live; /* [cap] */
  char *data;               /* [cap][size] */
  /* Blocks written in the step in progress, one of them perhaps twice; more
   * than cap are counted only. */
  int32_t *fresh; /* [cap] */
  int n_fresh;
} kv_gpu_slab;

/* Why a lane cannot go on; the host makes the sentence. */
typedef enum kv_gpu_fault {
  KV_GPU_FINE,
  KV_GPU_SCALE,  /* a coded group's scale is not finite: first id */
  KV_GPU_JOURNAL /* more verbs in a step than the journal holds */
} kv_gpu_fault;

typedef struct kv_gpu_lane {
  int lane, kv_head;       /* number within the layer; whose K and V */
  int first_head, queries; /* query heads that read it */
  int n;                   /* live entries */
  int step;                /* tokens seen */
  int rewritten;           /* entries with a side not KV_RAW */
  int dropped, holes;      /* as in ref/lane.h */
  uint32_t *id, *weight;   /* [n] */
  kv_cell_ref *k, *v;      /* [n]; NULL where the method never rewrites */
  kv_column_data column[KV_MAX_COLUMNS]; /* [n] each */
  uint32_t *last, *next; /* member lists; NULL where nothing is merged */
  kv_gpu_slab k_slab[KV_SLABS], v_slab[KV_SLABS];
  void *own; /* the method's lane_state */
  /* Records of the step in progress, and every row a verb rewrote in it. */
  uint32_t *verbs; /* [cap_verbs] */
  int n_verbs, cap_verbs;
  uint32_t *log_id; /* [cap_log] */
  float *log;       /* [cap_log][d + d_v] K, then V */
  int n_log, cap_log;
  uint32_t *joined; /* [n_tokens] tokens that got a `next` in it */
  int n_joined;
  int fault, fault_at; /* kv_gpu_fault, the first one; an entry's id */
  /* Room for verbs and hooks. */
  int32_t *list;   /* [n_tokens] */
  uint64_t *spare; /* [n_tokens] */
  char *work;      /* [work_size] */
  size_t work_size;
} kv_gpu_lane;

/* What a step is about; the host writes it before it starts the step. */
typedef struct kv_gpu_clock {
  int first, count; /* tokens that enter */
  int row, rows;    /* first query row of the tile in hand, and how many */
  int at;           /* where that row stands among the recorded ones */
} kv_gpu_clock;

/* A piece of the report that a step leaves for the host (gpu/report.cu):
 * `count` elements of `size` bytes, one after another from `from`, or those
 * that `index` names. */
typedef struct kv_gpu_piece {
  const char *from;
  const int32_t *index; /* or NULL */
  uint32_t size, count;
  uint64_t to; /* byte of the report's data; a multiple of 16 */
} kv_gpu_piece;

/* Pieces, in the order of the stages of a step:
 *   views    outputs and LSE, bad, runs, entries of all heads; then, a head,
 *            its runs and (where they are asked for) its logits in view
 *   columns  a lane, its columns, before it is settled
 *   lanes    the lanes' structs, bad; then, a lane in which a verb was
 *            called, what it holds now (kv_gpu_lane_piece) */
typedef enum kv_gpu_stage {
  KV_GPU_SAY_VIEWS,
  KV_GPU_SAY_COLUMNS,
  KV_GPU_SAY_LANES,
  KV_GPU_STAGES
} kv_gpu_stage;
enum { KV_GPU_OF_VIEWS = 4, KV_GPU_OF_HEAD = 2, KV_GPU_OF_LANES = 2 };
typedef enum kv_gpu_lane_piece {
  KV_GPU_SAY_ID,
  KV_GPU_SAY_WEIGHT,
  KV_GPU_SAY_COLUMN,
  KV_GPU_SAY_VERBS = KV_GPU_SAY_COLUMN + KV_MAX_COLUMNS,
  KV_GPU_SAY_PLAIN, /* so many of a lane that is never rewritten */
  KV_GPU_SAY_K = KV_GPU_SAY_PLAIN,
  KV_GPU_SAY_V,
  KV_GPU_SAY_LOG_ID,
  KV_GPU_SAY_LOG,
  KV_GPU_SAY_LAST,
  KV_GPU_SAY_JOINED,
  KV_GPU_SAY_NEXT,
  KV_GPU_SAY_SLABS, /* fresh blocks, their members, their data: first of the
                       K slabs from KV_MERGED on, then of the V slabs */
  KV_GPU_SAY_ALL = KV_GPU_SAY_SLABS + 2 * 3 * ((int)KV_SLABS - (int)KV_MERGED)
} kv_gpu_lane_piece;

/* The report begins with this, then come the pieces, then the data. */
typedef struct kv_gpu_front {
  uint64_t used;    /* bytes of data of the stages so far */
  uint64_t reserve; /* alignment */
} kv_gpu_front;

/* Everything a kernel needs of the layer; passed by value. Heads are query
 * heads of the layer; a row of a tile and a head stand at place
 * row * n_heads + head. */
typedef struct kv_gpu_layer {
  kv_shape shape;
  kv_needs needs;
  int layer; /* the model's number */
  int lanes;
  int stride;         /* floats a row: n_tokens, rounded up to 16 */
  int chunks;         /* of n_tokens */
  kv_gpu_lane *lane;  /* [lanes] */
  const void *params; /* the method's struct */
  const char *k, *v;  /* [n_kv_heads][n_tokens][d], .. of the trace */
  const char *query;  /* [n_heads][query_rows][d] of the trace, query_type */
  kv_dtype query_type;
  int query_rows;
  const kv_gpu_clock *clock;
  float *q;                /* [rows][n_heads][d] */
  float *s, *p;            /* [rows][n_heads][stride] logits, by entry;
                              probabilities */
  int64_t *sum;            /* [n_heads][stride] over the rows of the tile */
  uint8_t *mask;           /* [n_heads][stride] of the view, by entry */
  int32_t *place;          /* [n_heads][stride] entry at a place of it */
  kv_run *run;             /* [n_heads][stride / 2 + 1] */
  int32_t *runs, *entries; /* [n_heads] */
  float *top, *mass;       /* [n_heads][chunks] m_c, l_c */
  float *part;             /* [n_heads][chunks][d_v] a_c */
  float *out;              /* [n_heads][d_v + 1] output, then LSE */
  uint64_t *bad;           /* [lanes] the first logit that is not finite:
                              head << 32 | entry; in the prompt
                              row << 32 | head; all ones: none */
  const int32_t *position; /* [n_tokens], or NULL: 0.. (re-indexing) */
  const float *rotation;   /* [2 * range + 1][d] sines and cosines of a
                              distance, at distance + range; or NULL */
  int range, interleaved;
  char *report;             /* kv_gpu_front, pieces, data */
  int stage[KV_GPU_STAGES]; /* the first piece of each */
  int pieces, lane_pieces;  /* of all stages; of a lane */
  uint64_t report_room;     /* bytes of data that are copied at once */
  int logits;               /* asked for */
  kv_lists stored, view;    /* of a method that follows decisions */
} kv_gpu_layer;

/* Where a hook is called; each thread has its own copy. */
typedef struct kv_gpu_at {
  const kv_gpu_layer *layer;
  const void *params;
  int step;
  char *work; /* the lane's workspace: bump-allocated, alike in all threads */
  size_t work_size, used;
} kv_gpu_at;

/* One query head at a decode step. */
typedef struct kv_gpu_query {
  int head; /* within the lane */
  int queries;
  const float *q;       /* [d] */
  const float *group_q; /* [queries][d] */
  const float *s;       /* [n] logits by entry, where view_logits; else NULL */
} kv_gpu_query;

/* Query rows: ref/method.h kv_rows; places are the layer's query heads. */
typedef struct kv_gpu_rows {
  int first, rows, heads, entries;
  int places;
  size_t stride;
  const float *q, *s, *p; /* of the lane's first head */
  const int64_t *sum;
} kv_gpu_rows;

#endif
