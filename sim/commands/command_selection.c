/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay selection`: how many tokens a share of the probability selects, as
 * adapters see it, before calibration and after, into a database, from which
 * the page draws it.
 */
#include "sim/commands/inspect.h"

#include "sim/inspect/selection.h"
#include "traces/text/text.h"
#include <stdio.h>

static size_t size(const kv_trace *t) {
  return kv_choices_size(t->shape.n_kv_heads);
}

static kv_rc do_layer(const kv_inspect_task *s, const kv_trace *t, int i,
                      void *out, kv_err *e) {
  return kv_choices_layer(t, i, s->kernels, s->threads, out, e);
}

static kv_rc has(const kv_inspect_task *s, const kv_digest *identity,
                 const kv_trace *t, bool *there, kv_err *e) {
  return kv_db_has_selections(s->db, identity, t->n_layers, there, e);
}

static kv_rc put(kv_db *db, const kv_digest *identity, const kv_trace *t,
                 const int *layer, const void *found, kv_err *e) {
  return kv_db_put_selections(db, identity, t->n_layers, layer,
                              t->shape.n_kv_heads, found, e);
}

static const kv_choices *of_layer(const kv_trace *t, const void *found, int i) {
  return (const void *)((const char *)found + (size_t)i * size(t));
}

/* Means over rows of all heads, at 90 %. */
static void print_adapter(const kv_trace *t, const void *found, int adapter) {
  int64_t rows = 0, before = 0, after = 0;
  for (int i = 0; i < t->n_layers; i++) {
    const kv_choices *x = of_layer(t, found, i);
    for (int j = 0; j < t->shape.n_kv_heads * x->rows; j++, rows++) {
      const kv_selected *own = &x->head[j / x->rows]
                                    .row[j % x->rows]
                                    .of[adapter][KV_CHOICES_SHARES - 1];
      before += own->before;
      after += own->after;
    }
  }
  if (rows)
    printf("  %-8s %.1f tokens, calibrated %.1f\n", kv_choices_adapter[adapter],
           (double)before / (double)rows, (double)after / (double)rows);
}

static void print(const kv_trace *t, const void *found) {
  char a[KV_SHOW];
  printf("%s: 90 %% of the probability of a row select\n", kv_show(t->name, a));
  for (int adapter = 0; adapter < KV_CHOICES_ADAPTERS; adapter++)
    print_adapter(t, found, adapter);
}

static const kv_inspection inspection = {"selections", size, NULL, NULL,
                                         do_layer,     has,  put,  print};

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  return kv_inspect(self, &inspection, stopped, e);
}

/* --- the command -------------------------------------------------------- */

static const kv_task task_selection = {
    sizeof(kv_inspect_task), NULL, NULL, work, kv_inspect_interrupted, NULL,
    kv_inspect_clean};

static const kv_option options[] = {KV_OPTIONS_INSPECT, {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay selection traces/tiny/haystack_8.safetensors --db results.db",
     "what calibration does to a bundled trace's selections"},
    {"kvreport html results.db -o report.html", "the page, with its figures"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Of at most 16 rows of each layer and KV head, from token 64 on, the "
    "tokens that hold 60 and 90 % of the probability: of attention itself "
    "(vanilla), of logits pooled like SnapKV's and of R-KV's score, at "
    "temperature 1 and at the one that makes the same number of tokens hold "
    "the same mass. By the parts of hardkv, with nothing dropped; beside it "
    "the log-sum-exp of each row, and maps of which tokens are selected.",
    "R-KV's score compares all keys with each other, four times a row. A trace "
    "that the database has is not computed again.",
    NULL};

const kv_command kv_command_selection = KV_COMMAND_OF_TRACES(
    "selection", "what shares of the probability select, for the report",
    kv_inspect_task, cells.traces, &task_selection);
