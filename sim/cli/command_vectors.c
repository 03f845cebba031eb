/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay vectors`: opens one cell and writes its steps as vectors.
 */
#include "sim/cli/commands.h"

#include "sim/cli/job.h"
#include "sim/cli/signal.h"
#include "sim/run/look/vectors.h"
#include <stdlib.h>

/* Steps and layers remain text, because their meaning depends on the trace. */
typedef struct task {
  kv_cells_options cells; /* first: sim/cli/options_cells.h; one cell */
  const char *steps, *layers, *dir;
  int format; /* 0: safetensors, 1: raw */
  kv_job of;
} task;

static kv_rc open_cell(kv_job *job, kv_err *e) {
  kv_replay_how how = kv_job_how(job, &kv_backend_ref);
  kv_rc rc = kv_job_open(job, &how, e);
  if (!rc && !job->batch->cell[0].runs)
    rc = kv_fail(e, KV_USAGE, "%s", job->batch->cell[0].result.reason);
  return rc;
}

static kv_rc write(const task *o, kv_cell *cell, bool *stopped, kv_err *e) {
  kv_vectors_ask ask = {.cell = cell,
                        .raw = o->format == 1,
                        .dir = o->dir,
                        .stop = kv_interrupted};
  int *step = NULL, *layer = NULL;
  kv_rc rc = kv_vectors_steps(o->steps ? o->steps : "first,last", &cell->shape,
                              &ask.steps, &step, e);
  if (!rc)
    rc = kv_vectors_layers(o->layers, cell->trace, &ask.layers, &layer, e);
  ask.step = step;
  ask.layer = layer;
  kv_stop_cut(true);
  if (!rc) rc = kv_vectors_write(&ask, stopped, e);
  kv_stop_cut(false);
  free(step);
  free(layer);
  return rc;
}

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((task *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  task *s = self;
  const kv_budgets *b = &s->cells.budgets;
  kv_rc rc = kv_cells_options_read(kv_method_at, &s->cells, e);
  if (rc) return rc;
  if (s->cells.specs.n > 1 || b->n > 1)
    return kv_fail(e, KV_USAGE,
                   "vectors describe one cell; give one method and one budget");
  if (b->n && kv_budget_in_bytes(&b->budget[0]))
    return kv_fail(e, KV_USAGE,
                   "-b %s is a budget in bytes; vectors need entries, as in -b "
                   "512 or -b 20%%",
                   b->budget[0].target);
  return KV_OK;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_rc rc = kv_job_start(&s->cells, false, &s->of, e);
  if (!rc) rc = open_cell(&s->of, e);
  return rc ? rc : write(s, &s->of.batch->cell[0], stopped, e);
}

static void interrupted(void *self) {
  (void)self;
  kv_note("interrupted: nothing was written");
}

static void clean(void *self) {
  task *s = self;
  kv_job_close(&s->of);
  kv_cells_options_free(&s->cells);
}

static const kv_task task_vectors = {sizeof(task), begin, check, work,
                                     interrupted,  NULL,  clean};

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    KV_OPTIONS_CELL("Which cell"),
    {KV_SLOT_TEXT, "steps", 's', "LIST", AT(steps), .group = "What to write",
     .common = true,
     .help = "first, last, a number of tokens seen, or +N for N steps after "
             "the one before (default: first,last)"},
    {KV_SLOT_TEXT, "layers", 'l', "LIST", AT(layers), .common = true,
     .help = "numbers of layers, such as 0,2 (default: all recorded ones)"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "safetensors|raw",
     AT(format), .common = true,
     .help = "safetensors, one file per stage (the default), or raw, one file "
             "per matrix with nothing but its bytes"},
    {KV_SLOT_TEXT, "output", 'o', "DIR", AT(dir), .use = KV_USE_FOLDER,
     .must = true, .common = true, .help = "the folder to create (required)"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay vectors chat.safetensors -m quest:page=16 -b 1024 --steps "
     "first,+17,last --layers 2 -o quest",
     "every stage of a page selection, at three steps of layer 2"},
    {"kvreplay vectors chat.safetensors -m kivi:bits=4 --layers 0 -o kivi",
     "codes, scales and what they decode to"},
    {"kvreplay vectors chat.safetensors -m snapkv -b 20% --steps 512 -o snap",
     "a prompt of 512 tokens: its compression, with scores and choice"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Writes what a kernel reads, computes and decides at the chosen steps, for "
    "tests of kernels. Each stage is one safetensors file: q, k, v, page "
    "bounds, scores, order, chosen or evicted, logits, chunk maxima, sums and "
    "accumulators, out, LSE; and codes, scales and page tables if the method "
    "quantizes. manifest.json has the rule that defines each stage, "
    "manifest.tsv the offset of each matrix. A stage that does not happen at "
    "these steps has no file, for example scores if the budget holds "
    "everything.",
    "A step is the number of tokens seen, the current one included: first is "
    "the prompt's length + 1. The prompt's length itself is the compression "
    "after the prompt alone. The same command writes the same bytes. The "
    "folder appears whole or not at all.",
    NULL};

const kv_command kv_command_vectors = {
    KV_COMMAND(vectors, "write every stage of a method, for tests of kernels"),
    KV_TAKES("TRACE", 1, 1, task, cells.traces, KV_USE_READ)};
