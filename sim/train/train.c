/* SPDX-License-Identifier: Apache-2.0
 *
 * A training from its beginning to its end: sim/train/train.h. A step is in
 * train_step.c, checkpoints in train_keep.c, the file in train_write.c.
 */
#include "sim/train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- opening -------------------------------------------------------------- */

static kv_rc take(kv_train *x, kv_err *e) {
  size_t layers = (size_t)x->data.layers, n = layers * x->t.floats;
  x->value = kv_zalloc(n + 1, sizeof *x->value);
  x->m = kv_zalloc(n + 1, sizeof *x->m);
  x->v = kv_zalloc(n + 1, sizeof *x->v);
  x->gradient = kv_zalloc(n + 1, sizeof *x->gradient);
  x->sum = kv_zalloc(layers * x->t.sums + 1, sizeof *x->sum);
  x->loss = kv_zalloc(layers, sizeof *x->loss);
  x->square = kv_zalloc(layers, sizeof *x->square);
  x->scratch = kv_zalloc((size_t)x->ask.threads, sizeof *x->scratch);
  x->order = kv_zalloc((size_t)x->data.pieces, sizeof *x->order);
  x->checkpoint = kv_zalloc(strlen(x->ask.output) + sizeof ".training", 1);
  if (!x->value || !x->m || !x->v || !x->gradient || !x->sum || !x->loss ||
      !x->square || !x->scratch || !x->order || !x->checkpoint)
    return kv_no_memory(e, "weights and their moments", 4 * n * sizeof(float));
  sprintf(x->checkpoint, "%s.training", x->ask.output);
  return KV_OK;
}

static void begin(kv_train *x) {
  for (int l = 0; l < x->data.layers && x->ask.of->begin; l++) {
    kv_draw draw = kv_draw_open(x->ask.seed, (uint64_t)x->data.layer[l]);
    x->ask.of->begin(&x->t, &draw, x->value + (size_t)l * x->t.floats);
  }
}

static int64_t steps_of(const kv_train *x) {
  if (x->ask.steps) return x->ask.steps;
  return (int64_t)x->ask.of->pace.passes * x->data.pieces;
}

kv_rc kv_train_open(const kv_train_ask *ask, kv_train **out, kv_err *e) {
  kv_train *x = *out = kv_zalloc(1, sizeof *x);
  if (!x) return kv_no_memory(e, "a training", sizeof *x);
  kv_train_wants wants = {ask->of->name, ask->of->turns, ask->of->answers,
                          ask->most};
  x->ask = *ask;
  if (x->ask.rate == 0) x->ask.rate = ask->of->pace.rate;
  x->t = (kv_training){.of = ask->of,
                       .params = ask->params,
                       .kernels = ask->kernels,
                       .data = &x->data};
  x->ordered = -1;
  kv_rc rc = kv_train_data_open(&wants, ask->traces, ask->path, ask->held,
                                ask->held_path, &x->data, e);
  if (!rc) rc = ask->of->open(&x->t, e);
  if (!rc) rc = take(x, e);
  if (rc) return rc;
  begin(x);
  x->steps = steps_of(x);
  rc = kv_train_recall(x, e);
  return rc ? rc : kv_train_keep(x, e);
}

void kv_train_close(kv_train *x) {
  if (!x) return;
  for (int i = 0; x->scratch && i < x->ask.threads; i++)
    kv_scratch_free(&x->scratch[i]);
  free(x->scratch);
  kv_train_data_close(&x->data);
  free(x->value);
  free(x->m);
  free(x->v);
  free(x->gradient);
  free(x->sum);
  free(x->loss);
  free(x->square);
  free(x->order);
  free(x->checkpoint);
  free(x);
}

/* --- to the end ----------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static kv_rc finish(kv_train *x, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int l = 0; l < x->data.layers && x->ask.of->finish && !rc; l++)
    rc = x->ask.of->finish(&x->t, x->data.layer[l],
                           x->sum + (size_t)l * x->t.sums,
                           x->value + (size_t)l * x->t.floats, e);
  return rc;
}

kv_rc kv_train_run(kv_train *x, bool (*stop)(void), bool *stopped, kv_err *e) {
  double kept = now();
  kv_rc rc = KV_OK;
  *stopped = false;
  while (x->step < x->steps && !rc && !*stopped) {
    rc = kv_train_step(x, e);
    if (rc) break;
    if (x->ask.tick) x->ask.tick(x->ask.self, kv_train_running(x));
    *stopped = stop && stop();
    if (!*stopped && now() - kept < x->ask.keep) continue;
    rc = kv_train_keep(x, e);
    kept = now();
  }
  return rc || *stopped ? rc : finish(x, e);
}

kv_rc kv_train_judge(kv_train *x, int i, kv_train_loss *out, kv_err *e) {
  kv_train_piece piece;
  kv_rc rc = KV_OK;
  *out = (kv_train_loss){0};
  for (int j = 0;
       !rc && kv_train_cut(&x->data.trace[i], x->ask.most, j, &piece); j++)
    rc = kv_train_look(x, &piece, true, out, e);
  return rc;
}
