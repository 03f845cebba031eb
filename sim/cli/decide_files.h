/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --decisions DIR`: a decisions file for each cell of a batch
 * that runs, DIR/NAME.safetensors. For each batch: open before it is replayed,
 * watch the replay, write after it, close. Memory: what sim/run/look/decide.h
 * says, for each cell.
 */
#ifndef KV_SIM_DECIDE_FILES_H
#define KV_SIM_DECIDE_FILES_H

#include "sim/run/look/decide.h"
#include "sim/run/sweep/batch.h"
#include "traces/option/option.h"

/* Bytes with the NUL: of a trace's or a method's part, and of a whole name. */
enum { KV_NAME_PART = 100, KV_DECIDE_NAME = 2 * KV_NAME_PART + 48 };

typedef struct kv_decide_name {
  char text[KV_DECIDE_NAME]; /* without folder and suffix */
} kv_decide_name;

/* The files of one batch, from open to close; zeroed: none. */
typedef struct kv_decide_files {
  const char *dir;       /* the folder as typed, borrowed */
  const kv_batch *batch; /* its cells are recorded; borrowed */
  int cells;             /* of the batch */
  kv_decide_name *name;  /* [cells] */
  kv_decide **decide;    /* [cells] the recorders; NULL: no file for that cell
                          */
} kv_decide_files;

/* Prepares the files of the open batch b, trace number `at` (from 0) of the
 * command line. Makes the folder if needed. A cell whose method merges or codes
 * entries gets no file; standard error says so. KV_USAGE: a file of one of the
 * names exists already. KV_RESOURCE: memory, or the folder cannot be made.
 * Close it, also after a failure. */
kv_rc kv_decide_files_open(const char *dir, const kv_list *traces, int at,
                           const kv_batch *b, kv_decide_files *out, kv_err *e);
void kv_decide_files_close(kv_decide_files *f); /* accepts zeroed */

/* The watch for the batch's replay: the recorders', then `next` (may be NULL);
 * `next` itself if no cell has a file. Valid as long as f. */
const kv_watch *kv_decide_files_watch(kv_decide_files *f, const kv_watch *next);

/* Writes the files of the cells that ran, each whole or not at all. A method
 * that changed memory before it attended gets none, and standard error says so.
 * KV_RESOURCE: a file cannot be written; earlier ones stay. */
kv_rc kv_decide_files_write(const kv_decide_files *f, kv_err *e);

#endif
