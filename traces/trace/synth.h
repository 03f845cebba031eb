/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic traces: any geometry, any length, the same bits on every machine
 * and with any number of threads. They carry the structures that the
 * literature describes (traces/README.md says which and how), so that scale
 * and speed can be measured where no recording is at hand. They are never
 * called real: `source` says synthetic.
 *
 * Written as a stream: memory is a few megabytes and four bytes for every
 * token and fast rotation, except with `output`, which holds one KV head.
 */
#ifndef KV_TRACES_SYNTH_H
#define KV_TRACES_SYNTH_H

#include <signal.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/geometry.h"

typedef struct kv_synth {
  kv_geometry like; /* with the caller's changes */
  int n_tokens, prompt_len;
  uint64_t seed;
  int exponent;      /* values are multiplied by 2 to this, -252 to 252 */
  int output;        /* record o too: quadratic in tokens */
  int n_recorded;    /* 0: all layers */
  const int *layers; /* [n_recorded], ascending */
  const volatile sig_atomic_t *stop; /* may be NULL; set: give up */
  /* or NULL: rows written since the last call */
  void (*tick)(void *self, int64_t rows);
  void *self; /* of tick */
} kv_synth;

/* The prompt length when none is asked for: all but an eighth, at most 256
 * tokens, of the whole. */
int kv_synth_prompt(int n_tokens);

/* Rows of q, k, v and o that it writes. */
int64_t kv_synth_rows(const kv_synth *s);

/* KV_USAGE for a geometry that cannot be, KV_RESOURCE when the disk is full,
 * or too small (then before any row is made), or *stop was set; then nothing is
 * left behind. */
kv_rc kv_synth_write(const kv_synth *s, const kv_kernels *kernel,
                     const char *path, kv_err *e);

#endif
