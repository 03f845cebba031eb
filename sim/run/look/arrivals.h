/* SPDX-License-Identifier: Apache-2.0
 *
 * When requests arrive, in steps of the pool that they share, and how long they
 * are, as --arrive says it:
 *
 *   100            one every 100 steps
 *   poisson:100    as a Poisson process, 100 steps between two on average;
 *   poisson:100:7  the same with seed 7 (else 1)
 *   FILE           JSON, an object a line, as the public traces of servers have
 *                  them: timestamp, and perhaps input_length and output_length
 *                  (tokens). Other keys are not looked at. Times count from the
 *                  first line's, `pace` of them to a step
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
  int prompt, output; /* tokens; 0: it does not say */
} kv_arrival;

typedef struct kv_arrivals {
  char name[32]; /* "every", "poisson:SEED" or "file" */
  int every;     /* steps between two; of poisson their mean; of a file 0 */
  bool poisson;
  uint64_t seed;
  int n;          /* lines of a file; 0: it is none */
  kv_arrival *at; /* [n] in the order of the file, whose steps do not fall */
} kv_arrivals;

/* What text says; NULL: all at once. pace: units of a file's times that a step
 * takes, >= 1. KV_USAGE: it is none of these, and no file has this name;
 * KV_INPUT: a line of the file is wrong; KV_RESOURCE. Free *out, also after a
 * failure. */
kv_rc kv_arrivals_read(const char *text, int pace, kv_arrivals *out, kv_err *e);
void kv_arrivals_free(kv_arrivals *a); /* accepts zeroed */

/* The steps at which the first n requests arrive; of a file n is at most
 * a->n. */
void kv_arrivals_steps(const kv_arrivals *a, int n, int64_t *step);

#endif
