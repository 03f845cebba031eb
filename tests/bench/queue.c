/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that wait for a pool (kvreplay run --together --wait) against the
 * replays of the same requests alone: what recording what lanes hold and a
 * queue of 64 requests cost beside them. On one thread, in turn, so that a busy
 * machine is busy for both; that rows are the same is checked by
 * tests/check_requests.sh.
 */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 64, FIRST = 15 };

/* Processor time of the requests, `queue` of them over a pool. */
static double seconds(const bench *b, char *trace, int n, bool queue) {
  char *argv[FIRST + MOST + 1];
  char *fixed[] = {"sim/kvreplay", "run",    "--methods",
                   "leankv",       "--jobs", "1",
                   "--format",     "jsonl",  "--quiet"};
  char *pool[] = {"--together", "--wait",   "--pool",
                  "2MiB",       "--arrive", "poisson:8"};
  int at = (int)(sizeof fixed / sizeof *fixed);
  memcpy(argv, fixed, sizeof fixed);
  for (size_t i = 0; queue && i < sizeof pool / sizeof *pool; i++)
    argv[at++] = pool[i];
  for (int i = 0; i < n; i++) argv[at++] = trace;
  argv[at] = NULL;
  return bench_command(b, argv).cpu;
}

void theme_queue(const bench *b) {
  char trace[512];
  double alone[BENCH_MOST_RUNS], queued[BENCH_MOST_RUNS];
  int n = b->small ? 8 : MOST;
  snprintf(trace, sizeof trace, "%s/traces/tiny/text_400.safetensors",
           b->source);
  bench_theme(b, "requests of 400 tokens, 6 layers, leankv, one thread",
              "alone");
  for (int i = 0; i < b->runs; i++) {
    alone[i] = seconds(b, trace, n, false);
    queued[i] = seconds(b, trace, n, true);
  }
  bench_line(b, (line){.what = b->small ? "8 over a pool of 2 MiB"
                                        : "64 over a pool of 2 MiB, waiting",
                       .unit = "s",
                       .value = bench_median(b->runs, queued),
                       .peer = bench_median(b->runs, alone),
                       .high = 1.1});
}
