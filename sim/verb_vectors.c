/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay vectors`: one cell opened, its steps written as vectors.
 */
#include "sim/verbs.h"

#include "sim/batch.h"
#include "sim/options_vectors.h"
#include "sim/signal.h"
#include "sim/vectors.h"
#include <stdlib.h>

static kv_rc pick_kernels(const kv_kernels **out, kv_err *e) {
  char note[128] = "";
  const char *name = getenv("KVREPLAY_ISA");
  *out = kv_kernels_best();
  if (!name || !*name) return KV_OK;
  kv_rc rc = kv_kernels_named(name, out, note, e);
  if (!rc && note[0]) kv_note(note);
  return rc;
}

static kv_rc open_cell(const kv_vectors_options *o, kv_batch *b, kv_err *e) {
  const kv_kernels *kernels = NULL;
  kv_rc rc = pick_kernels(&kernels, e);
  if (rc) return rc;
  rc = kv_batch_open(&(kv_batch_ask){.path = o->cells.traces.item[0],
                                     .specs = &o->cells.specs,
                                     .budgets = &o->cells.budgets,
                                     .prompt_len = o->cells.prompt_len,
                                     .how = {.backend = &kv_backend_ref,
                                             .kernels = kernels,
                                             .threads = 1}},
                     b, e);
  if (!rc && !b->cell[0].runs)
    rc = kv_fail(e, KV_USAGE, "%s", b->cell[0].result.reason);
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
  if (!rc) rc = kv_vectors_write(&ask, stopped, e);
  free(step);
  free(layer);
  return rc;
}

int kv_verb_vectors(int argc, char **argv) {
  kv_vectors_options o;
  kv_batch b = {0};
  kv_err e = {0};
  bool stopped = false;
  kv_rc rc = kv_vectors_options_parse(kv_method_at, argc, argv, &o, &e);
  int code = KV_OK;
  if (!rc && o.asked != KV_ASKED_WORK) {
    code = kv_verb_answer(o.asked, &kv_command_vectors);
  } else {
    if (!rc) rc = open_cell(&o, &b, &e);
    if (!rc) rc = write(&o, &b.cell[0], &stopped, &e);
    if (rc) code = kv_say(&e);
  }
  if (stopped) {
    kv_note("interrupted: nothing was written");
    code = KV_EXIT_INTERRUPTED;
  }
  kv_batch_close(&b);
  kv_vectors_options_free(&o);
  return code;
}
