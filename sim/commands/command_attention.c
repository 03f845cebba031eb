/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay attention`: what the recorded heads attend to, into a database,
 * from which the page draws it. Nothing is replayed: it belongs to the trace.
 */
#include "sim/commands/inspect.h"

#include "traces/text/text.h"
#include "traces/trace/sparsity.h"
#include <stdio.h>

static size_t size(const kv_trace *t) {
  return (size_t)t->shape.n_kv_heads * sizeof(kv_sparsity);
}

static kv_rc do_layer(const kv_inspect_task *s, const kv_trace *t, int i,
                      void *out, kv_err *e) {
  return kv_sparsity_layer(t, i, s->kernels, s->threads, out, e);
}

static kv_rc has(const kv_inspect_task *s, const kv_digest *identity,
                 const kv_trace *t, bool *there, kv_err *e) {
  return kv_db_has_attention(s->db, identity, t->n_layers, there, e);
}

static kv_rc put(kv_db *db, const kv_digest *identity, const kv_trace *t,
                 const int *layer, const void *found, kv_err *e) {
  return kv_db_put_attention(db, identity, t->n_layers, layer,
                             t->shape.n_kv_heads, found, e);
}

/* Tokens that a row needs, of those that it sees; means over rows of all. */
static void print(const kv_trace *t, const void *found) {
  const kv_sparsity *of = found;
  int64_t rows = 0, critical = 0, seen = 0;
  char a[KV_SHOW];
  for (int i = 0; i < t->n_layers * t->shape.n_kv_heads; i++) {
    rows += of[i].rows;
    critical += of[i].critical;
    seen += of[i].seen;
  }
  if (!rows)
    printf("%s: no row sees more than %d tokens\n", kv_show(t->name, a),
           KV_SPARSITY_FROM);
  else
    printf("%s: 95 %% of the mass of a row needs %.1f of %.1f tokens\n",
           kv_show(t->name, a), (double)critical / (double)rows,
           (double)seen / (double)rows);
}

static const kv_inspection inspection = {"attention", size, NULL, NULL,
                                         do_layer,    has,  put,  print};

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  return kv_inspect(self, &inspection, stopped, e);
}

/* --- the command -------------------------------------------------------- */

static const kv_task task_attention = {
    sizeof(kv_inspect_task), NULL, NULL, work, kv_inspect_interrupted, NULL,
    kv_inspect_clean};

static const kv_option options[] = {KV_OPTIONS_INSPECT, {.slot = KV_SLOT_END}};

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

const kv_command kv_command_attention = KV_COMMAND_OF_TRACES(
    "attention", "what a trace's heads attend to, for the report",
    kv_inspect_task, cells.traces, &task_attention);
