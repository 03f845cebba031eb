/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend that tampers: tests/support/backend/tamper.h.
 */
#include "tests/support/backend/tamper.h"
#include "tests/laws/cells.h"

#include "sim/replay/engine/replay.h"
#include "tests/made/made_up.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/opened.h"

#include <stdlib.h>
#include <string.h>

static kv_trace *trace;

/* --- a backend that tampers --------------------------------------------- */

kv_backend odd;
void (*on_lane)(kv_lane *l);
void (*on_row)(kv_store *s, kv_scratch *x);
int at_step;
bool only_then;
static bool replaying;

bool tampers_here(const kv_lane *l) {
  return l->data->layer == LAYER && l->lane == LANE && l->step == at_step &&
         (replaying || !only_then);
}

static void odd_compress(kv_store *s, int lane, kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  kv_backend_ref.compress(s, lane, x);
  if (on_lane && tampers_here(l)) on_lane(l);
}

static void odd_attend(kv_store *s, int lane, kv_scratch *x) {
  kv_backend_ref.attend(s, lane, x);
  if (on_row && tampers_here(&s->lane[lane])) on_row(s, x);
}

/* --- comparing ---------------------------------------------------------- */

kv_rc replay(const char *method, int budget, const kv_backend *backend,
             kv_cell *cell, kv_err *e) {
  bool stopped;
  cells_must(made_up_at, trace, 0, method, budget, cell);
  kv_replay_how how = {.backend = backend,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .scores = true};
  replaying = true;
  kv_rc rc = kv_replay(trace, &cell, 1, &how, &stopped, e);
  replaying = false;
  return rc;
}

void compare(const char *method, int budget, kv_difference *out) {
  kv_cell a = {0}, b = {0};
  kv_err e = {0};
  bool stopped;
  if (replay(method, budget, &kv_backend_ref, &a, &e) ||
      replay(method, budget, &odd, &b, &e))
    fail_msg("%s: %s", method, e.text);
  if (kv_compare_cells(&(kv_compared){&a, &kv_backend_ref},
                       &(kv_compared){&b, &odd}, NULL, &stopped, out, &e))
    fail_msg("%s: %s", method, e.text);
  assert_false(stopped);
  kv_cell_close(&a);
  kv_cell_close(&b);
}

void set_odd(void) {
  odd = kv_backend_ref;
  odd.name = "odd";
  odd.compress = odd_compress;
  odd.attend = odd_attend;
  on_lane = NULL;
  on_row = NULL;
  only_then = false;
  at_step = 80;
}

void must_name(const tamper_fault *f) {
  kv_difference d;
  set_odd();
  on_lane = f->lane;
  on_row = f->row;
  at_step = f->step;
  compare(f->method, f->budget, &d);
  if (!d.found) fail_msg("%s, %s: not found", f->method, f->said);
  /* Elsewhere more than the bit differs, or there is nothing to flip. */
  bool bit = f->index >= 0 && strcmp(f->what, "entries");
  uint64_t a = strtoull(d.a, NULL, 16), b = strtoull(d.b, NULL, 16);
  if (strcmp(d.what, f->what) || d.layer != LAYER || d.step != f->step ||
      (f->head < 0 && d.lane != LANE) || d.head != f->head ||
      d.index != f->index || (bit && (a ^ b) != 1) ||
      !strstr(d.sentence, f->said))
    fail_msg("%s, '%s': %s at layer %d, step %d, lane %d, head %d, index %d: "
             "%s",
             f->method, f->said, d.what, d.layer, d.step, d.lane, d.head,
             d.index, d.sentence);
}

/* --- the trace ---------------------------------------------------------- */

int open_trace(void **state) {
  const kv_small t = {"compare", LAYERS, 4, 2, 32, KV_F32, TOKENS, PROMPT};
  return opened_make(state, 1, &t, 5, kv_trace_open, &trace);
}

int close_trace(void **state) { return opened_close(state, 1, &trace); }
