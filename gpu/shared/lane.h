/* SPDX-License-Identifier: Apache-2.0
 *
 * One method on one layer in device memory: plain structs. The host makes and
 * sizes them when a store is opened, and empties them when a layer begins
 * (gpu/host). After that kernels change them; the host only adds pages to pools
 * and puts messages and recorded sums where kernels read them. The structs
 * never own memory: every pointer is a device pointer, which the store, or
 * stores together (gpu/host/shared.h), free. Kernels leave errors in
 * kv_gpu_lane.fault, kv_gpu_layer.bad and kv_gpu_shown.lost, where the host
 * reads them.
 *
 * An entry's unchanged K and V are in a row of the lane's pool, to which they
 * are copied from the uploaded trace when the token enters. Merged or coded
 * ones are in a block of a slab. Nothing else reads K and V of the trace. T is
 * shape.n_tokens.
 */
#ifndef KV_GPU_LANE_H
#define KV_GPU_LANE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/ground/arith.h"
#include "ref/lane/lane.h"
#ifdef __cplusplus
}
#endif

/* Entries of a chunk of attention. Maximum, weights and sum are computed for
 * each chunk of a view and the chunks joined, so the number affects bits. */
enum { KV_GPU_CHUNK = 128 };

/* Which elements of a key form a pair that RoPE rotates. */
typedef enum kv_gpu_turned {
  KV_GPU_AS_IS,      /* none: keys are stored as attention reads them */
  KV_GPU_HALVES,     /* i and i + d/2 */
  KV_GPU_INTERLEAVED /* 2i and 2i + 1 */
} kv_gpu_turned;

/* For a slab whose blocks are in unified pages: its block b is one side of
 * token number b of a tier of a lane. */
typedef struct kv_gpu_in_pages {
  const struct kv_gpu_paged *pages; /* gpu/shared/paged.h; NULL: blocks are in
                                       the slab's `data` */
  int lane, tier, side; /* lane of the layer; KV_HIGH or KV_LOW; KV_SIDE_K or
                           KV_SIDE_V */
} kv_gpu_in_pages;

/* The merged or coded rows of one side (K or V) of a lane in one format, in
 * blocks of equal size; a block has one row or several that were coded
 * together. Twin of kv_slab. */
typedef struct kv_gpu_slab {
  int format;           /* a kv_gpu_format (gpu/formats/format.h) */
  const void *settings; /* the format's parameters; NULL for merged rows */
  int pre_rope;         /* a kv_gpu_turned: how keys that were coded before RoPE
                           are rotated when they are read */
  /* Of a coding that prepares rows (ref/formats/format.h) by more than
   * pre_rope: what they are read as, float [cap][most][width], as attention
   * reads them. NULL: rows are decoded where they are read. A real store would
   * do that here, too: this array is not charged. */
  float *restored;
  int most;           /* rows that a block may have, with `restored` */
  int rotate;         /* elements of a block of the Hadamard matrix
                         (ref/formats/hadamard.h); below 2: none */
  const float *shift; /* [width] u of a shifted coding, in the lane's state;
                         NULL: not shifted */
  int pairs;          /* a kv_gpu_turned: how RoPE pairs elements, with shift */
  size_t size;        /* bytes of a block */
  size_t metadata_size; /* of these, the scales and minima before the codes */
  int width;            /* elements of a row */
  int type;             /* a kv_dtype: of merged rows as stored */
  int part, parts; /* for a coding whose blocks are spread over all lanes and
                      both sides: this slab's share, and their number; parts 0:
                      blocks are whole */
  int cap, used;   /* capacity in blocks; blocks ever taken */
  int n_free;      /* how many of these are free again, in `free` */
  int held;        /* entries of the lane with this side here */
  int64_t codes, metadata;  /* bytes that blocks in use are charged for */
  int32_t *free;            /* [cap] numbers of free blocks, last freed last */
  uint16_t *members, *live; /* [cap] rows coded together; still held of them */
  char *data;               /* [cap][size]; NULL: in pages */
  kv_gpu_in_pages in;
  int32_t *fresh; /* [cap] blocks written in the current step, for the report;
                     one may be listed twice */
  int n_fresh;    /* how many were; beyond cap they are counted only */
} kv_gpu_slab;

