/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the commands that open cells: their options as typed, their
 * meaning, and the rows of their option tables (traces/option/option.h). The
 * struct of such a command begins with a kv_cells_options. After
 * kv_options_parse the command calls kv_cells_options_read, and at its end
 * kv_cells_options_free. Commands that write also call kv_cells_options_apart
 * before they do.
 */
#ifndef KV_SIM_OPTIONS_CELLS_H
#define KV_SIM_OPTIONS_CELLS_H

#include "ref/backend/backend.h"
#include "sim/ask/budget.h"
#include "sim/ask/observe.h"
#include "sim/ask/spec.h"
#include "traces/option/option.h"
#include <limits.h>

/* Zeroed before parsing; fields without an option stay zero.
 * kv_cells_options_read fills in specs and budgets. */
typedef struct kv_cells_options {
  kv_list traces;                   /* paths */
  kv_list method_text, budget_text; /* -m, -b as typed: lists with commas */
  kv_specs specs;                   /* parsed -m; each is run at every budget */
  kv_budgets budgets; /* parsed -b; none: each specification has its own */
  const char *db;     /* path; NULL: no database */
  int jobs;           /* threads, 1 to 4096; 0: one per processor */
  int prompt_len;     /* tokens after which decoding begins; 0: by `observe` */
  int observe;        /* a kv_observe: what methods see as the prompt */
  bool added[KV_OBSERVES]; /* [i]: flag i (KV_OBSERVE_TURNS) is added to
                              `observe` */
  bool strict;             /* exit with 3 if any cell is refused (refusals.h) */
  bool quiet;              /* show no progress bar */
} kv_cells_options;

/* Rows of the option table of a command that opens several cells (-m and -b
 * take lists), and of one that opens a single cell and adds nothing to
 * --observe. `heading` is the title of their group in help. Both consist of the
 * single rows below, which a command may also use itself: `what` is the
 * argument's name in help, `more` a word allowed besides method names, or NULL,
 * and `text` the help. */
#define KV_OPTIONS_CELLS(heading)                                              \
  KV_OPTION_METHODS(heading, "SPEC,...", "all",                                \
                    "methods, as " KV_SPECS                                    \
                    ". `all` is every method once; `kvreplay methods` lists "  \
                    "them"),                                                   \
      KV_OPTION_BUDGET("LIST",                                                 \
                       "budgets for every method that has one: " KV_BUDGETS),  \
      KV_OPTION_PROMPT_LEN, KV_OPTIONS_OBSERVE
#define KV_OPTIONS_CELL(heading)                                               \
  KV_OPTION_METHODS(heading, "SPEC", NULL,                                     \
                    "the method, as " KV_SPECS                                 \
                    ". `kvreplay methods` lists them"),                        \
      KV_OPTION_BUDGET("BUDGET", "its budget, if it has one: " KV_BUDGETS),    \
      KV_OPTION_PROMPT_LEN, KV_OPTION_OBSERVE
/* In help: how to write a method, and a budget. */
#define KV_SPECS                                                               \
  "name:key=value:..., or the path of a plugin. A plus puts two on one lane, " \
  "a selection and a format for what it keeps (snapkv+kivi:bits=4). Write a "  \
  "backslash before a comma, colon, plus or backslash in a path or a value"
#define KV_BUDGETS                                                             \
  "512 or entries:512 to keep in each lane, or to read (quest); 20% or "       \
  "prompt:20% of the prompt's tokens; ratio:0.8, kvpress's compression "       \
  "ratio, keeps int(n * (1 - 0.8)) of n prompt tokens. Of the uncompressed "   \
  "bytes: end:20% after the last step, mean:20% over decode steps, peak:20%"   \
  " at most, read:20% or traffic:20% (read and scanned) per step; methods "    \
  "that do not count entries (kivi) take only these. Per layer: "              \
  "64/32/32/16, 20%/10% or layers:FILE (one per line, or a JSON list)"
#define KV_OPTION_METHODS(heading, what, more, text)                           \
  {                                                                            \
    .slot = KV_SLOT_LIST, .name = "methods", .letter = 'm', .argument = what,  \
    .choices = more, .words = kv_method_word,                                  \
    .offset = offsetof(kv_cells_options, method_text), .group = heading,       \
    .help = text, .common = true                                               \
  }
#define KV_OPTION_BUDGET(what, text)                                           \
  {                                                                            \
    .slot = KV_SLOT_LIST, .name = "budget", .letter = 'b', .argument = what,   \
    .offset = offsetof(kv_cells_options, budget_text), .help = text,           \
    .common = true                                                             \
  }
#define KV_OPTION_PROMPT_LEN                                                   \
  {                                                                            \
    .slot = KV_SLOT_COUNT, .name = "prompt-len", .letter = 'p',                \
    .argument = "N", .min = 1, .max = INT_MAX,                                 \
    .offset = offsetof(kv_cells_options, prompt_len),                          \
    .help = "the first N tokens are the prompt, instead of the trace's own"    \
  }
