/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands share that look at traces without a replay and store what
 * they find in a database: `kvreplay attention`, `residuals`, `selection`. Each
 * fills a kv_inspection and hands it to kv_inspect from its kv_task's work. A
 * trace is looked at layer after layer and stored whole or not at all; one that
 * the database has is not looked at again.
 */
#ifndef KV_SIM_COMMANDS_INSPECT_H
#define KV_SIM_COMMANDS_INSPECT_H

#include "sim/commands/commands.h"
#include "sim/commands/options_cells.h"
#include "sim/db/db.h"
#include "traces/text/progress.h"

typedef struct kv_inspect_task kv_inspect_task;

/* What one command looks for: a table of calls. For each trace they come in the
 * order open, has, then, unless the database has it, layer for each recorded
 * layer, put, print, and in any case close, also where open was not reached. A
 * call that fails ends the command with its code and sentence. */
typedef struct kv_inspection {
  const char *name;                  /* the word that progress shows */
  size_t (*size)(const kv_trace *t); /* bytes of what is found in one layer */
  /* open checks that the trace can be looked at and opens what lies beside it;
   * close lets that go, also after a failure. Each may be NULL. */
  kv_rc (*open)(kv_inspect_task *s, const kv_trace *t, kv_err *e);
  void (*close)(kv_inspect_task *s);
  /* Looks at the i-th recorded layer and writes what it finds to out, `size`
   * zeroed bytes. Uses s->kernels and s->threads. */
  kv_rc (*layer)(const kv_inspect_task *s, const kv_trace *t, int i, void *out,
                 kv_err *e);
  /* *has: the database s->db has it of the trace with this identity already, so
   * that nothing needs to be done. */
  kv_rc (*has)(const kv_inspect_task *s, const kv_digest *identity,
               const kv_trace *t, bool *has, kv_err *e);
  /* Stores it in one transaction. found: [t->n_layers][size] bytes; layer:
   * [t->n_layers] the model's numbers. */
  kv_rc (*put)(kv_db *db, const kv_digest *identity, const kv_trace *t,
               const int *layer, const void *found, kv_err *e);
  /* Says on standard output what was found, in a line or a few. */
  void (*print)(const kv_trace *t, const void *found);
} kv_inspection;

/* The struct of such a command, zeroed before parsing; kv_inspect fills what
 * comes after `files`. */
struct kv_inspect_task {
  kv_cells_options cells;    /* of these traces, db, jobs and quiet */
  kv_list weights;           /* of residuals: files of compressors, as typed */
  kv_compressors files;      /* of residuals, by its open: for the trace in hand
                                these and the one beside it */
  const kv_kernels *kernels; /* to compute with */
  kv_db *db;
  kv_progress progress;
  int threads; /* that a layer may use */
};

/* The work of such a command: chooses kernels and threads, opens the database
 * s->cells.db and looks at the traces s->cells.traces in their order. *stopped:
 * an interrupt ended it after a layer, and traces that were finished are
 * stored.
 * KV_USAGE: KVREPLAY_ISA is wrong, or the database is no regular file;
 * KV_INPUT: a trace is bad, or the database is none of ours; KV_RESOURCE:
 * memory or the database; or what a call of `of` returned. */
kv_rc kv_inspect(kv_inspect_task *s, const kv_inspection *of, bool *stopped,
                 kv_err *e);
/* `interrupted` and `free` of the command's kv_task (traces/option/option.h);
 * self is the kv_inspect_task. The first says what an interrupt left, the
 * second closes the database, also after a failure. */
void kv_inspect_interrupted(void *self);
void kv_inspect_clean(void *self);

/* Rows of the option table of such a command: --db, which must be given, --jobs
 * and --quiet. */
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
