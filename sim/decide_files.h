/* SPDX-License-Identifier: Apache-2.0
 *
 * --decisions DIR: a decisions file for each cell of a batch that runs,
 * DIR/TRACE.METHOD-bENTRIES.safetensors (-bENTRIES where there is a budget;
 * -2, -3, ... where two would be called the same).
 */
#ifndef KV_SIM_DECIDE_FILES_H
#define KV_SIM_DECIDE_FILES_H

#include "sim/batch.h"
#include "sim/decide.h"

typedef struct kv_decide_files {
  const char *dir;
  const kv_batch *batch;
  int cells;
  kv_decide **decide; /* [cells] NULL: no file of that cell */
} kv_decide_files;

/* Makes the folder, which may be there; a file of one of the names may not
 * (KV_USAGE). Cells that no file can describe are named on standard error.
 * Freed with close, also after a failure. */
kv_rc kv_decide_files_open(const char *dir, const kv_batch *b,
                           kv_decide_files *out, kv_err *e);
void kv_decide_files_close(kv_decide_files *f); /* accepts zeroed */

/* What the replay is to tell; next is told as well. */
const kv_watch *kv_decide_files_watch(kv_decide_files *f, const kv_watch *next);

/* After the replay. Cells that failed have no file. */
kv_rc kv_decide_files_write(const kv_decide_files *f, kv_err *e);

#endif
