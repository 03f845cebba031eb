/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane of the reference and its twin on the executor, over the same random
 * rows: tokens enter both, verbs run on both, and gpulane_same fails the
 * running cmocka test where anything that can be read of them differs.
 */
#ifndef KV_TESTS_GPULANE_H
#define KV_TESTS_GPULANE_H

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ref/formats/minmax.h"
#include "ref/lane/lane.h"
}

#include "gpu/shared/lane.h"

enum { GPULANE_TAKEN = 128, GPULANE_COLUMNS = 2, GPULANE_CLASSES = 3 };

typedef struct gpulane_case {
  kv_dtype dtype;
  int bits, group, d, d_v, n_tokens, verbs;
  bool fp16_ops, merges, codes;
  const kv_coding *coding = nullptr; /* [2] in place of channel and token */
  kv_means merged = KV_MEANS_TRACE;
} gpulane_case;

typedef struct gpulane {
  kv_shape shape;
  kv_needs needs;
  kv_minmax settings; /* of both codings */
  kv_layer_data data; /* K and V, one copy for both */
  kv_lane host;
  kv_gpu_layer layer;
  kv_gpu_clock *clock; /* the layer's */
  kv_gpu_lane *lane;
  kv_digest rewrites; /* of the device's log */
  int logged, seen;
  float *k, *v, *bias;
  int32_t *list; /* arguments of verbs */
  uint8_t *keep;
  void *taken[GPULANE_TAKEN];
  int n_taken;
} gpulane;

typedef struct gpulane_verb {
  enum { KEEP, MASK, MERGE, RECODE, MOVE, RETIER, SWEEP } kind;
  int n, one, other, k_format, v_format;
  float a, b;
} gpulane_verb;

/* The sequence of random numbers begins anew; 24 bits; in [0, n); in
 * (-2, 2). */
void gpulane_seed(uint32_t seed);
uint32_t gpulane_next(void);
int gpulane_below(int n);
float gpulane_number(void);

gpulane *gpulane_open(const gpulane_case *c);
void gpulane_close(gpulane *w);

/* Up to `count` more tokens, with columns of random numbers. */
void gpulane_append(gpulane *w, int count);
void gpulane_both(gpulane *w, gpulane_verb v);
/* The step ends: journals and log are empty. */
void gpulane_end_step(gpulane *w);
void gpulane_same(gpulane *w);

#endif
