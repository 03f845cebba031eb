/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer's tokens on a device as a decoder of DeltaKV would hold them: latent
 * vectors as format delta stores them and the names of their references; sinks,
 * references and the newest tokens as rows that stay as they came. No row that
 * a latent vector stands for is held: a step makes those that it attends, to
 * the bit as ref/parts/latents.h does (refs=raw, self=no). Either in one kernel
 * (gpu/backend/rebuilt.cu) or stage by stage through memory, which is what the
 * one kernel is measured by (gpu/backend/rebuilt_stages.cu).
 *
 * Every pointer is a device pointer. The layer (gpu/shared/lane.h) says shapes,
 * queries, positions, turns, and where outputs go; its lanes are read where a
 * replay's are what is attended (gpu/host/rebuilt.h): rows that are as they
 * came lie in their pools, at a number that all lanes share.
 */
#ifndef KV_GPU_REBUILT_H
#define KV_GPU_REBUILT_H

#include "gpu/shared/regular.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/formats/delta.h"
#ifdef __cplusplus
}
#endif

typedef enum kv_gpu_rebuilt_act {
  KV_GPU_REBUILT_ATTEND, /* one kernel and the join; where rows are too wide for
                            it (KV_GPU_REBUILT_WIDE) the stages */
  KV_GPU_REBUILT_SEARCH, /* names the nearest references of what is searched */
  KV_GPU_REBUILT_GATHER, /* latents as floats, means, rows that are as they came
                          */
  KV_GPU_REBUILT_DECODE, /* f_d, and the means added */
  KV_GPU_REBUILT_TURN,   /* keys turned forward, by each token's position */
  KV_GPU_REBUILT_READ,   /* attention over the rows that the stages made */
  /* Of a replay's lanes: */
  KV_GPU_REBUILT_PACK, /* what was coded since is put together */
  KV_GPU_REBUILT_FIND  /* where each token is now */
} kv_gpu_rebuilt_act;

/* Elements of a row of K or V that the one kernel has room for. */
enum { KV_GPU_REBUILT_WIDE = 128 };

/* f_d, of fp32 tensors as ref/parts/latents.h has them: of swiglu the last
 * layer alone. */
typedef struct kv_gpu_rebuilder {
  int32_t deep;           /* elements of a row of `last`; 0: no compressor */
  const float *last;      /* [w][deep], w all heads' K, then their V */
  const float *last_bias; /* [w], or NULL */
  const float *hidden;    /* [deep][latent], or NULL: there is no such layer */
  const float *hidden_bias; /* [deep] */
} kv_gpu_rebuilder;

/* A search: m tokens, ascending, among n references before them. */
typedef struct kv_gpu_searched {
  int32_t m, n;
  const int32_t *token, *reference; /* [m], [n] ascending ids */
  const float *x, *row, *norm;      /* [m][w], [n][w] vectors, [n] of `row` */
  int32_t *named; /* [m][how.nearest] ids, the nearest first; KV_NO_TOKEN behind
                     the last */
} kv_gpu_searched;

typedef struct kv_gpu_rebuilt {
  /* Where a token is, by its id: row p, or the latent vector ~p. */
  const int32_t *place; /* [n_tokens] */
  int32_t rows;         /* a lane's that are as they came */
  const char *k, *v;    /* [lanes][rows][d], [d_v] in the trace's type; NULL: in
                           the lanes' pools */
  kv_delta how;
  int32_t bytes;        /* of a latent vector as it is stored */
  const char *latent;   /* [..][bytes] */
  const int32_t *named; /* [..][how.nearest] */
  kv_gpu_rebuilder by;
  int32_t turned; /* a kv_gpu_turned: which elements of a key are a pair */
  /* What a step attends. */
  int32_t attended;
  const int32_t *count; /* so many of them, if a step says how many; or NULL */
  const int32_t *token; /* [attended] ids, ascending */
  /* What is before the last layer of f_d where there is a hidden one; what
   * stages leave for the next ones. */
  float *z, *deep;             /* [attended][latent], [attended][deep] */
  float *mean;                 /* [attended][w] */
  kv_gpu_regular materialised; /* fp32 rows of all attended tokens, in half 0 */
  kv_gpu_searched search;
  int32_t *packed; /* blocks of the lanes that are put together */
} kv_gpu_rebuilt;

#endif
