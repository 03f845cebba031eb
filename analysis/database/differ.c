/* SPDX-License-Identifier: Apache-2.0
 *
 * Two values under one key, in databases that are to be merged: each question
 * gives the first of them as a sentence that names both ("there": in what was
 * merged before; "here": in `source`).
 */
#include "analysis/database/merge_part.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <stdio.h>
#include <string.h>

static const char two_results[] =
    "SELECT d.spec, t.name, d.status, s.status, substr(d.journal, 1, 16),"
    " substr(s.journal, 1, 16), substr(d.state, 1, 16),"
    " substr(s.state, 1, 16), substr(d.output, 1, 16),"
    " substr(s.output, 1, 16), substr(d.value, 1, 16),"
    " substr(s.value, 1, 16),"
    " iif(d.scores != s.scores, substr(d.scores, 1, 16), NULL),"
    " substr(s.scores, 1, 16),"
    " (SELECT min(a.layer) FROM main.journal_digest a JOIN"
    "  source.journal_digest b ON b.run_id = s.run_id AND b.layer = a.layer"
    "  WHERE a.run_id = d.run_id AND (a.journal != b.journal OR"
    "  a.state != b.state OR a.output != b.output OR a.scores != b.scores))"
    " FROM main.run d JOIN source.run s USING (key) JOIN main.trace t"
    "  ON t.identity = d.identity"
    " WHERE d.status != s.status OR d.journal IS NOT s.journal"
    "  OR d.state IS NOT s.state OR d.output IS NOT s.output"
    "  OR (d.measures = s.measures AND d.value IS NOT s.value)"
    "  OR d.scores != s.scores"
    " ORDER BY d.key LIMIT 1";

static const char two_budgets[] =
    "SELECT printf('%s on %s at %s:%s has budget %s there and %s here',"
    " d.method, t.name, d.basis, d.target, coalesce(d.budget, 'none'),"
    " coalesce(s.budget, 'none'))"
    " FROM main.budget d JOIN source.budget s USING (key) JOIN main.trace t"
    "  ON t.identity = d.identity WHERE d.budget IS NOT s.budget"
    " ORDER BY d.key LIMIT 1";

/* Where both have them. */
static const char two_scalars[] =
    "SELECT printf('%s on %s has %s %s there and %s here', r.spec, t.name,"
    " d.name, d.value, s.value) FROM main.scalar d"
    " JOIN main.run r USING (run_id) JOIN main.trace t USING (identity)"
    " JOIN source.run f USING (key) JOIN source.scalar s ON s.run_id = f.run_id"
    "  AND s.name = d.name WHERE d.value != s.value"
    " ORDER BY r.key, d.name LIMIT 1";

static const char two_layouts[] =
    "SELECT printf('%s on %s in layout %s has %s bytes at the end and %s at"
    " the peak there, %s and %s here', r.spec, t.name, d.layout, d.bytes_end,"
    " d.bytes_peak, s.bytes_end, s.bytes_peak) FROM main.layout d JOIN "
    "main.run r USING (run_id)"
    " JOIN main.trace t USING (identity) JOIN source.run f USING (key)"
    " JOIN source.layout s ON s.run_id = f.run_id AND s.layout = d.layout"
    " WHERE d.bytes_end != s.bytes_end OR d.bytes_peak != s.bytes_peak"
    "  OR d.bytes_mean_bits != s.bytes_mean_bits"
    "  OR d.pages_end != s.pages_end OR d.pages_peak != s.pages_peak"
    "  OR d.pages_mean_bits != s.pages_mean_bits"
    "  OR d.slack_end != s.slack_end OR d.slack_peak != s.slack_peak"
    "  OR d.slack_mean_bits != s.slack_mean_bits"
    "  OR d.vacated != s.vacated OR d.freed != s.freed"
    "  OR d.map_end != s.map_end OR d.map_peak != s.map_peak"
    "  OR (d.loads, d.rewrites, d.moves, d.mti, d.break_even) IS NOT"
    "  (s.loads, s.rewrites, s.moves, s.mti, s.break_even)"
    "  OR (d.kept_steps, d.fullest_steps) IS NOT"
    "  (s.kept_steps, s.fullest_steps)"
    " ORDER BY r.key, d.layout LIMIT 1";

