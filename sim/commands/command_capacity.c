/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay capacity`: how many users a node serves, by the bytes that each
 * method holds of a request and the memory that a model's weights leave. The
 * parts are in sim/capacity.
 */
#include "sim/commands/commands.h"

#include "sim/capacity/measured.h"
#include "sim/capacity/rows.h"
#include "sim/commands/options_cells.h"
#include "sim/commands/signal.h"
#include "sim/show/row_label.h"
#include "sim/sweep/batch.h"
#include "traces/text/text.h"
#include "traces/text/threads.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 6 };

typedef struct task {
  kv_cells_options cells; /* methods, budgets, db, jobs */
  const char *model, *gpu, *weights_text;
  int gpus, tp, context, output, percent, users, cache, format;
  kv_served served;
  kv_node node;
  int n;
  kv_capacity_row *row; /* [n] */
  kv_row_label *label;  /* [n] their methods */
  int named;            /* methods that were named and have no numbers */
  int numbers;          /* rows that have them */
} task;

static void begin(void *self, int argc, char **argv) {
  task *s = self;
  (void)argc, (void)argv;
  s->gpus = 1;
  s->tp = 0;
  s->output = 1024;
  s->percent = 90;
  s->weights_text = "bf16";
}

/* --- what was typed ------------------------------------------------------- */

static kv_rc take_weights(task *s, kv_err *e) {
  static const char *const names[WEIGHTS] = {"bf16", "fp16", "fp32",
                                             "fp8",  "int8", "int4"};
  static const int halves[WEIGHTS] = {4, 4, 8, 2, 2, 1}; /* of a byte, each */
  char a[KV_SHOW], b[KV_SHOW], *end;
  int i = 0;
  while (i < WEIGHTS && strcmp(names[i], s->weights_text) != 0) i++;
  double bytes = strtod(s->weights_text, &end);
  if (i == WEIGHTS && !*end && end != s->weights_text && bytes >= 0 &&
      bytes < 0x1p62) {
    s->node.weights = (int64_t)bytes;
    return KV_OK;
  }
  if (i == WEIGHTS)
    return kv_fail(e, KV_USAGE,
                   "--weights %s is neither bf16, fp16, fp32, fp8, int8, int4 "
                   "nor a number of bytes (141.1e9)",
                   kv_show(s->weights_text, a));
  if (s->served.parameters == 0)
    return kv_fail(e, KV_USAGE,
                   "how many weights %s has is not known: give their bytes, "
                   "--weights 141.1e9",
                   kv_show(s->model, b));
  s->node.weights = (s->served.parameters * halves[i] + 1) / 2;
  return KV_OK;
}

static kv_rc check_node(const task *s, kv_err *e) {
  int heads = s->served.shape.n_kv_heads;
  char a[KV_SHOW];
  if (s->gpus % s->tp)
    return kv_fail(e, KV_USAGE,
                   "--gpus %d is no multiple of --tp %d: groups of %d devices "
                   "share the model",
                   s->gpus, s->tp, s->tp);
  if (heads % s->tp)
    return kv_fail(e, KV_USAGE,
                   "--tp %d does not divide the %d KV heads of %s: each rank "
                   "holds as many",
                   s->tp, heads, kv_show(s->model, a));
  if (kv_node_room(&s->node) > 0) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "the weights of %s, %.1f GB over --tp %d, leave nothing of "
                 "%d %% of the %.1f GB of %s: take more devices, a greater "
                 "--tp or smaller --weights",
                 kv_show(s->model, a), 1e-9 * (double)s->node.weights, s->tp,
                 s->percent, 1e-9 * (double)s->node.gpu->bytes,
                 s->node.gpu->name);
}

/* Without --tp as many ranks as devices and KV heads have in common. */
static int usual_tp(int gpus, int heads) {
  int tp = gpus;
  while (gpus % tp || heads % tp) tp--;
  return tp;
}

static kv_rc check(void *self, kv_err *e) {
  task *s = self;
  return kv_cells_options_read(kv_method_at, &s->cells, e);
}

static kv_rc prepare(task *s, kv_err *e) {
  kv_rc rc = kv_served_open(s->model, &s->served, e);
  if (!rc) rc = kv_gpu_find(s->gpu, &s->node.gpu, e);
  if (rc) return rc;
  if (!s->tp) s->tp = usual_tp(s->gpus, s->served.shape.n_kv_heads);
  s->node.gpus = s->gpus;
  s->node.tp = s->tp;
  s->node.percent = s->percent;
  s->node.decode = s->users;
  if (s->cache) s->served.shape.dtype = (kv_dtype)(s->cache - 1);
  rc = take_weights(s, e);
  s->node.active = s->served.active;
  if (!s->node.active) s->node.active = s->node.weights / 2;
  if (!rc) rc = check_node(s, e);
  int budgets = s->cells.budgets.n ? s->cells.budgets.n : 1;
  size_t most = (size_t)(s->cells.specs.n * budgets);
  s->row = kv_zalloc(most, sizeof *s->row);
  s->label = kv_zalloc(most, sizeof *s->label);
  if (rc || (s->row && s->label)) return rc;
  return kv_no_memory(e, "rows", most * sizeof *s->row);
}

/* --- rows ----------------------------------------------------------------- */

/* What the database's rows say: all of it or, where lengths have said what is
 * stored (lengths not NULL), what is read. */
static kv_rc measure(task *s, const kv_lengths *ask, const kv_stored *lengths,
                     kv_capacity_row *r, kv_err *e) {
  kv_stored *found;
  int n;
  kv_rc rc = kv_measured_read(s->cells.db, ask, &n, &found, e);
  char a[KV_SHOW];
  if (!rc && n && lengths) {
    kv_stored both = *lengths;
    both.read = found[(n - 1) / 2].read;
    both.attended = found[(n - 1) / 2].attended;
    kv_capacity_take(&s->node, ask, &both, &r->at);
    r->reads = n;
  } else if (!rc && n) {
    *r->why = 0;
    kv_capacity_spread(&s->node, ask, n, found, r);
  } else if (!rc && !lengths) {
    snprintf(r->why, sizeof r->why,
             "needs traces: %s has no row of it with this budget",
             kv_show(s->cells.db, a));
  }
  free(found);
  return rc;
}

static kv_rc fill_row(task *s, const kv_lengths *ask, kv_capacity_row *r,
                      kv_err *e) {
  kv_stored stored;
  kv_err why = {0};
  kv_rc rc = kv_lengths_replay(ask, &stored, &why);
  if (rc && rc != KV_REFUSED) return kv_fail(e, rc, "%s", why.text);
  if (rc) snprintf(r->why, sizeof r->why, "%s", why.text);
  if (!rc) kv_capacity_take(&s->node, ask, &stored, &r->at);
  if ((rc || isnan(stored.read)) && s->cells.db)
    return measure(s, ask, rc ? NULL : &stored, r, e);
  return KV_OK;
}

/* What a method is called: its name and what differs from its defaults. */
static kv_rc name(const kv_spec *spec, kv_row_label *out, kv_err *e) {
  kv_result r = {.method = spec->method->name, .spec = kv_spec_text(spec)};
  if (!r.spec) return kv_no_memory(e, "a row", sizeof r);
  kv_rc rc = kv_row_label_make(&r, out, e);
  free(r.spec);
  return rc;
}

static kv_rc add_row(task *s, const kv_spec *spec, const kv_budget *b,
                     kv_err *e) {
  kv_capacity_row *r = &s->row[s->n];
  const kv_lengths ask = {.model = &s->served,
                          .context = s->context,
                          .output = s->output,
                          .spec = spec,
                          .budget = b,
                          .tp = s->tp,
                          .threads = s->cells.jobs,
                          .stop = kv_interrupted};
  kv_rc rc = name(spec, &s->label[s->n], e);
  if (rc) return rc;
  *r = (kv_capacity_row){.method = s->label[s->n++].full,
                         .budget = b ? b->target : ""};
  rc = fill_row(s, &ask, r, e);
  s->numbers += !*r->why;
  s->named += *r->why && !spec->of_all;
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  const kv_budgets *all = &s->cells.budgets;
  int budgets = all->n ? all->n : 1;
  if (!s->cells.jobs) s->cells.jobs = omp_get_max_threads();
  s->cells.jobs = kv_threads_can(s->cells.jobs);
  kv_rc rc = prepare(s, e);
  kv_stop_watch();
  for (int i = 0; !rc && i < s->cells.specs.n; i++)
    for (int j = 0; !rc && j < budgets; j++) {
      const kv_spec *spec = &s->cells.specs.spec[i];
      const kv_budget *b = NULL;
      if (!kv_batch_asks(spec, all, j, &b)) continue;
      kv_stop_cut(true);
      rc = add_row(s, spec, b, e);
      kv_stop_cut(false);
    }
  kv_stop_unwatch();
  if (rc && kv_interrupted()) *stopped = true;
  if (rc) return rc;
  const kv_lengths ask = {
      .model = &s->served, .context = s->context, .output = s->output};
  kv_capacity_print((kv_capacity_format)s->format, &s->node, &ask, s->n,
                    s->row);
  return KV_OK;
}

static int conclude(void *self) {
  const task *s = self;
  if (s->numbers == 0) return KV_USAGE;
  return s->named ? KV_INPUT : KV_OK;
}

static void clean(void *self) {
  task *s = self;
  kv_cells_options_free(&s->cells);
  kv_served_close(&s->served);
  for (int i = 0; i < s->n; i++) kv_row_label_free(&s->label[i]);
  free(s->label);
  free(s->row);
}

/* --- the command ---------------------------------------------------------- */

static const kv_task task_capacity = {.size = sizeof(task),
                                      .begin = begin,
                                      .check = check,
                                      .work = work,
                                      .conclude = conclude,
                                      .free = clean};

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    {KV_SLOT_TEXT, "model", 'M', "MODEL", .words = kv_served_name, AT(model),
     .must = true, .group = "Who is served",
     .help = "a model of the table of `kvtrace plan --help`, a config.json or "
             "its folder (required)"},
    {KV_SLOT_COUNT, "context", 'c', "N", .min = 1, .max = 1 << 22, AT(context),
     .must = true, .help = "tokens of each user's prompt (required)"},
    {KV_SLOT_COUNT, "output", 'o', "N", .min = 1, .max = 1 << 20, AT(output),
     .help = "tokens decoded after it (default 1024)"},
    {KV_SLOT_CHOICE, "cache", 0, "TYPE", .choices = "model|F16|BF16|F32",
     AT(cache),
     .help = "type of K and V as they come: the model's own (the default), "
             "F16, BF16 or F32"},
    KV_OPTION_METHODS("By which method", "SPEC,...", "all",
                      "methods, as `kvreplay run` takes them"),
    KV_OPTION_BUDGET(
        "LIST",
        "budgets for every method that has one: 512, 20% of the "
        "prompt, ratio:0.8, or bytes (mean:20%), for which each method's "
        "value is searched"),
    {KV_SLOT_TEXT, "gpu", 'g', "NAME", .words = kv_gpu_name, AT(gpu),
     .must = true, .group = "On what", .help = "the device (required)"},
    {KV_SLOT_COUNT, "gpus", 0, "N", .min = 1, .max = 4096, AT(gpus),
     .help = "devices of the node (default 1)"},
    {KV_SLOT_COUNT, "tp", 0, "N", .min = 1, .max = 4096, AT(tp),
     .help =
         "devices that share the model's heads (tensor parallelism; "
         "default: as many as possible); each such group serves for itself"},
    {KV_SLOT_TEXT, "weights", 'w', "TYPE",
     .choices = "bf16|fp16|fp32|fp8|int8|int4", AT(weights_text),
     .help = "type of the model's weights: bf16 (the default), fp16, fp32, "
             "fp8, int8, int4, or their bytes (141.1e9)"},
    {KV_SLOT_COUNT, "percent", 0, "N", .min = 1, .max = 100, AT(percent),
     .help = "of each device's memory that weights and caches may take "
             "(default 90, as vLLM's gpu_memory_utilization)"},
    {KV_SLOT_COUNT, "users", 0, "N", .min = 1, .max = 1 << 24, AT(users),
     .help = "tokens/s while so many decode (default: as many as fit)"},
    KV_OPTION_DB("rows of `kvreplay run`, for methods whose bytes depend on "
                 "traces: the middle of its traces and, in brackets, those at "
                 "10 and 90 %"),
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|csv|json",
     AT(format), .group = "What to print",
     .help = "table (the default), csv or json; these have exact bytes, and "
             "those of the tables of a user's pages, as LeanKV's are"},
    KV_OPTION_JOBS("threads (default: one a processor), which never change a "
                   "number"),
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay capacity --model llama-3.1-70b --gpu h100-80g --gpus 8 "
     "--context 131072 -m dense,snapkv,streamingllm -b 20%,4096",
     "users of a node of eight, by method and budget"},
    {"kvreplay capacity --model ./config.json --weights fp8 --gpu l40 "
     "--context 32768 -m dense,snapkv,tova -b 20% --db runs.db",
     "any model; where data decides, by the traces of a database"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Where lengths decide what a method stores, lengths are replayed, and the "
    "bytes are those of a run, to the byte. Where data decides, rows of --db "
    "give shares of dense, which are taken to the model; without rows the line "
    "says that it needs traces. The prompt of every layer is read: at 131,072 "
    "tokens quant and kivi, which code each row, take minutes, and rkv, which "
    "compares all keys with all, hours: name methods in place of all.",
    "GB a user: after a compression, at the decode step with most; in "
    "prefill: the most at any time, the prompt before it is compressed "
    "included, one layer after another. Users: floor((percent x memory - "
    "weights / tp - (prefill - steady)) / steady) on the fullest rank, so that "
    "one user at a time may be in its prefill; codes: the same of K and V or "
    "their codes alone, without columns, side memory and tables. No memory is "
    "set aside for activations but what --percent leaves.",
    "GB a step: bytes read and scanned by one user's decode step. tokens/s is "
    "a roofline: a step reads all weights once and every user's cache at the "
    "memory's full bandwidth, or computes at the device's full BF16 speed, "
    "whichever takes longer; binds says which. No communication, launch or "
    "scheduling is counted: it is what no engine can be above. Numbers of "
    "devices and models with their sources: sim/capacity/gpus.csv and "
    "traces/trace/models.csv.",
    NULL};

const kv_command kv_command_capacity = {.name = "capacity",
                                        .summary = "how many users a node of "
                                                   "GPUs serves",
                                        .options = options,
                                        .examples = examples,
                                        .notes = notes,
                                        .task = &task_capacity};
