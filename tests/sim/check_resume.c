/* SPDX-License-Identifier: Apache-2.0
 *
 * Resuming: whatever layers of whatever cells were kept before a replay was
 * cut off, whoever replays the rest, on any threads and in whatever groups,
 * the rows are those of one replay, to the bit; what is kept is not replayed
 * again; and nothing that is damaged, misplaced or of other code is believed.
 * `kvreplay run --db`, killed by kill -9 wherever it is: repeated, it leaves
 * the database of a run that was never killed, and has replayed only what was
 * not kept. A search for a byte budget that was cut off goes on with the
 * probes that it had.
 */
#include "gpu/host/backends.h"
#include "sim/cli/commands.h"
#include "sim/replay/engine/cell.h"
#include "sim/replay/engine/groups.h"
#include "sim/run/sweep/batch.h"
#include "sim/run/sweep/keeper.h"
#include "sim/store/db_private.h"
#include "tests/laws/cells.h"
#include "tests/support/backend/standin.h"
#include "tests/support/program/command.h"
#include "tests/support/program/dbplace.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CELLS = 13, LAYERS = 3, ALL = CELLS * LAYERS };

static const struct {
  const char *method;
  int budget;
} asked[CELLS] = {{"dense", -1},
                  {"window", 12},
                  {"h2o", 12},
                  {"tova", 12},
                  {"snapkv", 12},
                  {"kivi:group=8:residual=8", -1},
                  {"zsmerge", 12},
                  {"quest:page=4", 16},
                  {"pyramidkv", 12},
                  {"adakv", 12},
                  {"h2o:prefill=9", 12},
                  {"snapkv+int4:prefill=12", 12},
                  {"quest:page=4:prefill=10", 16}};

static kv_trace *small;
static kv_db *db;

typedef struct cells {
  kv_cell cell[CELLS], *each[CELLS];
} cells;

/* --- replays ------------------------------------------------------------ */

static _Atomic int polls, finished;
static int stop_at;
static char noted[1024];

static bool stop(void) { return stop_at && ++polls >= stop_at; }

static void count(void *self, int layer, const kv_lane *lane) {
  (void)self;
  (void)layer;
  finished += lane->lane == 0;
}

static void note(void *self, const char *text) {
  (void)self;
  snprintf(noted, sizeof noted, "%s", text);
}

static void open_cells(cells *c) {
  for (int i = 0; i < CELLS; i++) {
    c->each[i] = &c->cell[i];
    cells_must(kv_method_at, small, 0, asked[i].method, asked[i].budget,
               c->each[i]);
    c->cell[i].result.has_identity = true;
  }
}

static void close_cells(cells *c) {
  for (int i = 0; i < CELLS; i++) kv_cell_close(&c->cell[i]);
}

typedef struct way {
  int threads, stop_at; /* 0: never */
  double most;          /* seconds of a group; 0: nothing is kept */
  bool by_steps;
  const char *backend; /* NULL: ref */
} way;

/* Replays the cells; returns whether it was stopped. */
static bool replay(cells *c, way w) {
  bool stopped;
  kv_keeper keeper = {0};
  kv_watch watch = {.finished = count, .concurrent = true};
  kv_replay_how how = {.backend = w.backend ? kv_backend_find(w.backend, &told)
                                            : &kv_backend_ref,
                       .kernels = kv_kernels_best(),
                       .threads = w.threads,
                       .by_steps = w.by_steps,
                       .fidelity = true,
                       .watch = &watch,
                       .stop = stop};
  kv_keeper_open(db, 0, note, NULL, &keeper);
  keeper.hooks.most = w.most;
  if (w.most > 0) how.keep = &keeper.hooks;
  stop_at = w.stop_at;
  polls = 0;
  finished = 0;
  noted[0] = 0;
  open_cells(c);
  works(kv_replay(small, c->each, CELLS, &how, &stopped, &told));
  kv_keeper_close(&keeper);
  return stopped;
}

/* --- the rows that must come -------------------------------------------- */

enum { PRINT = 3 * 65 };
static char want[CELLS][PRINT];

