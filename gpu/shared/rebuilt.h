/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer's tokens on a device as a decoder of DeltaKV would hold them: some as
 * latent vectors in format delta, with the ids of the reference tokens that
 * each was coded against; sinks, references and the newest tokens as plain
 * rows, as they came. A step makes the rows that it attends from the latent
 * vectors, to the bit as ref/parts/latents.h does (refs=raw, self=no), in one
 * kernel (gpu/backend/rebuilt.cu) or stage by stage through memory, which the
 * one kernel is measured against (gpu/backend/rebuilt_stages.cu). The starts
 * are kv_device.rebuilt; gpu/host/rebuilt.h fills the struct for a replay.
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

/* What kv_device.rebuilt is to do. A step is ATTEND, or GATHER, DECODE, TURN
 * and READ in this order. */
typedef enum kv_gpu_rebuilt_act {
  KV_GPU_REBUILT_ATTEND, /* attention by the one kernel, behind one for the
                            hidden layer if there is one; by the stages where
                            rows are wider than KV_GPU_REBUILT_WIDE */
  KV_GPU_REBUILT_SEARCH, /* fills search.named */
  KV_GPU_REBUILT_GATHER, /* z, mean, and of `materialised` the plain rows */
  KV_GPU_REBUILT_DECODE, /* the decoder's rows, with the means added, go into
                            `materialised`; needs z and mean */
  KV_GPU_REBUILT_TURN,   /* rotates these keys to their tokens' positions */
  KV_GPU_REBUILT_READ,   /* attention over `materialised` */
  /* Where the struct is of a replay's lanes: */
  KV_GPU_REBUILT_PACK, /* after a compression: adds what it coded to latent and
                          named */
  KV_GPU_REBUILT_FIND  /* before ATTEND: writes place */
} kv_gpu_rebuilt_act;

/* Elements of a row of K or V that the one kernel has room for. */
enum { KV_GPU_REBUILT_WIDE = 128 };

/* The decoder f_d, which makes a vector [w] of a latent one [latent]: a hidden
 * layer with GELU, or none, then `last`. fp32 tensors of the method's file. */
typedef struct kv_gpu_rebuilder {
  int32_t deep;           /* elements that `last` takes; 0: no decoder, and rows
                             are the means alone */
  const float *last;      /* [w][deep] */
  const float *last_bias; /* [w], or NULL */
  const float *hidden; /* [deep][latent]; NULL: no such layer, deep is latent */
  const float *hidden_bias; /* [deep] */
} kv_gpu_rebuilder;

/* A search: for each of m tokens the nearest of the references before it, n in
 * all. */
typedef struct kv_gpu_searched {
  int32_t m, n;
  const int32_t *token, *reference; /* [m], [n] ids, ascending */
  const float *x, *row;             /* [m][w], [n][w] their vectors */
  const float *norm;                /* [n] squared lengths of `row` */
  int32_t *named; /* [m][how.nearest] ids, the nearest first; KV_NO_TOKEN behind
                     the last */
} kv_gpu_searched;

/* All of it, as kernels are given it. */
typedef struct kv_gpu_rebuilt {
  const int32_t *place; /* [T] of each token: plain row p as p, latent vector
                           number x as ~x */
  int32_t rows;         /* plain rows of a lane */
  const char *k, *v;    /* [lanes][rows][d] and [..][d_v] in the trace's type;
                           NULL: they lie in the lanes' pools */
  kv_delta how;         /* how tokens are coded; how.nearest references each */
  int32_t bytes;        /* of a latent vector as it is stored */
  const char *latent;   /* [numbers][bytes] */
  const int32_t
      *named; /* [numbers][how.nearest] ids; KV_NO_TOKEN ends a list */
  kv_gpu_rebuilder by;
  int32_t turned; /* a kv_gpu_turned: which elements of a key RoPE pairs */
  /* What a step attends. */
  int32_t attended;     /* tokens at most; starts are sized by it */
  const int32_t *count; /* [1] how many there are, for the one kernel; NULL:
                           `attended`, as the stages always take */
  const int32_t *token; /* [attended] ids, ascending */
  /* Scratch; NULL where no act that is used needs it. */
  float *deep; /* [attended][by.deep] the hidden layer; used by ATTEND too */
  float *z;    /* [attended][latent] latent vectors as floats, by GATHER */
  float *mean; /* [attended][w] means of the references, by GATHER */
  kv_gpu_regular materialised; /* fp32 rows of all attended tokens, in half 0 */
  kv_gpu_searched search;      /* of SEARCH */
  int32_t *packed; /* [1] how many of the lanes' blocks PACK has added */
} kv_gpu_rebuilt;

#endif