/* Where both recorded them. */
static const char two_moments[] =
    "SELECT printf('%s on %s has other %s of %s there (part %s)', spec, name,"
    " what, measure, part) FROM ("
    "SELECT r.spec, t.name, 'squares' AS what, d.measure, d.part"
    " FROM main.metric d"
    " JOIN main.run r USING (run_id) JOIN main.trace t USING (identity)"
    " JOIN source.run f USING (key) JOIN source.metric s ON s.run_id = f.run_id"
    "  AND s.part = d.part AND s.measure = d.measure"
    " WHERE d.squares_bits != s.squares_bits"
    " UNION ALL "
    "SELECT r.spec, t.name, 'means of steps', d.measure, 0"
    " FROM main.step_mean d"
    " JOIN main.run r USING (run_id) JOIN main.trace t USING (identity)"
    " JOIN source.run f USING (key) JOIN source.step_mean s ON s.run_id = "
    "f.run_id"
    "  AND s.measure = d.measure"
    " WHERE d.mean != s.mean"
    " UNION ALL "
    "SELECT r.spec, t.name, 'sums over steps', 'lse_error', d.part"
    " FROM main.part d"
    " JOIN main.run r USING (run_id) JOIN main.trace t USING (identity)"
    " JOIN source.run f USING (key) JOIN source.part s ON s.run_id = f.run_id"
    "  AND s.part = d.part"
    " WHERE d.drift_bits != s.drift_bits"
    " ORDER BY 1, 2, 3, 4, 5 LIMIT 1)";

static const char two_caches[] =
    "SELECT printf('%s on %s finds %s entries in cache %s there, %s here',"
    " r.spec, t.name, d.hits, d.cache, s.hits) FROM main.device_cache d"
    " JOIN main.run r USING (run_id) JOIN main.trace t USING (identity)"
    " JOIN source.run f USING (key) JOIN source.device_cache s ON s.run_id = "
    "f.run_id"
    "  AND s.cache = d.cache"
    " WHERE (d.looked, d.hits, d.fetched, d.fetched_peak, d.held_peak) !="
    "  (s.looked, s.hits, s.fetched, s.fetched_peak, s.held_peak)"
    " ORDER BY r.key, d.cache LIMIT 1";

static const char two_survivals[] =
    "SELECT printf('%s on %s lets other tokens survive in layer %s, lane %s',"
    " r.spec, t.name, d.layer, d.lane) FROM main.survival d"
    " JOIN main.run r USING (run_id) JOIN main.trace t USING (identity)"
    " JOIN source.run f USING (key) JOIN source.survival s ON s.run_id = "
    "f.run_id"
    "  AND s.layer = d.layer AND s.lane = d.lane"
    " WHERE d.gone != s.gone OR d.shown != s.shown"
    " ORDER BY r.key, d.layer, d.lane LIMIT 1";

/* Spectra are left out: their last digits are LAPACK's. What is not there is
 * nothing, if others of its layer, head, series and part are. */
static const char two_figures[] =
    "SELECT printf('%.40s of %slayer %s of %s is another there', d.figure,"
    " iif(d.head >= 0, printf('KV head %s of ', d.head), ''), d.layer, t.name)"
    " FROM main.figure d"
    " JOIN main.trace t USING (identity) LEFT JOIN source.figure s"
    "  USING (identity, figure, layer, head, series, part, x, y)"
    " WHERE d.value IS NOT s.value AND d.figure NOT LIKE 'spectrum.%'"
    "  AND (s.value IS NOT NULL OR EXISTS (SELECT 1 FROM source.figure o WHERE"
    "  (o.identity, o.figure, o.layer, o.head, o.series, o.part) ="
    "  (d.identity, d.figure, d.layer, d.head, d.series, d.part)))"
    " ORDER BY d.identity, d.layer, d.head, d.figure LIMIT 1";

static const char two_pools[] =
    "SELECT printf('the pool %.16s has at most %s pages and %s list operations"
    " there, %s and %s here', d.pool, d.peak, d.list_operations, s.peak,"
    " s.list_operations) FROM main.pool d JOIN source.pool s USING (pool)"
    " WHERE d.page != s.page OR d.pages != s.pages OR d.steps != s.steps"
    "  OR d.peak != s.peak OR d.held != s.held OR d.unused != s.unused"
    "  OR d.unused_peak != s.unused_peak OR d.moved != s.moved"
    "  OR d.list_operations != s.list_operations"
    "  OR d.running != s.running OR d.waiting != s.waiting"
    "  OR d.map_peak != s.map_peak OR d.running_peak != s.running_peak"
    "  OR d.waiting_peak != s.waiting_peak"
    " ORDER BY d.pool LIMIT 1";

