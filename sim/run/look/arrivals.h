/* SPDX-License-Identifier: Apache-2.0
 *
 * When requests arrive, in steps of the pool that they share, and how long they
 * are, as typed for --arrive:
 *
 *   100            one every 100 steps
 *   poisson:100    as a Poisson process, 100 steps between two on average;
 *   poisson:100:7  the same with seed 7 (default 1)
 *   FILE           JSON, one object a line, as in the public traces of servers:
 *                  timestamp and, optionally, input_length and output_length
 *                  (tokens). Other keys are ignored. Times count from the first
 *                  line's; a step has `pace` units of time
 *
 * The first arrives at step 0. Gaps of a Poisson process are -log(u) of numbers
 * u from splitmix64 (ref/ground/formula.h), by kv_log (ref/ground/arith.h),
 * rounded to 2^-16 of the mean and then added as integers: the same on every
 * machine.
 */
#ifndef KV_SIM_ARRIVALS_H
#define KV_SIM_ARRIVALS_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { KV_ARRIVALS_MOST = 65536 }; /* lines of a file */

/* A line of a file. */
typedef struct kv_arrival {
  int64_t step;
  int prompt, output; /* tokens; 0: not given */
} kv_arrival;

typedef struct kv_arrivals {
  char name[32]; /* "every", "poisson:SEED" or "file" */
  int every;     /* steps between two; for poisson their mean; for a file 0 */
  bool poisson;
  uint64_t seed;
  int n;          /* lines of a file; 0: there is no file */
  kv_arrival *at; /* [n] in the order of the file; steps never decrease */
} kv_arrivals;

/* Parses text; NULL: all at once. pace: units of a file's times in a step, >=
 * 1. KV_USAGE: it is malformed, and no file has this name. KV_INPUT: a line of
 * the file is wrong. KV_RESOURCE: memory. Free *out, also after a failure. */
kv_rc kv_arrivals_read(const char *text, int pace, kv_arrivals *out, kv_err *e);
void kv_arrivals_free(kv_arrivals *a); /* accepts zeroed */

/* Writes the arrival steps of the first n requests; with a file, n <= a->n. */
void kv_arrivals_steps(const kv_arrivals *a, int n, int64_t *step);

#endif
