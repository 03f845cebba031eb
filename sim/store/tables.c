/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of tables.h.
 *
 * A number that must be exact is stored twice: as REAL for people, and its 64
 * bits as an integer for programs. Parts (part 0 is the run, then layers, KV
 * heads, bins of steps) refer to their run by a small integer that means
 * nothing outside the file: only keys and digests are valid across files.
 */
#include "sim/store/tables.h"

#include "sim/replay/measure/result.h"

const int kv_db_schema = 4; /* increases with every change of the tables */

/* A table WITHOUT ROWID, and one whose rows are numbered. rest: constraints
 * beyond the key, or NULL. */
#define TABLE(table, rest, ...) ROWS_OR_NOT(table, rest, false, __VA_ARGS__)
#define ROWS(table, rest, ...) ROWS_OR_NOT(table, rest, true, __VA_ARGS__)
#define ROWS_OR_NOT(table, rest, rows, ...)                                    \
  static const kv_db_column table##_columns[] = {__VA_ARGS__, {0}};            \
  static const kv_db_table table = {#table, table##_columns, rest, rows};

/* Columns that the caller binds. */
#define SQL(name, rule, sql)                                                   \
  { #name, sql, 0, KV_DB_##rule, 0, 0 }
#define TEXT(name) SQL(name, FIRST, "TEXT NOT NULL")
#define WHOLE(name) SQL(name, FIRST, "INTEGER NOT NULL")
#define WHOLE_OR(name) SQL(name, ANY, "INTEGER")
#define KEY_TEXT(name) SQL(name, KEY, "TEXT NOT NULL")
#define KEY_WHOLE(name) SQL(name, KEY, "INTEGER NOT NULL")
#define DIGEST(name, rule)                                                     \
  SQL(name, rule, "TEXT NOT NULL CHECK (length(" #name ") = 64)")
#define DIGEST_OR(name, rule)                                                  \
  SQL(name, rule, "TEXT CHECK (length(" #name ") = 64)")
#define RUN SQL(run_id, KEY, "INTEGER NOT NULL REFERENCES run")
#define ENVIRONMENT                                                            \
  SQL(environment_id, KEY, "INTEGER NOT NULL REFERENCES environment")
#define EVALUATION                                                             \
  SQL(evaluation_id, KEY, "INTEGER NOT NULL REFERENCES evaluation")

/* Members of the struct OF; _AS if the column has another name. */
#define MEMBER(name, member, sql, type, rule, least)                           \
  { #name, sql, type, KV_DB_##rule, offsetof(OF, member), least }
#define N(name, least) MEMBER(name, name, "INTEGER NOT NULL", 'n', SAME, least)
#define I(name) I_AS(name, name)
#define I_AS(name, member)                                                     \
  MEMBER(name, member, "INTEGER NOT NULL", 'i', SAME, 0)
#define ANY_I(name, member)                                                    \
  MEMBER(name, member, "INTEGER NOT NULL", 'i', SAME, INT64_MIN)
#define O(name) O_AS(name, name)
#define O_AS(name, member) MEMBER(name, member, "INTEGER", 'o', EQUAL, 0)
#define D(name) MEMBER(name, name, "REAL", 'd', SAME, 0)
#define D_AS(name, member) MEMBER(name, member, "REAL NOT NULL", 'd', SAME, 0)

ROWS(environment, NULL, SQL(environment_id, NUMBER, "INTEGER PRIMARY KEY"),
     DIGEST(digest, KEY), TEXT(version), TEXT(commit_name), WHOLE(dirty),
     TEXT(compiler), TEXT(flags), TEXT(cpu), TEXT(isa), WHOLE(cores), TEXT(os),
     TEXT(locale), WHOLE(ftz), WHOLE(daz), TEXT(rounding), TEXT(sqlite),
     TEXT(jansson), TEXT(command), TEXT(started))

/* Traces, which runs refer to. request: the same for two recordings of one
 * request (kv_trace_request). answer_by: who gave the marked answer, model or
 * user; null if unknown (kv_trace_answer_by). */
TABLE(trace, NULL, DIGEST(identity, KEY), SQL(name, LESSER, "TEXT NOT NULL"),
      SQL(n_tokens, GREATER, "INTEGER NOT NULL"), WHOLE_OR(n_layers),
      WHOLE_OR(n_heads), WHOLE_OR(n_kv_heads), WHOLE_OR(d), WHOLE_OR(d_v),
      SQL(dtype, ANY, "TEXT"), DIGEST_OR(request, ANY),
      SQL(answer_by, ANY, "TEXT"))

TABLE(artefact, NULL, SQL(identity, KEY, "TEXT NOT NULL REFERENCES trace"),
      KEY_TEXT(kind), KEY_TEXT(path))

TABLE(shard, NULL, SQL(identity, KEY, "TEXT NOT NULL REFERENCES trace"),
      KEY_TEXT(path), KEY_WHOLE(number), TEXT(file))

/* The runs, and the budgets they were requested with. observe: how prompt_len
 * was chosen (sim/ask/observe.h); scores: null if they were not computed.
 * scalar: the numbers of a run (sim/replay/measure/scalar.c), a row each, reals
 * with all 64 bits. held: bytes held at the end, a row for each kind
 * (ref/lane/ledger.h). A new number or kind does not change the schema. total:
 * 1 if its bytes add to the total, 0 if they are part of other kinds. */
ROWS(run, "CHECK ((status = 'ok') = (journal IS NOT NULL))",
     SQL(run_id, NUMBER, "INTEGER PRIMARY KEY"), DIGEST(key, KEY),
     DIGEST(subject, FIRST),
     SQL(identity, FIRST, "TEXT NOT NULL REFERENCES trace"), WHOLE(prompt_len),
     TEXT(method), WHOLE(revision), TEXT(code), TEXT(params),
     SQL(spec, LESSER, "TEXT NOT NULL"), WHOLE(arithmetic), WHOLE_OR(budget),
     TEXT(observe),
     SQL(status, SAME,
         "TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed'))"),
     SQL(reason, LESSER, "TEXT NOT NULL"), DIGEST_OR(journal, EQUAL),
     DIGEST_OR(state, EQUAL), DIGEST_OR(output, EQUAL), DIGEST_OR(scores, SAME),
     DIGEST_OR(value, FOLLOWS), SQL(measures, GREATER, "INTEGER NOT NULL"))

TABLE(held, NULL, RUN, KEY_TEXT(kind),
      SQL(total, FIRST, "INTEGER NOT NULL CHECK (total IN (0, 1))"),
      SQL(bytes, SAME, "INTEGER NOT NULL"))

TABLE(scalar, NULL, RUN, KEY_TEXT(name), SQL(value, SAME, "ANY NOT NULL"))

TABLE(
    ask, NULL, RUN, KEY_TEXT(basis), KEY_TEXT(target),
    SQL(status, ANY,
        "TEXT NOT NULL CHECK (status IN ('ok', 'fixed', 'refused', 'failed'))"),
    SQL(achieved, FIRST, "REAL"), WHOLE(achieved_bits))

/* Layers, heads and steps of runs. drift: sim/replay/measure/README.md;
 * squares: the sum of (value - mean)^2 over the values of the part; scanned:
 * bytes read to choose what attention reads. step_mean: means over all layers
 * and query heads at each decode step, as IEEE 754 binary32, little-endian; NaN
 * if no row has a value. A measure without any value has no row. */
#define OF kv_part
TABLE(part, NULL, RUN, KEY_WHOLE(part), N(layer, -1), N(head, -1), N(bin, -1),
      N(first_step, 0), N(last_step, 0), D(kept), D(drift))
#undef OF
#define OF kv_stat
TABLE(metric, "FOREIGN KEY (run_id, part) REFERENCES part", KEY_WHOLE(run_id),
      KEY_WHOLE(part), KEY_TEXT(measure), I(count), D(mean), D(p50), D(p95),
      D(p99), D(max), D(squares))
#undef OF

ROWS(step_mean, NULL, RUN, KEY_TEXT(measure),
     SQL(mean, SAME, "BLOB NOT NULL CHECK (length(mean) % 4 = 0)"))

#define OF kv_step_cost
TABLE(step_cost, NULL, RUN, MEMBER(step, step, "INTEGER NOT NULL", 'n', KEY, 0),
      I(bytes), I(codes), I(read), I(scanned))
#undef OF

TABLE(journal_digest, NULL, RUN, KEY_WHOLE(layer), DIGEST(journal, SAME),
      DIGEST(state, SAME), DIGEST(output, SAME), DIGEST_OR(scores, SAME))

/* Confirmations, conflicts, and found budgets. */
TABLE(confirmation, NULL, RUN, ENVIRONMENT, KEY_TEXT(backend), KEY_TEXT(isa),
      KEY_WHOLE(threads), SQL(seconds, FIRST, "REAL"),
      DIGEST_OR(journal, FIRST), DIGEST_OR(state, FIRST),
      DIGEST_OR(output, FIRST))

TABLE(diff, NULL, RUN, ENVIRONMENT, KEY_TEXT(backend), KEY_TEXT(isa),
      KEY_WHOLE(threads), WHOLE_OR(layer), KEY_TEXT(what), TEXT(status),
      DIGEST_OR(journal, FIRST), DIGEST_OR(state, FIRST),
      DIGEST_OR(output, FIRST), DIGEST_OR(value, FIRST))

TABLE(budget, NULL, DIGEST(key, KEY),
      SQL(identity, FIRST, "TEXT NOT NULL REFERENCES trace"), TEXT(method),
      TEXT(basis), TEXT(target), SQL(budget, EQUAL, "INTEGER"))

/* Memory layouts of a run; bytes of K and V alone. Columns from unused_end on
 * are for layouts with page tables, from lanes on for regular indices
 * (sim/replay/layout/regular.h); null in others. rewritten: also null without a
 * rewrite; break_even: also null if none paid off. map: bytes of the tables
 * that say where rows are; null for regular indices. */
#define OF kv_layout_result
TABLE(layout, NULL, RUN, KEY_TEXT(layout), ANY_I(pages_end, pages_end),
      ANY_I(pages_peak, pages_peak), D_AS(pages_mean, pages_mean),
      ANY_I(bytes_end, end), ANY_I(bytes_peak, peak), D_AS(bytes_mean, mean),
      ANY_I(slack_end, slack_end), ANY_I(slack_peak, slack_peak),
      D_AS(slack_mean, slack_mean), ANY_I(vacated, vacated),
      ANY_I(freed, freed), O_AS(unused_end, tables.unused_end),
      O_AS(unused_peak, tables.unused_peak), O_AS(moved, tables.moved),
      O_AS(table_entries, tables.entries),
      O_AS(list_operations, tables.operations), O_AS(lanes, regular.lanes),
      O_AS(loads, regular.loads), O_AS(rewrites, regular.rewrites),
      O_AS(rewritten, regular.rewritten), O_AS(moves, regular.moves),
      O_AS(moved_bytes, regular.moved), O_AS(mask_end, regular.mask_end),
      O_AS(mti, regular.mti), O_AS(kept_steps, regular.kept),
      O_AS(fullest_steps, regular.fullest),
      O_AS(break_even, regular.break_even), O(map_end), O(map_peak))
#undef OF
#define OF kv_layout_step
TABLE(layout_step, "FOREIGN KEY (run_id, layout) REFERENCES layout",
      KEY_WHOLE(run_id), KEY_TEXT(layout),
      MEMBER(step, step, "INTEGER NOT NULL", 'n', KEY, 0), I(pages), I(bytes),
      I(slack), I(vacated), I(freed))
#undef OF

/* A cache on the device for entries in host memory (kvreplay run --cache), over
 * all decode steps: entries looked up and found; bytes of the others, in total
 * and most in a step; most bytes in the caches. */
#define OF kv_device_cache
TABLE(device_cache, NULL, RUN, KEY_TEXT(cache), I(looked), I(hits), I(fetched),
      I(fetched_peak), I(held_peak))
#undef OF

/* The fate of every token, if requested, as little-endian 32-bit integers.
 * gone: tokens seen when it was no longer stored (0: it is to the end); shown:
 * decode steps at which it was seen. */
ROWS(survival, NULL, RUN, KEY_WHOLE(layer), KEY_WHOLE(lane),
     SQL(gone, SAME, "BLOB NOT NULL CHECK (length(gone) % 4 = 0)"),
     SQL(shown, SAME, "BLOB NOT NULL CHECK (length(shown) = length(gone))"))

/* Pools of pages that requests shared, named by a digest (db_pool.c), and these
 * requests; steps are the pool's. held: pages in use after each step, summed;
 * unused: bytes of these without a token, summed. wait: a kv_pool_wait.
 * running, waiting: requests, summed over the steps. pool_step: the pool after
 * each step. refused: the step in which the request found too few pages, else
 * null, as are holds, wanted and spare. blocks: of the prompt, plus decoded
 * tokens. admitted, first: the steps of its first block and of its first token,
 * or null. waited: steps; put_back: how often. */
#define OF kv_pool_result
TABLE(pool, NULL, DIGEST(pool, KEY), TEXT(layout), I(bytes), I(every), I(page),
      I(pages), I(requests), I(steps), I(peak), I(held), I(unused),
      I(unused_peak), I(moved), I_AS(table_entries, entries),
      I_AS(list_operations, operations), TEXT(arrive), I(wait), I(map_peak),
      I(running), I(running_peak), I(waiting), I(waiting_peak))
#undef OF
#define OF kv_pool_step
TABLE(pool_step, NULL, SQL(pool, KEY, "TEXT NOT NULL REFERENCES pool"),
      MEMBER(step, step, "INTEGER NOT NULL", 'i', KEY, 0), I(running),
      I(waiting), I(pages), I(unused))
#undef OF
#define OF kv_together_result
TABLE(request, NULL, SQL(pool, KEY, "TEXT NOT NULL REFERENCES pool"),
      KEY_WHOLE(place), SQL(run_id, FIRST, "INTEGER NOT NULL REFERENCES run"),
      I(arrives), I(ends), I(pages_peak), O(refused), O(holds), O(wanted),
      O(spare), I(blocks), O(admitted), O(first), I(waited), I(put_back))
#undef OF

/* figure: numbers found in a trace without a replay, a row each, stored by
 * sim/python/kvreplay/figures. layer, head: the recorded layer and KV head (-1:
 * the whole layer). series, part, x, y: which of several series, which part of
 * it, and where on two axes. value: an integer, a real, or little-endian 32-bit
 * integers. Its last digits depend on numpy: of two the lesser stays.
 * compressor: files that such numbers are about. length: of the pieces that it
 * learned from, null if the file does not say; code: of runs that read it
 * (run.code); learned: with which references. */
TABLE(figure, NULL, SQL(identity, KEY, "TEXT NOT NULL REFERENCES trace"),
      KEY_TEXT(figure), KEY_WHOLE(layer), KEY_WHOLE(head), KEY_TEXT(series),
      KEY_TEXT(part), KEY_WHOLE(x), KEY_WHOLE(y),
      SQL(value, LESSER, "ANY NOT NULL"))

TABLE(compressor, NULL, DIGEST(digest, KEY), TEXT(file), TEXT(kind),
      WHOLE(width), WHOLE(latent), WHOLE(hidden), WHOLE_OR(length),
      SQL(code, FIRST, "TEXT"), TEXT(learned))

/* Evaluations: what a model answered to a question while a method managed its
 * cache, and on which platform (evaluation_name.c lists the digests that name
 * them). n_tokens: prompt, question and answer together. method: as requested;
 * budget: the session's, as after -b; answer: digest of the tokens. context:
 * questions with an equal one depend on each other. asked, reference, said:
 * texts of the question, the right answer and the answer, null if not stored;
 * said_tokens: little-endian 32-bit integers. evaluator:
 * environments that found the same; evaluation_diff: those that did not.
 * evaluated: the numbers, a row each, reals with all 64 bits; quantity: unit
 * and meaning of a number (evaluation_number.c). */
TABLE(model, NULL, DIGEST(model_digest, KEY),
      SQL(model, LESSER, "TEXT NOT NULL"))

TABLE(question, NULL, DIGEST(question, KEY),
      SQL(model_digest, FIRST, "TEXT NOT NULL REFERENCES model"), TEXT(task),
      TEXT(item), WHOLE(number), DIGEST(request_digest, FIRST),
      WHOLE(prompt_len), WHOLE(n_tokens), TEXT(context),
      SQL(asked, ANY, "TEXT"), SQL(reference, ANY, "TEXT"))

TABLE(platform, NULL, DIGEST(platform, KEY), TEXT(torch), TEXT(transformers),
      TEXT(processor), WHOLE(threads), TEXT(dtype))

ROWS(evaluation, NULL, SQL(evaluation_id, NUMBER, "INTEGER PRIMARY KEY"),
     DIGEST(key, KEY),
     SQL(question, FIRST, "TEXT NOT NULL REFERENCES question"),
     SQL(platform, FIRST, "TEXT NOT NULL REFERENCES platform"), TEXT(method),
     WHOLE(revision), TEXT(code), WHOLE(arithmetic), TEXT(basis), TEXT(target),
     SQL(spec, SAME, "TEXT NOT NULL"), SQL(budget, SAME, "TEXT NOT NULL"),
     SQL(status, SAME,
         "TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed'))"),
     SQL(reason, LESSER, "TEXT NOT NULL"), DIGEST_OR(answer, EQUAL),
     SQL(said, ANY, "TEXT"),
     SQL(said_tokens, ANY, "BLOB CHECK (length(said_tokens) % 4 = 0)"))

TABLE(quantity, NULL, KEY_TEXT(name), TEXT(unit), TEXT(combine))

TABLE(evaluated, NULL, EVALUATION,
      SQL(name, KEY, "TEXT NOT NULL REFERENCES quantity"),
      SQL(value, SAME, "ANY NOT NULL"))

TABLE(evaluator, NULL, EVALUATION, ENVIRONMENT)

TABLE(evaluation_diff, NULL, EVALUATION, ENVIRONMENT, KEY_TEXT(what),
      TEXT(status), DIGEST_OR(answer, FIRST))

/* Unfinished work: layers of cells, probes of a search. */
ROWS(partial, "UNIQUE (key, backend, isa, layer)",
     SQL(partial_id, NUMBER, "INTEGER PRIMARY KEY"), DIGEST(key, FIRST),
     TEXT(backend), TEXT(isa),
     SQL(layer, FIRST, "INTEGER NOT NULL CHECK (layer >= 0)"), TEXT(build),
     TEXT(kept), DIGEST(digest, FIRST), SQL(content, FIRST, "BLOB NOT NULL"))

TABLE(probe, NULL, DIGEST(search, KEY), KEY_WHOLE(entries), WHOLE(bytes),
      WHOLE(dense))

#define AT(table) &table,
const kv_db_table *const kv_db_table_list[] = {KV_DB_TABLES(AT) NULL};

const char kv_db_views[] =
    "CREATE INDEX run_subject ON run(subject);"
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
