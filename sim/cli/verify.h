/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a database that `kvreplay verify` runs again, and why it cannot
 * run the others: something they need is missing, or other code computed them.
 * Rows that were refused or failed have no digests and are skipped. No code
 * that a database names is ever loaded.
 *
 * command_verify.c reads the rows. Then, for all rows of one trace and prompt,
 * it finds the trace, opens a cell for each, calls kv_verify_beside and
 * kv_verify_ask, replays, calls kv_verify_take, prepares each result by
 * kv_verify_set_up and stores it, which compares it with the row. If they
 * differ, kv_verify_name finds where. Memory: one row each, without layers.
 */
#ifndef KV_SIM_VERIFY_H
#define KV_SIM_VERIFY_H

#include "sim/run/compare/compare.h"
#include "sim/run/look/device_caches.h"
#include "sim/run/look/survive.h"
#include "sim/run/sweep/batch.h"
#include "traces/option/option.h"

/* Whether a row can be run again, or what prevents it. */
typedef enum kv_verifiable {
  KV_VERIFY_RUNS,
  KV_VERIFY_NO_TRACE,  /* set after looking for it */
  KV_VERIFY_NO_PLUGIN, /* not in the folders of KVREPLAY_PLUGINS */
  KV_VERIFY_NO_FILE,   /* the file that its method reads */
  KV_VERIFY_OTHER_CODE /* another revision, arithmetic, plugin or file, or a
                          method that this program lacks */
} kv_verifiable;
enum { KV_VERIFIABLES = 5 };

typedef struct kv_verify_row {
  char key[65];  /* of the database: SHA-256 in hex */
  kv_result row; /* as stored, without layers, parts and steps */
  kv_verifiable can;
  char why[320]; /* why it cannot be run, a phrase; "" if it can */
} kv_verify_row;

typedef struct kv_verify_rows {
  int n, room;
  kv_verify_row *row; /* [n] by trace, prompt length, what was observed, key */
} kv_verify_rows;

/* Reads all rows that ran, and sets `can` and `why` of each as far as possible
 * without its trace. Names of methods are valid as long as db. KV_RESOURCE:
 * memory or the database. KV_INPUT: the database is damaged. Free, also after a
 * failure. */
kv_rc kv_verify_rows_read(kv_db *db, kv_verify_rows *out, kv_err *e);
void kv_verify_rows_free(kv_verify_rows *r); /* accepts zeroed */
/* Is row i the first with its `can` and `why`? If so, *cells is the number of
 * such rows, for one message about all. */
bool kv_verify_first_of(const kv_verify_rows *r, int i, int *cells);

/* Finds the trace of the row by its identity: at the paths where the database
 * saw it, then as NAME.safetensors in the folders. Writes its path into
 * path[0..size); "" if it is not found, which is KV_OK. Reads every trace that
 * it tries. KV_RESOURCE: memory or the database. */
kv_rc kv_verify_trace(kv_db *db, const kv_list *folders, const kv_verify_row *v,
                      size_t size, char *path, kv_err *e);

/* Call it when the row's cell c is open on its trace. True if the file that its
 * method reads from the trace's folder exists unchanged, or if the method reads
 * none. Otherwise sets v->can and v->why. */
bool kv_verify_beside(kv_verify_row *v, const kv_cell *c);

/* Call it if kv_verify_trace found nothing: marks all rows of the trace of `of`
 * that could otherwise run as KV_VERIFY_NO_TRACE. */
void kv_verify_no_trace(kv_verify_rows *r, const kv_result *of);

/* What a row has besides its measures (memory layouts, caches on the device,
 * the fate of tokens), to be computed again. */
typedef struct kv_verify_asked {
  int cells;
  kv_layout_list *layout; /* [cells] as in the stored row */
  kv_cache_list *cache;   /* [cells] the same */
  kv_survive *tokens;
  kv_device_caches *caches;
  const kv_watch *watch; /* for the replay */
} kv_verify_asked;

/* Before the replay: prepares the cells of b, one for each row of v.
 * KV_RESOURCE: memory or the database. KV_INPUT: the database is damaged. Close
 * it, also after a failure. */
kv_rc kv_verify_ask(kv_db *db, kv_verify_row *const *v, kv_batch *b,
                    kv_verify_asked *out, kv_err *e);
/* After the whole replay: adds it to the results. KV_RESOURCE: memory. */
kv_rc kv_verify_take(const kv_verify_asked *x, kv_err *e);
void kv_verify_asked_close(kv_verify_asked *x); /* accepts zeroed */

/* After the replay: completes the cell's result by what was requested for the
 * row, so that it has the row's key and can be stored. KV_DIFFERENT: its
 * parameters resolve differently, or it did not run. KV_RESOURCE: memory. */
kv_rc kv_verify_set_up(const kv_verify_row *v, kv_cell *c, kv_err *e);
/* Writes to *out, zeroed before, the first layer and digest of the stored row
 * that differ from `now`, or the word "values" if all digests agree.
 * KV_RESOURCE, KV_INPUT: the database. */
kv_rc kv_verify_name(kv_db *db, const kv_verify_row *v, const kv_result *now,
                     kv_difference *out, kv_err *e);

#endif
