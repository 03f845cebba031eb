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

typedef struct kv_inspection {
  const char *name; /* of what progress shows, and what memory is for */
  size_t (*size)(const kv_trace *t); /* of what is found in a layer */
  /* Looks at the trace, and opens what lies beside it; then, whatever came of
   * it, close is called. Both or NULL. */
  kv_rc (*open)(kv_inspect_task *s, const kv_trace *t, kv_err *e);
  void (*close)(kv_inspect_task *s);
  /* Of the i-th recorded layer, into out, which is zeroed. */
  kv_rc (*layer)(const kv_inspect_task *s, const kv_trace *t, int i, void *out,
                 kv_err *e);
  kv_rc (*has)(const kv_inspect_task *s, const kv_digest *identity,
               const kv_trace *t, bool *has, kv_err *e);
  /* found: of all layers, whose numbers layer[] has. */
  kv_rc (*put)(kv_db *db, const kv_digest *identity, const kv_trace *t,
               const int *layer, const void *found, kv_err *e);
  void (*print)(const kv_trace *t, const void *found);
} kv_inspection;

struct kv_inspect_task {
  kv_cells_options cells; /* of these traces, db, jobs and quiet */
  kv_list weights;        /* of residuals: files of compressors */
  kv_compressors files;   /* of the trace in hand: these and its own */
  const kv_kernels *kernels;
  kv_db *db;
  kv_progress progress;
  int threads;
};

/* What a command's task calls. */
kv_rc kv_inspect(kv_inspect_task *s, const kv_inspection *of, bool *stopped,
                 kv_err *e);
void kv_inspect_interrupted(void *self);
void kv_inspect_clean(void *self);

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
