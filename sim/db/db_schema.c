/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema, as numbered steps that only go forward: a released step is
 * never edited, a change is a new step at the end.
 *
 * A number that must be exact is stored twice: as REAL for people, and its 64
 * bits as an integer for us. Parts (part 0 is the run, then layers, KV heads,
 * bins of steps) refer to their run by a small integer that means nothing
 * outside the file: across files only keys and digests count.
 */
#include "sim/db/db_private.h"

/* 1: traces and environments, which runs refer to. */
static const char traces[] =
    "CREATE TABLE trace("
    " identity TEXT PRIMARY KEY CHECK (length(identity) = 64),"
    " name TEXT NOT NULL, n_tokens INTEGER NOT NULL,"
    " n_layers INTEGER, n_heads INTEGER, n_kv_heads INTEGER,"
    " d INTEGER, d_v INTEGER, dtype TEXT) STRICT, WITHOUT ROWID;"
    "CREATE TABLE artefact("
    " identity TEXT NOT NULL REFERENCES trace, kind TEXT NOT NULL,"
    " path TEXT NOT NULL,"
    " PRIMARY KEY (identity, kind, path)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE shard("
    " identity TEXT NOT NULL REFERENCES trace, path TEXT NOT NULL,"
    " number INTEGER NOT NULL, file TEXT NOT NULL,"
    " PRIMARY KEY (identity, path, number)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE environment("
    " environment_id INTEGER PRIMARY KEY,"
    " digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),"
    " version TEXT NOT NULL, commit_name TEXT NOT NULL,"
    " dirty INTEGER NOT NULL, compiler TEXT NOT NULL, flags TEXT NOT NULL,"
    " cpu TEXT NOT NULL, isa TEXT NOT NULL, cores INTEGER NOT NULL,"
    " os TEXT NOT NULL, locale TEXT NOT NULL, ftz INTEGER NOT NULL,"
    " daz INTEGER NOT NULL, rounding TEXT NOT NULL, sqlite TEXT NOT NULL,"
    " jansson TEXT NOT NULL, command TEXT NOT NULL, started TEXT NOT NULL)"
    " STRICT;";

/* 2: the runs, and the budgets they were asked for with. */
static const char runs[] =
    "CREATE TABLE run("
    " run_id INTEGER PRIMARY KEY,"
    " key TEXT NOT NULL UNIQUE CHECK (length(key) = 64),"
    " subject TEXT NOT NULL CHECK (length(subject) = 64),"
    " identity TEXT NOT NULL REFERENCES trace, prompt_len INTEGER NOT NULL,"
    " method TEXT NOT NULL, revision INTEGER NOT NULL, code TEXT NOT NULL,"
    " params TEXT NOT NULL, spec TEXT NOT NULL,"
    " arithmetic INTEGER NOT NULL, budget INTEGER,"
    " status TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed')),"
    " reason TEXT NOT NULL,"
    " journal TEXT CHECK (length(journal) = 64),"
    " state TEXT CHECK (length(state) = 64),"
    " output TEXT CHECK (length(output) = 64),"
    " value TEXT CHECK (length(value) = 64),"
    " measures INTEGER NOT NULL,"
    " payload INTEGER, metadata INTEGER, columns INTEGER, side INTEGER,"
    " slack INTEGER, codes_end INTEGER, peak INTEGER, codes_peak INTEGER,"
    " mti INTEGER, moved INTEGER, verbs INTEGER,"
    " kept_min INTEGER, kept_max INTEGER,"
    " mean REAL, mean_bits INTEGER, codes_mean REAL, codes_mean_bits INTEGER,"
    " read REAL, read_bits INTEGER, kr REAL, kr_bits INTEGER,"
    " cr REAL, cr_bits INTEGER, kept REAL, kept_bits INTEGER,"
    " attended REAL, attended_bits INTEGER,"
    " CHECK ((status = 'ok') = (journal IS NOT NULL))) STRICT;"
    "CREATE INDEX run_subject ON run(subject);"
    "CREATE TABLE ask("
    " run_id INTEGER NOT NULL REFERENCES run,"
    " basis TEXT NOT NULL, target TEXT NOT NULL,"
    " status TEXT NOT NULL"
    " CHECK (status IN ('ok', 'fixed', 'refused', 'failed')),"
    " achieved REAL, achieved_bits INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, basis, target)) STRICT, WITHOUT ROWID;";

