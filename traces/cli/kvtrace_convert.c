/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace convert: a trace in another type, for kernels that read that type.
 * An interrupt ends it between two pieces, and nothing is left behind.
 */
#define _GNU_SOURCE 1
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "traces/cli/kvtrace.h"
#include "traces/container/apart.h"
#include "traces/text/progress.h"
#include "traces/text/text.h"
#include "traces/trace/convert.h"

static const kv_flag flags[] = {
    {"out", 'o', "FILE", "Result", "where to write it (required)"},
    {"dtype", 'd', "F16|BF16|F32", "Result", "of q, k and v (required)"},
    {"quiet", 'q', NULL, "Result", "no progress"},
    {0}};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) { interrupted = number; }

static void tick(void *self, int64_t bytes) { kv_progress_add(self, bytes); }

static void plural(int n, const char *what) {
  fprintf(stderr, "kvtrace: %s of %d layer%s ", what, n, n == 1 ? "" : "s");
}

/* What is not as it was. */
static void tell(const kv_convert *c, const char *path) {
  char a[KV_SHOW];
  fprintf(stderr, "kvtrace: wrote %s; %" PRId64 " numbers were rounded\n",
          kv_show(path, a), c->changed);
  if (c->o_left_out) {
    plural(c->o_left_out, "outputs");
    fputs("left out: they are of the numbers before rounding\n", stderr);
  }
  if (c->sums_again) {
    plural(c->sums_again, "column sums");
    fputs("recomputed from the rounded numbers\n", stderr);
  }
  if (c->sums_left_out) {
    plural(c->sums_left_out, "column sums");
    fputs("left out: not every prompt row is there to recompute them\n",
          stderr);
  }
}

static kv_rc write_it(const char *path, kv_convert *c, bool quiet, kv_err *e) {
  const kv_kernels *kernel;
  kv_rc rc = kv_choose_kernels(&kernel, e);
  if (rc) return rc;
  kv_progress progress;
  kv_catch_signals(on_signal);
  kv_progress_start(&progress, stderr, "convert", "bytes", kv_convert_bytes(c),
                    quiet);
  c->tick = tick;
  c->self = &progress;
  rc = kv_convert_write(c, kernel, path, e);
  kv_progress_end(&progress);
  if (!rc) tell(c, path);
  if (rc && interrupted) e->rc = rc = (kv_rc)130;
  return rc;
}

static kv_rc run(const kv_verb_call *call, kv_err *e) {
  const char *path = kv_flag_value(&kv_verb_convert, call, "out");
  bool any, quiet = kv_flag_value(&kv_verb_convert, call, "quiet") != NULL;
  kv_convert c = {.stop = &interrupted};
  kv_trace *t = NULL;
  kv_rc rc = kv_flag_dtype(&kv_verb_convert, call, &any, &c.dtype, e);
  if (!rc && call->n_paths != 1)
    rc = kv_fail(e, KV_USAGE, "convert wants one trace, not %d", call->n_paths);
  if (!rc && !path) rc = kv_fail(e, KV_USAGE, "convert wants -o FILE");
  if (!rc && !any)
    rc = kv_fail(e, KV_USAGE, "convert wants --dtype F16, BF16 or F32");
  kv_place in = {.what = "the trace", .path = rc ? NULL : call->path[0]};
  kv_place out = {.what = "--out", .path = path};
  if (!rc) rc = kv_places_apart(1, &in, 1, &out, e);
  if (!rc) rc = kv_trace_open(call->path[0], &t, e);
  c.from = t;
  if (!rc) rc = write_it(path, &c, quiet, e);
  kv_trace_close(t);
  return rc;
}

static const char *const examples[] = {
    "kvtrace convert chat.safetensors --dtype bf16 -o chat.bf16.safetensors",
    NULL};

const kv_verb kv_verb_convert = {
    "convert",
    "Writes a trace in another type, each number the nearest of it",
    "kvtrace convert -o FILE --dtype TYPE TRACE",
    examples,
    flags,
    run,
    "All else is carried over. Where a number changed, the model's outputs "
    "are\n"
    "left out, as they are of the numbers before, and column sums are made\n"
    "anew from the rounded ones, or left out where prompt rows are missing."};
