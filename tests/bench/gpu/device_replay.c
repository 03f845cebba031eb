/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole replays: tests/bench/gpu/device_replay.h.
 */
#include "tests/bench/gpu/device_replay.h"

#include "gpu/host/backends.h"
#include "sim/replay/engine/replay.h"
#include "traces/trace/synth.h"
#include "traces/trace/trace.h"

#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { LAYERS = 2 };

typedef struct turn {
  kv_cell *cell;  /* [methods] */
  kv_cell **each; /* [methods] */
} turn;

struct replays {
  kv_trace *trace;
  kv_specs specs;
  kv_budgets budgets;
  const gpumeter_clock *clock; /* NULL: nothing is measured */
  turn turn[REPLAYS_PASSES];
};

static bool fails(const kv_err *e, char why[REPLAYS_WHY]) {
  snprintf(why, REPLAYS_WHY, "%s", e->text);
  return false;
}

/* --- the trace ---------------------------------------------------------- */

static kv_synth description(int tokens, int decoded) {
  static const int layers[LAYERS] = {8, 24};
  kv_synth s = {.like = *kv_geometry_find("llama-3.1-8b"),
                .n_tokens = tokens,
                .prompt_len = tokens - decoded,
                .seed = 1,
                .n_recorded = LAYERS,
                .layers = layers};
  s.like.dtype = KV_F16;
  return s;
}

/* K, V and the queries, and a little. */
static kv_rc check_room(const char *folder, const kv_synth *s, kv_err *e) {
  struct statvfs disk;
  double row = 2.0 * s->like.d * (s->like.n_heads + 2 * s->like.n_kv_heads);
  double need = 1.05 * row * s->n_tokens * LAYERS + 0x1p20;
  if (statvfs(folder, &disk))
    return kv_fail(e, KV_RESOURCE, "there is no folder %s", folder);
  double have = (double)disk.f_bavail * (double)disk.f_frsize;
  if (have >= need) return KV_OK;
  return kv_fail(e, KV_RESOURCE,
                 "%s has %.1f GiB free and the trace needs %.1f: name another "
                 "folder in TMPDIR",
                 folder, have * 0x1p-30, need * 0x1p-30);
}

/* The map of the opened trace keeps the file; its name goes at once. */
static kv_rc make_trace(const kv_synth *s, kv_trace **out, kv_err *e) {
  const char *parent = getenv("TMPDIR");
  char folder[480], path[512];
  if (!parent || !*parent) parent = "/tmp";
  kv_rc rc = check_room(parent, s, e);
  if (rc) return rc;
  snprintf(folder, sizeof folder, "%.440s/kvbench.XXXXXX", parent);
  if (!mkdtemp(folder))
    return kv_fail(e, KV_RESOURCE, "cannot make a folder in %s: %s", parent,
                   strerror(errno));
  snprintf(path, sizeof path, "%s/synthetic", folder);
  rc = kv_synth_write(s, kv_kernels_best(), path, e);
  if (!rc) rc = kv_trace_open(path, out, e);
  remove(path);
  rmdir(folder);
  return rc;
}

/* Does it run with a file that lies beside the trace, and none does here? */
static bool wants_file(const kv_method *m) {
  for (const kv_param *p = m->params; p && p->name; p++)
    if (p->kind == KV_FILE && p->fallback &&
        strcmp(p->fallback, KV_FILE_BESIDE) == 0)
      return true;
  return false;
}

/* The index-th method that both backends have and that needs no weights; NULL
 * past the last. */
static const kv_method *with_twin(int index) {
  for (int i = 0;; i++) {
    const kv_method *m = kv_method_at(i);
    if (!m || (!kv_method_ref_only(m) && !wants_file(m) && index-- == 0))
      return m;
  }
}

replays *replays_open(int tokens, int decoded, char why[REPLAYS_WHY]) {
  kv_err e = {0};
  kv_synth s = description(tokens, decoded);
  replays *r = kv_zalloc(1, sizeof *r);
  kv_rc rc = r ? KV_OK : kv_no_memory(&e, "a replay", sizeof *r);
  kv_float_ground();
  if (!rc) rc = make_trace(&s, &r->trace, &e);
  if (!rc) rc = kv_specs_add(with_twin, "all", &r->specs, &e);
  if (!rc) rc = kv_budgets_add("10%", &r->budgets, &e);
  if (!rc) return r;
  replays_close(r);
  fails(&e, why);
  return NULL;
}

static void close_turn(const replays *r, turn *p) {
  for (int i = 0; p->cell && i < r->specs.n; i++) kv_cell_close(&p->cell[i]);
  free(p->cell);
  free(p->each);
  *p = (turn){0};
}

void replays_close(replays *r) {
  if (!r) return;
  for (int i = 0; i < REPLAYS_PASSES; i++) close_turn(r, &r->turn[i]);
  kv_specs_free(&r->specs);
  kv_budgets_free(&r->budgets);
  kv_trace_close(r->trace);
  free(r);
}