/* Rows of a page of a pool. */
enum { KV_GPU_PAGE = 64 };

/* A lane's pool: unchanged rows of one side (K or V), in the trace's type. An
 * entry whose side is KV_RAW has the row kv_cell_ref.block. Append takes rows,
 * the last freed first; a row is freed when its entry is dropped or its side
 * rewritten. The host adds pages before tokens enter (gpu/host/pages.c), so
 * append always finds a row. */
typedef struct kv_gpu_raw {
  size_t size; /* bytes of a row */
  int used;    /* rows ever taken */
  int n_free;  /* how many of these are free again */
  int fixed;   /* 1: rows are places of regular indices (gpu/shared/regular.h),
                  so a token takes the next place and none is reused */
  int32_t *free; /* [T] numbers of free rows, last freed last */
  char **page;   /* [kv_gpu_pages(T)] of KV_GPU_PAGE rows each; NULL: not yet */
} kv_gpu_raw;

/* `count` tokens take their rows (gpu/backend/append.cu says which). Called by
 * one thread of each lane there, and by the host for its copies. */
KV_FN void kv_gpu_take_rows(kv_gpu_raw *pool, int count) {
  if (pool->fixed) pool->n_free = 0;
  int again = count < pool->n_free ? count : pool->n_free;
  pool->n_free -= again;
  pool->used += count - again;
}

/* How many pages a pool of n rows needs. */
#define kv_gpu_pages(n) (((n) + KV_GPU_PAGE - 1) / KV_GPU_PAGE)

/* Why a lane cannot continue: its first failure. A kernel leaves it in `fault`;
 * the host makes a sentence from it, and the cell fails: with KV_INTERNAL for
 * KV_GPU_JOURNAL and KV_GPU_NO_PAGE, else with KV_REFUSED. fault_at is the id
 * of a token. */
typedef enum kv_gpu_fault {
  KV_GPU_FINE,
  KV_GPU_SCALE,   /* a scale of a coded group is not finite; fault_at: the
                     group's first token */
  KV_GPU_JOURNAL, /* verbs of a step leave more words than cap_verbs or more
                     rows than cap_log; fault_at is undefined */
  KV_GPU_NO_PAGE, /* a block beyond the pages reserved for the step, or K and V
                     of a token in blocks of different numbers; fault_at: the
                     token */
  KV_GPU_LATENT,  /* a latent vector is not finite; fault_at: its token */
  KV_GPU_DECODED, /* the row that one decodes to is not finite; the same */
  KV_GPU_MEAN     /* a mean of two entries is not finite; fault_at: the id of
                     the remaining one, before the merge */
} kv_gpu_fault;

/* A lane: the twin of struct kv_lane, field by field if names agree. n is at
 * most T, and arrays [n] have T elements. */
typedef struct kv_gpu_lane {
  int lane, kv_head; /* its number in the layer; the KV head that it stores */
  int first_head, queries;  /* query heads that read it: the first, how many */
  int n;                    /* entries; between hooks all are live */
  int marked, first_marked; /* entries merged into others since the last sweep
                               (weight 0); the first of them */
  int tail;                 /* how many marked ones are last */
  int step;                 /* tokens seen */
  int rewritten;            /* entries with a side that is not KV_RAW */
  int dropped; /* 1: an entry was dropped at some time, so positions are stored
                */
  int holes;   /* 1: rows are out of order, so the index is stored */
  uint32_t *id, *weight; /* [n] oldest token of each entry; tokens it stands
                            for, 0: marked */
  uint8_t *tier;         /* [n] class, size a multiple of 4; NULL: none */
  kv_cell_ref *k, *v;    /* [n] where each side is stored */
  kv_column_data column[KV_MAX_COLUMNS]; /* [n] each */
  uint32_t *last; /* [n] last token of each entry's member list */
  uint32_t *next; /* [T] by token, the next of its list; both NULL if the method
                     never merges */
  kv_gpu_raw k_raw, v_raw;
  kv_gpu_slab k_slab[KV_SLABS], v_slab[KV_SLABS]; /* by kv_cell_ref.format, from
                                                     KV_MERGED on */
  void *own;       /* the methods' lane states (kv_gpu_own) */
  int64_t *future; /* [T] as kv_lane.future, which the host copies here before
                      each compression; NULL without needs.future */
  /* What the verbs of the current step did, for the report. */
  uint32_t *verbs;        /* [cap_verbs] records as in ref/lane/journal.h */
  int n_verbs, cap_verbs; /* words */
  int wrote;          /* 1: a compression wrote columns; the lane is reported as
                         if a verb was called */
  uint32_t *log_id;   /* [cap_log] ids of entries that were rewritten, .. */
  float *log;         /* [cap_log][d + d_v] .. and their new K, then V */
  int n_log, cap_log; /* rows */
  uint32_t *joined;   /* [T] tokens whose `next` was set */
  int n_joined;
  int fault, fault_at; /* the first kv_gpu_fault, and an id */
  /* Scratch, undefined between two calls. */
  int32_t *list;    /* [T] of verbs; a hook may fill it for the verb it calls */
  uint64_t *spare;  /* [T] of verbs */
  char *work;       /* [work_size] bytes, of hooks: kv_gpu_take */
  size_t work_size; /* KV_WORK(T) + needs.work */
} kv_gpu_lane;

