/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace slim: a smaller trace from a full one. An interrupt ends it between
 * two pieces and leaves no file.
 */
#include <stdio.h>

#include "ref/ground/text.h"
#include "traces/cli/kvtrace.h"
#include "traces/text/progress.h"
#include "traces/trace/slim.h"

typedef struct task {
  kv_one_trace of; /* first */
  const char *out;
  kv_keeping what;
  bool quiet;
} task;

static kv_rc check(void *self, kv_err *e) {
  return kv_keeping_read(&((task *)self)->what, e);
}

static void tick(void *self, int64_t bytes) { kv_progress_add(self, bytes); }

static void tell(const kv_slim *s, const char *path) {
  char a[KV_SHOW], sums[80] = "", note[KV_SHOW + 200];
  if (s->sums_made)
    snprintf(sums, sizeof sums, "; column sums of %d layer%s computed",
             s->sums_made, s->sums_made == 1 ? "" : "s");
  snprintf(note, sizeof note, "wrote %s: %d layer%s, %.4g MB%s",
           kv_show(path, a), s->layers, s->layers == 1 ? "" : "s",
           1e-6 * (double)kv_slim_bytes(s), sums);
  kv_note(note);
}

static kv_rc write_it(const task *t, kv_slim *s, kv_err *e) {
  const kv_kernels *kernel;
  kv_rc rc = kv_compute_setup(&kernel, e);
  if (rc) return rc;
  kv_progress progress;
  kv_stop_on_signals();
  kv_progress_start(&progress, stderr, "slim", "bytes", kv_slim_bytes(s),
                    t->quiet);
  s->tick = tick;
  s->self = &progress;
  rc = kv_slim_write(s, kernel, t->out, e);
  kv_progress_end(&progress);
  if (!rc) tell(s, t->out);
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  const task *t = self;
  kv_slim s = {.keep = &t->what.keep, .stop = &kv_stop_asked};
  kv_trace *from = NULL;
  kv_rc rc = kv_trace_open(t->of.path.item[0], &from, e);
  s.from = from;
  if (!rc) rc = write_it(t, &s, e);
  kv_trace_close(from);
  return kv_stop_heard(rc, stopped, e);
}

static void clean(void *self) { kv_keep_free(&((task *)self)->what.keep); }

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    {KV_SLOT_TEXT, "out", 'o', "FILE", AT(out), .use = KV_USE_CREATED,
     .must = true, .group = "Result", .help = "where to write it (required)"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet), .help = "no progress bar"},
    KV_KEEPING_OPTIONS(task, what),
    {KV_SLOT_FLAG, "drop-tokens", AT(what.keep.no_tokens),
     .help = "leave out token ids, which reveal the text"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvtrace slim chat.safetensors --rows last=256,decode -o s.safetensors",
     "query rows of the observation window only, and column sums for h2o"},
    {"kvtrace slim chat.safetensors --layers 0,8-11 --no-o -o l.safetensors",
     "some layers, and no outputs"},
    {NULL, NULL}};

static const char *const notes[] = {
    "K, V and everything that stays are the same bytes. A layer that loses "
    "query rows of the prompt gets column sums of all of them. A method that "
    "reads sums, such as h2o, then decides exactly as on the full trace. A "
    "method that needs the rows is refused. `kvtrace plan` says how large the "
    "result will be.",
    "Column sums need the prompt's attention once, on all threads; the rest is "
    "copied. The metadata `slimmed` says what was left out.",
    NULL};

static const kv_task task_slim = {
    .size = sizeof(task), .check = check, .work = work, .free = clean};

const kv_command kv_command_slim = {
    KV_COMMAND(slim,
               "make a trace smaller: fewer query rows or layers, no outputs"),
    KV_ONE_TRACE};
