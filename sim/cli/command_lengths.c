/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay lengths`: what each method stores of one request of a model, as
 * JSON. `kvreplay capacity`, a program of the Python package, runs it and
 * computes from the bytes how many users fit on a node. The parts are in
 * sim/cli/capacity.
 */
#include "sim/cli/commands.h"

#include "ref/ground/json.h"
#include "ref/ground/text.h"
#include "ref/ground/threads.h"
#include "ref/pages/geometry.h"
#include "ref/pages/pages.h"
#include "sim/cli/capacity/measured.h"
#include "sim/cli/options_cells.h"
#include "sim/cli/show/row_label.h"
#include "sim/cli/signal.h"
#include "sim/run/sweep/batch.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

typedef struct task {
  kv_cells_options cells; /* methods, budgets, db, jobs */
  const char *model;
  int tp, context, output;
  kv_served served;
  kv_json out;
} task;

static void begin(void *self, int argc, char **argv) {
  task *s = self;
  (void)argc, (void)argv;
  s->tp = 1;
  s->context = s->output = 1024;
  s->out.out = stdout;
}

static kv_rc check(void *self, kv_err *e) {
  task *s = self;
  if (s->cells.method_text.n == 0) return KV_OK;
  return kv_cells_options_read(kv_method_at, &s->cells, e);
}

/* --- the model ------------------------------------------------------------ */

/* Bytes of one user's page tables in LeanKV's unified pages: an entry of 32
 * bits for each page, as if all tokens of a lane were in its high tier, K8V4 (a
 * lane's low pages are entered from the table's other end). 0: vectors of this
 * length have no page. */
static int64_t page_tables(const task *s) {
  const kv_shape *m = &s->served.shape;
  const kv_page_config high = {{8, 4}, {1, 1}};
  kv_page_token token = kv_page_token_of(m->d, m->d_v, &high);
  int64_t page = kv_page_bytes(m->d, m->d_v);
  if (page == 0) return 0;
  int32_t tokens[KV_TIERS] = {kv_page_map_of(page, &token).tokens, 0};
  int64_t entries = kv_pages_table(KV_PAGES_PAPER, s->context + s->output,
                                   tokens, tokens[KV_HIGH]);
  return 4 * entries * s->served.n_layers * m->n_kv_heads;
}

static void put_list(kv_json *j, const char *key, int n, const int *x) {
  kv_json_open(j, key, '[');
  for (int i = 0; i < n; i++) kv_json_integer(j, NULL, x[i]);
  kv_json_close(j, ']');
}

static void put_model(task *s) {
  const kv_served *m = &s->served;
  kv_json *j = &s->out;
  kv_json_open(j, "model", '{');
  kv_json_integer(j, "layers", m->shape.n_layers);
  kv_json_integer(j, "heads", m->shape.n_heads);
  kv_json_integer(j, "kv_heads", m->shape.n_kv_heads);
  kv_json_integer(j, "d", m->shape.d);
  kv_json_integer(j, "d_v", m->shape.d_v);
  kv_json_text(j, "type", kv_served_types[m->shape.dtype]);
  put_list(j, "layer", m->n_layers, m->layer);
  put_list(j, "window", m->n_layers, m->window);
  kv_json_integer(j, "parameters", m->weights.all);
  kv_json_integer(j, "active", m->weights.active);
  kv_json_integer(j, "embedding", m->weights.embedding);
  kv_json_integer(j, "experts", m->weights.experts);
  kv_json_integer(j, "routed", m->weights.routed);
  kv_json_close(j, '}');
}

/* --- rows ----------------------------------------------------------------- */

static void put_stored(kv_json *j, const char *key, const kv_stored *x) {
  kv_json_open(j, key, '{');
  kv_json_integer(j, "bytes", x->all.steady);
  kv_json_integer(j, "peak", x->all.peak);
  kv_json_integer(j, "codes", x->codes.steady);
  kv_json_integer(j, "codes_peak", x->codes.peak);
  kv_json_real(j, "read", x->read);
  kv_json_real(j, "attended", x->attended);
  kv_json_integer(j, "fullest", x->fullest);
  kv_json_integer(j, "of", x->of);
  kv_json_close(j, '}');
}

/* Writes estimates from the database's rows or, without any, why not. */
static kv_rc put_measured(task *s, const kv_lengths *ask, bool lengths,
                          kv_err *why, kv_err *e) {
  kv_stored *found = NULL;
  int n = 0;
  char a[KV_SHOW];
  kv_rc rc = KV_OK;
  if (s->cells.db) rc = kv_measured_read(s->cells.db, ask, &n, &found, e);
  if (!rc && s->cells.db && !n && !lengths)
    kv_fail(why, KV_REFUSED, "needs traces: %s has no row with this budget",
            kv_show(s->cells.db, a));
  kv_json_open(&s->out, "measured", '[');
  for (int i = 0; i < n; i++) put_stored(&s->out, NULL, &found[i]);
  kv_json_close(&s->out, ']');
  free(found);
  if (!lengths && !n) kv_json_text(&s->out, "why", why->text);
  return rc;
}

static kv_rc put_numbers(task *s, const kv_lengths *ask, kv_err *e) {
  kv_stored x;
  kv_err why = {0};
  if (*s->served.refused) {
    kv_json_text(&s->out, "why", s->served.refused);
    return KV_OK;
  }
  kv_rc rc = kv_lengths_replay(ask, &x, &why);
  if (rc && rc != KV_REFUSED) return kv_fail(e, rc, "%s", why.text);
  if (!rc) put_stored(&s->out, "lengths", &x);
  if (!rc && !isnan(x.read)) return KV_OK;
  return put_measured(s, ask, !rc, &why, e);
}

/* The row shows its method as the name and the parameters that differ from
 * their defaults. */
static kv_rc add_row(task *s, const kv_spec *spec, const kv_budget *b,
                     kv_err *e) {
  kv_result r = {.method = spec->method->name, .spec = kv_spec_text(spec)};
  kv_row_label label = {0};
  const kv_lengths ask = {.model = &s->served,
                          .context = s->context,
                          .output = s->output,
                          .spec = spec,
                          .budget = b,
                          .tp = s->tp,
                          .threads = s->cells.jobs,
                          .stop = kv_interrupted};
  kv_rc rc = r.spec ? kv_row_label_make(&r, &label, e)
                    : kv_no_memory(e, "a row", sizeof r);
  kv_json_open(&s->out, NULL, '{');
  if (!rc) kv_json_text(&s->out, "method", label.full);
  kv_json_text(&s->out, "budget", b ? b->target : "");
  kv_json_integer(&s->out, "named", !spec->of_all);
  if (!rc) rc = put_numbers(s, &ask, e);
  kv_json_close(&s->out, '}');
  kv_row_label_free(&label);
  free(r.spec);
  return rc;
}

static kv_rc add_rows(task *s, kv_err *e) {
  const kv_budgets *all = &s->cells.budgets;
  int budgets = all->n ? all->n : 1;
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < s->cells.specs.n; i++)
    for (int j = 0; !rc && j < budgets; j++) {
      const kv_spec *spec = &s->cells.specs.spec[i];
      const kv_budget *b = NULL;
      if (!kv_batch_asks(spec, all, j, &b)) continue;
      kv_stop_cut(true);
      rc = add_row(s, spec, b, e);
      kv_stop_cut(false);
    }
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  if (!s->cells.jobs) s->cells.jobs = omp_get_max_threads();
  s->cells.jobs = kv_threads_can(s->cells.jobs);
  kv_rc rc = kv_served_open(s->model, &s->served, e);
  if (rc) return rc;
  kv_stop_watch();
  kv_json_open(&s->out, NULL, '{');
  put_model(s);
  kv_json_integer(&s->out, "page_tables", page_tables(s));
  kv_json_open(&s->out, "rows", '[');
  rc = add_rows(s, e);
  kv_json_close(&s->out, ']');
  if (!rc) kv_json_close(&s->out, '}'); /* only a complete document is closed */
  putchar('\n');
  kv_stop_unwatch();
  if (rc && kv_interrupted()) *stopped = true;
  return rc;
}

static void clean(void *self) {
  task *s = self;
  kv_cells_options_free(&s->cells);
  kv_served_close(&s->served);
}

static const kv_task task_lengths = {.size = sizeof(task),
                                     .begin = begin,
                                     .check = check,
                                     .work = work,
                                     .free = clean};

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    {KV_SLOT_TEXT, "model", 'M', "MODEL", .words = kv_served_name, AT(model),
     .must = true, .group = "Which request", .common = true,
     .help = "a model listed by `kvtrace plan --help`, or a JSON file with the "
             "keys of `model` in the output (required)"},
    {KV_SLOT_COUNT, "context", 'c', "N", .min = 1, .max = 1 << 22, AT(context),
     .common = true, .help = "tokens of the prompt (default 1024)"},
    {KV_SLOT_COUNT, "output", 'o', "N", .min = 1, .max = 1 << 20, AT(output),
     .common = true, .help = "tokens decoded after it (default 1024)"},
    {KV_SLOT_COUNT, "tp", 0, "N", .min = 1, .max = 4096, AT(tp), .common = true,
     .help = "ranks that divide the KV heads (default 1)"},
    KV_OPTION_METHODS("Which methods", "SPEC,...", "all",
                      "methods, written as for `kvreplay run`; without any, "
                      "only the model is printed"),
    KV_OPTION_BUDGET("LIST", "budgets for every method that has one, written "
                             "as for `kvreplay run`"),
    KV_OPTION_DB("rows of `kvreplay run`, for methods whose bytes depend on "
                 "traces"),
    KV_OPTION_JOBS("threads (default: one per processor), which never change a "
                   "number"),
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay lengths --model llama-3.1-8b --context 8192 -m dense,snapkv "
     "-b 20%",
     "bytes that one request holds, by method"},
    {NULL, NULL}};

static const char *const notes[] = {
    "`kvreplay capacity` calls this command, and adds users and speed. A row "
    "has bytes of all ranks: what one request "
    "holds after a compression, at the decode step with the most (bytes); the "
    "most at any time (peak); K and V or their codes alone (codes); and the "
    "mean read by a decode step. fullest / of is the share of the fullest "
    "rank. The source is lengths, a replay of lengths, or measured, the rows "
    "of --db in the order of their bytes. Without either, why has the reason. "
    "named is 0 for methods that `all` stands for.",
    NULL};

const kv_command kv_command_lengths = {
    KV_COMMAND(lengths, "bytes that one request holds, from lengths alone")};
