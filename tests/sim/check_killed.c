/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --db`, killed by kill -9 wherever it is: repeated, it leaves
 * the database of a run that was never killed, and has replayed only what was
 * not kept. A search for a byte budget that was cut off goes on with the
 * probes that it had.
 */
#include "sim/cli/commands.h"
#include "sim/run/sweep/batch.h"
#include "tests/support/backend/standin.h"
#include "tests/support/program/command.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- kill -9 ------------------------------------------------------------ */

/* All that a database says, but for when and how long. */
static void digest_of(const char *path, char out[65]) {
  static const char *const table[] = {
      "SELECT * FROM trace ORDER BY 1",
      "SELECT * FROM artefact ORDER BY 1, 2, 3",
      "SELECT * FROM run ORDER BY key",
      "SELECT * FROM ask ORDER BY 1, 2, 3",
      "SELECT * FROM part ORDER BY 1, 2",
      "SELECT * FROM metric ORDER BY 1, 2, 3",
      "SELECT * FROM step_cost ORDER BY 1, 2",
      "SELECT * FROM journal_digest ORDER BY 1, 2",
      ("SELECT run_id, backend, isa, threads, journal, state, output"
       " FROM confirmation ORDER BY 1, 2, 3, 4"),
      "SELECT * FROM diff",
      "SELECT * FROM budget",
      "SELECT key, layer FROM partial"};
  sqlite3 *x;
  kv_sha256 h;
  kv_sha256_init(&h);
  assert_int_equal(sqlite3_open(path, &x), SQLITE_OK);
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(x, table[i], -1, &s, NULL))
      fail_msg("%s", sqlite3_errmsg(x));
    while (sqlite3_step(s) == SQLITE_ROW)
      for (int j = 0; j < sqlite3_column_count(s); j++) {
        const char *text = (const char *)sqlite3_column_text(s, j);
        kv_sha256_add(&h, text ? text : "", text ? strlen(text) + 1 : 1);
      }
    sqlite3_finalize(s);
  }
  sqlite3_close(x);
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, out);
}

#define METHODS "dense,h2o,h2o:prefill=7,kivi:group=8:residual=8"

static int run_once(const char *path) {
  return run("-m " METHODS " -b 9,end:40%% -B same --db %s -f jsonl", path);
}

/* The same in a process that is to die. */
static int run_and_die(char *trace, char *path, const char *at) {
  char *words[] = {"run",       "-q", trace,  "-m",   METHODS, "-b",
                   "9,end:40%", "-B", "same", "--db", path,    NULL};
  take_trace(trace);
  die_at = atoi(at);
  if (!freopen("/dev/null", "w", stdout)) return 77;
  return kv_commands_call((int)(sizeof words / sizeof *words) - 1, words);
}

/* True where the run was killed before its end. A process of its own: threads
 * of OpenMP do not outlive a fork. */
static bool killed_at(const char *path, int at) {
  char text[16];
  int status;
  snprintf(text, sizeof text, "%d", at);
  pid_t child = fork();
  if (!child) {
    execl("/proc/self/exe", "check_resume", trace_path, path, text, NULL);
    _exit(77);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGKILL;
  assert_int_equal(WEXITSTATUS(status), 0);
  return false;
}

TEST(killed_runs_go_on) {
  char whole[65], path[512];
  int killed = 0, resumed = 0;
  snprintf(path, sizeof path, "%s", scratch_path("whole.db"));
  must(0, run_once(path), "dense");
  int all = begun; /* layers of cells */
  digest_of(path, whole);
  for (int at = 170; at < 3000; at += 97) {
    char got[65], name[32];
    snprintf(name, sizeof name, "killed%d.db", at);
    snprintf(path, sizeof path, "%s", scratch_path(name));
    if (!killed_at(path, at)) break;
    killed++;
    int before = (int)number_in(path, "SELECT count(*) FROM partial");
    resumed += before > 0;
    begun = 0;
    must(0, run_once(path), "dense");
    if (begun != all - before)
      fail_msg("killed at %d: %d kept, %d replayed", at, before, begun);
    if (before && !strstr(said, "are kept from an earlier run"))
      fail_msg("killed at %d, %d kept: '%s'", at, before, said);
    digest_of(path, got);
    if (strcmp(got, whole)) fail_msg("killed at %d: another database", at);
    assert_int_equal(number_in(path, "SELECT count(*) FROM partial"), 0);
    assert_int_equal(number_in(path, "PRAGMA auto_vacuum"), 2);
    assert_int_equal(number_in(path, "PRAGMA freelist_count"), 0);
  }
  if (killed < 4 || resumed < 2)
    fail_msg("%d killed, %d of them resumed", killed, resumed);
}

/* --- searches ----------------------------------------------------------- */

static int polls, stop_at;
static bool stop(void) { return stop_at && ++polls >= stop_at; }

static void tick(void *self, int64_t units) { *(int64_t *)self += units; }

/* Layer tokens that a search replays until it is stopped, or has *entries. */
static int64_t search(kv_db *db, int after, int *entries) {
  int64_t units = 0;
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_batch b = {0};
  if (kv_specs_add(kv_method_at, "tova", &specs, &told) ||
      kv_budgets_add("end:60%", &budgets, &told))
    fail_msg("%s", told.text);
  polls = 0;
  stop_at = after;
  kv_batch_ask ask = {.path = trace_path,
                      .specs = &specs,
                      .budgets = &budgets,
                      .how = {.backend = &kv_backend_ref,
                              .kernels = kv_kernels_best(),
                              .threads = 1,
                              .tick = tick,
                              .self = &units,
                              .stop = stop},
                      .db = db};
  kv_rc rc = kv_batch_open(&ask, &b, &told);
  if (rc != (after ? KV_RESOURCE : KV_OK)) fail_msg("%d: %s", rc, told.text);
  if (!rc) *entries = b.cell[0].result.budget;
  kv_batch_close(&b);
  kv_specs_free(&specs);
  kv_budgets_free(&budgets);
  return units;
}

TEST(searches_go_on) {
  char path[512];
  kv_db *db;
  int want, got = 0;
  int64_t all = search(NULL, 0, &want), pass = 2 * 64;
  if (all < 2 * pass || all % pass) fail_msg("%d units", (int)all);
  snprintf(path, sizeof path, "%s", scratch_path("search.db"));
  works(kv_db_open(path, &db, &told));
  search(db, 90, &got); /* in the second probe */
  int64_t kept = number_in(path, "SELECT count(*) FROM probe");
  assert_true(kept > 0 && kept < all / pass);
  assert_int_equal(search(db, 0, &got), all - kept * pass);
  assert_int_equal(got, want);
  assert_int_equal(number_in(path, "SELECT count(*) FROM probe"), 0);
  assert_int_equal(search(db, 0, &got), 0);
  assert_int_equal(got, want);
  kv_db_close(db);
}

static int set_up(void **state) {
  return open_trace(state) || setenv("KVREPLAY_KEEP", "0", 1);
}

int main(int argc, char **argv) {
  if (argc == 4) return run_and_die(argv[1], argv[2], argv[3]);
  return tests_run("killed", set_up, scratch_remove);
}
