/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay tune`: each method is searched through, one after the other
 * (tune_method.c), and what was found is printed, of one method its front
 * (tune_report.c), of several the best of each (tune_table.c).
 */
#include "sim/commands/commands.h"

#include "sim/commands/signal.h"
#include "sim/commands/tune.h"
#include "traces/trace/trace.h"
#include <stdlib.h>

/* A budget that no range was typed for reaches to the longest trace's tokens.
 */
static kv_rc reach(kv_tuning *s, kv_err *e) {
  const kv_list *traces = &s->options.cells.traces;
  int longest = 1;
  for (int i = 0; i < traces->n; i++) {
    kv_trace *t = NULL;
    kv_rc rc = kv_trace_open(traces->item[i], &t, e);
    if (rc) return rc;
    if (t->shape.n_tokens > longest) longest = t->shape.n_tokens;
    kv_trace_close(t);
  }
  for (int i = 0; i < s->options.methods; i++)
    if (s->options.space[i].knob)
      kv_tune_space_knob(&s->options.space[i], longest);
  return KV_OK;
}

static kv_rc prepare(kv_tuning *s, kv_err *e) {
  size_t n = (size_t)s->options.methods;
  s->method = kv_zalloc(n, sizeof *s->method);
  if (!s->method) return kv_no_memory(e, "methods", n);
  for (size_t i = 0; i < n; i++) s->method[i].space = &s->options.space[i];
  return reach(s, e);
}

/* --- the calls of a command ----------------------------------------------- */

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((kv_tuning *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  return kv_tune_options_check(kv_method_at, &((kv_tuning *)self)->options, e);
}

static void interrupted(void *self) {
  const kv_tuning *s = self;
  char note[300], methods[60] = "";
  int n = s->options.methods;
  if (n > 1)
    snprintf(methods, sizeof methods, "%d of %d methods are done, and ",
             s->whole, n);
  snprintf(note, sizeof note,
           "interrupted: %s%d of at most %d probes%s are done; %s", methods,
           s->whole < n ? s->method[s->whole].done : 0, s->options.probes,
           n > 1 ? " of the next" : "",
           s->of.db ? "repeat the command: what is stored is not run again"
                    : "with --db FILE a repeated command goes on from here");
  kv_note(note);
}

/* Said from another thread when a method does not return
 * (sim/commands/signal.h). */
static void last_words(void *self) {
  kv_tuning *s = self;
  kv_progress_wipe(&s->of.progress);
  interrupted(s);
}

static void say_recalled(const kv_tuning *s) {
  char note[120];
  int recalled = 0, done = 0;
  for (int i = 0; i < s->options.methods; i++) {
    recalled += s->method[i].recalled;
    done += s->method[i].done;
  }
  if (s->options.cells.quiet || !recalled) return;
  snprintf(note, sizeof note, "%d of %d probes were in the database", recalled,
           done);
  kv_note(note);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  kv_tuning *s = self;
  kv_rc rc = prepare(s, e);
  s->now = s->options.cells;
  s->now.specs = (kv_specs){0};
  if (!rc) rc = kv_job_start(&s->now, true, &s->of, e);
  if (rc) return rc;
  kv_stop_words(last_words, s);
  for (; !rc && !*stopped && s->whole < s->options.methods; s->whole++) {
    rc = kv_tuning_method(s, &s->method[s->whole], stopped, e);
    if (rc || *stopped) break;
  }
  kv_stop_words(NULL, NULL);
  if (rc && kv_interrupted()) *stopped = true;
  if (rc || *stopped) return rc;
  say_recalled(s);
  return s->options.methods > 1 ? kv_tuning_report_all(s, e)
                                : kv_tuning_report(s, e);
}

static int conclude(void *self) {
  const kv_tuning *s = self;
  return s->options.methods > 1 ? kv_tuning_conclude_all(s)
                                : kv_tuning_conclude(s);
}

static void clean(void *self) {
  kv_tuning *s = self;
  kv_job_close(&s->of);
  for (int i = 0; s->method && i < s->options.methods; i++)
    kv_tuned_free(s, &s->method[i]);
  free(s->method);
  kv_tune_options_free(&s->options);
}

const kv_task kv_task_tune = {sizeof(kv_tuning), begin,    check, work,
                              interrupted,       conclude, clean};
