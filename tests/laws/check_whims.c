/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of random needs (tests/made/whim.h): for each of many draws the
 * laws of sim/law.h, and the executor, where there is one, arrives at the
 * digests of the reference. KV_TEST_BACKEND=emu asks the laws there; KV_WHIMS
 * is how many draws there are of each method and shape (default 8).
 */
#include "sim/run/laws/law.h"
#include "sim/run/laws/law_walk.h"
#include "tests/made/whim.h"
#include "tests/support/backend/probe.h"
#include "tests/support/rig.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kv_small places[] = {{"pairs", 3, 4, 2, 32, KV_F32, 36, 26},
                                  {"four", 1, 4, 1, 64, KV_F16, 30, 24},
                                  {"single", 1, 2, 2, 32, KV_BF16, 40, 9},
                                  {"wide", 1, 2, 1, 32, KV_F32, 150, 140},
                                  {"one_token", 1, 2, 1, 32, KV_F32, 12, 1},
                                  {"no_decode", 1, 4, 2, 32, KV_F32, 24, 24}};
enum { PLACES = sizeof places / sizeof *places };

static kv_trace *trace[PLACES];
static int draws = 8;

static int open_traces(void **state) {
  const char *many = getenv("KV_WHIMS");
  if (many) draws = atoi(many);
  return opened_make(state, PLACES, places, 7, kv_law_open, trace);
}

static int close_traces(void **state) {
  return opened_close(state, PLACES, trace);
}

/* --- asking ------------------------------------------------------------- */

typedef void ask(const kv_law_case *c, const char *text);

/* Each draw of each method on each trace, another one on every trace. */
static void each(const kv_backend *backend, int64_t (*rows)(void), ask *what) {
  for (int m = 0; whim_at(m); m++)
    for (int i = 0; i < PLACES * draws; i++) {
      kv_spec spec = {0};
      char text[64];
      snprintf(text, sizeof text, "%s:seed=%d", whim_at(m)->name, i);
      works(kv_spec_parse(whim_at, text, &spec, &told));
      kv_law_case c = {.backend = backend,
                       .trace = trace[i % PLACES],
                       .spec = &spec,
                       .entries = -1,
                       .rows = rows};
      what(&c, text);
      kv_spec_free(&spec);
    }
}

static void ask_laws(const kv_law_case *c, const char *text) {
  int broken, full = kv_law_named("full");
  kv_rc rc = kv_law_ask(c, ~(1u << full), &broken, &told);
  if (rc)
    fail_msg("%s, %s: law %s: %s", c->trace->name, text,
             broken < 0 ? "none" : kv_law_at(broken)->name, told.text);
}

TEST(test_laws) {
  const kv_backend *backend = rig_backend();
  bool ref = backend == &kv_backend_ref;
  if (!ref && strcmp(backend->name, "emu") != 0) skip();
  each(ref ? backend : probe_backend(), ref ? NULL : probe_rows, ask_laws);
}

/* --- two backends ------------------------------------------------------- */

static kv_law_run run_on(const kv_backend *backend, const kv_law_case *c,
                         const char *text) {
  kv_law_case own = *c;
  kv_cell cell = {0};
  own.backend = backend;
  kv_rc rc = kv_law_replay(&own, &(kv_law_how){.threads = 1}, &cell, &told);
  if (rc) fail_msg("%s on %s: %s", text, backend->name, told.text);
  kv_law_run run = kv_law_run_of(&cell);
  kv_cell_close(&cell);
  return run;
}

static void same_on_both(const kv_law_case *c, const char *text) {
  kv_law_run a = run_on(&kv_backend_ref, c, text);
  kv_law_run b = run_on(c->backend, c, text);
  bool journal = rig_same(&a.journal, &b.journal);
  bool state = rig_same(&a.state, &b.state);
  bool output = rig_same(&a.output, &b.output);
  if (!journal || !state || !output)
    fail_msg("%s, %s: ref and %s differ in%s%s%s", c->trace->name, text,
             c->backend->name, journal ? "" : " journal", state ? "" : " state",
             output ? "" : " output");
}

TEST(test_backends) {
  if (!probe_backend()) skip();
  each(probe_backend(), NULL, same_on_both);
}

int main(void) { return tests_run("whims", open_traces, close_traces); }
