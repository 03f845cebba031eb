/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that open cells share: their options as typed, what these
 * mean, and the rows of their option tables (traces/option/option.h). The
 * struct of such a command begins with a kv_cells_options. After
 * kv_options_parse the command calls kv_cells_options_read, at its end
 * kv_cells_options_free; those that write call kv_cells_options_apart, too,
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

/* Zeroed before parsing; a command without one of the options leaves its field
 * so. kv_cells_options_read fills specs and budgets. */
typedef struct kv_cells_options {
  kv_list traces;                   /* paths */
  kv_list method_text, budget_text; /* -m, -b as typed: lists with commas */
  kv_specs specs;     /* what -m means: every one is asked at every budget */
  kv_budgets budgets; /* what -b means; none: each specification has its own */
  const char *db;     /* path; NULL: no database */
  int jobs;           /* threads, 1 to 4096; 0: one a processor */
  int prompt_len; /* tokens after which decoding begins; 0: as observe says */
  int observe;    /* a kv_observe: what methods see as the prompt */
  bool added[KV_OBSERVES]; /* by KV_OBSERVE_TURNS and others added to it */
  bool strict;             /* exit with 3 if any cell is refused (refusals.h) */
  bool quiet;              /* show no progress bar */
} kv_cells_options;

/* Rows of the option table of a command that opens several cells (-m and -b
 * take lists), and of one that opens a single cell and adds nothing to
 * --observe. `heading` is the title of their group in help. Both are made of
 * the single rows below, which a command may also name itself: `what` is what
 * help calls the argument, `more` a word that is allowed beside the names of
 * methods, or NULL, and `text` the help. */
#define KV_OPTIONS_CELLS(heading)                                              \
  KV_OPTION_METHODS(                                                           \
      heading, "SPEC,...", "all",                                              \
      "methods, as name:key=value:..., or a plugin's path; two with a plus "   \
      "share a lane, a selection and a format for what it keeps "              \
      "(snapkv+kivi:bits=4); write a backslash before a comma, colon, plus "   \
      "or backslash that belongs to a path or a value; `all` is every method " \
      "once; `kvreplay methods` lists them"),                                  \
      KV_OPTION_BUDGET("LIST",                                                 \
                       "budgets for every method that has one: " KV_BUDGETS),  \
      KV_OPTION_PROMPT_LEN, KV_OPTIONS_OBSERVE
#define KV_OPTIONS_CELL(heading)                                               \
  KV_OPTION_METHODS(                                                           \
      heading, "SPEC", NULL,                                                   \
      "the method, as name:key=value:..., or a plugin's path; two with a "     \
      "plus share a lane, a selection and a format for what it keeps "         \
      "(snapkv+kivi:bits=4); write a backslash before a comma, colon, plus "   \
      "or backslash that belongs to a path or a value; `kvreplay methods` "    \
      "lists them"),                                                           \
      KV_OPTION_BUDGET("BUDGET", "its budget, where it has one: " KV_BUDGETS), \
      KV_OPTION_PROMPT_LEN, KV_OPTION_OBSERVE
/* In help: how a budget is written. */
#define KV_BUDGETS                                                             \
  "512 or entries:512; 20% or prompt:20%; ratio:0.8, a compression ratio as "  \
  "kvpress has it, keeps int(n * (1 - 0.8)) of a prompt's n tokens; end:20%, " \
  "mean:20%, peak:20%, read:20%, traffic:20% (read and "                       \
  "scanned) of the bytes of dense; a budget a layer: "                         \
  "64/32/32/16, 20%/10%, or layers:FILE (one a line, or a JSON list)"
#define KV_OPTION_METHODS(heading, what, more, text)                           \
  {                                                                            \
    .slot = KV_SLOT_LIST, .name = "methods", .letter = 'm', .argument = what,  \
    .choices = more, .words = kv_method_word,                                  \
    .offset = offsetof(kv_cells_options, method_text), .group = heading,       \
    .help = text                                                               \
  }
#define KV_OPTION_BUDGET(what, text)                                           \
  {                                                                            \
    .slot = KV_SLOT_LIST, .name = "budget", .letter = 'b', .argument = what,   \
    .offset = offsetof(kv_cells_options, budget_text), .help = text            \
  }
#define KV_OPTION_PROMPT_LEN                                                   \
  {                                                                            \
    .slot = KV_SLOT_COUNT, .name = "prompt-len", .letter = 'p',                \
    .argument = "N", .min = 1, .max = INT_MAX,                                 \
    .offset = offsetof(kv_cells_options, prompt_len),                          \
    .help = "decode from token N on, instead of the trace's own prompt"        \
  }
