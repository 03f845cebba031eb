/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends that stand in: tests/standin.h.
 */
#include "tests/standin.h"

#include "gpu/backends.h"
#include "ref/store.h"
#include "sim/verbs.h"
#include "tests/scratch.h"
#include "traces/synth.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MOST = 16 };

/* --- the backends ------------------------------------------------------- */

/* One bit of an output, at one step of one layer. */
static void odd_attend(kv_store *s, int lane, int t, const kv_known *known,
                       kv_scratch *x) {
  uint32_t u;
  kv_backend_ref.attend(s, lane, t, known, x);
  if (s->data->layer != LAYER || lane != 0 || t + 1 != STEP) return;
  memcpy(&u, x->out, sizeof u);
  u ^= 1;
  memcpy(x->out, &u, sizeof u);
  memcpy(s->out, &u, sizeof u);
}

kv_rc failure;
static void failing(kv_store *s, int lane, kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  kv_backend_ref.settle(s, lane, x);
  if (l->step == STEP) kv_fail(&l->fault, failure, "it is <broken> & \"done\"");
}

/* A row index, or none, against the truth, at one step of one layer: a lie
 * about bytes only. */
static void wasting(kv_store *s, int lane, kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  kv_backend_ref.settle(s, lane, x);
  if (s->data->layer == LAYER && lane == 0 && l->step == STEP)
    l->holes = !l->holes;
}

int begun;
static void counted(kv_store *s, const kv_layer_data *data) {
  begun++;
  kv_backend_ref.begin(s, data);
}

static kv_backend odd, bad, worse, same, wasteful;

static void make_backends(void) {
  odd = bad = same = wasteful = kv_backend_ref;
  odd.name = "odd";
  odd.attend = odd_attend;
  bad.name = "bad";
  bad.settle = failing;
  worse = bad;
  worse.name = "worse";
  same.name = "same";
  same.begin = counted;
  wasteful.name = "wasteful";
  wasteful.settle = wasting;
}

/* These take the place of gpu/backends.c. */
const kv_backend *kv_backend_find(const char *name, kv_err *e) {
  const kv_backend *all[] = {&kv_backend_ref, &odd,      &bad,
                             &same,           &wasteful, &worse};
  for (int i = 0; i < 6; i++)
    if (!strcmp(name, all[i]->name)) return all[i];
  if (!strcmp(name, "gone"))
    kv_fail(e, KV_RESOURCE, "backend gone cannot be used here: no such thing");
  else
    kv_fail(e, KV_USAGE, "there is no backend '%s'", name);
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

char said[LENGTH], heard[LENGTH];
static char trace[512];

static void read_back(const char *path, char text[LENGTH]) {
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  size_t n = fread(text, 1, LENGTH - 1, f);
  text[n] = 0;
  fclose(f);
}

static int redirect(FILE *stream, const char *path) {
  int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  fflush(stream);
  int kept = dup(fileno(stream));
  assert_true(to >= 0 && kept >= 0);
  dup2(to, fileno(stream));
  close(to);
  return kept;
}

static void restore(FILE *stream, int kept) {
  fflush(stream);
  dup2(kept, fileno(stream));
  close(kept);
}

static int verb(int call(int argc, char **argv), const char *name,
                const char *first, va_list args) {
  char *argv[MOST + 4] = {(char *)(uintptr_t)name, "-q", trace};
  char out[512], err[512];
  int argc = 3;
  for (const char *a = first; a && argc < MOST; a = va_arg(args, char *))
    argv[argc++] = (char *)(uintptr_t)a;
  snprintf(out, sizeof out, "%s", scratch_path("out"));
  snprintf(err, sizeof err, "%s", scratch_path("err"));
  int a = redirect(stdout, out), b = redirect(stderr, err);
  int code = call(argc, argv);
  restore(stdout, a);
  restore(stderr, b);
  read_back(out, heard);
  read_back(err, said);
  return code;
}

/* check TRACE, or run TRACE, then the arguments, the last one NULL. */
int check(const char *first, ...) {
  va_list args;
  va_start(args, first);
  int code = verb(kv_verb_check, "check", first, args);
  va_end(args);
  return code;
}

int run(const char *first, ...) {
  va_list args;
  va_start(args, first);
  int code = verb(kv_verb_run, "run", first, args);
  va_end(args);
  return code;
}

void must(int code, int got, const char *text) {
  if (code != got || !strstr(heard, text))
    fail_msg("exit %d, not %d, or no '%s': %s%s", got, code, text, heard, said);
}

void refused(int code, int got, const char *text) {
  if (code != got || heard[0] || !strstr(said, text) ||
      strchr(said, '\n') != said + strlen(said) - 1)
    fail_msg("exit %d, not %d, or no '%s': %s%s", got, code, text, heard, said);
}

long long number_in(const char *path, const char *sql) {
  sqlite3 *db = NULL;
  sqlite3_stmt *s = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(s), SQLITE_ROW);
  long long n = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  sqlite3_close(db);
  return n;
}

int open_trace(void **state) {
  kv_synth s = {.like = {.name = "check",
                         .n_layers = 2,
                         .n_heads = 4,
                         .n_kv_heads = 2,
                         .d = 32,
                         .theta = 10000,
                         .dtype = KV_F32},
                .n_tokens = 64,
                .prompt_len = 32,
                .seed = 3};
  kv_err e = {0};
  make_backends();
  if (scratch_make(state) || unsetenv("KVREPLAY_ISA")) return 1;
  snprintf(trace, sizeof trace, "%s", scratch_path("a<b & \"c.safetensors"));
  if (kv_synth_write(&s, kv_kernels_best(), trace, &e)) fail_msg("%s", e.text);
  return 0;
}
