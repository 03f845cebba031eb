/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole replays for theme replay of the device benchmark: a synthetic trace of
 * two layers of Llama-3.1-8B's geometry in fp16, and all methods over it in one
 * pass, budget 10 % of the prompt, without measures of fidelity: decisions,
 * ledger and digests. The trace is a file of TMPDIR (/tmp) without a name, so
 * it goes with the program, whatever happens.
 *
 * C, called from C++. What fails leaves one sentence in `why`.
 */
#ifndef KV_TESTS_BENCH_DEVICE_REPLAY_H
#define KV_TESTS_BENCH_DEVICE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REPLAYS_WHY = 512, REPLAYS_PASSES = 2 };

typedef struct replays replays;

typedef struct replay_took {
  double seconds;
  bool finished; /* within the limit */
} replay_took;

/* `decoded` of the tokens are decode steps. NULL: why. */
replays *replays_open(int tokens, int decoded, char why[REPLAYS_WHY]);
void replays_close(replays *r); /* accepts NULL */

/* Pass 0 or 1, once each, on a backend by its name, given up after `limit`
 * seconds (looked at every step). threads: of the reference. false: why. */
bool replays_run(replays *r, int pass, const char *backend, int threads,
                 double limit, replay_took *out, char why[REPLAYS_WHY]);
/* Both passes are finished: are all digests and all bytes the same? */
bool replays_same(const replays *r, char why[REPLAYS_WHY]);

int replays_methods(const replays *r);
const char *replays_method(const replays *r, int i);
/* Seconds of its decode steps in a pass. */
double replays_decode(const replays *r, int pass, int i);

/* Processors here; the kernel set of the reference. */
int replays_processors(void);
const char *replays_kernels(void);

#ifdef __cplusplus
}
#endif

#endif