/* 3: layers, heads and steps of runs. */
static const char parts[] =
    "CREATE TABLE part("
    " run_id INTEGER NOT NULL REFERENCES run, part INTEGER NOT NULL,"
    " layer INTEGER NOT NULL, head INTEGER NOT NULL, bin INTEGER NOT NULL,"
    " first_step INTEGER NOT NULL, last_step INTEGER NOT NULL,"
    " kept REAL, kept_bits INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, part)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE metric("
    " run_id INTEGER NOT NULL, part INTEGER NOT NULL, measure TEXT NOT NULL,"
    " count INTEGER NOT NULL,"
    " mean REAL, mean_bits INTEGER NOT NULL,"
    " p50 REAL, p50_bits INTEGER NOT NULL,"
    " p95 REAL, p95_bits INTEGER NOT NULL,"
    " p99 REAL, p99_bits INTEGER NOT NULL,"
    " max REAL, max_bits INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, part, measure),"
    " FOREIGN KEY (run_id, part) REFERENCES part) STRICT, WITHOUT ROWID;"
    "CREATE TABLE step_cost("
    " run_id INTEGER NOT NULL REFERENCES run, step INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, codes INTEGER NOT NULL, read INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, step)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE journal_digest("
    " run_id INTEGER NOT NULL REFERENCES run, layer INTEGER NOT NULL,"
    " journal TEXT NOT NULL CHECK (length(journal) = 64),"
    " state TEXT NOT NULL CHECK (length(state) = 64),"
    " output TEXT NOT NULL CHECK (length(output) = 64),"
    " PRIMARY KEY (run_id, layer)) STRICT, WITHOUT ROWID;";

/* 4: confirmations, conflicts, and found budgets. */
static const char checks[] =
    "CREATE TABLE confirmation("
    " run_id INTEGER NOT NULL REFERENCES run,"
    " environment_id INTEGER NOT NULL REFERENCES environment,"
    " backend TEXT NOT NULL, isa TEXT NOT NULL, threads INTEGER NOT NULL,"
    " seconds REAL,"
    " journal TEXT CHECK (length(journal) = 64),"
    " state TEXT CHECK (length(state) = 64),"
    " output TEXT CHECK (length(output) = 64),"
    " PRIMARY KEY (run_id, environment_id, backend, isa, threads))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE diff("
    " run_id INTEGER NOT NULL REFERENCES run,"
    " environment_id INTEGER NOT NULL REFERENCES environment,"
    " backend TEXT NOT NULL, isa TEXT NOT NULL, threads INTEGER NOT NULL,"
    " layer INTEGER, what TEXT NOT NULL, status TEXT NOT NULL,"
    " journal TEXT CHECK (length(journal) = 64),"
    " state TEXT CHECK (length(state) = 64),"
    " output TEXT CHECK (length(output) = 64),"
    " value TEXT CHECK (length(value) = 64),"
    " PRIMARY KEY (run_id, environment_id, backend, isa, threads, what))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE budget("
    " key TEXT PRIMARY KEY CHECK (length(key) = 64),"
    " identity TEXT NOT NULL REFERENCES trace, method TEXT NOT NULL,"
    " basis TEXT NOT NULL, target TEXT NOT NULL, budget INTEGER)"
    " STRICT, WITHOUT ROWID;";

/* 5: views for people: parts with their names. */
static const char views[] =
    "CREATE VIEW run_metric AS SELECT r.key, measure, count, m.mean, p50, p95, "
    "p99, max"
    " FROM metric m JOIN part p USING (run_id, part)"
    " JOIN run r USING (run_id)"
    " WHERE part = 0;"
    "CREATE VIEW layer_metric AS SELECT r.key, layer, measure, count, m.mean, "
    "p50, p95, p99, max"
    " FROM metric m JOIN part p USING (run_id, part)"
    " JOIN run r USING (run_id)"
    " WHERE part > 0 AND head < 0 AND bin < 0;"
    "CREATE VIEW head_metric AS SELECT r.key, layer, head, measure, count, "
    "m.mean, p50, p95, p99, max"
    " FROM metric m JOIN part p USING (run_id, part)"
    " JOIN run r USING (run_id)"
    " WHERE head >= 0 AND bin < 0;"
    "CREATE VIEW step_metric AS SELECT r.key, layer, head, bin,"
    " first_step, last_step, measure, count, m.mean, p50, p95, p99, max"
    " FROM metric m JOIN part p USING (run_id, part)"
    " JOIN run r USING (run_id)"
    " WHERE bin >= 0;";

