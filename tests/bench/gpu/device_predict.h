/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of gpu/ should reach on a device, reckoned from what was
 * counted in them: tests/bench/gpu/README.md has the model in words. Needs no
 * device and no CUDA. What a loop takes of a multiprocessor comes from
 * device_counts.def, which tests/check_sass.sh holds to the kernels.
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
  double clock; /* Hz */
  double copy;  /* bytes/s, read and written, of a copy */
  double read;  /* bytes/s of reading alone */
  double trip;  /* seconds from a load to its number */
  double start; /* seconds from the end of a kernel to the next one */
} predict_device;

/* Instructions that a warp issues in one turn of a loop, by what they need. */
typedef struct predict_turn {
  const char *name;
  double elements; /* of a thread */
  double all, fma, imad, alu, slow, lds, lds2, sts, ldg, copy, other, flow;
  double trips; /* from barrier to barrier, where global memory is read */
} predict_turn;

/* What a theme should show, and what binds it: "memory", "issue slots", ... */
typedef struct predicted {
  double value;
  const char *bound;
  double k, v; /* instructions an element of K and V; 0: not asked */
} predicted;

/* What is asked of the themes, here and where they are measured. */
static const double GOAL_ATTEND = 0.85, GOAL_ATTEND_8 = 0.65, GOAL_TOP = 0.6,
                    GOAL_KIVI = 0.9, GOAL_COMPRESS = 0.05, GOAL_RARE = 0.005,
                    GOAL_PAGED = 0.8, GOAL_PAGED_8 = 0.7, GOAL_COMPACT = 0.005,
                    GOAL_REGULAR = 0.5, GOAL_PAID = 5;

/* H100 and H200, by their data sheets. */
extern const predict_device predict_devices[2];

/* A device that was asked: its clock at most, and what was measured. */
predict_device predict_device_of(const char *name, int sms, double clock,
                                 double copy, double read);

/* The counted turn of this name; NULL: there is none. */
const predict_turn *predict_turn_of(const char *name);

/* Clocks of a multiprocessor for a turn of one warp; *bound: whose. */
double predict_clocks(const predict_turn *t, const char **bound);

/* x more turns of t; t NULL: a loop that the kernel does not have. */
void predict_add(predict_turn *to, double x, const predict_turn *t);
/* Seconds that the device issues `count` turns of a warp. */
double predict_issue(const predict_device *d, const predict_turn *t,
                     double count, const char **bound);
/* Multiplications and additions a second that chains of fma can reach. */
double predict_fma_peak(const predict_device *d);

/* Decode attention over `lanes` lanes of `tokens` fp16 entries with groups of
 * 1, 4 or 8: its share of copy. seconds: how long it takes, or NULL. */
predicted predict_attend(const predict_device *d, int group, int lanes,
                         int tokens, double *seconds);

/* The same over rows of 2-bit codes in groups of 32: times faster than over
 * fp16 rows, as a share of times fewer bytes. ceiling: that share if memory
 * cost nothing, or NULL. */
predicted predict_kivi(const predict_device *d, int group, int lanes,
                       int tokens, double *ceiling);

/* Attention over unified pages, all tokens K8V4, or K4V2 (low). */
typedef struct predict_pages {
  double bytes, seconds; /* codes and metadata of a token; in all */
  double memory, fma; /* seconds that these bytes, and the chains' fma, need */
  predicted faster;   /* than fp16 rows, as a share of times fewer bytes */
  predicted reached;  /* of the slower of both ceilings */
} predict_pages;
predict_pages predict_paged(const predict_device *d, int low, int group,
                            int lanes, int tokens);

/* The page manager's launch for 32 layers of 8 KV heads of so many requests / a
 * step: 16 GB of weights, and attention over 1,024 fp16 entries. seconds: the
 * launch's, or NULL. */
predicted predict_compact(const predict_device *d, int requests,
                          double *seconds);

/* Regular indices in the shapes of Hard-KV's paper: tokens that head h of a
 * layer keeps of n. */
enum { PREDICT_REGULAR_LAYERS = 36, PREDICT_REGULAR_HEADS = 8 };
int predict_regular_kept(int n, int layer, int head);
/* The steps after which a rewrite's memory-time integral is no more than that
 * of the store that it is measured by: seconds of the rewrite, of a step there,
 * of a step after it; rewritten lanes have room for half of the tokens. Below
 * 0: never. */
double predict_break_even(double rewrite, double step, double rewritten);
typedef struct predict_indices {
  double share; /* a step over what is kept / over all places */
  double paid;  /* steps, against all places */
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

/* Top k of n scores a lane: share of reading, over so many passes. */
enum { PREDICT_PASSES = 3 };
predicted predict_top(const predict_device *d, int lanes, int n);

/* Compression h2o after each of `every` steps, a step's share / a step. */
predicted predict_compress(const predict_device *d, int lanes, int budget,
                           int every);

/* All themes with their goals. */
void predict_print(FILE *to, const predict_device *d);

#ifdef __cplusplus
}
#endif

#endif