#define ASKED                                                                  \
  "d.method, iif(d.target = '', '', ' at ' || d.target), q.number, q.item,"    \
  " q.task"
static const char two_evaluations[] =
    "SELECT printf('%s%s on question %s of %s (%s) has %s %s there and %s"
    " here', " ASKED ", w.what, coalesce(w.there, 'none'),"
    " coalesce(w.here, 'none'))"
    " FROM (SELECT d.key, 0 AS at, 'status' AS what, d.status AS there,"
    "  s.status AS here FROM main.evaluation d JOIN source.evaluation s"
    "  USING (key) UNION ALL"
    " SELECT d.key, 1, 'specification', d.spec, s.spec FROM main.evaluation d"
    "  JOIN source.evaluation s USING (key) UNION ALL"
    " SELECT d.key, 2, 'budget', d.budget, s.budget FROM main.evaluation d"
    "  JOIN source.evaluation s USING (key) UNION ALL"
    " SELECT d.key, 3, 'answer', d.answer, s.answer FROM main.evaluation d"
    "  JOIN source.evaluation s USING (key) UNION ALL"
    " SELECT d.key, 4, x.name, x.value, y.value FROM main.evaluated x"
    "  JOIN main.evaluation d USING (evaluation_id)"
    "  JOIN source.evaluation s USING (key) JOIN source.evaluated y"
    "  ON y.evaluation_id = s.evaluation_id AND y.name = x.name) w"
    " JOIN main.evaluation d USING (key) JOIN main.question q USING (question)"
    " WHERE w.there IS NOT w.here ORDER BY d.key, w.at, w.what LIMIT 1";

static const char *text(sqlite3_stmt *s, int c) {
  const char *t = (const char *)sqlite3_column_text(s, c);
  return t ? t : "none";
}

static int tell(sqlite3_stmt *s, const char *path) {
  return kv_tell(KV_EXIT_DIFFERENT,
                 "%s contradicts what came before it: %s; nothing was merged, "
                 "find out which is wrong",
                 path, text(s, 0));
}

/* Of two runs: the first thing that differs, and in which layer it begins. */
static int tell_results(sqlite3_stmt *s, const char *path) {
  static const char *const what[] = {"status", "journal", "state",
                                     "output", "value",   "scores"};
  enum { LAST = sizeof what / sizeof *what - 1 };
  char layer[32] = "";
  int i = 0;
  /* From the scores on a null on this side is no difference. */
  while (i < LAST && (!strcmp(text(s, 2 + 2 * i), text(s, 3 + 2 * i)) ||
                      (i > 4 && !sqlite3_column_text(s, 2 + 2 * i))))
    i++;
  if (sqlite3_column_type(s, 4 + 2 * LAST) != SQLITE_NULL)
    snprintf(layer, sizeof layer, " from layer %d on",
             sqlite3_column_int(s, 4 + 2 * LAST));
  return kv_tell(KV_EXIT_DIFFERENT,
                 "%s contradicts what came before it: %s on %s has %s %s "
                 "there and %s here%s; nothing was merged, find out which is "
                 "wrong",
                 path, text(s, 0), text(s, 1), what[i], text(s, 2 + 2 * i),
                 text(s, 3 + 2 * i), layer);
}

static int ask(sqlite3 *db, const char *sql, const char *path,
               int (*say)(sqlite3_stmt *, const char *)) {
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK, step = SQLITE_ERROR;
  if (!sqlite3_prepare_v2(db, sql, -1, &s, NULL)) step = sqlite3_step(s);
  if (step == SQLITE_ROW)
    rc = say(s, path);
  else if (step != SQLITE_DONE)
    rc = kv_results_fail(db, path);
  sqlite3_finalize(s);
  return rc;
}

int kv_merge_contradictions(sqlite3 *db, const char *path) {
  static const char *const others[] = {
      two_scalars, two_budgets, two_layouts, two_moments,    two_survivals,
      two_caches,  two_figures, two_pools,   two_evaluations};
  int rc = ask(db, two_results, path, tell_results);
  for (size_t i = 0; i < sizeof others / sizeof *others && !rc; i++)
    rc = ask(db, others[i], path, tell);
  return rc;
}