#define KV_OPTION_OBSERVE                                                      \
  {                                                                            \
    .slot = KV_SLOT_CHOICE, .name = "observe", .argument = "WHAT",             \
    .choices = KV_OBSERVE_CHOICES,                                             \
    .offset = offsetof(kv_cells_options, observe),                             \
    .help = "what methods see as the prompt: recorded (the default), context " \
            "(decode from the end of the last context before the first "       \
            "question, so that questions feel the compression) or question "   \
            "(from that question's end); of traces with segments"              \
  }
#define KV_OPTION_ADDED(of, option, text)                                      \
  , {                                                                          \
    .slot = KV_SLOT_FLAG, .name = option,                                      \
    .offset = offsetof(kv_cells_options, added[of]), .help = text              \
  }
#define KV_OPTIONS_OBSERVE KV_OPTION_OBSERVE KV_OBSERVE_ADDED(KV_OPTION_ADDED)
/* --db, --quiet and --jobs, each with its help where it differs; --jobs begins
 * the group "How to run" in help. */
#define KV_OPTION_DB(text)                                                     \
  {                                                                            \
    .slot = KV_SLOT_TEXT, .name = "db", .letter = 'd', .argument = "FILE",     \
    .offset = offsetof(kv_cells_options, db), .help = text, .use = KV_USE_KEPT \
  }
#define KV_OPTION_QUIET                                                        \
  {                                                                            \
    .slot = KV_SLOT_FLAG, .name = "quiet", .letter = 'q',                      \
    .offset = offsetof(kv_cells_options, quiet), .help = "no progress"         \
  }
#define KV_OPTION_JOBS(text)                                                   \
  {                                                                            \
    .slot = KV_SLOT_COUNT, .name = "jobs", .letter = 'j', .argument = "N",     \
    .min = 1, .max = 4096, .offset = offsetof(kv_cells_options, jobs),         \
    .group = "How to run", .help = text                                        \
  }
/* --jobs of a command that can replay on any backend. */
#define KV_OPTION_THREADS                                                      \
  KV_OPTION_JOBS("threads of the reference (default: one a processor), which " \
                 "never change a number; other backends use one")

/* What --backend and --backends choose from, for completion. */
#define KV_BACKEND_CHOICES "ref|emu|cuda"
/* --backend of a command that replays on one backend. `type` is the command's
 * struct; its member `const char *backend_text` keeps what was typed, and NULL
 * means ref. */
#define KV_OPTION_BACKEND(type)                                                \
  {                                                                            \
    .slot = KV_SLOT_TEXT, .name = "backend", .letter = 'B',                    \
    .argument = "NAME", .choices = KV_BACKEND_CHOICES,                         \
    .offset = offsetof(type, backend_text),                                    \
    .help = "ref, the deterministic reference on the CPU (the default); emu, " \
            "the CUDA kernels run on the CPU; cuda, the same on a device"      \
  }

/* The name of the i-th built-in method, from 0; NULL past the last. For
 * completion. */
const char *kv_method_word(int i);

/* Parses o->method_text and o->budget_text into o->specs and o->budgets;
 * methods are looked up by name in `registry`, then among plugins, which are
 * loaded. Opens no trace. KV_USAGE: one is wrong, no method is named, a method
 * that needs a budget has none, or options contradict each other; KV_INPUT: a
 * plugin, or a file of budgets, is bad; KV_RESOURCE: memory. Free with
 * kv_cells_options_free, also after a failure. */
kv_rc kv_cells_options_read(kv_registry *registry, kv_cells_options *o,
                            kv_err *e);
/* Checks that no file which command `c` writes, by the options in its struct
 * (which begins with o), is one that its methods come from: a plugin, or a file
 * that a method reads, named or beside a trace, whose head is read for that.
 * KV_USAGE: one is; KV_RESOURCE: memory. */
kv_rc kv_cells_options_apart(const kv_command *c, const kv_cells_options *o,
                             kv_err *e);
/* Frees specs and budgets, also after a failure; the kv_lists go with
 * kv_options_free. */
void kv_cells_options_free(kv_cells_options *o);

/* Finds the backend (ref, emu, cuda) whose name is the first n bytes of `name`,
 * which may go on behind them (a list with commas). *out is a static table.
 * KV_USAGE: there is none of that name; KV_RESOURCE: it cannot be used here. e
 * is not NULL. */
kv_rc kv_cells_options_backend(size_t n, const char *name,
                               const kv_backend **out, kv_err *e);

/* For commands that hold traces out: checks that every trace counts once.
 * KV_USAGE where a file (by device and inode) is named twice, among the traces
 * `on`, among those held out (`out`), or in both lists. `used` says in the
 * sentence what is done with the traces `on`: "tuned on", "trained on". */
kv_rc kv_traces_once(const char *used, const kv_list *on, const kv_list *out,
                     kv_err *e);

#endif
