/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay methods [NAME]`: lists the registry for people and programs. JSON
 * is a list of objects, with one element if a name is given. Methods that need
 * a file (replay, and plugins) have their own heading and are in the JSON only
 * if named.
 */
#include "sim/cli/commands.h"

#include "ref/formats/named.h"
#include "ref/ground/json.h"
#include "sim/ask/door.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include "sim/cli/options_cells.h"
#include "sim/cli/sheet/sheet.h"
#include "sim/cli/show/bibtex.h"
#include "sim/cli/show/rows.h"
#include "sim/cli/signal.h"
#include "traces/option/help.h"
#include <stdlib.h>
#include <string.h>

typedef struct task {
  kv_list names;
  bool bibtex, engine;
  int format;     /* a kv_sheet_form */
  const char *db; /* of --engine; NULL: none */
} task;

static const char *const kinds[] = {
    [KV_INT] = "integer",   [KV_REAL] = "real", [KV_SHARE] = "share",
    [KV_CHOICE] = "choice", [KV_TEXT] = "text", [KV_FILE] = "file"};

/* What a larger value of a knob means; NULL: -b does not set it. */
static const char *const knobs[] = {[KV_KNOB_ENTRIES] = "entries",
                                    [KV_KNOB_MORE] = "more",
                                    [KV_KNOB_LESS] = "less",
                                    [KV_KNOB_RESOLVED] = "entries"};

static void attribute(bool colour, const char *code) {
  if (colour) printf("\033[%sm", code);
}

static int widest(kv_registry *registry, int width) {
  for (int i = 0; registry(i); i++) {
    int n = (int)strlen(registry(i)->name);
    if (n > width) width = n;
  }
  return width;
}

static void list(kv_registry *registry, int width, bool colour) {
  char title[512];
  for (int i = 0; registry(i); i++) {
    const kv_method *m = registry(i);
    snprintf(title, sizeof title, "%s%s", m->title,
             kv_method_ref_only(m) ? " (ref only)" : "");
    attribute(colour, "1");
    printf("%-*s  ", width, m->name);
    attribute(colour, "0");
    kv_help_wrap(stdout, width + 2, width + 2, title);
  }
}

static void tell(const kv_err *why) { kv_note(why->text); }

static void list_all(bool colour) {
  kv_door_open_all(tell);
  int width = widest(kv_door_at, widest(kv_method_at, 4));
  list(kv_method_at, width, colour);
  fputc('\n', stdout);
  kv_help_wrap(stdout, 0, 0,
               "two on one lane, a selection and a format for what it keeps: "
               "snapkv+kivi:bits=4, snapkv+int4; " KV_NAMED_LISTED
               "k8v4 and e4m3-int4 "
               "are quant by the names of its formats");
  puts("\nmethods that need a file, and are not part of all:");
  list(kv_method_door_at, width, colour);
  list(kv_door_at, width, colour);
  attribute(colour, "1");
  printf("%-*s  ", width, "./NAME.so");
  attribute(colour, "0");
  kv_help_wrap(stdout, width + 2, width + 2,
               "plugins: `kvreplay new NAME` writes one; a plugin in a folder "
               "of KVREPLAY_PLUGINS can be given by name");
}

static void show_param(const kv_param *p, bool colour) {
  char range[KV_TEXT_MAX];
  kv_param_range(p, range);
  attribute(colour, "1");
  printf("  %s", p->name);
  attribute(colour, "0");
  printf("  %s%s%s", range, p->unit ? " " : "", p->unit ? p->unit : "");
  if (p->knob == KV_KNOB_ENTRIES) {
    fputs("  (set by -b)\n      ", stdout);
  } else if (p->knob == KV_KNOB_RESOLVED) {
    fputs("  (set by -b; otherwise computed when a run opens)\n      ", stdout);
  } else if (p->knob) {
    printf("  (default %s; -b in bytes searches it in steps of %.6g)\n      ",
           p->fallback, p->grid > 0 ? p->grid : 1);
  } else if (p->fallback) {
    printf("  (default %s)\n      ", p->fallback);
  } else {
    fputs("  (default computed when a run opens)\n      ", stdout);
  }
  kv_help_wrap(stdout, 6, 6, p->help);
}

static void show(const kv_method *m, bool colour) {
  attribute(colour, "1");
  fputs(m->name, stdout);
  attribute(colour, "0");
  fputs("  ", stdout);
  kv_help_wrap(stdout, 4, (int)strlen(m->name) + 2, m->title);
  fputs("paper: ", stdout);
  kv_help_wrap(stdout, 7, 7, m->paper);
  printf("revision: %d\n", m->revision);
  if (kv_door_file(m)) printf("plugin: %s\n", kv_door_file(m));
  if (kv_method_ref_only(m)) puts("backend: ref only (no CUDA twin)");
  puts(kv_params_count(m->params) ? "parameters:" : "no parameters");
  for (const kv_param *p = m->params; p && p->name; p++) show_param(p, colour);
  fputs("of every method: ", stdout);
  kv_help_wrap(stdout, 2, 17,
               "windowed=leave|compress, whether it compresses layers with a "
               "sliding window; prefill=whole|N, chunked prefill in chunks of "
               "N tokens");
}

/* The default, as in the parameters of a row. */
static void fallback(kv_json *j, const kv_param *p) {
  if (p->fallback == NULL || p->kind >= KV_CHOICE) {
    kv_json_text_or_null(j, "default", p->fallback);
  } else {
    kv_json_raw(j, "default", p->fallback);
  }
}

static void limit(kv_json *j, const char *key, const kv_param *p, double x) {
  if (p->kind >= KV_CHOICE) {
    kv_json_null(j, key);
  } else if (p->kind == KV_INT) {
    kv_json_integer(j, key, (int64_t)x);
  } else {
    kv_json_real(j, key, x);
  }
}

static void param_json(kv_json *j, const kv_param *p) {
  char range[KV_TEXT_MAX];
  kv_param_range(p, range);
  kv_json_open(j, NULL, '{');
  kv_json_text(j, "name", p->name);
  kv_json_text(j, "kind", kinds[p->kind]);
  fallback(j, p);
  kv_json_text(j, "range", range);
  limit(j, "min", p, p->min);
  limit(j, "max", p, p->max);
  kv_json_text_or_null(j, "choices", p->kind == KV_CHOICE ? p->choices : NULL);
  kv_json_text_or_null(j, "unit", p->unit);
  kv_json_text_or_null(j, "knob", knobs[p->knob]);
  if (p->knob)
    kv_json_real(j, "grid", p->grid > 0 ? p->grid : 1);
  else
    kv_json_null(j, "grid");
  kv_json_text(j, "help", p->help);
  kv_json_close(j, '}');
}

static void method_json(kv_json *j, const kv_method *m) {
  kv_json_open(j, NULL, '{');
  kv_json_text(j, "name", m->name);
  kv_json_text(j, "title", m->title);
  kv_json_text(j, "paper", m->paper);
  kv_json_integer(j, "revision", m->revision);
  kv_json_raw(j, "ref_only", kv_method_ref_only(m) ? "true" : "false");
  if (kv_door_code(m)) kv_json_text(j, "code", kv_door_code(m));
  kv_json_open(j, "params", '[');
  for (const kv_param *p = m->params; p && p->name; p++) param_json(j, p);
  kv_json_close(j, ']');
  kv_json_close(j, '}');
}

static void json(const kv_method *one) {
  kv_json j = {stdout, false};
  kv_json_open(&j, NULL, '[');
  if (one) {
    putchar('\n');
    method_json(&j, one);
  }
  for (int i = 0; !one && kv_method_at(i); i++) {
    fputs(j.comma ? ",\n" : "\n", stdout);
    j.comma = false;
    method_json(&j, kv_method_at(i));
  }
  fputs("\n]\n", stdout);
}

/* The papers of one method, or of all that `kvreplay methods` lists. */
static kv_rc bibtex(const kv_method *one, kv_err *e) {
  static kv_registry *const all[] = {kv_method_at, kv_method_door_at,
                                     kv_door_at};
  int n = 0;
  if (!one) kv_door_open_all(tell);
  for (int r = 0; !one && r < 3; r++)
    for (int i = 0; all[r](i); i++) n++;
  const kv_method **list = kv_zalloc((size_t)n + 1, sizeof *list);
  if (!list) return kv_no_memory(e, "the papers", (size_t)n * sizeof *list);
  if (one) list[n++] = one;
  for (int r = 0, at = 0; !one && r < 3; r++)
    for (int i = 0; all[r](i); i++) list[at++] = all[r](i);
  kv_bibtex_write(n, list, stdout);
  free(list);
  return KV_OK;
}

static kv_rc check(void *self, kv_err *e) {
  const task *s = self;
  if (s->bibtex && (s->format || s->engine))
    return kv_fail(e, KV_USAGE, "--bibtex is a format of its own; leave out %s",
                   s->engine ? "--engine" : "--format");
  if (s->format == KV_SHEET_CSV && !s->engine)
    return kv_fail(e, KV_USAGE, "--format csv needs --engine");
  if (s->db && !s->engine) return kv_fail(e, KV_USAGE, "--db needs --engine");
  return KV_OK;
}

/* The engine sheet of a list of specifications, or of all methods. */
static kv_rc engine(const task *s, bool *stopped, kv_err *e) {
  const char *list = s->names.n ? s->names.item[0] : "all";
  const kv_kernels *kernels;
  kv_specs specs = {0};
  kv_sheets sheets = {0};
  kv_rc rc = kv_choose_kernels(&kernels, e);
  if (!rc) rc = kv_specs_add(kv_method_at, list, &specs, e);
  if (!rc) {
    kv_stop_watch();
    rc = kv_sheet_make(&specs, kernels, kv_choose_threads(0), kv_interrupted,
                       &sheets, stopped, e);
    if (!rc && !*stopped && s->db)
      rc = kv_sheet_measure(s->db, &specs, kv_interrupted, &sheets, e);
    kv_stop_unwatch();
  }
  if (!rc && !*stopped)
    kv_sheet_print(&sheets, (kv_sheet_form)s->format, stdout);
  kv_sheet_free(&sheets);
  kv_specs_free(&specs);
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  const task *s = self;
  const kv_method *one = NULL;
  bool colour = kv_colour_wanted(stdout);
  kv_rc rc = KV_OK;
  if (s->engine) return engine(s, stopped, e);
  if (s->names.n)
    rc = kv_registry_find(kv_method_at, s->names.item[0], &one, e);
  if (rc) return rc;
  if (s->bibtex) return bibtex(one, e);
  if (s->format == KV_SHEET_JSON)
    json(one);
  else if (one)
    show(one, colour);
  else
    list_all(colour);
  return KV_OK;
}

static const kv_task task_methods = {
    .size = sizeof(task), .check = check, .work = work};

static const kv_option options[] = {
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|csv|json",
     .offset = offsetof(task, format), .group = "What to print",
     .help = "table (the default), json or, with --engine, csv"},
    {KV_SLOT_FLAG, "engine", .offset = offsetof(task, engine),
     .help = "what an inference engine must provide for each method, from what "
             "the method requests and from a small replay (some seconds). NAME "
             "may be a list of specifications, as for `run -m`"},
    {.slot = KV_SLOT_TEXT,
     .name = "db",
     .letter = 'd',
     .argument = "FILE",
     .offset = offsetof(task, db),
     .help = "use these rows of `kvreplay run` instead of the small replay "
             "of --engine, for scanned, ragged, freed and peak"},
    {KV_SLOT_FLAG, "bibtex", .offset = offsetof(task, bibtex),
     .help = "the papers as BibTeX, each once"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay methods", "every method, one line each"},
    {"kvreplay methods h2o", "one method: paper, parameters, ranges, defaults"},
    {"kvreplay methods ./mine.so", "the same of a plugin"},
    {"kvreplay methods --format json", "everything, for programs"},
    {"kvreplay methods --bibtex >methods.bib", "what to cite"},
    {"kvreplay methods --engine", "what an engine must provide for each"},
    {"kvreplay methods --engine --db r.db",
     "the same, measured on the traces of these rows"},
    {NULL, NULL}};

#define COLUMN(of, name, head, help) head " (" name "): " help ".",
static const char *const notes[] = {
    "Lists the methods. With NAME: its parameters, their ranges, their "
    "defaults and the source of each default. Set a parameter as in -m "
    "h2o:recent=16.",
    "Two methods with a plus between them share each lane: the first selects, "
    "and the second codes what is kept. Each has its own parameters, as in -m "
    "snapkv:window=16+kivi:bits=4. Only a method that codes can be the "
    "second. " KV_NAMED_LISTED "each mean quant with that format for keys and "
    "values. k8v4 is keys in 8 bits and values in 4; e4m3-int4 is any two of "
    "them, for keys and for values. Examples: snapkv+int4, k8v4:residual=64, "
    "raw-qserve4. Atom's own keys are atom4:rope=before.",
    "Methods that need a file have their own heading and are not in the JSON "
    "of all methods. replay follows recorded decisions. A plugin is a shared "
    "object. Name it by its path, or as NAME if a folder in KVREPLAY_PLUGINS "
    "(FOLDER:FOLDER) has NAME.so.",
    "The table of --engine complements ref/METHODS_TABLE.md. flops, flash and "
    "messages follow from what a method requests when it is opened for "
    "Llama-3.1-8B, with a prompt of 4,096 tokens and, if it takes one, a "
    "budget of 20 %. The rest is measured in a replay of a synthetic trace of "
    "the same model: three layers, each with 8 query and 4 KV heads, a prompt "
    "of 512 tokens and 64 steps. Columns:",
    KV_SHEET_COLUMNS(COLUMN) NULL};

const kv_command kv_command_methods = {
    KV_COMMAND(methods, "list methods and their parameters"),
    KV_TAKES("[NAME | ./NAME.so]", 0, 1, task, names, KV_USE_NONE),
    .words = kv_method_word};
