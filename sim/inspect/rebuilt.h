/* SPDX-License-Identifier: Apache-2.0
 *
 * What DeltaKV's compressors make of a trace's tokens: the squares that a
 * token's rebuilt vector misses, as a share of the squares of the token, by
 * file of weights, with the references that the token has and without any. The
 * files are opened here; kv_similarity_layer (sim/inspect/residual.h) fills a
 * kv_rebuilt for each file and layer.
 *
 *   nearest  f_d(f_c(token) - f_c(mean)) + mean, mean of the KV_RESIDUAL_K
 *            nearest references of stride 10
 *   none     f_d(f_c(token))
 *
 * A file that learned with references is not what its ablation would be, nor
 * one that learned without what the method is: `alone` says which it is.
 *
 * z is taken as it is computed, before it is stored. Vectors are binary32, as
 * the method has them; what is missed is binary64, added over elements, then
 * tokens in their order, then octaves: the same by every kernel set. The same
 * tokens as by_position of residual.h, which has what the mean alone misses.
 */
#ifndef KV_SIM_INSPECT_REBUILT_H
#define KV_SIM_INSPECT_REBUILT_H

#include "ref/parts/latents.h"
#include "traces/trace/trace.h"

enum {
  KV_REBUILT_FILES = 32, /* at most, the one beside the trace among them */
  KV_REBUILT_NAME = 256, /* bytes of a file's name, with its end */
  KV_REBUILT_OCTAVES =
      31 /* of positions: octave c has tokens 2^c .. 2^(c+1)-1 */
};

enum { KV_REBUILT_NEAREST, KV_REBUILT_ALONE, KV_REBUILT_WAYS }; /* as above */
extern const char *const kv_rebuilt_way[KV_REBUILT_WAYS]; /* nearest none */

/* One file and layer. */
typedef struct kv_rebuilt {
  bool there;       /* the file has the layer; if not, all else is zero */
  kv_digest digest; /* of the file */
  char code[65]; /* of this program's runs of deltakv that read it (code.h) */
  char file[KV_REBUILT_NAME]; /* its name, without the folder */
  kv_compressor of;           /* its widths */
  int length; /* tokens of a piece that it learned from; 0: it does not say */
  bool alone; /* it learned without references (kvreplay train, references) */
  double share[KV_REBUILT_WAYS]; /* missed, of all tokens; 0 of zeros */
  /* The same of tokens by octave of their positions; NaN: no token. */
  double by_position[KV_REBUILT_WAYS][KV_REBUILT_OCTAVES];
} kv_rebuilt;

/* The files for a trace, open. */
typedef struct kv_compressors {
  int n;
  bool beside; /* the first lies beside the trace (assets/) */
  kv_asset *file[KV_REBUILT_FILES];   /* [n] */
  const char *path[KV_REBUILT_FILES]; /* [n] the caller's; of beside `own` */
  char own[4096];
} kv_compressors;

/* Opens the file beside the trace, if there is one, and path[n], each file
 * once, whatever its name. KV_INPUT: one is no file of compressors for this
 * trace; KV_USAGE: too many; KV_RESOURCE. out is to be closed whatever is
 * returned. */
kv_rc kv_compressors_open(const kv_trace *t, int n, const char *const *path,
                          kv_compressors *out, kv_err *e);
void kv_compressors_close(kv_compressors *c);

/* How many layers of the trace the i-th file has. */
int kv_compressors_layers(const kv_compressors *c, int i);

#endif
