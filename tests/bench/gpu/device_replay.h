/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole replays for theme `replay` of the device benchmark: all methods that
 * both backends have and that need no file, in one pass over a synthetic trace
 * of two layers of Llama-3.1-8B's geometry in fp16, budget 10 % of the prompt,
 * without measures of fidelity: decisions, ledger and digests. The trace is an
 * unlinked file in TMPDIR (/tmp), so that it goes with the program.
 *
 *   open; perhaps measure; run pass 0 and pass 1; same, decode, phase; close
 *
 * C, called from C++. A failure leaves one sentence in `why`.
 */
#ifndef KV_TESTS_BENCH_DEVICE_REPLAY_H
#define KV_TESTS_BENCH_DEVICE_REPLAY_H

#include "tests/support/backend/gpumeter.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  REPLAYS_WHY = 512, /* bytes of a sentence */
  REPLAYS_PASSES = 2
};

typedef struct replays replays;

typedef struct replay_took {
  double seconds;
  bool finished; /* within the limit */
} replay_took;

/* Makes the trace, of which the last `decoded` tokens are decode steps. NULL:
 * it failed. */
replays *replays_open(int tokens, int decoded, char why[REPLAYS_WHY]);
void replays_close(replays *r); /* accepts NULL */

/* Passes on a device are measured by phase from here on, which takes a few
 * microseconds a step; the clock is its. */
void replays_measure(replays *r, const gpumeter_clock *clock);

/* Replays pass 0 or 1, once each, on the backend of that name, and gives up
 * after `limit` seconds (asked every step). threads: of the reference. False:
 * it failed. */
bool replays_run(replays *r, int pass, const char *backend, int threads,
                 double limit, replay_took *out, char why[REPLAYS_WHY]);
/* After two finished passes: whether all digests and bytes are the same; else
 * `why` names the first that is not. */
bool replays_same(const replays *r, char why[REPLAYS_WHY]);

/* The number of methods, and the specification of the i-th. */
int replays_methods(const replays *r);
const char *replays_method(const replays *r, int i);
/* Seconds of its decode steps in a pass. */
double replays_decode(const replays *r, int pass, int i);

/* Seconds of the i-th method in the last pass that was measured. */
gpumeter_count replays_phase(const replays *r, int pass, int i,
                             gpumeter_phase phase);

/* How many processors there are; the name of the reference's kernel set. */
int replays_processors(void);
const char *replays_kernels(void);

#ifdef __cplusplus
}
#endif

#endif
