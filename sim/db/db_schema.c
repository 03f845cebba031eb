/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema, as numbered steps that only go forward: a released step is
 * never edited, a change is a new step at the end. The first is 0.1.0's; later
 * ones are SQL files of their own, which kvreport reads, too.
 *
 * A number that must be exact is stored twice: as REAL for people, and its 64
 * bits as an integer for us. Parts (part 0 is the run, then layers, KV heads,
 * bins of steps) refer to their run by a small integer that means nothing
 * outside the file: across files only keys and digests count.
 */
#include "sim/db/db_private.h"
#include "sim/db/step_2_sql.h"

static const char tables[] =
    /* Traces and environments, which runs refer to. */
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
    " STRICT;"
    /* The runs, and the budgets they were asked for with. observe: what the
     * prompt_len was asked for as (sim/spec/observe.h); scores: null where
     * nobody looked. scalar: the numbers of a run, a row each
     * (sim/measure/scalar.c), a real with all its 64 bits; held: what it holds
     * at the end, a row a kind of bytes (ref/lane/ledger.h): a new number or
     * kind needs no step; total: 1 where it adds to the total, 0 where its
     * bytes are part of other kinds. */
    "CREATE TABLE run("
    " run_id INTEGER PRIMARY KEY,"
    " key TEXT NOT NULL UNIQUE CHECK (length(key) = 64),"
    " subject TEXT NOT NULL CHECK (length(subject) = 64),"
    " identity TEXT NOT NULL REFERENCES trace, prompt_len INTEGER NOT NULL,"
    " method TEXT NOT NULL, revision INTEGER NOT NULL, code TEXT NOT NULL,"
    " params TEXT NOT NULL, spec TEXT NOT NULL,"
    " arithmetic INTEGER NOT NULL, budget INTEGER, observe TEXT NOT NULL,"
    " status TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed')),"
    " reason TEXT NOT NULL,"
    " journal TEXT CHECK (length(journal) = 64),"
    " state TEXT CHECK (length(state) = 64),"
    " output TEXT CHECK (length(output) = 64),"
    " scores TEXT CHECK (length(scores) = 64),"
    " value TEXT CHECK (length(value) = 64),"
    " measures INTEGER NOT NULL,"
    " CHECK ((status = 'ok') = (journal IS NOT NULL))) STRICT;"
    "CREATE INDEX run_subject ON run(subject);"
    "CREATE TABLE ask("
    " run_id INTEGER NOT NULL REFERENCES run,"
    " basis TEXT NOT NULL, target TEXT NOT NULL,"
    " status TEXT NOT NULL"
    " CHECK (status IN ('ok', 'fixed', 'refused', 'failed')),"
    " achieved REAL, achieved_bits INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, basis, target)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE scalar("
    " run_id INTEGER NOT NULL REFERENCES run, name TEXT NOT NULL,"
    " value ANY NOT NULL,"
    " PRIMARY KEY (run_id, name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE held("
    " run_id INTEGER NOT NULL REFERENCES run, kind TEXT NOT NULL,"
    " total INTEGER NOT NULL CHECK (total IN (0, 1)),"
    " bytes INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, kind)) STRICT, WITHOUT ROWID;"
    /* Layers, heads and steps of runs. drift: sim/measure/README.md; squares:
     * the sum of (value - mean)^2 over the values of the part; scanned: bytes
     * looked at in order to choose what is read. step_mean: of all layers and
     * query heads at each decode step, from the token after the prompt to the
     * last, as IEEE 754 binary32, little-endian; a NaN where no row has a
     * value. A measure that no step has a value of has no row. */
    "CREATE TABLE part("
    " run_id INTEGER NOT NULL REFERENCES run, part INTEGER NOT NULL,"
    " layer INTEGER NOT NULL, head INTEGER NOT NULL, bin INTEGER NOT NULL,"
    " first_step INTEGER NOT NULL, last_step INTEGER NOT NULL,"
    " kept REAL, kept_bits INTEGER NOT NULL,"
    " drift REAL, drift_bits INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, part)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE metric("
    " run_id INTEGER NOT NULL, part INTEGER NOT NULL, measure TEXT NOT NULL,"
    " count INTEGER NOT NULL,"
    " mean REAL, mean_bits INTEGER NOT NULL,"
    " p50 REAL, p50_bits INTEGER NOT NULL,"
    " p95 REAL, p95_bits INTEGER NOT NULL,"
    " p99 REAL, p99_bits INTEGER NOT NULL,"
    " max REAL, max_bits INTEGER NOT NULL,"
    " squares REAL, squares_bits INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, part, measure),"
    " FOREIGN KEY (run_id, part) REFERENCES part) STRICT, WITHOUT ROWID;"
    "CREATE TABLE step_cost("
    " run_id INTEGER NOT NULL REFERENCES run, step INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, codes INTEGER NOT NULL, read INTEGER NOT NULL,"
    " scanned INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, step)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE journal_digest("
    " run_id INTEGER NOT NULL REFERENCES run, layer INTEGER NOT NULL,"
    " journal TEXT NOT NULL CHECK (length(journal) = 64),"
    " state TEXT NOT NULL CHECK (length(state) = 64),"
    " output TEXT NOT NULL CHECK (length(output) = 64),"
    " scores TEXT CHECK (length(scores) = 64),"
    " PRIMARY KEY (run_id, layer)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE step_mean("
    " run_id INTEGER NOT NULL REFERENCES run, measure TEXT NOT NULL,"
    " mean BLOB NOT NULL CHECK (length(mean) % 4 = 0),"
    " PRIMARY KEY (run_id, measure)) STRICT;"
    /* Confirmations, conflicts, and found budgets. */
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
    " STRICT, WITHOUT ROWID;"
    /* Views for people: parts with their names. */
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
    " WHERE bin >= 0;"
    /* Unfinished work: layers of cells, probes of a search. */
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
    " PRIMARY KEY (search, entries)) STRICT, WITHOUT ROWID;"
    /* Memory layouts of a run; bytes of K and V alone. From unused_end on: of
     * layouts with page tables; from lanes on: of those of regular indices
     * (sim/layout/regular.h); null of others. rewritten: null too where no
     * block has a rewrite; break_even: where none paid within the steps. */
    "CREATE TABLE layout("
    " run_id INTEGER NOT NULL REFERENCES run, layout TEXT NOT NULL,"
    " pages_end INTEGER NOT NULL, pages_peak INTEGER NOT NULL,"
    " pages_mean REAL NOT NULL, pages_mean_bits INTEGER NOT NULL,"
    " bytes_end INTEGER NOT NULL, bytes_peak INTEGER NOT NULL,"
    " bytes_mean REAL NOT NULL, bytes_mean_bits INTEGER NOT NULL,"
    " slack_end INTEGER NOT NULL, slack_peak INTEGER NOT NULL,"
    " slack_mean REAL NOT NULL, slack_mean_bits INTEGER NOT NULL,"
    " vacated INTEGER NOT NULL, freed INTEGER NOT NULL,"
    " unused_end INTEGER, unused_peak INTEGER, moved INTEGER,"
    " table_entries INTEGER, list_operations INTEGER,"
    " lanes INTEGER, loads INTEGER, rewrites INTEGER, rewritten INTEGER,"
    " moves INTEGER, moved_bytes INTEGER, mask_end INTEGER, mti INTEGER,"
    " kept_steps INTEGER, fullest_steps INTEGER, break_even INTEGER,"
    " PRIMARY KEY (run_id, layout)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE layout_step("
    " run_id INTEGER NOT NULL, layout TEXT NOT NULL, step INTEGER NOT NULL,"
    " pages INTEGER NOT NULL, bytes INTEGER NOT NULL, slack INTEGER NOT NULL,"
    " vacated INTEGER NOT NULL, freed INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, layout, step),"
    " FOREIGN KEY (run_id, layout) REFERENCES layout) STRICT, WITHOUT ROWID;"
    /* What became of every token, where that was asked for: for each the
     * tokens seen when it was stored no more (0: never), and the decode steps
     * at which it was shown, as 32-bit integers, little-endian. */
    "CREATE TABLE survival("
    " run_id INTEGER NOT NULL REFERENCES run, layer INTEGER NOT NULL,"
    " lane INTEGER NOT NULL,"
    " gone BLOB NOT NULL CHECK (length(gone) % 4 = 0),"
    " shown BLOB NOT NULL CHECK (length(shown) = length(gone)),"
    " PRIMARY KEY (run_id, layer, lane)) STRICT;"
    /* Pools of pages that requests shared, named by a digest (db_pool.c), and
     * those requests; steps are the pool's. held: pages in use after each step,
     * summed; unused: bytes of these in which no token lies, summed. refused:
     * the step in which a request found too few pages, else null like those
     * behind it. */
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
    " PRIMARY KEY (pool, place)) STRICT, WITHOUT ROWID;"
    /* What is found in a trace without a replay, a number a row, stored by
     * sim/python/kvreplay/figures: its name, the recorded layer and KV head
     * (-1: the layer's), which of several series and which part of it, and
     * where on two axes.
     * value: a whole number, a real, whose 64 bits stay as they are, or 32-bit
     * integers, little-endian. And files of compressors that such numbers are
     * about; length: of the pieces that it learned from, null where the file
     * does not say; code: of runs that read it (run.code); learned: with which
     * references. */
    "CREATE TABLE figure("
    " identity TEXT NOT NULL REFERENCES trace, figure TEXT NOT NULL,"
    " layer INTEGER NOT NULL, head INTEGER NOT NULL,"
    " series TEXT NOT NULL, part TEXT NOT NULL,"
    " x INTEGER NOT NULL, y INTEGER NOT NULL, value ANY NOT NULL,"
    " PRIMARY KEY (identity, figure, layer, head, series, part, x, y))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE compressor("
    " digest TEXT PRIMARY KEY CHECK (length(digest) = 64),"
    " file TEXT NOT NULL, kind TEXT NOT NULL, width INTEGER NOT NULL,"
    " latent INTEGER NOT NULL, hidden INTEGER NOT NULL, length INTEGER,"
    " code TEXT, learned TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    /* Evaluations: what a model answered to a question while a method held its
     * cache, and on which platform (evaluation_name.c has the digests that
     * name each). n_tokens: prompt, question and answer together. method: as
     * asked; budget: as -b of the session; answer: digest of the tokens;
     * evaluator: who has found the same, evaluation_diff: who another one.
     * evaluated: the numbers of one, a row each, a real with all its 64 bits;
     * quantity: what numbers of that name are (evaluation_number.c). */
    "CREATE TABLE model("
    " model_digest TEXT PRIMARY KEY CHECK (length(model_digest) = 64),"
    " model TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE question("
    " question TEXT PRIMARY KEY CHECK (length(question) = 64),"
    " model_digest TEXT NOT NULL REFERENCES model,"
    " task TEXT NOT NULL, item TEXT NOT NULL, number INTEGER NOT NULL,"
    " request_digest TEXT NOT NULL CHECK (length(request_digest) = 64),"
    " prompt_len INTEGER NOT NULL, n_tokens INTEGER NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE platform("
    " platform TEXT PRIMARY KEY CHECK (length(platform) = 64),"
    " torch TEXT NOT NULL, transformers TEXT NOT NULL,"
    " processor TEXT NOT NULL, threads INTEGER NOT NULL,"
    " dtype TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE evaluation("
    " evaluation_id INTEGER PRIMARY KEY,"
    " key TEXT NOT NULL UNIQUE CHECK (length(key) = 64),"
    " question TEXT NOT NULL REFERENCES question,"
    " platform TEXT NOT NULL REFERENCES platform,"
    " method TEXT NOT NULL, revision INTEGER NOT NULL, code TEXT NOT NULL,"
    " arithmetic INTEGER NOT NULL, basis TEXT NOT NULL, target TEXT NOT NULL,"
    " spec TEXT NOT NULL, budget TEXT NOT NULL,"
    " status TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed')),"
    " reason TEXT NOT NULL,"
    " answer TEXT CHECK (length(answer) = 64)) STRICT;"
    "CREATE TABLE quantity("
    " name TEXT PRIMARY KEY, unit TEXT NOT NULL, combine TEXT NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE evaluated("
    " evaluation_id INTEGER NOT NULL REFERENCES evaluation,"
    " name TEXT NOT NULL REFERENCES quantity, value ANY NOT NULL,"
    " PRIMARY KEY (evaluation_id, name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE evaluator("
    " evaluation_id INTEGER NOT NULL REFERENCES evaluation,"
    " environment_id INTEGER NOT NULL REFERENCES environment,"
    " PRIMARY KEY (evaluation_id, environment_id)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE evaluation_diff("
    " evaluation_id INTEGER NOT NULL REFERENCES evaluation,"
    " environment_id INTEGER NOT NULL REFERENCES environment,"
    " what TEXT NOT NULL, status TEXT NOT NULL,"
    " answer TEXT CHECK (length(answer) = 64),"
    " PRIMARY KEY (evaluation_id, environment_id, what))"
    " STRICT, WITHOUT ROWID;";

#define PART(type, member, least) KV_DB_OF(type, kv_part, member, least)
#define STAT(member) KV_DB_OF('d', kv_stat, member, 0)
#define STEP(member) KV_DB_OF('i', kv_step_cost, member, 0)

const kv_db_column kv_db_of_part[] = {
    PART('n', layer, -1),    PART('n', head, -1),
    PART('n', bin, -1),      PART('n', first_step, 0),
    PART('n', last_step, 0), PART('d', kept, 0),
    PART('d', drift, 0),     {0}};
const kv_db_column kv_db_of_stat[] = {KV_DB_OF('i', kv_stat, count, 0),
                                      STAT(mean),
                                      STAT(p50),
                                      STAT(p95),
                                      STAT(p99),
                                      STAT(max),
                                      STAT(squares),
                                      {0}};
const kv_db_column kv_db_of_step[] = {KV_DB_OF('n', kv_step_cost, step, 0),
                                      STEP(bytes),
                                      STEP(codes),
                                      STEP(read),
                                      STEP(scanned),
                                      {0}};

const char *const kv_db_steps[] = {tables, step_2_sql};
const int kv_db_n_steps = sizeof kv_db_steps / sizeof *kv_db_steps;