/* 6: unfinished work: layers of cells, probes of a search. */
static const char partials[] =
    "CREATE TABLE partial("
    " partial_id INTEGER PRIMARY KEY,"
    " key TEXT NOT NULL CHECK (length(key) = 64),"
    " backend TEXT NOT NULL, isa TEXT NOT NULL,"
    " layer INTEGER NOT NULL CHECK (layer >= 0),"
    " build TEXT NOT NULL, kept TEXT NOT NULL,"
    " digest TEXT NOT NULL CHECK (length(digest) = 64),"
    " content BLOB NOT NULL,"
    " UNIQUE (key, backend, isa, layer)) STRICT;"
    "CREATE TABLE probe("
    " search TEXT NOT NULL CHECK (length(search) = 64),"
    " entries INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " dense INTEGER NOT NULL,"
    " PRIMARY KEY (search, entries)) STRICT, WITHOUT ROWID;";

/* 7: digests of the scores shown to selections; null if not taken. */
static const char scores[] =
    "ALTER TABLE run ADD COLUMN scores TEXT CHECK (length(scores) = 64);"
    "ALTER TABLE journal_digest ADD COLUMN scores TEXT"
    " CHECK (length(scores) = 64);";

/* 8: what a run holds at the end, a row a kind of bytes (ref/lane/ledger.h): a
 * new kind needs no step. total: 1 where it adds to the total, 0 where its
 * bytes are part of other kinds. */
#define HELD(kind)                                                             \
  "INSERT INTO held SELECT run_id, '" kind "', 1, " kind                       \
  " FROM run WHERE " kind " IS NOT NULL;"                                      \
  "ALTER TABLE run DROP COLUMN " kind ";"
static const char kinds[] =
    "CREATE TABLE held("
    " run_id INTEGER NOT NULL REFERENCES run, kind TEXT NOT NULL,"
    " total INTEGER NOT NULL CHECK (total IN (0, 1)),"
    " bytes INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, kind)) STRICT, WITHOUT ROWID;" /*
                                                           */
    HELD("payload") HELD("metadata") HELD("columns") HELD("side") HELD("slack");
#undef HELD

/* 9: memory layouts of a run; bytes of K and V alone. */
static const char layouts[] =
    "CREATE TABLE layout("
    " run_id INTEGER NOT NULL REFERENCES run, layout TEXT NOT NULL,"
    " pages_end INTEGER NOT NULL, pages_peak INTEGER NOT NULL,"
    " pages_mean REAL NOT NULL, pages_mean_bits INTEGER NOT NULL,"
    " bytes_end INTEGER NOT NULL, bytes_peak INTEGER NOT NULL,"
    " bytes_mean REAL NOT NULL, bytes_mean_bits INTEGER NOT NULL,"
    " slack_end INTEGER NOT NULL, slack_peak INTEGER NOT NULL,"
    " slack_mean REAL NOT NULL, slack_mean_bits INTEGER NOT NULL,"
    " vacated INTEGER NOT NULL, freed INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, layout)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE layout_step("
    " run_id INTEGER NOT NULL, layout TEXT NOT NULL, step INTEGER NOT NULL,"
    " pages INTEGER NOT NULL, bytes INTEGER NOT NULL, slack INTEGER NOT NULL,"
    " vacated INTEGER NOT NULL, freed INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, layout, step),"
    " FOREIGN KEY (run_id, layout) REFERENCES layout) STRICT, WITHOUT ROWID;";

/* 10: bytes looked at in order to choose what is read; null in rows of an
 * earlier kvreplay. */
static const char scanned[] =
    "ALTER TABLE run ADD COLUMN scanned REAL;"
    "ALTER TABLE run ADD COLUMN scanned_bits INTEGER;"
    "ALTER TABLE step_cost ADD COLUMN scanned INTEGER;";

/* 11: what intervals are made of; null, and without rows, in runs of an earlier
 * kvreplay. squares: the sum of (value - mean)^2 over the values of the part.
 * mean: of all layers and query heads at each decode step, from the token
 * after the prompt to the last, as IEEE 754 binary32, little-endian; a NaN
 * where no row has a value. A measure that no step has a value of has no row.
 */
