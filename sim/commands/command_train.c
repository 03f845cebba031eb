/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay train`: what a method reads, from traces (sim/train/train.h). It
 * prints the loss on every trace that was held out.
 */
#include "sim/commands/commands.h"

#include "sim/commands/options_cells.h"
#include "sim/commands/signal.h"
#include "sim/train/product.h"
#include "sim/train/train.h"
#include "traces/text/progress.h"
#include "traces/text/text.h"
#include "traces/trace/check.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct task {
  kv_cells_options cells; /* first: of these traces (the first operand is the
                             method), jobs and quiet */
  kv_list hold_out;
  const char *output, *rate_text;
  uint64_t seed;
  int steps, tokens, keep, dtype;
  kv_train_ask ask;
  kv_train *of;
  kv_progress progress;
  char doing[80];
} task;

enum { TOKENS = 512, KEEP = 30 };

/* --- what was typed ------------------------------------------------------ */

static void begin(void *self, int argc, char **argv) {
  task *s = self;
  (void)argc, (void)argv;
  s->keep = KEEP;
  s->tokens = TOKENS;
  kv_second_setup(); /* before BLIS is asked for anything */
}

static kv_rc read_rate(task *s, kv_err *e) {
  float rate = 0;
  if (!s->rate_text) return KV_OK;
  if (!kv_text_float(s->rate_text, &rate) || !(rate > 0) || rate > 1)
    return kv_fail(e, KV_USAGE, "--rate %s is no number above 0 and up to 1",
                   s->rate_text);
  s->ask.rate = (double)rate;
  return KV_OK;
}

static kv_rc check(void *self, kv_err *e) {
  static const kv_st_dtype dtype[] = {0, KV_ST_F16, KV_ST_BF16, KV_ST_F32};
  task *s = self;
  const kv_list *words = &s->cells.traces;
  kv_list traces = {words->n - 1, words->item + 1};
  kv_rc rc = kv_trainer_parse(words->item[0], &s->ask.of, &s->ask.params, e);
  if (!rc) rc = read_rate(s, e);
  if (!rc) rc = kv_traces_once("trained on", &traces, &s->hold_out, e);
  if (!rc && traces.n == 0)
    rc = kv_fail(e, KV_USAGE,
                 "there is no trace to train on: kvreplay train %s TRACE... "
                 "-o FILE",
                 s->ask.of->name);
  size_t n = strlen(s->output), end = strlen(".safetensors");
  if (!rc && (n <= end || strcmp(s->output + n - end, ".safetensors")))
    rc = kv_fail(e, KV_USAGE, "call the output NAME.safetensors, not %s",
                 s->output);
  s->ask.traces = traces.n;
  s->ask.path = traces.item;
  s->ask.held = s->hold_out.n;
  s->ask.held_path = s->hold_out.item;
  s->ask.output = s->output;
  s->ask.steps = s->steps;
  s->ask.seed = s->seed;
  s->ask.most = s->tokens;
  s->ask.keep = s->keep;
  if (!rc) s->ask.dtype = s->dtype ? dtype[s->dtype] : s->ask.of->dtype;
  return rc;
}

/* --- work
 * --------------------------------------------------------------------- */

static void tick(void *self, double loss) {
  task *s = self;
  snprintf(s->doing, sizeof s->doing, "%s, loss %.4g", s->ask.of->name, loss);
  kv_progress_add(&s->progress, 1);
}

static void say(const task *s) {
  char note[200];
  if (s->cells.quiet) return;
  if (kv_product_is_plain())
    kv_note("built without BLIS: products by a plain kernel, which is "
            "slower");
  if (!s->of->resumed) return;
  snprintf(note, sizeof note, "%lld of %lld steps were in %s",
           (long long)s->of->resumed, (long long)s->of->steps,
           s->of->checkpoint);
  kv_note(note);
}

static void print_loss(const char *name, int tokens,
                       const kv_train_loss *loss) {
  char show[KV_SHOW];
  if (loss->weight > 0)
    printf("%-24s  %7d  %10.5g  %10.5g\n", kv_show(name, show), tokens,
           loss->loss / loss->weight, loss->without / loss->weight);
  else
    printf("%-24s  %7d  %10s  %10s\n", kv_show(name, show), tokens, "-", "-");
}

static void add(const kv_train_loss *a, kv_train_loss *sum) {
  sum->loss += a->loss;
  sum->weight += a->weight;
  sum->without += a->without;
}

/* What was held out: a line each, and all of them. */
static kv_rc judge(task *s, bool *stopped, kv_err *e) {
  kv_train *x = s->of;
  kv_train_loss all = {0}, one;
  kv_rc rc = KV_OK;
  int tokens = 0;
  if (s->ask.held)
    printf("%-24s  %7s  %10s  %10s\n", "held out", "tokens", "loss", "without");
  for (int i = s->ask.traces; i < x->data.traces && !rc && !*stopped; i++) {
    const kv_trace *t = x->data.trace[i].trace;
    rc = kv_train_judge(x, i, &one, e);
    if (rc) break;
    print_loss(t->name, t->shape.n_tokens, &one);
    add(&one, &all);
    tokens += t->shape.n_tokens;
    *stopped = kv_interrupted();
  }
  if (!rc && s->ask.held > 1) print_loss("all", tokens, &all);
  return rc;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static kv_rc run(task *s, bool *stopped, kv_err *e) {
  kv_train *x = s->of;
  double from = now();
  snprintf(s->doing, sizeof s->doing, "%s", s->ask.of->name);
  kv_progress_start(&s->progress, stderr, s->doing, "steps", x->steps - x->step,
                    s->cells.quiet);
  kv_rc rc = kv_train_run(x, kv_interrupted, stopped, e);
  kv_progress_end(&s->progress);
  if (rc || *stopped) return rc;
  printf("%s: %d traces, %lld tokens, %lld steps; %.1f s for %lld of them, %s, "
         "threads %d, loss %.5g\n",
         s->ask.of->name, x->data.learned, (long long)x->data.tokens,
         (long long)x->steps, now() - from, (long long)(x->steps - x->resumed),
         kv_product_by(), s->ask.threads, kv_train_running(x));
  return KV_OK;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  s->ask.tick = tick;
  s->ask.self = s;
  kv_rc rc = kv_choose_kernels(&s->ask.kernels, e);
  s->ask.threads = kv_choose_threads(s->cells.jobs);
  if (!rc) rc = kv_train_open(&s->ask, &s->of, e);
  if (rc) return rc;
  say(s);
  rc = run(s, stopped, e);
  if (!rc && !*stopped) rc = judge(s, stopped, e);
  return rc || *stopped ? rc : kv_train_write(s->of, e);
}

static void interrupted(void *self) {
  const task *s = self;
  char note[240];
  snprintf(note, sizeof note,
           "interrupted after %lld of %lld steps: repeat the command to go on",
           s->of ? (long long)s->of->step : 0,
           s->of ? (long long)s->of->steps : 0);
  kv_note(note);
}

static void clean(void *self) {
  task *s = self;
  kv_train_close(s->of);
  free(s->ask.params);
}

/* --- the command -------------------------------------------------------- */

static const kv_task task_train = {sizeof(task), begin, check, work,
                                   interrupted,  NULL,  clean};

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    {KV_SLOT_TEXT, "output", 'o', "FILE", AT(output), .use = KV_USE_CREATED,
     .group = "What to train", .must = true,
     .help = "the file to make, NAME.safetensors (required)"},
    {KV_SLOT_LIST, "hold-out", 0, "TRACE", AT(hold_out), .use = KV_USE_READ,
     .help = "a trace that is not trained on: its loss is printed in the end; "
             "may be repeated"},
    {KV_SLOT_COUNT, "steps", 'n', "N", AT(steps), .min = 1, .max = INT_MAX,
     .help = "steps, of one piece each; default some passes over all pieces, "
             "12 for deltakv"},
    {KV_SLOT_COUNT, "tokens", 't', "N", AT(tokens), .min = 2, .max = 1 << 20,
     .help = "tokens of a piece at most (default: 512)"},
    {KV_SLOT_TEXT, "rate", 'r', "X", AT(rate_text),
     .help = "learning rate; default that of the method's paper"},
    {KV_SLOT_WIDE, "seed", 's', "N", AT(seed),
     .help = "of the first weights and the order of pieces (default: 0)"},
    {KV_SLOT_CHOICE, "dtype", 0, "TYPE", AT(dtype),
     .choices = "auto|f16|bf16|f32",
     .help = "of the numbers in the file; auto, the default: f16 for weights, "
             "f32 for tables of heads"},
    {KV_SLOT_COUNT, "keep", 0, "SECONDS", AT(keep), .min = 0, .max = 86400,
     .help = "how often a checkpoint is written to FILE.training (default: 30; "
             "0: after each step)"},
    KV_OPTION_JOBS("threads (default: one a processor), a layer each, which "
                   "never change a number"),
    KV_OPTION_QUIET,
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay train deltakv rec/*.safetensors -o "
     "assets/deltakv.my_model.safetensors --hold-out other.safetensors",
     "a compressor of a model, found beside its traces"},
    {"kvreplay train deltakv:compressor=gelu:stride=20 rec/*.safetensors -o "
     "w.safetensors --steps 20000",
     "two layers each way, fewer references, more steps"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Learns from recorded traces of one model what a method reads from a file. "
    "Traces of the same request should not be among those that results are "
    "reported on.",
    "While it runs FILE.training holds all that is needed to go on: a command "
    "that was interrupted or killed goes on when it is repeated, and ends with "
    "the same weights as one that was not. Weights are the same for any number "
    "of threads, but not on every machine: they depend on the kernel set and "
    "on who multiplies, BLIS or a plain kernel (--version).",
    NULL};

const kv_command kv_command_train = {
    .name = "train",
    .summary = "make the weights or tables that a method reads, from traces",
    .operands = "METHOD TRACE...",
    .words = kv_trainer_name,
    .least = 1,
    .most = INT_MAX,
    .offset = offsetof(task, cells.traces),
    .use = KV_USE_READ,
    .options = options,
    .examples = examples,
    .notes = notes,
    .task = &task_train};
