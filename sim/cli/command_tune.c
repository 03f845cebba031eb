/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay tune`: searches the methods one after the other (tune_round.c) and
 * prints what was found (tune_report.c): one method's front, or the best point
 * of each of several methods.
 */
#include "sim/cli/commands.h"

#include "ref/ground/text.h"
#include "sim/cli/signal.h"
#include "sim/cli/tune.h"
#include "traces/trace/trace.h"
#include <stdlib.h>
#include <string.h>

#define AT(member) .offset = offsetof(kv_tune_options, member)

static const kv_option options[] = {
    KV_OPTION_METHODS(
        "What to tune", "SPEC,...", "all",
        "methods, written as for `kvreplay run`. Of several methods a table "
        "shows the best of each; `all` is every method once"),
    KV_OPTION_BUDGET("BUDGET", "a fixed budget for every method that has one, "
                               "instead of a search: " KV_BUDGETS),
    KV_OPTION_PROMPT_LEN,
    KV_OPTIONS_OBSERVE,
    {KV_SLOT_LIST, "search", 's', "RANGE,...", AT(search_text),
     .group = "What to look for", .common = true,
     .help = "NAME=LOW:HIGH or NAME=LOW:HIGH:STEP: a numeric parameter (of two "
             "methods on a lane kivi.bits) and its range, for every method "
             "that has it; may be repeated. Default: the budget, from one "
             "entry to the longest trace's tokens"},
    {KV_SLOT_TEXT, "least", 0, "MEASURE", AT(least), .common = true,
     .help = "minimize this measure: a key of csv rows, such as bytes.mean, kr "
             "or output_error.p95. output_error means its mean, and mean_bytes "
             "is bytes.mean"},
    {KV_SLOT_TEXT, "most", 0, "MEASURE", AT(most), .common = true,
     .help = "maximize this measure instead, such as needle_share"},
    {KV_SLOT_LIST, "at-most", 0, "MEASURE=X", AT(at_most), .common = true,
     .help = "an upper bound on a measure; may be repeated"},
    {KV_SLOT_LIST, "at-least", 0, "MEASURE=X", AT(at_least), .common = true,
     .help = "a lower bound on a measure; may be repeated"},
    {KV_SLOT_LIST, "hold-out", 0, "TRACE", AT(hold_out), .use = KV_USE_READ,
     .common = true,
     .help = "a trace that is not tuned on; may be repeated. After the search "
             "the front is replayed on it. The best point must meet the bounds "
             "there too"},
    {KV_SLOT_COUNT, "probes", 'n', "N", .min = 1, .max = KV_TUNE_MOST,
     AT(probes), .common = true, .help = "try at most N points (default: 100)"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|jsonl|csv",
     AT(format), .group = "What to print", .common = true,
     .help = "the front on standard output, the best point first, as table "
             "(the default), json, jsonl or csv"},
    KV_OPTION_DB("store the rows of every probe in an SQLite database. Cells "
                 "that it has from this backend are not run again"),
    KV_OPTION_QUIET,
    KV_OPTION_THREADS,
    KV_OPTION_BACKEND(kv_tune_options),
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay tune chat.safetensors -m kivi -s bits=2:4,residual=32:512:32 "
     "--at-most output_error=0.05 --least mean_bytes --db r.db",
     "the fewest bytes with an error of at most 5 %"},
    {"kvreplay tune chat.safetensors -m all --at-least needle_share=0.9 "
     "--least mean_bytes --hold-out other.safetensors --db r.db",
     "for each method, the fewest bytes that keep the needles"},
    {"kvreplay tune a.safetensors b.safetensors -m snapkv -s budget=32:512:8 "
     "--at-most kr=0.3 --least output_error --hold-out c.safetensors",
     "the least error in 30 % of the uncompressed bytes, judged on another "
     "trace"},
    {"kvreplay tune chat.safetensors -m oracle-topp -s p=0.5:1 --at-least "
     "mass=0.9 --least bytes.read -f csv",
     "the front as rows for programs; the best is on standard error"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Tries points of the ranges and replays many in one pass over each trace. "
    "Prints the front: the points that no other point beats in every requested "
    "measure. Then prints the best point as a command line.",
    "With several methods each is searched in turn. The table shows the best "
    "point of each method, the best of all first. A method without a budget "
    "parameter counts as it is. Methods that miss the bounds follow, with "
    "their nearest point. With --hold-out each best point is replayed on those "
    "traces, and the first that meets the bounds there too is the best of all.",
    KV_NOTES_REST,
    "A point is judged by the mean of each measure over the traces. A point "
    "that is refused or fails on a trace, or has no number there, is not "
    "feasible. Bytes of a longer trace weigh more; kr, the share of the "
    "uncompressed bytes, does not.",
    "The search is the same each time. A grid over the whole ranges takes at "
    "most half of the probes. Then each round looks at the neighbors of the "
    "best two points; if it finds nothing better it halves their distance, "
    "down to one step of each range. This promises no global optimum. A step "
    "is the one you typed, or the parameter's own: 1 for whole numbers, "
    "otherwise a power of ten that divides the range into about a hundred.",
    "With --db, repeat an interrupted or killed search to continue it. A "
    "search with more probes or another bound uses the rows that are there.",
    "The exit code is 1 if nothing meets the bounds (the nearest point is "
    "named), if the best does not meet them on the traces of --hold-out (of "
    "several methods: none does), or if a row of the database differs. It is 2 "
    "if no point could run, 3 if all that ran failed or a trace is bad, and 4 "
    "if a backend cannot be used.",
    NULL};

void kv_tune_options_free(kv_tune_options *o) {
  kv_cells_options_free(&o->cells);
  for (int i = 0; i < o->methods; i++) {
    kv_tune_space_free(&o->space[i]);
    free(o->corner[i]);
  }
  free(o->space);
  free(o->corner);
}

/* --- the search ---------------------------------------------------------- */

/* How many methods a list names; "all" counts as all of them. */
static int count(kv_registry *registry, const char *list) {
  int n = 0;
  for (size_t own;; list += own + 1) {
    own = kv_specs_span(list);
    if (own == 3 && !memcmp(list, "all", 3))
      for (int i = 0; registry(i); i++) n++;
    else
      n++;
    if (!list[own]) return n;
  }
}

static kv_rc open_space(kv_registry *registry, size_t n, const char *text,
                        kv_tune_options *o, kv_err *e) {
  char *own = kv_text_copy(n, text);
  if (!own) return kv_no_memory(e, "a specification", n);
  kv_rc rc = kv_tune_space_open(registry, own, &o->space[o->methods++], e);
  free(own);
  return rc;
}

static kv_rc open_spaces(kv_registry *registry, const char *list,
                         kv_tune_options *o, kv_err *e) {
  kv_rc rc = KV_OK;
  for (size_t own; !rc; list += own + 1) {
    own = kv_specs_span(list);
    if (own == 3 && !memcmp(list, "all", 3))
      for (int i = 0; !rc && registry(i); i++) {
        const char *name = registry(i)->name;
        rc = open_space(registry, strlen(name), name, o, e);
      }
    else
      rc = open_space(registry, own, list, o, e);
    if (!list[own]) break;
  }
  return rc;
}

/* Adds a range to each method that has its parameter. */
static kv_rc add_range(const char *text, kv_tune_options *o, kv_err *e) {
  size_t n = strcspn(text, "=");
  bool found = false;
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < o->methods; i++) {
    if (o->methods > 1 && !kv_tune_space_has(&o->space[i], n, text)) continue;
    found = true;
    rc = kv_tune_space_add(&o->space[i], text, e);
  }
  if (rc || found) return rc;
  return kv_fail(e, KV_USAGE,
                 "--search: no method has a parameter %.*s; `kvreplay methods "
                 "NAME` lists a method's parameters",
                 n < 64 ? (int)n : 64, text);
}

