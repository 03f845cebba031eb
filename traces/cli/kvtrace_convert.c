/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace convert: a trace in another type, for kernels that read that type. An
 * interrupt ends it between two pieces and leaves no file.
 */
#define _GNU_SOURCE 1
#include <inttypes.h>
#include <stdio.h>

#include "ref/ground/text.h"
#include "traces/cli/kvtrace.h"
#include "traces/text/progress.h"
#include "traces/trace/convert.h"

typedef struct task {
  kv_one_trace of; /* first */
  const char *out;
  int dtype; /* kv_dtype */
  bool quiet;
} task;

static void tick(void *self, int64_t bytes) { kv_progress_add(self, bytes); }

static void tell_layers(int n, const char *what) {
  char note[160];
  snprintf(note, sizeof note, what, n, n == 1 ? "" : "s");
  if (n) kv_note(note);
}

/* Says what changed. */
static void tell(const kv_convert *c, const char *path) {
  char a[KV_SHOW], note[KV_SHOW + 64];
  snprintf(note, sizeof note, "wrote %s; %" PRId64 " numbers were rounded",
           kv_show(path, a), c->changed);
  kv_note(note);
  tell_layers(c->o_left_out, "outputs of %d layer%s left out, because they "
                             "belong to the numbers before rounding");
  tell_layers(c->sums_again, "column sums of %d layer%s recomputed from the "
                             "rounded numbers");
  tell_layers(c->sums_left_out, "column sums of %d layer%s left out, because "
                                "prompt rows to recompute them are missing");
}

static kv_rc write_it(const task *s, kv_convert *c, kv_err *e) {
  const kv_kernels *kernel;
  kv_rc rc = kv_compute_setup(&kernel, e);
  if (rc) return rc;
  kv_progress progress;
  kv_stop_on_signals();
  kv_progress_start(&progress, stderr, "convert", "bytes", kv_convert_bytes(c),
                    s->quiet);
  c->tick = tick;
  c->self = &progress;
  rc = kv_convert_write(c, kernel, s->out, e);
  kv_progress_end(&progress);
  if (!rc) tell(c, s->out);
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  const task *s = self;
  kv_convert c = {.stop = &kv_stop_asked, .dtype = (kv_dtype)s->dtype};
  kv_trace *t = NULL;
  kv_rc rc = kv_trace_open(s->of.path.item[0], &t, e);
  c.from = t;
  if (!rc) rc = write_it(s, &c, e);
  kv_trace_close(t);
  return kv_stop_heard(rc, stopped, e);
}

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    {KV_SLOT_TEXT, "out", 'o', "FILE", AT(out), .use = KV_USE_CREATED,
     .must = true, .group = "Result", .help = "where to write it (required)"},
    {KV_SLOT_CHOICE, "dtype", 'd', "TYPE", .choices = KV_DTYPES, AT(dtype),
     .must = true, .help = "type of q, k and v: F16, BF16 or F32 (required)"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet), .help = "no progress bar"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvtrace convert chat.safetensors --dtype bf16 -o chat.bf16.safetensors",
     "for a kernel that reads bfloat16"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Everything else is copied. If a number changed, the model's outputs are "
    "left out, because they belong to the old numbers. Column sums are then "
    "recomputed from the rounded numbers, or left out if prompt rows are "
    "missing.",
    NULL};

static const kv_task task_convert = {.size = sizeof(task), .work = work};

const kv_command kv_command_convert = {
    KV_COMMAND(convert, "write a trace in another number type"), KV_ONE_TRACE};
