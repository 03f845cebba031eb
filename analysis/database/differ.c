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

/* Cases of a CASE: a number of `d` that is another in `s`, as the end of a
 * sentence; where both have one, a mean by its bits, or also where one has
 * none. */
#define TOLD(name)                                                             \
  " THEN printf('" #name " %s there and %s here', coalesce(d." #name           \
  ", 'none'), coalesce(s." #name ", 'none'))"
#define OTHER(name) " WHEN d." #name " != s." #name TOLD(name)
#define OTHER_MEAN(name) " WHEN d." #name "_bits != s." #name "_bits" TOLD(name)
#define OTHER_OR_NONE(name) " WHEN d." #name " IS NOT s." #name TOLD(name)

#define OF_LAYOUT                                                              \
  " CASE" OTHER(bytes_end) OTHER(bytes_peak) OTHER_MEAN(bytes_mean)            \
      OTHER(pages_end) OTHER(pages_peak) OTHER_MEAN(pages_mean)                \
          OTHER(slack_end) OTHER(slack_peak) OTHER_MEAN(slack_mean)            \
              OTHER(vacated) OTHER(freed) OTHER(map_end) OTHER(map_peak)       \
                  OTHER_OR_NONE(loads) OTHER_OR_NONE(rewrites)                 \
                      OTHER_OR_NONE(moves) OTHER_OR_NONE(mti)                  \
                          OTHER_OR_NONE(break_even) OTHER_OR_NONE(kept_steps)  \
                              OTHER_OR_NONE(fullest_steps) " END AS what"
#define OF_CACHE                                                               \
  " CASE" OTHER(looked) OTHER(hits) OTHER(fetched) OTHER(fetched_peak)         \
      OTHER(held_peak) " END AS what"
#define OF_POOL                                                                \
  " CASE" OTHER(page) OTHER(pages) OTHER(steps) OTHER(peak) OTHER(held)        \
      OTHER(unused) OTHER(unused_peak) OTHER(moved) OTHER(list_operations)     \
          OTHER(running) OTHER(waiting) OTHER(map_peak) OTHER(running_peak)    \
              OTHER(waiting_peak) " END AS what"

static const char two_layouts[] =
    "SELECT printf('%s on %s in layout %s has %s', spec, name, layout, what)"
    " FROM (SELECT r.key, r.spec, t.name, d.layout," OF_LAYOUT
    " FROM main.layout d JOIN main.run r USING (run_id)"
    " JOIN main.trace t USING (identity) JOIN source.run f USING (key)"
    " JOIN source.layout s ON s.run_id = f.run_id AND s.layout = d.layout)"
    " WHERE what NOT NULL ORDER BY key, layout LIMIT 1";

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
    "SELECT printf('%s on %s in cache %s has %s', spec, name, cache, what)"
    " FROM (SELECT r.key, r.spec, t.name, d.cache," OF_CACHE
    " FROM main.device_cache d JOIN main.run r USING (run_id)"
    " JOIN main.trace t USING (identity) JOIN source.run f USING (key)"
    " JOIN source.device_cache s ON s.run_id = f.run_id AND s.cache = d.cache)"
    " WHERE what NOT NULL ORDER BY key, cache LIMIT 1";

static const char two_survivals[] =
    "SELECT printf('%s on %s lets other tokens survive in layer %s, lane %s',"
    " r.spec, t.name, d.layer, d.lane) FROM main.survival d"
    " JOIN main.run r USING (run_id) JOIN main.trace t USING (identity)"
    " JOIN source.run f USING (key) JOIN source.survival s ON s.run_id = "
    "f.run_id"
    "  AND s.layer = d.layer AND s.lane = d.lane"
    " WHERE d.gone != s.gone OR d.shown != s.shown"
    " ORDER BY r.key, d.layer, d.lane LIMIT 1";

static const char two_pools[] =
    "SELECT printf('the pool %.16s has %s', pool, what) FROM (SELECT"
    " d.pool," OF_POOL " FROM main.pool d JOIN source.pool s USING (pool))"
    " WHERE what NOT NULL ORDER BY pool LIMIT 1";

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
  static const char *const others[] = {two_scalars, two_budgets,    two_layouts,
                                       two_moments, two_survivals,  two_caches,
                                       two_pools,   two_evaluations};
  int rc = ask(db, two_results, path, tell_results);
  for (size_t i = 0; i < sizeof others / sizeof *others && !rc; i++)
    rc = ask(db, others[i], path, tell);
  return rc;
}