static kv_rc add_ranges(const char *list, kv_tune_options *o, kv_err *e) {
  char *text = strdup(list), *rest = text;
  kv_rc rc = text ? KV_OK : kv_no_memory(e, "a range", strlen(list));
  for (char *one; !rc && (one = strsep(&rest, ","));) rc = add_range(one, o, e);
  free(text);
  return rc;
}

/* The methods as typed, each once. */
static kv_rc read_methods(kv_registry *registry, kv_tune_options *o,
                          kv_err *e) {
  const kv_list *list = &o->cells.method_text;
  kv_specs typed = {0};
  kv_rc rc = KV_OK;
  int n = 0;
  for (int i = 0; !rc && i < list->n; i++)
    rc = kv_specs_add(registry, list->item[i], &typed, e);
  kv_specs_free(&typed);
  for (int i = 0; !rc && i < list->n; i++) n += count(registry, list->item[i]);
  if (rc || !n)
    return rc; /* kv_cells_options_read will report that there is none */
  o->space = kv_zalloc((size_t)n, sizeof *o->space);
  o->corner = kv_zalloc((size_t)n, sizeof *o->corner);
  if (!o->space || !o->corner) return kv_no_memory(e, "methods", (size_t)n);
  for (int i = 0; !rc && i < list->n; i++)
    rc = open_spaces(registry, list->item[i], o, e);
  return rc;
}

/* Searches the ranges typed for it or, without any and without -b, the
 * parameter that -b would set. */