static void print(const kv_result *r, char out[PRINT]) {
  char value[65], key[65], layers[65];
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_sha256_add(&h, r->layer, (size_t)r->n_layers * sizeof *r->layer);
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, layers);
  kv_db_value(r, value);
  kv_db_key(r, key);
  snprintf(out, PRINT, "%s %s %s", key, value, layers);
}

static void must_be_the_same(cells *c, const char *what) {
  for (int i = 0; i < CELLS; i++) {
    char got[PRINT];
    print(&c->cell[i].result, got);
    if (strcmp(got, want[i]))
      fail_msg("%s, %s: another row", what, asked[i].method);
  }
}

static int64_t kept(void) {
  return kv_dbplace_number(db, "SELECT count(*) FROM partial");
}

static void sql(const char *text) {
  char *why = NULL;
  if (sqlite3_exec(db->sql, text, NULL, NULL, &why)) fail_msg("%s", why);
}

/* --- tests -------------------------------------------------------------- */

static int once(void **state) {
  cells c = {0};
  (void)state;
  replay(&c, (way){.threads = 1});
  for (int i = 0; i < CELLS; i++) print(&c.cell[i].result, want[i]);
  close_cells(&c);
  return 0;
}

TEST_ON(any_layers_give_the_same_row, once, NULL) {
  int cut = 0, less = 0;
  for (int i = 0; i < 24; i++) {
    char what[64], some[96];
    cells c = {0};
    sql("DELETE FROM partial");
    way w = {
        .threads = 1 + i % 4, .stop_at = 5 + 18 * i, .most = i & 1 ? 1e-9 : 90};
    cut += replay(&c, w);
    close_cells(&c);
    snprintf(some, sizeof some,
             "DELETE FROM partial WHERE partial_id %% 3 = %d", i % 4);
    sql(some);
    int64_t there = kept();
    less += there > 0 && there < ALL;
    snprintf(what, sizeof what, "round %d, %d of %d kept", i, (int)there, ALL);
    w = (way){.threads = 1 + (i + 1) % 4, .most = i & 2 ? 1e-9 : 90};
    assert_false(replay(&c, w));
    must_be_the_same(&c, what);
    if (finished != ALL - there)
      fail_msg("%s: %d replayed again", what, (int)finished);
    assert_int_equal(kept(), ALL);
    close_cells(&c);
  }
  assert_true(cut > 12 && less > 8);
}

/* One cell has all its layers, the others none. */
TEST(whole_cells_stand_aside) {
  static const char *const but[] = {
      "DELETE FROM partial WHERE key > (SELECT min(key) FROM partial)",
      "DELETE FROM partial WHERE key < (SELECT max(key) FROM partial)"};
  for (int i = 0; i < 4; i++) {
    cells c = {0};
    replay(&c, (way){.threads = 2, .most = 90});
    close_cells(&c);
    sql(but[i & 1]);
    assert_int_equal(kept(), LAYERS);
    replay(&c, (way){.threads = 2, .most = i & 2 ? 1e-9 : 90});
    assert_int_equal(finished, ALL - LAYERS);
    must_be_the_same(&c, but[i & 1]);
    assert_int_equal(kept(), ALL);
    close_cells(&c);
  }
}

TEST(nothing_is_left_to_replay) {
  cells c = {0};
  replay(&c, (way){.threads = 2, .most = 90});
  close_cells(&c);
  replay(&c, (way){.threads = 1, .most = 90});
  assert_int_equal(finished, 0);
  must_be_the_same(&c, "all kept");
  close_cells(&c);
  replay(&c, (way){.threads = 2, .most = 90, .by_steps = true});
  assert_int_equal(finished, ALL);
  must_be_the_same(&c, "step by step");
  close_cells(&c);
}

