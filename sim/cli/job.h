/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the commands that replay cells: kernels, database, the cells of
 * every trace, progress, and reports of contradictions with the database. It
 * prints, so it is part of the program and not of the library.
 *
 *   kv_job_begin, kv_job_start, optionally kv_job_cut, kv_job_open
 *   for each batch: kv_job_put_trace, kv_job_replay, for its rows kv_job_put
 *   kv_job_close (in any case; a zeroed job may be closed)
 *
 * Unless stated otherwise, only the thread that called kv_job_start makes the
 * calls. One thread at a time uses s->db (omp critical kv_database).
 */
#ifndef KV_SIM_JOB_H
#define KV_SIM_JOB_H

#include "sim/cli/options_cells.h"
#include "sim/run/sweep/batch.h"
#include "sim/run/sweep/keeper.h"
#include "sim/run/sweep/shares.h"
#include "traces/text/progress.h"

/* Zeroed before kv_job_begin. "set by the command": between start and open. */
typedef struct kv_job {
  const kv_cells_options *options; /* of kv_job_start; outlives the job */
  const kv_kernels *kernels;       /* all replays use them */
  int argc;                        /* the command line, for the environment */
  char **argv;
  kv_environment environment; /* machine and build, for stored rows */
  kv_db *db;                  /* NULL: no database */
  kv_batch *batch; /* [options->traces.n] the cells, one batch per trace; from
                      kv_job_open to kv_job_shut */
  kv_progress progress;
  char searching[80]; /* text before the progress bar during a budget search */
  int differed;       /* number of calls of kv_job_differ */
  int whole;          /* traces finished; counted by the command */
  int keep_every;     /* seconds between two writes of finished layers */
  int tile; /* decode steps whose exact rows are computed together; 0: the
               number that pays (sim/replay/measure/tile.h) */
  const kv_layout_list
      *layouts;     /* set by the command: for every cell, or NULL */
  kv_shard shard;   /* of kv_job_cut; count 0: all cells */
  kv_shares shares; /* filled by kv_job_cut */
  bool identify;    /* set by the command: compute identities of traces even
                       without a database */
  /* Set by the command: where kv_job_open writes what searches found, or
   * NULL. */
  const char *found_path;
  kv_found found;
  bool goes_on; /* set by the command: a bad trace fails only its own cells */
} kv_job;

/* Stores the command line; call it before parsing. */
void kv_job_begin(kv_job *s, int argc, char **argv);
/* Chooses kernels (KVREPLAY_ISA), describes the machine, reads how often layers
 * are kept (KVREPLAY_KEEP, seconds) and `tile` (KVREPLAY_TILE). If `db` is set,
 * opens the database options->db, if named, waiting while another process
 * writes it. From here to kv_job_close, sim/cli/signal.h handles interrupts.
 * KV_USAGE: a variable is wrong, or the database is no regular file.
 * KV_RESOURCE, KV_INPUT: it cannot be opened, is not ours, or has a later
 * version. */
kv_rc kv_job_start(const kv_cells_options *options, bool db, kv_job *s,
                   kv_err *e);
/* How to wait for a database that another process writes: until an interrupt,
 * with a remark unless quiet. progress outlives the result. */
kv_db_wait kv_job_wait(bool quiet, kv_progress *progress);

/* --- opening cells ------------------------------------------------------- */

/* Opens every cell of every trace (s->batch), or of the shard. Budgets in bytes
 * are searched for by replays as in `how`, with progress. KV_INPUT: a trace is
 * bad; with s->goes_on this is only printed and its cells fail, and KV_INPUT is
 * returned if all traces are bad. KV_RESOURCE: memory or the database. */
kv_rc kv_job_open(kv_job *s, const kv_replay_how *how, kv_err *e);
/* The options as they apply to the i-th trace. Borrows from s. */
kv_batch_ask kv_job_ask(kv_job *s, const kv_replay_how *how, int i);
/* Closes what kv_job_open opened; the options must be unchanged. The job may
 * then open other cells. */
void kv_job_shut(kv_job *s);
/* Closes everything, including the database, and stops handling interrupts. */
void kv_job_close(kv_job *s);

/* --- a shard of the cells ----------------------------------- */

/* Cuts the cells of all traces into shard.count shards of equal predicted
 * processor time for replays by `how`; kv_job_open then opens only the cells of
 * shard.index. Reads the heads of all traces. KV_INPUT: one cannot be read.
 * KV_RESOURCE: memory. */
kv_rc kv_job_cut(kv_job *s, const kv_replay_how *how, kv_shard shard,
                 kv_err *e);
/* The first two print on standard output: the predicted seconds of the n-th
 * open cell of a batch, and a line about the shard. The third prints that line
 * as a remark, unless quiet; or, even if quiet, that the shard has no cells.
 * All do nothing without a shard. */
void kv_job_print_cost(const kv_job *s, int batch, int n);
void kv_job_print_shard(const kv_job *s);
void kv_job_say_shard(const kv_job *s);
/* Does the job have a shard, and can a cell of any shard run? */
bool kv_job_shared(const kv_job *s);

/* --- replaying ----------------------------------------------------------- */

/* How to replay on a backend: with the job's kernels, threads, progress and
 * interrupts. The command sets fidelity, walk, watch and so on itself. */
kv_replay_how kv_job_how(kv_job *s, const kv_backend *backend);
/* Sets how->keep so that the next replay keeps finished layers in the job's
 * database. Close *out with kv_keeper_close after the replay. Does nothing
 * without a database. */
void kv_job_keep(kv_job *s, kv_replay_how *how, kv_keeper *out);
/* kv_replay of the cells of a batch. *stopped: an interrupt ended it, and cells
 * are incomplete. KV_INPUT: the trace is bad. KV_RESOURCE: memory, or the
 * device of the backend. A failed cell is no error: its row says so. */
kv_rc kv_job_replay(const kv_batch *b, const kv_replay_how *how, bool *stopped,
                    kv_err *e);
/* Units of progress (tokens times recorded layers) of a pass over all
 * traces. */
int64_t kv_job_units(const kv_job *s);
/* Prints a line on standard error, even if quiet, around the progress bar. */
void kv_job_tell(kv_job *s, const char *text);
/* Prints a remark if more threads were requested than a watch of how->watch
 * allows: one thread writes a cell's files, in the order of its steps. */
void kv_job_say_one_thread(kv_job *s, const kv_replay_how *how);

/* --- the database -------------------------------------------------------- */

/* Store the i-th trace, and then a row of it. Nothing is stored without a
 * database, nor a row that was refused for a requested layout. A row that
 * contradicts the stored one is stored as a conflict and, unless quiet,
 * reported by kv_job_differ: that is KV_OK. KV_RESOURCE: the database cannot be
 * written. */
kv_rc kv_job_put_trace(kv_job *s, int i, kv_err *e);
kv_rc kv_job_put(kv_job *s, const kv_result *r, bool quiet, kv_err *e);
/* Prints on standard error that results differ, with the sentence in `why`, and
 * counts it, so that the command ends with KV_DIFFERENT. */
void kv_job_differ(kv_job *s, const kv_err *why);

#endif
