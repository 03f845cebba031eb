/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes synthetic traces: any geometry, any length, the same bits on every
 * machine and with any number of threads. Their attention has the structures
 * that the literature describes (traces/README.md lists them), so that scale
 * and speed can be measured without a recording. Metadata `source` says
 * synthetic. Used by `kvtrace synth`, laws and tests.
 *
 * Written as a stream. Memory: 16384 rows and some 132 bytes a token; with
 * `output` also one KV head with its query heads, and a kv_recompute a thread.
 */
#ifndef KV_TRACES_SYNTH_H
#define KV_TRACES_SYNTH_H

#include <signal.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/geometry.h"

typedef struct kv_synth {
  kv_geometry like;  /* the model: d is a multiple of 4 from 8 to 1024; sinks,
                        if it has them, are logits from 2 to 6 */
  int n_tokens;      /* 1 to 2^23 */
  int prompt_len;    /* 1 to n_tokens */
  uint64_t seed;     /* another seed gives another trace */
  int exponent;      /* values v are multiplied by 2^exponent, -252 to 252,
                        unless V is K */
  int output;        /* 1: also record outputs o; time quadratic in tokens */
  int shared;        /* 1: V is K, and metadata say so (kv.shared) */
  float softcap;     /* cap on logits, above 0; 0: none */
  int n_recorded;    /* layers written; 0: all */
  const int *layers; /* [n_recorded] their numbers in the model, ascending */
  const volatile sig_atomic_t *stop; /* not 0: give up; may be NULL */
  /* Called with the rows written since the last call; may be NULL. */
  void (*tick)(void *self, int64_t rows);
  void *self; /* first argument of tick */
} kv_synth;

/* The default prompt length: all tokens except an eighth of them or 256,
 * whichever is less. */
int kv_synth_prompt(int n_tokens);

/* All rows of q, k, v and o that tick will report. */
int64_t kv_synth_rows(const kv_synth *s);

/* Writes it to path, NAME.safetensors. KV_USAGE: d, a number of heads, layers
 * or tokens or prompt_len is out of range (other fields are not checked), or
 * path must not be written (traces/container/newfile.h). KV_RESOURCE: memory,
 * the disk (checked before a file is created), or *stop was set. After a
 * failure nothing is left behind. */
kv_rc kv_synth_write(const kv_synth *s, const kv_kernels *kernel,
                     const char *path, kv_err *e);

#endif