static const char moments[] =
    "ALTER TABLE metric ADD COLUMN squares REAL;"
    "ALTER TABLE metric ADD COLUMN squares_bits INTEGER;"
    "CREATE TABLE step_mean("
    " run_id INTEGER NOT NULL REFERENCES run, measure TEXT NOT NULL,"
    " mean BLOB NOT NULL CHECK (length(mean) % 4 = 0),"
    " PRIMARY KEY (run_id, measure)) STRICT;";

/* 12: bytes of the tensors that a method was lent, once for all requests; 0
 * where it reads no file, null in rows of an earlier kvreplay. */
static const char assets[] = "ALTER TABLE run ADD COLUMN asset_bytes INTEGER"
                             " CHECK (asset_bytes >= 0);";

/* 13: what the prompt_len was asked for as (sim/spec/observe.h); the rows of an
 * earlier kvreplay knew of nothing else than what was recorded. */
static const char observe[] = "ALTER TABLE run ADD COLUMN observe TEXT NOT NULL"
                              " DEFAULT 'recorded';";

/* 14: bytes that decode steps fetched from the host's memory, in all; 0 where
 * nothing lies there, null in rows of an earlier kvreplay. */
static const char fetched[] = "ALTER TABLE run ADD COLUMN fetched INTEGER"
                              " CHECK (fetched >= 0);";

/* 15: what became of every token, where that was asked for: for each the tokens
 * seen when it was stored no more (0: never), and the decode steps at which it
 * was shown, as 32-bit integers, little-endian. */
static const char survivals[] =
    "CREATE TABLE survival("
    " run_id INTEGER NOT NULL REFERENCES run, layer INTEGER NOT NULL,"
    " lane INTEGER NOT NULL,"
    " gone BLOB NOT NULL CHECK (length(gone) % 4 = 0),"
    " shown BLOB NOT NULL CHECK (length(shown) = length(gone)),"
    " PRIMARY KEY (run_id, layer, lane)) STRICT;";

/* 16: of layouts with page tables; null of others. */
static const char tables[] =
    "ALTER TABLE layout ADD COLUMN unused_end INTEGER;"
    "ALTER TABLE layout ADD COLUMN unused_peak INTEGER;"
    "ALTER TABLE layout ADD COLUMN moved INTEGER;"
    "ALTER TABLE layout ADD COLUMN table_entries INTEGER;"
    "ALTER TABLE layout ADD COLUMN list_operations INTEGER;";

/* 17: what a trace's heads attend to (traces/trace/sparsity.h), by recorded
 * layer and KV head: rows looked at, the tokens that 95 % of their mass needs
 * and those that they see, summed over rows; how many tokens have a score, and
 * those of each class of score and norm of the value. */
static const char attentions[] =
    "CREATE TABLE attention("
    " identity TEXT NOT NULL REFERENCES trace, layer INTEGER NOT NULL,"
    " head INTEGER NOT NULL, rows INTEGER NOT NULL,"
    " critical INTEGER NOT NULL, seen INTEGER NOT NULL,"
    " tokens INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, head)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE spread("
    " identity TEXT NOT NULL, layer INTEGER NOT NULL, head INTEGER NOT NULL,"
    " score INTEGER NOT NULL, norm INTEGER NOT NULL, tokens INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, head, score, norm),"
    " FOREIGN KEY (identity, layer, head) REFERENCES attention)"
    " STRICT, WITHOUT ROWID;";

/* 18: pools of pages that requests shared, named by a digest (db_pool.c), and
 * those requests; steps are the pool's. held: pages in use after each step,
 * summed; unused: bytes of these in which no token lies, summed. refused: the
 * step in which a request found too few pages, else null like those behind it.
 */