/* What is done to kept layers, and how many of them it spoils. */
TEST(what_is_spoilt_is_dropped) {
  static const struct {
    const char *sql;
    int spoilt;
  } fault[] = {
      {"UPDATE partial SET content = zeroblob(length(content))"
       " WHERE layer = 1",
       CELLS},
      {"UPDATE partial SET content = CAST(substr(content, 1, 900) || x'55' ||"
       " substr(content, 902) AS BLOB) WHERE partial_id % 4 = 1 AND"
       " substr(content, 901, 1) != x'55'",
       -1},
      {"UPDATE partial SET content = CAST(substr(content, 1,"
       " length(content) - 8) AS BLOB) WHERE layer = 0",
       CELLS},
      {"UPDATE partial SET content = x'' WHERE layer = 0", CELLS},
      {"UPDATE partial SET digest = upper(digest) WHERE layer = 2", CELLS},
      {"UPDATE partial SET build = 'of yesterday' WHERE layer = 2", CELLS},
      {"UPDATE partial SET layer = layer + 7 WHERE layer = 2", CELLS},
      {"UPDATE partial SET content = (SELECT content FROM partial p WHERE"
       " p.key = partial.key AND p.layer = 0) WHERE layer = 1",
       CELLS}};
  for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
    char says[64];
    cells c = {0};
    sql("DELETE FROM partial");
    replay(&c, (way){.threads = 2, .most = 90});
    close_cells(&c);
    sql(fault[i].sql);
    int spoilt = fault[i].spoilt;
    if (spoilt < 0) spoilt = sqlite3_changes(db->sql);
    assert_true(spoilt > 0);
    replay(&c, (way){.threads = 2, .most = 90, .stop_at = 1});
    snprintf(says, sizeof says, "of %d layers of cells are kept", ALL);
    if (!strstr(noted, says)) fail_msg("%s: '%s'", fault[i].sql, noted);
    if (kept() != ALL - spoilt)
      fail_msg("%s: %d kept", fault[i].sql, (int)kept());
    close_cells(&c);
    replay(&c, (way){.threads = 2, .most = 90});
    assert_int_equal(finished, spoilt);
    must_be_the_same(&c, fault[i].sql);
    close_cells(&c);
  }
}

/* Right in itself, and not of such a cell. */
TEST(what_does_not_fit_is_dropped) {
  cells c = {0};
  sql("DELETE FROM partial");
  replay(&c, (way){.threads = 1, .most = 90, .stop_at = 180});
  size_t size = kv_partial_size(&c.cell[0]);
  char *data = kv_zalloc(1, size);
  kv_partial_write(&c.cell[0], 0, data);
  assert_false(kv_partial_read(&c.cell[0], 0, size - 1, data));
  assert_false(kv_partial_read(&c.cell[0], 1, size, data));
  assert_false(kv_partial_read(&c.cell[1], 0, size, data));
  assert_true(kv_partial_read(&c.cell[0], 0, size, data));
  data[0] ^= 1; /* the format */
  assert_false(kv_partial_read(&c.cell[0], 0, size, data));
  works(kv_db_forget_old(db, &told));
  assert_true(kept() > 0);
  sql("UPDATE partial SET kept = date('now', '-31 days')");
  works(kv_db_forget_old(db, &told));
  assert_int_equal(kept(), 0);
  free(data);
  close_cells(&c);
}

/* Right in every way, but for who wrote it. */
TEST(another_build_is_not_believed) {
  cells c = {0};
  sql("DELETE FROM partial");
  replay(&c, (way){.threads = 1, .most = 90});
  size_t size = kv_partial_size(&c.cell[0]);
  char *data = kv_zalloc(1, size);
  kv_db_whose whose = {.backend = "ref", .isa = kv_kernels_best()->name};
  kv_db_key(&c.cell[0].result, whose.key);
  kv_partial_write(&c.cell[0], 0, data);
  sql("DELETE FROM partial");
  kv_db_partial p = {0, "of yesterday", size, data};
  works(kv_db_keep(db, &whose, &p, &told));
  close_cells(&c);
  assert_int_equal(kept(), 1);
  replay(&c, (way){.threads = 1, .most = 90});
  assert_int_equal(finished, ALL);
  assert_non_null(strstr(noted, "1 kept layers of cells are damaged, or of"));
  close_cells(&c);
  free(data);
}

