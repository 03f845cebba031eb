/* SPDX-License-Identifier: Apache-2.0
 *
 * What is left of a token once something like it is taken away: the numbers
 * behind the DeltaKV paper's figure 2, of any trace.
 *
 * A layer's tokens, from KV_NEAREST_FROM on, are looked at in two spaces:
 *   kv  keys before their rotation and values of all KV heads; the nearest
 *       earlier token is that of the least squared distance, as the method has
 *       it, and residuals against the mean of references are here alone
 *   k   the keys alone; the nearest is that of the largest cosine, as the
 *       script behind the authors' figure has it
 *
 * Distances are searched in binary32 (nearest.h). Every number made of them is
 * binary64 of + - * / and square roots, over elements, then tokens, in their
 * order; histograms are whole numbers. So threads and kernel sets cannot change
 * a bit, but of the spectrum, which is LAPACK's (spectrum.h). Used by `kvreplay
 * residuals`, which stores the result by kv_db_put_similarities.
 */
#ifndef KV_SIM_INSPECT_RESIDUAL_H
#define KV_SIM_INSPECT_RESIDUAL_H

#include "sim/inspect/nearest.h"
#include "sim/inspect/rebuilt.h"
#include "sim/inspect/spectrum.h"

enum { KV_SPACE_KV, KV_SPACE_K, KV_SPACES };
extern const char *const kv_space_name[KV_SPACES]; /* kv k */

/* Residuals of a token, the last two in the space kv alone. */
enum {
  KV_LESS_NOTHING, /* the token as it is */
  KV_LESS_NEAREST, /* without the nearest earlier one */
  KV_LESS_RANDOM,  /* without an earlier one that a hash of layer and position
                      draws, from KV_NEAREST_FROM on; of that one token 0 */
  KV_LESS_REFERENCES, /* without the mean of the KV_RESIDUAL_K nearest
                         references of stride 10; of tokens that are none
                         themselves */
  KV_LATENT_VECTOR, /* DeltaKV's latent vector of the last one, where the trace
                       has weights beside it (sim/inspect/latent.h) */
  KV_RESIDUALS
};
extern const char *const kv_residual_name[KV_RESIDUALS]; /* raw nearest random
                                                            references z */

/* Histograms: element i of an array counts class c = FIRST + i (0 where there
 * is no FIRST). Class c holds, the first also what is less and the last what is
 * more:
 *   distance  from 2^c to less than 2^(c + 1) tokens back
 *   cosine    from c / 20 to less than (c + 1) / 20, 1 in the last one
 *   norm      from 2^(c / 4), halves and quarters rounded to binary64
 *   value     of elements, from c / 8 of the root mean square of raw ones, of
 *             latent vectors of their own */
enum {
  KV_DISTANCES = KV_REBUILT_OCTAVES,
  KV_COSINE_FIRST = -20,
  KV_COSINES = 40,
  KV_NORM_FIRST = -64,
  KV_NORMS = 128,
  KV_VALUE_FIRST = -40,
  KV_VALUES = 80,
  KV_FAR = 16,          /* nearest tokens further back than this are far */
  KV_RESIDUAL_LIST = 2, /* stride 10, as a list of nearest.h */
  KV_RESIDUAL_K = 4,    /* references whose mean is subtracted */
  KV_ERROR_KS = 4,      /* numbers of references: kv_error_k */
  KV_SIZE_RANGES = 32,  /* of tokens and of elements, at most, in a */
  KV_SIZE_PARTS = 64    /* kv_latent_sizes */
};

typedef struct kv_residual_stats {
  int64_t tokens; /* that have such a residual; 0: all else is zero */
  double norm;    /* mean */
  double share;   /* squares, of those of the same raw tokens */
  int64_t norms[KV_NORMS], values[KV_VALUES]; /* tokens; elements, by class */
  kv_spectrum spectrum;
} kv_residual_stats;

/* How large elements of latent vectors are, |z|, by token and element: the
 * DeltaKV paper's figure 4 (a). Tokens in their order fall into as many ranges
 * of equal length, elements into parts; a cell is the mean of its |z|, in
 * thousandths of the root mean square of all z, the nearest whole number. */
typedef struct kv_latent_sizes {
  int ranges, parts;             /* 0: nothing has a z */
  int32_t first[KV_SIZE_RANGES]; /* position of a range's first token */
  int32_t size[KV_SIZE_RANGES][KV_SIZE_PARTS];
} kv_latent_sizes;

/* Of one layer in one space. */
typedef struct kv_similarity {
  int64_t tokens; /* from KV_NEAREST_FROM on */
  int64_t far;    /* of these, whose nearest is further back than KV_FAR */
  int64_t close;  /* whose nearest has a cosine above .9 */
  double chance; /* share that would be far, were the nearest drawn by chance */
  int64_t distances[KV_DISTANCES], cosines[KV_COSINES]; /* of the nearest */
  kv_residual_stats residual[KV_RESIDUALS];
  kv_latent_sizes sizes; /* of KV_LATENT_VECTOR */
  /* In kv alone: squares of what the mean of so many references misses, of the
   * squares of raw tokens; of tokens that are references of no stride above 1.
   * And by octaves of the position, for stride 10 and 4 references; NaN where
   * there is no token. */
  double error[KV_NEAREST_LISTS][KV_ERROR_KS];
  double by_position[KV_DISTANCES];
} kv_similarity;
extern const int kv_error_k[KV_ERROR_KS]; /* 1 2 4 8 */

/* To be asked before anything is computed. KV_INPUT: the trace has too few
 * tokens. */
kv_rc kv_similarity_check(const kv_trace *t, kv_err *e);

/* Fills out[KV_SPACES], and rebuilt[files->n] (zeroed before; NULL where there
 * are no files), of the i-th recorded layer. KV_INPUT: too few tokens, no RoPE
 * frequencies, or numbers that cannot be compared; KV_RESOURCE: memory;
 * KV_INTERNAL: LAPACK gave up. Memory: the layer in binary32, its keys twice,
 * and with LAPACK a square of binary64 as wide as a token. */
kv_rc kv_similarity_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                          int threads, const kv_compressors *files,
                          kv_similarity *out, kv_rebuilt *rebuilt, kv_err *e);

#endif