#define KV_OPTION_OBSERVE                                                      \
  {                                                                            \
    .slot = KV_SLOT_CHOICE, .name = "observe", .argument = "WHAT",             \
    .choices = KV_OBSERVE_CHOICES,                                             \
    .offset = offsetof(kv_cells_options, observe),                             \
    .help = "where the prompt ends for the methods: recorded (the default), "  \
            "as in the trace; context, at the end of the last context before"  \
            " the first question, so that questions come after the "           \
            "compression; question, at the end of the first question. Needs "  \
            "a trace with segments",                                           \
    .common = true                                                             \
  }
#define KV_OPTION_ADDED(of, option, text)                                      \
  , {                                                                          \
    .slot = KV_SLOT_FLAG, .name = option,                                      \
    .offset = offsetof(kv_cells_options, added[of]), .help = text              \
  }
#define KV_OPTIONS_OBSERVE KV_OPTION_OBSERVE KV_OBSERVE_ADDED(KV_OPTION_ADDED)
/* --db, --quiet and --jobs, with their help if it varies; --jobs begins the
 * group "How to run" in help. */
#define KV_OPTION_DB(text)                                                     \
  {                                                                            \
    .slot = KV_SLOT_TEXT, .name = "db", .letter = 'd', .argument = "FILE",     \
    .offset = offsetof(kv_cells_options, db), .help = text,                    \
    .use = KV_USE_KEPT, .common = true                                         \
  }
#define KV_OPTION_QUIET                                                        \
  {                                                                            \
    .slot = KV_SLOT_FLAG, .name = "quiet", .letter = 'q',                      \
    .offset = offsetof(kv_cells_options, quiet), .help = "no progress bar"     \
  }
#define KV_OPTION_JOBS(text)                                                   \
  {                                                                            \
    .slot = KV_SLOT_COUNT, .name = "jobs", .letter = 'j', .argument = "N",     \
    .min = 1, .max = 4096, .offset = offsetof(kv_cells_options, jobs),         \
    .group = "How to run", .help = text, .common = true                        \
  }
/* --jobs for a command that can replay on any backend. */
#define KV_OPTION_THREADS                                                      \
  KV_OPTION_JOBS("threads of the reference (default: one per processor), "     \
                 "which never change a number; other backends use one")

/* Choices of --backend and --backends, for completion. */
#define KV_BACKEND_CHOICES "ref|emu|cuda"
/* --backend for a command that replays on one backend. `type` is the command's
 * struct. Its member `const char *backend_text` gets what was typed; NULL:
 * ref. */
#define KV_OPTION_BACKEND(type)                                                \
  {                                                                            \
    .slot = KV_SLOT_TEXT, .name = "backend", .letter = 'B',                    \
    .argument = "NAME", .choices = KV_BACKEND_CHOICES,                         \
    .offset = offsetof(type, backend_text),                                    \
    .help = "ref, the deterministic reference on the CPU (the default); emu, " \
            "the CUDA kernels run on the CPU; cuda, the CUDA kernels on a "    \
            "GPU",                                                             \
    .common = true                                                             \
  }

/* The i-th built-in method's name, from 0; NULL past the last. For
 * completion. */
const char *kv_method_word(int i);

/* Parses o->method_text and o->budget_text into o->specs and o->budgets.
 * Methods are looked up in `registry`, then among plugins, which are loaded.
 * Opens no trace. KV_USAGE: one is wrong, no method is named, a method that
 * needs a budget has none, or options contradict each other. KV_INPUT: a
 * plugin, or a file of budgets, is bad. KV_RESOURCE: memory. Free with
 * kv_cells_options_free, also after a failure. */
kv_rc kv_cells_options_read(kv_registry *registry, kv_cells_options *o,
                            kv_err *e);
/* Checks that command `c` writes no file that its methods come from: a plugin,
 * or a file that a method reads. Such a file is named, or found in a trace's
 * folder, for which the trace's header is read. c's struct begins with o.
 * KV_USAGE: it does. KV_RESOURCE: memory. */
kv_rc kv_cells_options_apart(const kv_command *c, const kv_cells_options *o,
                             kv_err *e);
/* Frees specs and budgets; kv_options_free frees the kv_lists. */
void kv_cells_options_free(kv_cells_options *o);

/* Finds the backend (ref, emu, cuda) whose name is the first n bytes of `name`,
 * which may continue (a list with commas). *out is a static table. KV_USAGE: no
 * such name. KV_RESOURCE: it cannot be used here. e must not be NULL. */
kv_rc kv_cells_options_backend(size_t n, const char *name,
                               const kv_backend **out, kv_err *e);

/* For commands with held-out traces: checks that every trace counts once.
 * KV_USAGE if a file (by device and inode) is named twice among the traces
 * `on`, among the held-out ones (`out`), or in both lists. `used` is what the
 * message calls the traces `on`: "tuned on", "trained on". */
kv_rc kv_traces_once(const char *used, const kv_list *on, const kv_list *out,
                     kv_err *e);

#endif
