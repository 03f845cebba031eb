/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that replay cells share: kernels, database, the cells of
 * every trace, progress, and reporting of contradictions with the database. It
 * prints, so it belongs to the program, not the library. A zeroed job may be
 * closed.
 */
#ifndef KV_SIM_JOB_H
#define KV_SIM_JOB_H

#include "sim/commands/options_cells.h"
#include "sim/sweep/batch.h"
#include "sim/sweep/keeper.h"
#include "sim/sweep/shares.h"
#include "traces/text/progress.h"

/* Calls in order: kv_job_begin, kv_job_start, perhaps kv_job_cut, kv_job_open,
 * then for each batch kv_job_put_trace, kv_job_replay and kv_job_put, at last
 * kv_job_close. Unless said otherwise the thread that called kv_job_start calls
 * them; s->db is used by one thread at a time (omp critical kv_database). */
typedef struct kv_job {
  const kv_cells_options *options;
  const kv_kernels *kernels;
  int argc; /* the command line, for the environment */
  char **argv;
  kv_environment environment;
  kv_db *db;       /* NULL: not asked for */
  kv_batch *batch; /* [options->traces.n] */
  kv_progress progress;
  char searching[80]; /* text before the progress bar during a search */
  int differed;       /* number of calls of kv_job_differ */
  int whole;          /* traces finished; counted by the command */
  int keep_every;     /* seconds, for kv_keeper */
  int tile;           /* of kv_replay_how */
  const kv_layout_list *layouts; /* for every cell, or NULL */
  kv_shard shard;                /* count 0: all cells */
  kv_shares shares;              /* filled by kv_job_cut */
  bool identify; /* compute identities even without a database */
  bool goes_on;  /* a bad trace fails only its own cells */
} kv_job;

/* Notes the command line, of a zeroed job, before it is parsed. */
void kv_job_begin(kv_job *s, int argc, char **argv);
/* Chooses kernels (KVREPLAY_ISA), reads the environment and, if db and
 * options->db, opens the database. KV_USAGE: a variable is wrong; KV_RESOURCE,
 * KV_INPUT: the database cannot be opened, or is none of ours. Reads how often
 * it keeps layers (KVREPLAY_KEEP, seconds) and how many decode rows are
 * computed at once (KVREPLAY_TILE). From here to kv_job_close an interrupt is
 * handled as sim/commands/signal.h says. */
kv_rc kv_job_start(const kv_cells_options *options, bool db, kv_job *s,
                   kv_err *e);
/* How to wait for a database: with a message unless quiet, until an interrupt.
 * progress must outlive the result. */
kv_db_wait kv_job_wait(bool quiet, kv_progress *progress);
/* job_shard.c: cuts the cells of every trace into shards of equal predicted
 * cost, if `how` replays them; kv_job_open then opens those of `shard` alone.
 * Reads the heads of all traces. KV_INPUT: none can be read; KV_RESOURCE:
 * memory. */
kv_rc kv_job_cut(kv_job *s, const kv_replay_how *how, kv_shard shard,
                 kv_err *e);
/* Where the job has a shard, and else nothing: the predicted cost of the n-th
 * cell of a batch, and a line about the shard, both on standard output; and a
 * remark, which quiet silences unless the shard is empty. */
void kv_job_print_cost(const kv_job *s, int batch, int n);
void kv_job_print_shard(const kv_job *s);
void kv_job_say_shard(const kv_job *s);
/* True if the job has a shard, and a cell of any shard can run. */
bool kv_job_shared(const kv_job *s);
/* What is asked of the i-th trace: for kv_batch_open. Borrows from s. */
kv_batch_ask kv_job_ask(kv_job *s, const kv_replay_how *how, int i);
/* Opens every cell of every trace; byte budgets are searched as `how` says.
 * KV_INPUT: a trace is bad; if s->goes_on it is only reported, and KV_INPUT
 * returned if all are. */
kv_rc kv_job_open(kv_job *s, const kv_replay_how *how, kv_err *e);
/* Closes the cells and traces that kv_job_open opened, with the options as they
 * were then; the job may open others. */
void kv_job_shut(kv_job *s);
/* Closes everything, the database too, and lets go of interrupts. Accepts a job
 * that never started. */
void kv_job_close(kv_job *s);

/* How to replay as asked, with progress and interruption; the command sets
 * fidelity, walk and watch itself. */
kv_replay_how kv_job_how(kv_job *s, const kv_backend *backend);
/* Sets how->keep, so that the next replay keeps layers in the job's database,
 * if there is one. Close out with kv_keeper_close. */
void kv_job_keep(kv_job *s, kv_replay_how *how, kv_keeper *out);
/* kv_replay of all cells of a batch, which an interrupt may cut short
 * (sim/commands/signal.h): *stopped is true then, and cells are not whole. */
kv_rc kv_job_replay(const kv_batch *b, const kv_replay_how *how, bool *stopped,
                    kv_err *e);
/* Prints a line on standard error without disturbing the progress bar, even if
 * quiet. */
void kv_job_tell(kv_job *s, const char *text);
/* Units of progress (tokens times recorded layers) of one pass over all open
 * traces. */
int64_t kv_job_units(const kv_job *s);

/* Stores the i-th trace, then a row of it; do nothing without a database. A row
 * that contradicts the stored one is stored as a conflict and, unless `quiet`,
 * reported; that is KV_OK. KV_RESOURCE: the database cannot be written. */
kv_rc kv_job_put_trace(kv_job *s, int i, kv_err *e);
kv_rc kv_job_put(kv_job *s, const kv_result *r, bool quiet, kv_err *e);
/* Reports on standard error that results differ, and counts it in s->differed,
 * by which the command ends with KV_DIFFERENT. */
void kv_job_differ(kv_job *s, const kv_err *why);

#endif