/* Why a cell failed is kept, too; the lowest layer speaks. */
TEST(faults_are_kept) {
  cells c = {0};
  sql("DELETE FROM partial");
  failure = KV_REFUSED;
  replay(&c, (way){.threads = 1, .most = 90, .backend = "bad"});
  close_cells(&c);
  sql("DELETE FROM partial WHERE layer = 1");
  replay(&c, (way){.threads = 1, .most = 90, .backend = "bad"});
  assert_int_equal(finished, CELLS);
  for (int i = 0; i < CELLS; i++) {
    assert_int_equal(c.cell[i].result.status, KV_CELL_FAILED);
    assert_int_equal(c.cell[i].fault_at, 0);
    assert_non_null(strstr(c.cell[i].result.reason, "it is <broken>"));
  }
  close_cells(&c);
}

/* Groups: all at once where that is short enough, else equal parts of what is
 * left of the time; never more than three times the work. */
TEST(groups_are_as_large_as_allowed) {
  kv_groups g;
  int cell[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  double own[8] = {10, 10, 10, 10, 10, 10, 10, 10};
  assert_int_equal(kv_groups_open(8, 90, &g, NULL), KV_OK);
  assert_int_equal(kv_groups_pick(&g, 8, cell), 8); /* nothing is known */
  kv_groups_learn(&g, 90, 8, cell, own);
  assert_int_equal(kv_groups_pick(&g, 8, cell), 8); /* just short enough */
  kv_groups_learn(&g, 110, 8, cell, own);           /* 30 are shared: 60 left */
  assert_int_equal(kv_groups_pick(&g, 8, cell), 4);
  assert_int_equal(kv_groups_pick(&g, 6, cell + 2), 6);
  own[0] = 70;
  kv_groups_learn(&g, 170, 8, cell, own);
  assert_int_equal(kv_groups_pick(&g, 8, cell), 1); /* can be no smaller */
  kv_groups_learn(&g, 240, 8, cell, own); /* 100 shared: 50 for the cells */
  assert_int_equal(kv_groups_pick(&g, 7, cell + 1), 4);
  for (int i = 0; i < 9; i++) kv_groups_learn(&g, 150, 8, cell, own);
  assert_int_equal(kv_groups_pick(&g, 7, cell + 1), 7); /* it was a moment */
  kv_groups_close(&g);
}

/* --- killed ------------------------------------------------------------- */

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

static void tick(void *self, int64_t units) { *(int64_t *)self += units; }

/* Layer tokens that a search replays until it is stopped, or has *entries. */
static int64_t search(kv_db *probes, int after, int *entries) {
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
                      .db = probes};
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
  kv_db *probes;
  int whole, got = 0;
  int64_t all = search(NULL, 0, &whole), pass = 2 * 64;
  if (all < 2 * pass || all % pass) fail_msg("%d units", (int)all);
  snprintf(path, sizeof path, "%s", scratch_path("search.db"));
  works(kv_db_open(path, &probes, &told));
  search(probes, 90, &got); /* in the second probe */
  int64_t kept = number_in(path, "SELECT count(*) FROM probe");
  assert_true(kept > 0 && kept < all / pass);
  assert_int_equal(search(probes, 0, &got), all - kept * pass);
  assert_int_equal(got, whole);
  assert_int_equal(number_in(path, "SELECT count(*) FROM probe"), 0);
  assert_int_equal(search(probes, 0, &got), 0);
  assert_int_equal(got, whole);
  kv_db_close(probes);
}

/* --- the group ---------------------------------------------------------- */

static int set_up(void **state) {
  const kv_small t = {"resume", LAYERS, 4, 2, 32, KV_F32, 64, 32};
  if (open_trace(state) || setenv("KVREPLAY_KEEP", "0", 1)) return 1;
  small = opened_trace(&t, 9, kv_trace_open);
  works(kv_db_open(scratch_path("resume.db"), &db, &told));
  return 0;
}

static int tear_down(void **state) {
  kv_db_close(db);
  kv_trace_close(small);
  return scratch_remove(state);
}

int main(int argc, char **argv) {
  if (argc == 4) return run_and_die(argv[1], argv[2], argv[3]);
  return tests_run("resume", set_up, tear_down);
}