/* What selections of a lane (or of the layer) saw in a step, if the plan asks
 * for it: for each list the words {chose, head, list, lists, n} of
 * kv_gpu_show_list, then the bits of its n scores. */
enum { KV_GPU_SHOWN_HEAD = 5 }; /* words before the scores */
typedef struct kv_gpu_shown {
  uint32_t *word; /* [cap] */
  int n, cap;     /* words; append sets n to 0 */
  int lost;       /* lists that did not fit and are missing */
} kv_gpu_shown;

/* The tokens and query rows of the next kernels. The host sets it by
 * kv_device.clock before each step and each tile, so that one recorded sequence
 * serves all of them. */
typedef struct kv_gpu_clock {
  int first, count; /* tokens that enter: the first id, how many */
  int row, rows; /* query rows of the tile: the first one's token, how many */
  int at;        /* index of that row among those that the trace recorded */
} kv_gpu_clock;

/* A piece of the report: `count` elements of `size` bytes, one after another
 * from `from`, or those with the numbers in `index`. */
typedef struct kv_gpu_piece {
  const char *from;        /* NULL: the blocks of `slab`, which are in pages */
  const int32_t *index;    /* [count], or NULL: elements 0, 1, .. */
  const kv_gpu_slab *slab; /* NULL unless `from` is */
  uint32_t size, count;
  uint64_t to; /* byte of the report's data where it begins, a multiple of 16 */
} kv_gpu_piece;

/* The report is what a step leaves for the host in one area of device memory
 * (layer.report): kv_gpu_front, `pieces` kv_gpu_piece, then, from
 * kv_gpu_report_data on, their data. Its pieces in the order of these stages:
 *   views    outputs and LSE, bad, runs, entries of all heads; then for each
 *            head its runs and, if asked for, its logits in view
 *   columns  for each lane its columns, before it is compressed
 *   scores   if asked for: the kv_gpu_shown structs; then the words of each,
 *            the lanes' and last the layer's
 *   lanes    the kv_gpu_lane structs, bad; then for each lane in which a verb
 *            was called or columns were written, its kv_gpu_lane_pieces
 * Each stage is written by one start of kv_device.report. */
typedef enum kv_gpu_stage {
  KV_GPU_SAY_VIEWS,
  KV_GPU_SAY_COLUMNS,
  KV_GPU_SAY_SCORES,
  KV_GPU_SAY_LANES,
  KV_GPU_STAGES
} kv_gpu_stage;
/* How many pieces a stage has before those of heads or lanes. */
enum {
  KV_GPU_OF_VIEWS = 4,
  KV_GPU_OF_HEAD = 2, /* .. and of the views stage then for each head */
  KV_GPU_OF_SCORES = 1,
  KV_GPU_OF_LANES = 2
};
/* A lane's pieces in the stage `lanes`, each the array of that name in
 * kv_gpu_lane unless a comment says otherwise. */
