/* SPDX-License-Identifier: Apache-2.0
 *
 * --decisions DIR: a decisions file for each cell of a batch that runs,
 * DIR/TRACE.METHOD-bENTRIES.safetensors (sim/commands/decide_names.h).
 */
#ifndef KV_SIM_DECIDE_FILES_H
#define KV_SIM_DECIDE_FILES_H

#include "sim/commands/decide_names.h"
#include "sim/look/decide.h"
#include "sim/sweep/batch.h"
#include "traces/option/option.h"

/* The files of one batch, from open to close; zeroed: none. */
typedef struct kv_decide_files {
  const char *dir;       /* as typed */
  const kv_batch *batch; /* the cells, borrowed */
  int cells;
  kv_decide_name *name; /* [cells] */
  kv_decide **decide;   /* [cells] NULL: no file of that cell */
} kv_decide_files;

/* Prepares the files of batch b, which is of the at-th (from 0) of the traces
 * of the command line; call it before b is replayed. Makes the folder unless it
 * exists. KV_USAGE: a file of one of the names exists; KV_RESOURCE: memory, or
 * no folder can be made. Cells that no decisions file can describe are named on
 * standard error and get none. Close it, also after a failure. */
kv_rc kv_decide_files_open(const char *dir, const kv_list *traces, int at,
                           const kv_batch *b, kv_decide_files *out, kv_err *e);
void kv_decide_files_close(kv_decide_files *f); /* accepts zeroed */

/* The callbacks for the replay of the batch, which call those of `next` (or
 * NULL) after their own; `next` itself where no cell has a file. They live as
 * long as f. */
const kv_watch *kv_decide_files_watch(kv_decide_files *f, const kv_watch *next);

/* Writes the files, after the replay has ended; none for cells that failed.
 * KV_RESOURCE: one cannot be written, and those before it are there. */
kv_rc kv_decide_files_write(const kv_decide_files *f, kv_err *e);

#endif