static kv_rc read_space(kv_registry *registry, kv_tune_options *o,
                        kv_tune_space *s, kv_err *e) {
  bool knob = !s->axes && !o->cells.budget_text.n && kv_tune_space_knob(s, 1);
  if (!s->axes && o->methods == 1)
    return kv_fail(e, KV_USAGE,
                   "%s has no budget parameter left to search; name one with "
                   "--search NAME=LOW:HIGH",
                   s->specs.spec[0].method->name);
  return knob ? KV_OK : kv_tune_space_check(registry, s, e);
}

static kv_rc read_spaces(kv_registry *registry, kv_tune_options *o, kv_err *e) {
  kv_rc rc = read_methods(registry, o, e);
  for (int i = 0; !rc && o->methods && i < o->search_text.n; i++)
    rc = add_ranges(o->search_text.item[i], o, e);
  for (int i = 0; !rc && i < o->methods; i++)
    rc = read_space(registry, o, &o->space[i], e);
  return rc;
}

static kv_rc read_goal(kv_tune_options *o, kv_err *e) {
  if (!o->least == !o->most)
    return kv_fail(e, KV_USAGE,
                   "name the measure to optimize: --least MEASURE, as in "
                   "--least mean_bytes, or --most MEASURE");
  kv_rc rc = kv_tune_goal_best(&o->goal, o->least ? o->least : o->most,
                               o->least ? 1 : -1, e);
  for (int i = 0; !rc && i < o->at_most.n; i++)
    rc = kv_tune_goal_bound(&o->goal, "--at-most", o->at_most.item[i], 1, e);
  for (int i = 0; !rc && i < o->at_least.n; i++)
    rc = kv_tune_goal_bound(&o->goal, "--at-least", o->at_least.item[i], -1, e);
  return rc;
}

/* Parsed as by `run`, with each searched parameter at the first value of its
 * range: a method whose budget is searched needs no -b. */
static kv_rc read_cells(kv_registry *registry, kv_tune_options *o, kv_err *e) {
  const int at[KV_TUNE_AXES] = {0};
  kv_cells_options as = o->cells;
  for (int i = 0; i < o->methods; i++) {
    o->corner[i] = kv_tune_space_text(&o->space[i], at);
    if (!o->corner[i]) return kv_no_memory(e, "a specification", 1);
  }
  as.method_text = (kv_list){o->methods, (const char **)o->corner};
  kv_rc rc = kv_cells_options_read(registry, &as, e);
  as.method_text = o->cells.method_text;
  o->cells = as;
  return rc;
}

/* --- contradictions ------------------------------------------------------ */

static kv_rc check_budget(const kv_tune_space *s, kv_err *e) {
  for (int i = 0; i < s->axes; i++)
    if (s->axis[i].param == kv_spec_knob(s->specs.spec[0].method))
      return kv_fail(
          e, KV_USAGE,
          "-b sets %s, which --search also tries; leave one of them out",
          s->axis[i].param->name);
  return KV_OK;
}

static kv_rc check_budgets(const kv_tune_options *o, kv_err *e) {
  kv_rc rc = KV_OK;
  if (o->cells.budgets.n > 1)
    return kv_fail(e, KV_USAGE,
                   "tune needs a single budget; give one to -b, or search the "
                   "parameter that it sets");
  for (int i = 0; !rc && i < o->methods && o->cells.budgets.n; i++)
    rc = check_budget(&o->space[i], e);
  return rc;
}

kv_rc kv_tune_options_check(kv_registry *registry, kv_tune_options *o,
                            kv_err *e) {
  const char *name = o->backend_text ? o->backend_text : kv_backend_ref.name;
  if (!o->probes) o->probes = KV_TUNE_PROBES;
  kv_rc rc = read_spaces(registry, o, e);
  if (!rc) rc = read_goal(o, e);
  if (!rc) rc = read_cells(registry, o, e);
  if (!rc) rc = check_budgets(o, e);
  if (!rc) rc = kv_traces_once("tuned on", &o->cells.traces, &o->hold_out, e);
  if (!rc) rc = kv_cells_options_apart(&kv_command_tune, &o->cells, e);
  if (!rc) rc = kv_cells_options_backend(strlen(name), name, &o->backend, e);
  return rc;
}

/* A searched budget without a typed range ends at the longest trace's
 * tokens. */
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
           s->of.db ? "repeat the command: stored results are not run again"
                    : "use --db FILE to continue an interrupted command");
  kv_note(note);
}

/* Called from another thread if a method does not return (sim/cli/signal.h). */
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

static const kv_task task_tune = {sizeof(kv_tuning), begin,    check, work,
                                  interrupted,       conclude, clean};

const kv_command kv_command_tune = {
    KV_COMMAND(tune,
               "find the method or parameters that best meet your bounds"),
    KV_TAKES("TRACE...", 1, INT_MAX, kv_cells_options, traces, KV_USE_READ)};
