/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands that replay cells share: kernels, database, the cells of
 * every trace, progress, and telling what contradicts the database. Belongs
 * to the program: it prints. A zeroed job may be closed.
 */
#ifndef KV_SIM_JOB_H
#define KV_SIM_JOB_H

#include "sim/batch.h"
#include "sim/options_cells.h"
#include "traces/progress.h"

typedef struct kv_job {
  const kv_cells_options *options;
  const kv_kernels *kernels;
  kv_environment environment;
  kv_db *db;       /* NULL: none was asked for */
  kv_batch *batch; /* [options->traces.n] */
  kv_progress progress;
  char searching[80]; /* before the bar while a byte budget is searched */
  int differed;       /* what was told by kv_job_differ */
  int whole;          /* traces that are done: the command counts them */
} kv_job;

/* Kernels (KVREPLAY_ISA), environment and, if asked for, the database. */
kv_rc kv_job_start(const kv_cells_options *options, bool db, int argc,
                   char **argv, kv_job *out, kv_err *e);
/* Every cell of every trace; byte budgets are searched as `how` says. */
kv_rc kv_job_open(kv_job *s, const kv_replay_how *how, kv_err *e);
void kv_job_close(kv_job *s);

/* As asked, with progress and interruption; fidelity, walk and watch are the
 * command's to set. */
kv_replay_how kv_job_how(kv_job *s, const kv_backend *backend);
/* Units of progress of one pass over all traces. */
int64_t kv_job_units(const kv_job *s);

/* The i-th trace, then rows; nothing without a database. A row that
 * contradicts the one that is there is stored so and, unless `quiet`, told. */
kv_rc kv_job_put_trace(kv_job *s, int i, kv_err *e);
kv_rc kv_job_put(kv_job *s, const kv_result *r, bool quiet, kv_err *e);
void kv_job_differ(kv_job *s, const kv_err *why);

#endif
