/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what methods need of a device, by phase of a replay, counted on the
 * executor (gpu/README.md, Counters): a line of tab-separated numbers for each
 * method and phase. Only counts, no clock: they are the same for any compiler,
 * machine and order of threads.
 *
 *   gpu_counts TRACE PROMPT METHOD..
 *
 * PROMPT: tokens of the trace that are the prompt, of which a quarter is kept.
 * METHOD: a specification, or `all`. Each is replayed alone.
 */
#include "gpu/host/backends.h"
#include "sim/ask/spec.h"
#include "tests/laws/cells.h"
#include "tests/support/backend/gpumeter.h"
#include "tests/support/test.h"
#include "traces/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* gpu/order.cc */
void kernels_counted(uint64_t *of);

static void print_rows(const char *method, const gpumeter_count *c) {
  for (int p = 0; p < GPUMETER_PHASES; p++, c++) {
    const uint64_t *k = c->kernels;
    printf("%s\t%s\t%" PRIu64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64
           "\t%" PRId64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n",
           method, gpumeter_phases[p], k[0], c->waits, c->copies, c->sent,
           c->read, k[1], k[2], k[3]);
  }
}

static void count(const kv_trace *t, int prompt, const char *method) {
  kv_cell cell, *each = &cell;
  kv_replay_how how = {.threads = 1};
  how.backend = gpumeter_backend(&kv_backend_emu, kv_device_emu(), 0, NULL,
                                 kernels_counted);
  cells_must(kv_method_at, t, prompt, method, prompt / 4, &cell);
  cells_replay(t, 1, &each, how);
  if (!kv_result_ran(&cell.result))
    fail_msg("%s: %s", method, cell.result.reason);
  print_rows(method, gpumeter_of(&cell.plan));
  kv_cell_close(&cell);
}

static void count_all(const kv_trace *t, int prompt) {
  kv_specs specs = {0};
  kv_err e = {0};
  if (kv_specs_add(kv_method_at, "all", &specs, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < specs.n; i++)
    count(t, prompt, specs.spec[i].method->name);
  kv_specs_free(&specs);
}

int main(int argc, char **argv) {
  kv_trace *t = NULL;
  kv_err e = {0};
  if (argc < 4) return 2;
  if (kv_trace_open(argv[1], &t, &e)) fail_msg("%s", e.text);
  for (int i = 3; i < argc; i++)
    if (strcmp(argv[i], "all") == 0)
      count_all(t, atoi(argv[2]));
    else
      count(t, atoi(argv[2]), argv[i]);
  kv_trace_close(t);
  return 0;
}