typedef enum kv_gpu_lane_piece {
  KV_GPU_SAY_ID,
  KV_GPU_SAY_WEIGHT,
  KV_GPU_SAY_TIER,   /* as words of four entries */
  KV_GPU_SAY_COLUMN, /* the first of KV_MAX_COLUMNS */
  KV_GPU_SAY_VERBS = KV_GPU_SAY_COLUMN + KV_MAX_COLUMNS,
  KV_GPU_SAY_PLAIN, /* number of pieces of a lane that is never rewritten */
  KV_GPU_SAY_K = KV_GPU_SAY_PLAIN,
  KV_GPU_SAY_V,
  KV_GPU_SAY_LOG_ID,
  KV_GPU_SAY_LOG,
  KV_GPU_SAY_LAST,
  KV_GPU_SAY_JOINED,
  KV_GPU_SAY_NEXT, /* of the tokens in `joined` */
  KV_GPU_SAY_SLABS /* three for each K slab from KV_MERGED on, then for the V
                      slabs: numbers of fresh blocks, their `members`, their
                      bytes; no numbers, if those of all blocks follow */
} kv_gpu_lane_piece;
/* Slabs of a side in use, and pieces of a lane that is rewritten; needs points
 * to a kv_needs. */
#define KV_GPU_SLABS(needs) (KV_CODED - KV_MERGED + (needs)->codings)
#define KV_GPU_SAY_ALL(needs)                                                  \
  ((int)KV_GPU_SAY_SLABS + 2 * 3 * (int)KV_GPU_SLABS(needs))

/* The beginning of a report. */
typedef struct kv_gpu_front {
  uint64_t used;    /* bytes of data of the stages so far */
  uint64_t reserve; /* padding */
} kv_gpu_front;

/* The head of a message, before its needs.message bytes. */
typedef struct kv_gpu_message {
  int32_t layer; /* the model's layer that published it; -1: there is none */
  int32_t unused[15]; /* aligns the bytes that follow to 64 bytes */
} kv_gpu_message;

/* Everything that a kernel needs of the layer; passed to kernels by value.
 * Heads are query heads of the layer; chunks have KV_GPU_CHUNK entries. Row r
 * of a tile and head h have index r * n_heads + h in q, s and p. A decode step
 * is a tile of one row. Data "of the step" passes from kernels of one step to
 * later ones of the same step. */
