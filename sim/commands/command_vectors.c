/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay vectors`: one cell opened, its steps written as vectors.
 */
#include "sim/commands/commands.h"

#include "sim/commands/job.h"
#include "sim/commands/options_vectors.h"
#include "sim/commands/signal.h"
#include "sim/look/vectors.h"
#include <stdlib.h>

static kv_rc open_cell(kv_job *job, kv_err *e) {
  kv_replay_how how = kv_job_how(job, &kv_backend_ref);
  kv_rc rc = kv_job_open(job, &how, e);
  if (!rc && !job->batch->cell[0].runs)
    rc = kv_fail(e, KV_USAGE, "%s", job->batch->cell[0].result.reason);
  return rc;
}

static kv_rc write(const kv_vectors_options *o, kv_cell *cell, bool *stopped,
                   kv_err *e) {
  kv_vectors_ask ask = {.cell = cell,
                        .raw = o->format == 1,
                        .dir = o->dir,
                        .stop = kv_interrupted};
  int *step = NULL, *layer = NULL;
  kv_rc rc = kv_vectors_steps(o->steps, &cell->shape, &ask.steps, &step, e);
  if (!rc)
    rc = kv_vectors_layers(o->layers, cell->trace, &ask.layers, &layer, e);
  ask.step = step;
  ask.layer = layer;
  kv_stop_cut(true);
  if (!rc) rc = kv_vectors_write(&ask, stopped, e);
  kv_stop_cut(false);
  free(step);
  free(layer);
  return rc;
}

int kv_main_vectors(int argc, char **argv) {
  kv_vectors_options o;
  kv_job job = {0};
  kv_err e = {0};
  bool stopped = false;
  kv_rc rc = kv_vectors_options_parse(kv_method_at, argc, argv, &o, &e);
  int code = KV_OK;
  if (!rc && o.asked != KV_ASKED_WORK) {
    code = kv_command_answer(o.asked, &kv_command_vectors);
  } else {
    if (!rc) rc = kv_job_start(&o.cells, false, argc, argv, &job, &e);
    if (!rc) rc = open_cell(&job, &e);
    if (!rc) rc = write(&o, &job.batch->cell[0], &stopped, &e);
    if (rc) code = kv_say(&e);
  }
  if (stopped) {
    kv_note("interrupted: nothing was written");
    code = KV_EXIT_INTERRUPTED;
  }
  kv_job_close(&job);
  kv_vectors_options_free(&o);
  return code;
}
