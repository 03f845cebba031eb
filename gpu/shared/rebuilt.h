/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer's tokens on a device as a decoder of DeltaKV would hold them. Some
 * are latent vectors in format delta, with the ids of their reference tokens.
 * Sinks, references and the newest tokens are plain, unchanged rows. A step
 * decodes the rows that it attends from the latent vectors, to the bit as
 * ref/parts/latents.h (refs=raw, self=no). It does so in one kernel
 * (gpu/backend/rebuilt.cu), or stage by stage through memory, as a baseline for
 * that kernel (gpu/backend/rebuilt_stages.cu). The starts are
 * kv_device.rebuilt; gpu/host/rebuilt.h fills the struct for a replay.
 *
 * Shapes, queries, positions and where outputs go are the kv_gpu_layer's. T is
 * its n_tokens, w the elements of all lanes' K, then their V, in one vector.
 * Every pointer is a device pointer.
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

/* What kv_device.rebuilt must do. A step is ATTEND, or GATHER, DECODE, TURN and
 * READ in this order. */
typedef enum kv_gpu_rebuilt_act {
  KV_GPU_REBUILT_ATTEND, /* attention by the one kernel, after one for the
                            hidden layer if there is one; by the stages if rows
                            are wider than KV_GPU_REBUILT_WIDE */
  KV_GPU_REBUILT_SEARCH, /* fills search.named */
  KV_GPU_REBUILT_GATHER, /* fills z, mean, and the plain rows of `materialised`
                          */
  KV_GPU_REBUILT_DECODE, /* writes the decoder's rows, with the means added, to
                            `materialised`; needs z and mean */
  KV_GPU_REBUILT_TURN,   /* rotates these keys to their tokens' positions */
  KV_GPU_REBUILT_READ,   /* attention over `materialised` */
  /* If the struct belongs to a replay's lanes: */
  KV_GPU_REBUILT_PACK, /* after a compression: adds what it coded to latent and
                          named */
  KV_GPU_REBUILT_FIND  /* before ATTEND: writes place */
} kv_gpu_rebuilt_act;

/* Most elements of a row of K or V in the one kernel. */
enum { KV_GPU_REBUILT_WIDE = 128 };

/* The decoder f_d, from a latent vector [latent] to a vector [w]: a hidden
 * layer with GELU, or none, then `last`. fp32 tensors of the method's file. */
typedef struct kv_gpu_rebuilder {
  int32_t deep;           /* inputs of `last`; 0: no decoder, rows are only
                             means */
  const float *last;      /* [w][deep] */
  const float *last_bias; /* [w], or NULL */
  const float *hidden; /* [deep][latent]; NULL: no such layer, deep is latent */
  const float *hidden_bias; /* [deep] */
} kv_gpu_rebuilder;

/* A search: for each of m tokens the nearest of the references before it; n
 * references in all. */
typedef struct kv_gpu_searched {
  int32_t m, n;
  const int32_t *token, *reference; /* [m], [n] ids, ascending */
  const float *x, *row;             /* [m][w], [n][w] their vectors */
  const float *norm;                /* [n] squared lengths of `row` */
  int32_t *named; /* [m][how.nearest] ids, the nearest first; KV_NO_TOKEN after
                     the last */
} kv_gpu_searched;

/* Everything, as kernels get it. */
typedef struct kv_gpu_rebuilt {
  const int32_t *place; /* [T] by token: plain row p as p, latent vector number
                           x as ~x */
  int32_t rows;         /* plain rows of a lane */
  const char *k, *v;    /* [lanes][rows][d] and [..][d_v] in the trace's type;
                           NULL: they are in the lanes' pools */
  kv_delta how;         /* how tokens are coded; how.nearest references each */
  int32_t bytes;        /* of a latent vector as it is stored */
  const char *latent;   /* [numbers][bytes] */
  const int32_t *named; /* [numbers][how.nearest] ids; KV_NO_TOKEN ends a list
                         */
  kv_gpu_rebuilder by;
  int32_t turned; /* a kv_gpu_turned: which elements of a key RoPE pairs */
  /* What a step attends. */
  int32_t attended;     /* most tokens; starts are sized by it */
  const int32_t *count; /* [1] number of tokens, for the one kernel; NULL:
                           `attended`, as the stages always use */
  const int32_t *token; /* [attended] ids, ascending */
  /* Scratch; NULL if no act that is used needs it. */
  float *deep; /* [attended][by.deep] the hidden layer; also used by ATTEND */
  float *z;    /* [attended][latent] latent vectors as floats, by GATHER */
  float *mean; /* [attended][w] means of the references, by GATHER */
  kv_gpu_regular materialised; /* fp32 rows of all attended tokens, in half 0 */
  kv_gpu_searched search;      /* for SEARCH */
  int32_t *packed; /* [1] number of the lanes' blocks that PACK has added */
} kv_gpu_rebuilt;

#endif
