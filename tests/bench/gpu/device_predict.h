/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of how fast the kernels of gpu/ should be on a device, from the
 * instructions counted in their loops; tests/bench/gpu/README.md has it in
 * words. The device benchmark prints it beside what it measures; it needs no
 * device and no CUDA. The counts are in device_counts.def, which
 * tests/check_sass.sh compares with the compiled kernels. Nothing here fails.
 */
#ifndef KV_TESTS_BENCH_DEVICE_PREDICT_H
#define KV_TESTS_BENCH_DEVICE_PREDICT_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct predict_device {
  const char *name;
  int sms;      /* multiprocessors */
  double clock; /* Hz, under load */
  double copy;  /* bytes/s, read and written, of a copy */
  double read;  /* bytes/s of reading alone */
  double trip;  /* seconds from a load to its number */
  double start; /* seconds from the end of a kernel to the next one */
} predict_device;

/* Instructions that a warp issues in one turn of a loop, by the unit that they
 * need; tests/bench/gpu/README.md names the units. */
typedef struct predict_turn {
  const char *name;
  double elements; /* of a thread */
  double all, fma, imad, alu, slow, lds, lds2, sts, ldg, copy, other, flow;
  double trips; /* from barrier to barrier, where global memory is read */
} predict_turn;

/* The value that a theme of the benchmark should show, as its function below
 * says, and what limits it: "memory", "issue slots", ... */
typedef struct predicted {
  double value;
  const char *bound;
  double k, v; /* instructions an element of K and V; 0: not asked */
} predicted;

/* The goals of the themes, for prediction and measurement. */
static const double GOAL_ATTEND = 0.85, GOAL_ATTEND_8 = 0.65, GOAL_TOP = 0.6,
                    GOAL_KIVI = 0.9, GOAL_COMPRESS = 0.05, GOAL_RARE = 0.005,
                    GOAL_PAGED = 0.8, GOAL_PAGED_8 = 0.7, GOAL_COMPACT = 0.005,
                    GOAL_REGULAR = 0.5, GOAL_PAID = 5;

/* H100 and H200, from their data sheets. */
extern const predict_device predict_devices[2];

/* A device at hand: highest clock in Hz, and measured bytes/s. */
predict_device predict_device_of(const char *name, int sms, double clock,
                                 double copy, double read);

/* The turn of that name in device_counts.def; NULL: there is none. */
const predict_turn *predict_turn_of(const char *name);

/* Clocks of a multiprocessor for a turn of one warp; *bound: the unit that
 * limits it. */
double predict_clocks(const predict_turn *t, const char **bound);

/* Adds what x turns of t issue, by unit, to *to; t NULL: a loop that the kernel
 * does not have. */
void predict_add(predict_turn *to, double x, const predict_turn *t);
/* Seconds that the whole device takes to issue `count` turns of a warp. */
double predict_issue(const predict_device *d, const predict_turn *t,
                     double count, const char **bound);
/* Multiplications and additions a second that chains of fma can reach on it. */
double predict_fma_peak(const predict_device *d);

/* Decode attention over `lanes` lanes of `tokens` fp16 entries by `group` (1, 4
 * or 8) query heads: bytes/s as a share of copy. *seconds (or NULL): how long
 * it takes. */
predicted predict_attend(const predict_device *d, int group, int lanes,
                         int tokens, double *seconds);

/* The same over rows of 2-bit codes in groups of 32: how many times faster than
 * over fp16 rows, divided by how many times fewer bytes. *ceiling (or NULL):
 * the same if memory cost nothing. */
predicted predict_kivi(const predict_device *d, int group, int lanes,
                       int tokens, double *ceiling);

/* Attention over unified pages, all tokens K8V4, or K4V2 (low). */
typedef struct predict_pages {
  double bytes;       /* codes and metadata of a token */
  double seconds;     /* of the kernel */
  double memory, fma; /* seconds that the bytes, and the fma chains, need */
  predicted faster;   /* as value of predict_kivi */
  predicted reached;  /* the larger of memory and fma / seconds */
} predict_pages;
predict_pages predict_paged(const predict_device *d, int low, int group,
                            int lanes, int tokens);

/* The page manager's launch for `requests` requests of 32 layers of 8 KV heads,
 * as a share of a step, which reads 16 GB of weights and attends to 1,024 fp16
 * entries. *seconds (or NULL): the launch's. */
predicted predict_compact(const predict_device *d, int requests,
                          double *seconds);

/* Regular indices in the shapes of Hard-KV's paper: how many of n tokens a head
 * of a layer keeps. */
enum { PREDICT_REGULAR_LAYERS = 36, PREDICT_REGULAR_HEADS = 8 };
int predict_regular_kept(int n, int layer, int head);
/* The steps after which a rewrite's memory-time integral is no more than that
 * of the store that it is measured by: seconds of the rewrite, of a step there,
 * of a step after it; rewritten lanes have room for half of the tokens. Below
 * 0: never. */
double predict_break_even(double rewrite, double step, double rewritten);
typedef struct predict_indices {
  double share; /* seconds of a step over what is kept / over all places */
  double paid;  /* predict_break_even against the store of all places */
} predict_indices;
predict_indices predict_regular(const predict_device *d, int tokens);

/* A step over residual latents, in the shape of theme delta: vectors of 2,048,
 * latent vectors of 512, so many tokens attended, whose rows are made where
 * they are attended. */
enum { PREDICT_DELTA_WIDTH = 2048, PREDICT_DELTA_LATENT = 512 };
typedef struct predict_delta {
  double seconds;    /* of the kernel's loops */
  double peak;       /* of its products alone, at the peak */
  const char *bound; /* what binds the loops */
} predict_delta;
predict_delta predict_rebuilt(const predict_device *d, int tokens);

/* Top k of n scores a lane: bytes/s as a share of read; the kernel makes
 * PREDICT_PASSES passes over them. */
enum { PREDICT_PASSES = 3 };
predicted predict_top(const predict_device *d, int lanes, int n);

/* Compression by h2o once in `every` steps: seconds a step / those of a step.
 */
predicted predict_compress(const predict_device *d, int lanes, int budget,
                           int every);

/* Prints all themes with their goals. */
void predict_print(FILE *to, const predict_device *d);

#ifdef __cplusplus
}
#endif

#endif
