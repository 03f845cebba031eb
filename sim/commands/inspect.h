/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands share that look at traces, replay nothing and leave what they
 * find in a database: `kvreplay attention`, `kvreplay residuals`. Layer after
 * layer, a trace is stored whole or not at all.
 */
#ifndef KV_SIM_COMMANDS_INSPECT_H
#define KV_SIM_COMMANDS_INSPECT_H

#include "sim/commands/commands.h"
#include "sim/commands/options_cells.h"
#include "sim/db/db.h"
#include "traces/text/progress.h"

typedef struct kv_inspect_task kv_inspect_task;

/* What one command looks for: a table of calls. For each trace: has, open,
 * layer for one recorded layer after the other, put, print, close. A call that
 * fails ends the command with its sentence. */
typedef struct kv_inspection {
  const char *name; /* of what progress shows, and what memory is for */
  size_t (*size)(const kv_trace *t); /* bytes of what is found in a layer */
  /* Looks at the trace, and opens what lies beside it; then, whatever came of
   * it, close is called. Both or NULL. */
  kv_rc (*open)(kv_inspect_task *s, const kv_trace *t, kv_err *e);
  void (*close)(kv_inspect_task *s);
  /* Finds it of the i-th recorded layer, into out: `size` bytes, zeroed. */
  kv_rc (*layer)(const kv_inspect_task *s, const kv_trace *t, int i, void *out,
                 kv_err *e);
  /* *has: the database s->db has it of the trace with this identity already, so
   * that nothing needs to be done. */
  kv_rc (*has)(const kv_inspect_task *s, const kv_digest *identity,
               const kv_trace *t, bool *has, kv_err *e);
  /* Stores it in one transaction. found: of all layers, `size` bytes each,
   * behind one another; layer[]: their numbers in the model. */
  kv_rc (*put)(kv_db *db, const kv_digest *identity, const kv_trace *t,
               const int *layer, const void *found, kv_err *e);
  /* Says on standard output what was found, in a line or a few. */
  void (*print)(const kv_trace *t, const void *found);
} kv_inspection;

/* The struct of such a command, zeroed before parsing. */
struct kv_inspect_task {
  kv_cells_options cells; /* of these traces, db, jobs and quiet */
  kv_list weights;        /* of residuals: files of compressors */
  kv_compressors files;   /* of the trace in hand: these and its own */
  const kv_kernels *kernels;
  kv_db *db;
  kv_progress progress;
  int threads;
};

/* The work of such a command: opens the database and looks at one trace of
 * s->cells.traces after the other. *stopped: an interrupt ended it, and whole
 * traces are stored. KV_INPUT: a trace is bad; KV_RESOURCE: memory or the
 * database. */
kv_rc kv_inspect(kv_inspect_task *s, const kv_inspection *of, bool *stopped,
                 kv_err *e);
/* Entries of the command's kv_task (traces/option/option.h); self is the
 * kv_inspect_task. The first says what an interrupt left, the second closes and
 * frees, also after a failure. */
void kv_inspect_interrupted(void *self);
void kv_inspect_clean(void *self);

/* Rows of the option table of such a command. */

#define KV_OPTIONS_INSPECT                                                     \
  {KV_SLOT_TEXT,                                                               \
   "db",                                                                       \
   'd',                                                                        \
   "FILE",                                                                     \
   .offset = offsetof(kv_inspect_task, cells.db),                              \
   .group = "Where to",                                                        \
   .use = KV_USE_KEPT,                                                         \
   .must = true,                                                               \
   .help = "the database that gets it, made where there is none (required)"},  \
      KV_OPTION_JOBS("threads (default: one a processor), which never change " \
                     "a number"),                                              \
      KV_OPTION_QUIET

#endif