static const char pools[] =
    "CREATE TABLE pool("
    " pool TEXT PRIMARY KEY CHECK (length(pool) = 64),"
    " layout TEXT NOT NULL, bytes INTEGER NOT NULL, every INTEGER NOT NULL,"
    " page INTEGER NOT NULL, pages INTEGER NOT NULL,"
    " requests INTEGER NOT NULL, steps INTEGER NOT NULL,"
    " peak INTEGER NOT NULL, held INTEGER NOT NULL,"
    " unused INTEGER NOT NULL, unused_peak INTEGER NOT NULL,"
    " moved INTEGER NOT NULL, table_entries INTEGER NOT NULL,"
    " list_operations INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE request("
    " pool TEXT NOT NULL REFERENCES pool, place INTEGER NOT NULL,"
    " run_id INTEGER NOT NULL REFERENCES run,"
    " arrives INTEGER NOT NULL, ends INTEGER NOT NULL,"
    " pages_peak INTEGER NOT NULL, refused INTEGER, holds INTEGER,"
    " wanted INTEGER, spare INTEGER,"
    " PRIMARY KEY (pool, place)) STRICT, WITHOUT ROWID;";

/* 19: of layouts of regular indices (sim/layout/regular.h); null of others.
 * rewritten: null too where no block has a rewrite; break_even: where none paid
 * within the row's steps. */
static const char regular[] =
    "ALTER TABLE layout ADD COLUMN lanes INTEGER;"
    "ALTER TABLE layout ADD COLUMN loads INTEGER;"
    "ALTER TABLE layout ADD COLUMN rewrites INTEGER;"
    "ALTER TABLE layout ADD COLUMN rewritten INTEGER;"
    "ALTER TABLE layout ADD COLUMN moves INTEGER;"
    "ALTER TABLE layout ADD COLUMN moved_bytes INTEGER;"
    "ALTER TABLE layout ADD COLUMN mask_end INTEGER;"
    "ALTER TABLE layout ADD COLUMN mti INTEGER;"
    "ALTER TABLE layout ADD COLUMN kept_steps INTEGER;"
    "ALTER TABLE layout ADD COLUMN fullest_steps INTEGER;"
    "ALTER TABLE layout ADD COLUMN break_even INTEGER;";

/* 20: drift of each part (sim/measure/README.md); null in rows of an earlier
 * kvreplay. And what a share of the probability selects in a trace
 * (sim/look/selection.h): of rows of each recorded layer and KV head, named by
 * their token, the log-sum-exp of their logits; by adapter and share in percent
 * how many tokens are selected before and after calibration, and the
 * temperature; and of a layer's KV heads together how many of them select each
 * 64th of the trace's tokens, as 32-bit integers, little-endian. */
static const char selections[] =
    "ALTER TABLE part ADD COLUMN drift REAL;"
    "ALTER TABLE part ADD COLUMN drift_bits INTEGER;"
    "CREATE TABLE selection_row("
    " identity TEXT NOT NULL REFERENCES trace, layer INTEGER NOT NULL,"
    " head INTEGER NOT NULL, token INTEGER NOT NULL,"
    " lse REAL NOT NULL, lse_bits INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, head, token)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE selection("
    " identity TEXT NOT NULL, layer INTEGER NOT NULL, head INTEGER NOT NULL,"
    " token INTEGER NOT NULL, adapter TEXT NOT NULL, share INTEGER NOT NULL,"
    " before INTEGER NOT NULL, after INTEGER NOT NULL,"
    " temperature REAL NOT NULL, temperature_bits INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, head, token, adapter, share),"
    " FOREIGN KEY (identity, layer, head, token) REFERENCES selection_row)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE selection_map("
    " identity TEXT NOT NULL REFERENCES trace, layer INTEGER NOT NULL,"
    " token INTEGER NOT NULL, adapter TEXT NOT NULL, share INTEGER NOT NULL,"
    " map BLOB NOT NULL CHECK (length(map) % 4 = 0),"
    " PRIMARY KEY (identity, layer, token, adapter, share)) STRICT;";

/* 21: how alike a trace's tokens are; 22 and 23: what compressors miss of them
 * (db_schema_similarity.c). */

const char *const kv_db_steps[] = {traces,
                                   runs,
                                   parts,
                                   checks,
                                   views,
                                   partials,
                                   scores,
                                   kinds,
                                   layouts,
                                   scanned,
                                   moments,
                                   assets,
                                   observe,
                                   fetched,
                                   survivals,
                                   tables,
                                   attentions,
                                   pools,
                                   regular,
                                   selections,
                                   kv_db_step_similarities,
                                   kv_db_step_rebuilt,
                                   kv_db_step_codes,
                                   kv_db_step_learned};
const int kv_db_n_steps = sizeof kv_db_steps / sizeof *kv_db_steps;