typedef struct kv_gpu_layer {
  kv_shape shape;
  kv_needs needs;
  int layer;          /* the model's number of it */
  int lanes;          /* KV heads, or query heads if needs.lanes says so */
  int stride;         /* entries of a row in s, p, ..: T rounded up to 16 */
  int chunks;         /* that T entries have */
  kv_gpu_lane *lane;  /* [lanes] */
  const void *params; /* the method's parameter struct */
  int column, coding; /* index of this method's first column and coding among
                         those of the methods on the lanes */
  size_t state;       /* its state, in bytes from lane.own */
  int within;     /* 1: before view, mask has what the first method on the lanes
                     chose, and view may only narrow it */
  int one_of_two; /* 1: two methods share the lanes, or a window moves over
                     them, so lanes may change without a due compression of this
                     method */
  int window;     /* tokens that a sliding window shows, which moves over the
                     lanes; 0: none does */
  /* The trace, uploaded. */
  const char *k, *v; /* [n_kv_heads][T][d] and [..][d_v] of shape.dtype; read
                        only when a token enters */
  const char *query; /* [n_heads][query_rows][d] of query_type */
  kv_dtype query_type;
  int query_rows; /* rows that the trace recorded */
  const kv_gpu_clock *clock;
  /* Of the step. */
  float *q;     /* [rows][n_heads][d] queries of the tile, fp32 */
  float *s, *p; /* [rows][n_heads][stride] logits by entry; probabilities */
  int64_t
      *sum; /* [n_heads][stride] p summed over the tile's rows, times 2^40 */
  uint8_t *mask;  /* [n_heads][stride] 1: the entry is in the head's view */
  int32_t *place; /* [n_heads][stride] the view's entries in lane order; if no
                     method has a view, written only if `logits` is 1 */
  kv_run *run;    /* [n_heads][stride / 2 + 1] the same as runs */
  int32_t *runs, *entries;     /* [n_heads] runs of a view; its entries */
  const kv_gpu_message *above; /* what layers above published, */
  kv_gpu_message *message;     /* what this one does; NULL: needs.across is
                                  KV_ALONE */
  float *more;   /* [n_heads][2] maximum and sum of the chunk that the method
                    adds, sum 0: none; NULL: no hook `chunk` */
  float *more_a; /* [n_heads][d_v] its weighted values */
  const float *sinks;  /* [n_heads] learned sinks of the layer; NULL: none */
  const float *k_bias; /* [n_kv_heads][d] the layer's, with needs.key_bias; else
                          NULL */
  float *materialised; /* [lanes][T][d_v] values of coded entries in view, fp32;
                          NULL: decoded where they are read */
  float *top, *mass;   /* [n_heads][chunks] maximum and sum of a chunk's weights
                        */
  float *part;         /* [n_heads][chunks][d_v] its weighted values */
  float *out;          /* [n_heads][d_v + 1] output, then log-sum-exp (LSE) */
  /* [lanes] the first logit that is not finite: head of the lane << 32 | entry;
   * in a prompt row << 32 | head of the layer; entry all ones: the method's own
   * chunk is not finite; all ones: none. */
  uint64_t *bad;
  /* Rotations by RoPE; a row of d floats has sine and cosine of each pair. */
  const int32_t *position; /* [T] of each token; NULL: 0, 1, .. */
  const float *back;       /* [T] rows, for the tokens' positions, and .. */
  const float *forth; /* [T] rows, for the places of a lane, with needs.reindex,
                         else NULL; may be the same table as `back` */
  int interleaved;    /* 1: pairs are 2i and 2i + 1, else i and i + d/2 */
  const float *turns; /* [T] rows for the tokens' positions with needs.rope,
                         else NULL; one row more with needs.ahead */
  /* The report. */
  char *report;             /* the area */
  int stage[KV_GPU_STAGES]; /* index of each stage's first piece */
  int pieces, lane_pieces;  /* pieces in all; pieces of a lane */
  uint64_t report_room;     /* bytes of data that the area holds */
  int logits;               /* 1: views are reported with their logits */
  kv_gpu_shown *shown;      /* [lanes + 1], last the layer's; NULL: switched off
                             */
  const kv_tensor *asset; /* this layer's tensors of the method's files, in the
                             order of its tables; NULL: none was read */
} kv_gpu_layer;

/* The argument of a hook, as kv_at. Each thread has its own copy with the same
 * content (kv_at_lane makes it). */
typedef struct kv_gpu_at {
  const kv_gpu_layer *layer;
  const void *params;     /* the method's parameter struct */
  const kv_tensor *asset; /* layer->asset */
  int step;   /* tokens seen, those that have just entered included */
  char *work; /* workspace of the hook, for kv_gpu_take, .. */
  size_t work_size, used; /* .. its bytes, and how many are taken */
  kv_gpu_shown *shown;    /* where scores are recorded; NULL: nowhere */
  int head; /* query head of the layer whose view it is; -1: another hook */
} kv_gpu_at;

/* One query head at a decode step, for view and chunk, as kv_query. */
typedef struct kv_gpu_query {
  int head, queries;     /* its number in the lane; query heads of the lane */
  const float *q;        /* [d] */
  const float *group_q;  /* [queries][d] of all heads of the lane */
  const float *s;        /* [n] logits by entry; NULL: needs.view_logits is 0 */
  const uint8_t *within; /* [n] 1: the entry may be chosen; NULL: all may. It is
                            the mask that view fills in, so the same thread must
                            read an entry's flag before it writes it */
} kv_gpu_query;

/* The argument of observe, as kv_rows: query rows first .. first + rows - 1 and
 * what needs.want names; the rest is NULL. Row r of q begins r * places * d
 * floats further on, of s and p r * places * stride. */
typedef struct kv_gpu_rows {
  int first, rows;    /* token of the first row; how many */
  int heads, entries; /* query heads of the lane; entries that the last row
                         sees */
  int places;         /* query heads of the layer */
  size_t stride;      /* floats of a row of s and p, numbers of one of sum */
  const float *q, *s, *p; /* of the lane's first head; the others follow */
  const int64_t *sum; /* [heads][stride] p summed over the rows, times 2^40 */
} kv_gpu_rows;

#endif
