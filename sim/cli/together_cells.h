/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --together`: the cells of one method and budget over all traces
 * are requests that share a pool of pages (sim/run/look/together.h). After the
 * job's cells are open, kv_together_check; after all traces were replayed,
 * kv_together_cells, then optionally kv_together_print.
 */
#ifndef KV_SIM_TOGETHER_CELLS_H
#define KV_SIM_TOGETHER_CELLS_H

#include "sim/cli/job.h"
#include "sim/run/look/together.h"

/* The options, zeroed before parsing. */
typedef struct kv_together_asked {
  bool asked;              /* the traces are requests that share a pool */
  const char *pool_text;   /* --pool, as typed, or NULL */
  const char *arrive_text; /* --arrive, as typed, or NULL: all at once */
  int pace;                /* units of the file's timestamps per step; 0: one */
  bool wait;               /* a request that finds no memory waits */
  int admit;               /* a kv_pool_wait; 0: by `wait` */
  kv_together how;         /* made, except its threads */
} kv_together_asked;

/* Makes o->how from what was typed, and marks the layout whose pages are
 * shared, adding one if none was requested. shard: the option that names a
 * shard, or NULL. KV_USAGE: options contradict each other, or one is wrong.
 * KV_INPUT: the file of --arrive is bad. KV_RESOURCE: memory. */
kv_rc kv_together_read(kv_together_asked *o, const char *shard,
                       kv_layout_list *layouts, kv_err *e);
void kv_together_asked_free(kv_together_asked *o); /* accepts zeroed */
/* Call it before the job starts if a file says when requests arrive. Gives
 * o->traces one entry for each line of the file: the trace whose numbers of
 * prompt and decoded tokens differ least from the line's, the first if several
 * do. Lines without lengths take the traces in turn. KV_INPUT: a trace is bad.
 * KV_RESOURCE: memory. */
kv_rc kv_together_deal(const kv_arrivals *a, kv_cells_options *o, kv_err *e);
/* Can these requests share the pool `how`? KV_USAGE: the traces are of
 * different models, or the pool has fewer pages than a request has heads. KV_OK
 * if no trace could be opened. */
kv_rc kv_together_check(const kv_job *s, const kv_together *how, kv_err *e);
/* Runs the requests of each method and budget step by step over one pool and
 * fills in `together` of every row. Prints on standard error which request was
 * refused and which methods cannot share. Stores the pools if there is a
 * database; a pool that differs from the stored one counts as kv_job_differ.
 * *served: some request reached its end. KV_RESOURCE: memory, database. */
kv_rc kv_together_cells(kv_job *s, const kv_together *how, bool *served,
                        kv_err *e);
/* Prints requests and their pool for people, below the table of rows.
 * KV_RESOURCE: memory. The caller checks ferror(out). */
kv_rc kv_together_print(const kv_job *s, FILE *out, kv_err *e);

#endif
