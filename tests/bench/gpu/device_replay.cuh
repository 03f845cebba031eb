/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme replay: all methods that device_replay.h has over a trace, on the
 * device and by the reference, as kvreplay runs them: prompt, decode steps,
 * compression, journal, digests. The check compares digests and bytes on a
 * short trace; if both are timed, the timed results are also compared. Times
 * are wall clock, of one run each, and include the host's part of the work, but
 * not opening the cells, or making and first reading the trace.
 */
#ifndef KV_TESTS_BENCH_DEVICE_REPLAY_CUH
#define KV_TESTS_BENCH_DEVICE_REPLAY_CUH

#include "tests/bench/gpu/device_replay.h"
#include "tests/bench/gpu/device_table.cuh"

#include <math.h>

typedef struct replay_case {
  int tokens, decoded;
  double limit; /* seconds a pass */
} replay_case;

/* A pass. False: it failed, which the table shows as owed; if the device
 * failed, the program ends. */
static bool replay_runs(bench *b, replays *r, int pass, const char *backend,
                        int threads, double limit, replay_took *t) {
  char why[REPLAYS_WHY];
  if (replays_run(r, pass, backend, threads, limit, t, why)) return true;
  bench_fine(b);
  table_owed(b, backend, why);
  return false;
}

static void replay_compared(const replays *r) {
  char why[REPLAYS_WHY];
  if (!replays_same(r, why)) bench_fail("%s", why);
}

/* Seconds for a pass of the check: a device that hangs is distinguished from
 * one that works, while the executor takes the time that its build and machine
 * need. */
static double replay_patience(void) { return bench_times ? 120 : HUGE_VAL; }

static const gpumeter_clock replay_clock = {replay_mark, replay_seconds};

/* Each method has times of its prompt and its steps, on both sides. */
static void replay_check_phases(const replays *r, int pass) {
  for (int i = 0; i < replays_methods(r); i++)
    for (int p = GPUMETER_PROMPT; p < GPUMETER_PHASES; p++) {
      gpumeter_count c = replays_phase(r, pass, i, (gpumeter_phase)p);
      if (c.device <= 0 || c.host <= 0)
        bench_fail("%s: no time was measured in phase %s", replays_method(r, i),
                   gpumeter_phases[p]);
    }
}

static void replay_check(bench *b) {
  char why[REPLAYS_WHY];
  replay_took t;
  double limit = replay_patience();
  int tokens = bench_times ? 1024 : 176, decoded = bench_times ? 32 : 2;
  replays *r = replays_open(tokens, decoded, why);
  if (!r) bench_fail("%s", why);
  replays_measure(r, &replay_clock);
  for (int i = 0; i < REPLAYS_PASSES; i++) {
    const char *name = i ? b->dev->name : "ref";
    if (!replays_run(r, i, name, replays_processors(), limit, &t, why))
      bench_fail("%s", why);
    if (!t.finished)
      bench_fail("%s has not replayed %d tokens in %.0f s", name, tokens,
                 limit);
  }
  replay_compared(r);
  replay_check_phases(r, 1);
  replays_close(r);
}

static void replay_title(const replay_case *c, const replays *r, size_t n,
                         char *to) {
  snprintf(to, n,
           "replay of %d tokens, %d of them decoded: %d methods, 10 %%, 2 "
           "layers of 32 heads, 8 KV heads, d 128, fp16",
           c->tokens, c->decoded, replays_methods(r));
}

static replays *replay_opened(bench *b, const replay_case *c,
                              const char *peer) {
  char why[REPLAYS_WHY], title[160];
  replays *r = replays_open(c->tokens, c->decoded, why);
  if (!r) {
    snprintf(title, sizeof title, "replay of %d tokens", c->tokens);
    table_theme(title, peer);
    table_owed(b, "the trace", why);
    return nullptr;
  }
  if (b->phases) replays_measure(r, &replay_clock);
  replay_title(c, r, sizeof title, title);
  table_theme(title, peer);
  return r;
}

static void replay_late(bench *b, const char *what, const replay_case *c) {
  char why[64];
  snprintf(why, sizeof why, "not finished in %.0f s", c->limit);
  table_owed(b, what, why);
}

static void replay_phase_line(bench *b, int tokens, const char *method,
                              const char *phase, const char *where,
                              double seconds) {
  char what[96];
  snprintf(what, sizeof what, "%d tokens: %s: %s%s", tokens, method, phase,
           where);
  table_line(b, {what, "ms", 1e3 * seconds, 0, 0, 0});
}

static void replay_phases(bench *b, const replay_case *c, const replays *r) {
  for (int i = 0; i < replays_methods(r); i++)
    for (int p = 0; p < GPUMETER_PHASES; p++) {
      const char *method = replays_method(r, i), *phase = gpumeter_phases[p];
      gpumeter_count took = replays_phase(r, 0, i, (gpumeter_phase)p);
      if (p == GPUMETER_OPEN) {
        replay_phase_line(b, c->tokens, method, phase, "",
                          took.host + took.device);
        continue;
      }
      replay_phase_line(b, c->tokens, method, phase, ", device", took.device);
      replay_phase_line(b, c->tokens, method, phase, ", host", took.host);
    }
}

/* On the device alone; false: there is no number. */
static bool replay_device(bench *b, const replay_case *c, replays *r,
                          double *seconds) {
  replay_took t;
  if (!replay_runs(b, r, 0, b->dev->name, 1, c->limit, &t)) return false;
  *seconds = t.seconds;
  if (!t.finished) replay_late(b, b->dev->name, c);
  if (t.finished && b->phases) replay_phases(b, c, r);
  return t.finished;
}

static void replay_methods(bench *b, const replay_case *c, const replays *r) {
  char what[64];
  for (int i = 0; i < replays_methods(r); i++) {
    snprintf(what, sizeof what, "%d tokens: decode of %s", c->tokens,
             replays_method(r, i));
    table_line(
        b, {what, "s", replays_decode(r, 1, i), replays_decode(r, 0, i), 0, 0});
  }
}

static void replay_both(bench *b, const replay_case *c) {
  char what[64];
  double device;
  replay_took t;
  replays *r = replay_opened(b, c, "device");
  if (r && replay_device(b, c, r, &device) &&
      replay_runs(b, r, 1, "ref", 1, c->limit, &t)) {
    snprintf(what, sizeof what, "%d tokens: reference, one core, %s", c->tokens,
             replays_kernels());
    if (!t.finished) {
      replay_late(b, what, c);
    } else {
      replay_compared(r);
      table_line(b, {what, "s", t.seconds, device, 50, 0});
      replay_methods(b, c, r);
    }
  }
  replays_close(r);
}

static void replay_alone(bench *b, const replay_case *c) {
  char what[64];
  double device;
  snprintf(what, sizeof what, "%d tokens: on the device", c->tokens);
  replays *r = replay_opened(b, c, "");
  if (r && replay_device(b, c, r, &device))
    table_line(b, {what, "s", device, 0, 0, 0});
  replays_close(r);
}

static void replay_time(bench *b) {
  replay_case both = {16384, 256, 180}, alone = {131072, 256, 150};
  if (b->quick) both.tokens = 2048, alone.tokens = 8192;
  if (!bench_times) both.tokens = 176, alone.tokens = 160;
  if (b->quick) both.decoded = alone.decoded = bench_times ? 32 : 2;
  replay_both(b, &both);
  replay_alone(b, &alone);
}

#endif
