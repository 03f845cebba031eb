/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay attention`: what the recorded heads attend to, into a database,
 * from which the page draws it. Nothing is replayed: it belongs to the trace.
 */
#include "sim/commands/commands.h"

#include "sim/commands/options_cells.h"
#include "sim/commands/signal.h"
#include "sim/db/db.h"
#include "traces/text/progress.h"
#include "traces/text/text.h"
#include "traces/trace/spread.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct task {
  kv_cells_options cells; /* of these traces, db, jobs and quiet */
  const kv_kernels *kernels;
  kv_db *db;
  kv_progress progress;
  int threads;
} task;

/* All layers of one trace, or *stopped. */
static kv_rc take_layers(task *s, const kv_trace *t, kv_spread *of, int *layer,
                         bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  kv_progress_start(&s->progress, stderr, "attention", "layers", t->n_layers,
                    s->cells.quiet);
  for (int i = 0; i < t->n_layers && !rc && !*stopped; i++) {
    layer[i] = t->layer[i].data.layer;
    rc = kv_spread_layer(t, i, s->kernels, s->threads,
                         of + i * t->shape.n_kv_heads, e);
    kv_trace_release_layer(t, i);
    kv_progress_add(&s->progress, 1);
    *stopped = kv_interrupted();
  }
  kv_progress_end(&s->progress);
  return rc;
}

/* Tokens that a row needs, of those that it sees; means over rows of all. */
static void print(const kv_trace *t, const kv_spread *of) {
  int64_t rows = 0, critical = 0, seen = 0;
  char a[KV_SHOW];
  for (int i = 0; i < t->n_layers * t->shape.n_kv_heads; i++) {
    rows += of[i].rows;
    critical += of[i].critical;
    seen += of[i].seen;
  }
  if (!rows)
    printf("%s: no row sees more than %d tokens\n", kv_show(t->name, a),
           KV_SPREAD_FROM);
  else
    printf("%s: 95 %% of the mass of a row needs %.1f of %.1f tokens\n",
           kv_show(t->name, a), (double)critical / (double)rows,
           (double)seen / (double)rows);
}

static kv_rc measure(task *s, const kv_trace *t, const kv_digest *identity,
                     bool *stopped, kv_err *e) {
  int heads = t->shape.n_kv_heads;
  size_t n = (size_t)t->n_layers * (size_t)heads;
  kv_spread *of = kv_zalloc(n, sizeof *of);
  int *layer = kv_zalloc((size_t)t->n_layers, sizeof *layer);
  kv_rc rc = of && layer ? take_layers(s, t, of, layer, stopped, e)
                         : kv_no_memory(e, "classes of tokens", n * sizeof *of);
  if (!rc && !*stopped)
    rc = kv_db_put_attention(s->db, identity, t->n_layers, layer, heads, of, e);
  if (!rc && !*stopped) print(t, of);
  free(of);
  free(layer);
  return rc;
}

static kv_rc do_trace(task *s, const char *path, bool *stopped, kv_err *e) {
  kv_trace *t = NULL;
  kv_db_trace row = {.path = path};
  bool has = false;
  char a[KV_SHOW];
  kv_rc rc = kv_trace_open(path, &t, e);
  if (!rc) rc = kv_trace_identity(t, &row.identity, e);
  if (!rc) {
    row.name = t->name;
    row.shape = &t->shape;
    rc = kv_db_put_trace(s->db, &row, e);
  }
  if (!rc)
    rc = kv_db_has_attention(s->db, &row.identity,
                             t->n_layers * t->shape.n_kv_heads, &has, e);
  if (!rc && has)
    printf("%s: there already\n", kv_show(t->name, a));
  else if (!rc)
    rc = measure(s, t, &row.identity, stopped, e);
  kv_trace_close(t);
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_rc rc = kv_choose_kernels(&s->kernels, e);
  if (!rc) rc = kv_db_open(s->cells.db, &s->db, e);
  if (rc) return rc;
  s->threads = kv_choose_threads(s->cells.jobs);
  for (int i = 0; i < s->cells.traces.n && !rc && !*stopped; i++)
    rc = do_trace(s, s->cells.traces.item[i], stopped, e);
  return rc;
}

static void interrupted(void *self) {
  (void)self;
  kv_note("interrupted: traces that were finished are in the database");
}

static void clean(void *self) { kv_db_close(((task *)self)->db); }

/* --- the command -------------------------------------------------------- */

static const kv_task task_attention = {sizeof(task), NULL, NULL, work,
                                       interrupted,  NULL, clean};

static const kv_option options[] = {
    {KV_SLOT_TEXT, "db", 'd', "FILE", .offset = offsetof(task, cells.db),
     .group = "Where to", .use = KV_USE_KEPT, .must = true,
     .help = "the database that gets it, made where there is none (required)"},
    KV_OPTION_JOBS("threads (default: one a processor), which never change a "
                   "number"),
    KV_OPTION_QUIET,
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay attention traces/tiny/*.safetensors --db results.db",
     "what the heads of the bundled traces attend to"},
    {"kvreport html results.db -o report.html",
     "the page, with two more figures"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Computes the attention of every recorded row and keeps, for each layer "
    "and KV head, how many tokens 95 % of a row's mass needs, and how many "
    "tokens have which score (mean probability) and which norm of their value, "
    "in thirds of a power of ten. Costs the logits of all rows; a trace that "
    "the database has is not computed again.",
    NULL};

const kv_command kv_command_attention = {
    .name = "attention",
    .summary = "what a trace's heads attend to, for the report",
    .operands = "TRACE...",
    .least = 1,
    .most = INT_MAX,
    .offset = offsetof(task, cells.traces),
    .use = KV_USE_READ,
    .options = options,
    .examples = examples,
    .notes = notes,
    .task = &task_attention};
