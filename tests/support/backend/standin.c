/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends that stand in: tests/support/backend/standin.h.
 */
#include "tests/support/backend/standin.h"

#include "gpu/host/backends.h"
#include "ref/backend/store.h"
#include "sim/cli/commands.h"
#include "tests/support/backend/ulp.h"
#include "tests/support/program/command.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/small.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the backends ------------------------------------------------------- */

/* One bit of an output, at one step of one layer. */
static void odd_attend(kv_store *s, int lane, kv_scratch *x) {
  uint32_t u;
  kv_backend_ref.attend(s, lane, x);
  if (s->data->layer != LAYER || lane != 0 || s->lane[0].step != STEP) return;
  memcpy(&u, x->out, sizeof u);
  u ^= 1;
  memcpy(x->out, &u, sizeof u);
  memcpy(s->out, &u, sizeof u);
}

kv_rc failure;
static void failing(kv_store *s, int lane, kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  kv_backend_ref.compress(s, lane, x);
  if (l->step == STEP) kv_fail(&l->fault, failure, "it is <broken> & \"done\"");
}

/* A row index, or none, against the truth, at one step of one layer: a lie
 * about bytes only. */
static void wasting(kv_store *s, int lane, kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  kv_backend_ref.compress(s, lane, x);
  if (s->data->layer == LAYER && lane == 0 && l->step == STEP)
    l->holes = !l->holes;
}

int begun;
static void counted(kv_store *s, const kv_layer_data *data) {
  begun++;
  kv_backend_ref.begin(s, data);
}

int die_at;
static void mortal(kv_store *s, int lane, kv_scratch *x) {
  kv_backend_ref.compress(s, lane, x);
  if (die_at && --die_at == 0) raise(SIGKILL);
}

static kv_backend odd, bad, worse, same, wasteful, ulp;

static void make_backends(void) {
  odd = bad = same = wasteful = kv_backend_ref;
  odd.threads = bad.threads = same.threads = wasteful.threads = false;
  odd.name = "odd";
  odd.attend = odd_attend;
  bad.name = "bad";
  bad.compress = failing;
  worse = bad;
  worse.name = "worse";
  same.name = "same";
  same.begin = counted;
  same.compress = mortal;
  wasteful.name = "wasteful";
  wasteful.compress = wasting;
  ulp = kv_backend_ref;
  ulp.threads = false;
  ulp.name = "ulp";
  ulp.open = ulp_open;
  ulp.close = ulp_close;
}

/* These take the place of gpu/host/backends.c. */
const kv_backend *kv_backend_find(const char *name, kv_err *e) {
  const kv_backend *all[] = {&kv_backend_ref, &odd,   &bad, &same,
                             &wasteful,       &worse, &ulp};
  for (int i = 0; i < 7; i++)
    if (!strcmp(name, all[i]->name)) return all[i];
  if (!strcmp(name, "gone"))
    kv_fail(e, KV_RESOURCE, "backend gone cannot be used here: no such thing");
  else
    kv_fail(e, KV_USAGE, "no backend is called '%s'", name);
  return NULL;
}

int at_hand;
int kv_backends_default(const kv_backend **out, int room) {
  const kv_backend *all[] = {&kv_backend_ref, &same};
  assert_true(room >= at_hand);
  for (int i = 0; i < at_hand; i++) out[i] = all[i];
  return at_hand;
}

/* --- the command -------------------------------------------------------- */

char trace_path[512];

static int on_trace(const char *name, const char *line, va_list more) {
  const char *const words[] = {name, "-q", trace_path, NULL};
  return command_line(kv_commands_call, words, line, more);
}

int check(const char *line, ...) {
  va_list args;
  va_start(args, line);
  int code = on_trace("check", line, args);
  va_end(args);
  return code;
}

int run(const char *line, ...) {
  va_list args;
  va_start(args, line);
  int code = on_trace("run", line, args);
  va_end(args);
  return code;
}

void take_trace(const char *path) {
  make_backends();
  snprintf(trace_path, sizeof trace_path, "%s", path);
}

int open_trace(void **state) {
  const kv_small t = {"check", 2, 4, 2, 32, KV_F32, 64, 32};
  kv_err e = {0};
  if (scratch_make(state) || unsetenv("KVREPLAY_ISA")) return 1;
  take_trace(scratch_path("a<b & \"c.safetensors"));
  if (kv_small_write(&t, 3, trace_path, &e)) fail_msg("%s", e.text);
  return 0;
}