/* --- a pass ------------------------------------------------------------- */

static kv_rc open_cell(const replays *r, int i, kv_cell *c, kv_err *e) {
  kv_asked_cell asked = {.spec = &r->specs.spec[i], .entries = -1};
  kv_rc rc = KV_OK;
  if (kv_spec_wants_budget(asked.spec)) {
    asked.budget = &r->budgets.budget[0];
    rc = kv_budget_entries(asked.budget, r->trace->shape.prompt_len,
                           &asked.entries, e);
  }
  if (!rc) rc = kv_cell_open(r->trace, 0, kv_kernels_best(), &asked, c, e);
  if (!rc && !c->runs)
    rc = kv_fail(e, KV_REFUSED, "%s: %s", c->result.method, c->result.reason);
  return rc;
}

static kv_rc open_turn(const replays *r, turn *p, kv_err *e) {
  size_t n = (size_t)r->specs.n;
  p->cell = kv_zalloc(n, sizeof *p->cell);
  p->each = kv_zalloc(n, sizeof *p->each);
  if (!p->cell || !p->each)
    return kv_no_memory(e, "cells", n * sizeof *p->cell);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < r->specs.n; i++) {
    p->each[i] = &p->cell[i];
    rc = open_cell(r, i, &p->cell[i], e);
  }
  return rc;
}

void replays_measure(replays *r, const gpumeter_clock *clock) {
  r->clock = clock;
}

/* The backend of a name, measured if it is a device's and that was wanted. */
static const kv_backend *backend_of(const replays *r, const char *name,
                                    kv_err *e) {
  const char *why;
  const kv_backend *b = kv_backend_find(name, e);
  if (!b || b == &kv_backend_ref || !r->clock) return b;
  const kv_device *device =
      b == &kv_backend_emu ? kv_device_emu() : kv_device_cuda(&why);
  return gpumeter_backend(b, device, device->near, r->clock, NULL);
}

static double deadline; /* of the one replay that runs */
static bool late(void) { return omp_get_wtime() > deadline; }

bool replays_run(replays *r, int pass, const char *backend, int threads,
                 double limit, replay_took *out, char why[REPLAYS_WHY]) {
  kv_err e = {0};
  turn *p = &r->turn[pass];
  bool stopped = false;
  kv_replay_how how = {
      .kernels = kv_kernels_best(), .threads = threads, .stop = late};
  how.backend = backend_of(r, backend, &e);
  kv_rc rc = how.backend ? open_turn(r, p, &e) : e.rc;
  double start = omp_get_wtime();
  deadline = start + limit;
  if (!rc) rc = kv_replay(r->trace, p->each, r->specs.n, &how, &stopped, &e);
  *out = (replay_took){omp_get_wtime() - start, !stopped};
  for (int i = 0; !rc && !stopped && i < r->specs.n; i++) {
    const kv_result *got = &p->cell[i].result;
    if (!kv_result_ran(got))
      rc = kv_fail(&e, KV_REFUSED, "%s: %s", got->spec, got->reason);
  }
  return rc ? fails(&e, why) : true;
}

/* --- what came of it ---------------------------------------------------- */

/* A difference is named by `kvreplay check`, which takes its time. */
bool replays_same(const replays *r, char why[REPLAYS_WHY]) {
  for (int i = 0; i < r->specs.n; i++) {
    const kv_result *a = &r->turn[0].cell[i].result;
    const kv_result *b = &r->turn[1].cell[i].result;
    size_t steps = (size_t)a->n_steps * sizeof *a->step;
    const char *what = memcmp(&a->journal, &b->journal, 32) ? "journal"
                       : memcmp(&a->state, &b->state, 32)   ? "state"
                       : memcmp(&a->output, &b->output, 32) ? "output"
                       : memcmp(a->step, b->step, steps)    ? "ledger"
                                                            : NULL;
    if (!what) continue;
    snprintf(why, REPLAYS_WHY,
             "%s: the %s differs between %s and %s; kvreplay check names where",
             a->spec, what, a->backend, b->backend);
    return false;
  }
  return true;
}

int replays_methods(const replays *r) { return r->specs.n; }

const char *replays_method(const replays *r, int i) {
  return r->specs.spec[i].method->name;
}

double replays_decode(const replays *r, int pass, int i) {
  double all = 0;
  for (int l = 0; l < LAYERS; l++) all += r->turn[pass].cell[i].seconds[l];
  return all;
}

gpumeter_count replays_phase(const replays *r, int pass, int i,
                             gpumeter_phase phase) {
  const gpumeter_count *c = gpumeter_of(&r->turn[pass].cell[i].plan);
  return c ? c[phase] : (gpumeter_count){0};
}

int replays_processors(void) { return omp_get_num_procs(); }

const char *replays_kernels(void) { return kv_kernels_best()->name; }
