/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane of the reference and its twin on the executor (C++), over the same
 * random rows: tokens enter both, verbs run on both, and gpulane_same fails the
 * running cmocka test if anything readable differs between the two.
 *
 *   seed; open; append, both, same and end_step in any order; close
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

enum {
  GPULANE_TAKEN = 128, /* pieces of memory */
  GPULANE_COLUMNS = 2, /* an int64, a float */
  GPULANE_CLASSES = 3  /* of retier */
};

typedef struct gpulane_case {
  kv_dtype dtype;  /* of K and V */
  int bits, group; /* of codes */
  int d, d_v;
  int n_tokens;                      /* rows that there are */
  int verbs;                         /* that the test will draw */
  bool fp16_ops;                     /* codes by fp16 arithmetic */
  bool merges, codes;                /* the lane may be merged; may be coded */
  const kv_coding *coding = nullptr; /* [2] in place of channel and token */
  kv_means merged = KV_MEANS_TRACE;  /* type of merged rows */
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
  kv_digest rewrites; /* of the device's log, */
  int logged;         /* so many rows of it */
  int seen;           /* tokens that entered */
  float *k, *v,
      *bias;     /* rows as the device reads them: [n][d], [n][d_v], [n] */
  int32_t *list; /* arguments of verbs, for both: indices */
  uint8_t *keep; /* and flags, one an entry */
  void *taken[GPULANE_TAKEN]; /* device memory, [n_taken] */
  int n_taken;
} gpulane;

/* A verb (ref/lane/lane.h): over the first n of w->list or w->keep. */
typedef struct gpulane_verb {
  enum { KEEP, MASK, MERGE, RECODE, MOVE, RETIER, SWEEP } kind;
  int n, one, other; /* entries; RETIER: other is the class */
  int k_format, v_format;
  float a, b; /* MERGE: weights */
} gpulane_verb;

/* Random numbers of this process, in the sequence of a seed: 0 to n - 1; in
 * [-2, 2). */
void gpulane_seed(uint32_t seed);
int gpulane_below(int n);
float gpulane_number(void);

/* Two empty lanes; close frees them. */
gpulane *gpulane_open(const gpulane_case *c);
void gpulane_close(gpulane *w);

/* Up to `count` more tokens, as many as exist, with random numbers in the
 * columns. */
void gpulane_append(gpulane *w, int count);
/* Runs the verb on both. */
void gpulane_both(gpulane *w, gpulane_verb v);
/* Ends a step: empties journals and log of both. */
void gpulane_end_step(gpulane *w);
/* Compares entries, columns, rows, codes, bytes, journals and log. */
void gpulane_same(gpulane *w);

#endif
