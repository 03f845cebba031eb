/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/tables/sheets.h"

#include "analysis/database/say.h"
#include <stddef.h>

const char *const kv_sheet_optional[] = {
    KV_SHEET_P_ERROR, "p mass", "loads",    "tp",
    "tp K",           "even",   "tp loads", NULL};

/* SQL of columns for people. */
#define PLACE KV_SHEET_PLACE
#define PERCENT(x, name)                                                       \
  ", CAST(round(100 * " x ") AS INTEGER) || '%' AS '" name "'"
#define CHECKED " WHEN confirmed THEN 'confirmed' ELSE 'one run' END AS checked"
#define BYTES                                                                  \
  PERCENT("share_end", "end")                                                  \
  PERCENT("kr", "mean")                                                        \
  PERCENT("share_read", "read") PERCENT("share_scanned", "scan")
#define CELL(column, heading, ...) ", " #column " AS '" heading "'"
#define MEAN(column, heading, ...)                                             \
  ", about(" #column ", " #column "_se) AS '" heading "'"
#define CELLS                                                                  \
  "trace || iif(answer_by = 'user', '" KV_SHEET_BY_USER "', '') || iif("       \
  "observe = 'recorded', '', ', ' || observe) AS trace"                        \
  ", method, asked, budget, status, kept, bytes_end AS 'end B'" BYTES          \
  KV_SHOWN_EACH(                                                               \
      CELL) ", CASE WHEN conflicts THEN 'CONFLICT'"                            \
            " WHEN status IN ('refused', 'failed') THEN reason" CHECKED
#define MEANS                                                                  \
  "method, asked, traces || iif(traces = traces_all, '', ' of ' ||"            \
  " traces_all || iif(traces, ' *', '')) || iif(by_user, '" KV_SHEET_BY_USER   \
  "', '') AS traces, about(kept, kept_se)"                                     \
  " AS kept, share(share_end, share_end_se) AS 'end', share(kr, kr_se) AS"     \
  " 'mean', share(share_read, share_read_se) AS 'read', share(share_scanned,"  \
  " share_scanned_se) AS scan" KV_SHOWN_EACH(                                  \
      MEAN) ", CASE WHEN conflicts THEN 'CONFLICT'"                            \
            " WHEN traces = 0 THEN 'no result'" CHECKED
#define WORDS                                                                  \
  "end, mean, read: bytes as shares of the dense cache. scan: bytes looked "   \
  "at to choose what is read, as a share of what dense reads. worst: the "     \
  "largest error of an element of the attention output. needle: mass on the "  \
  "needles, dense is 1; empty if the trace marks no answer. lse: how far the " \
  "log-sum-exp of the stored entries is off. kl: divergence of the "           \
  "attention. error: the mean error of its output."
#define SPREAD                                                                 \
  "\u00b1: two standard errors of the mean, for 5 traces or more. *: the "     \
  "mean of only those traces that have a result; compare it with the mean "    \
  "of the same traces (--where trace=NAME), not with its column."
#define HELD PERCENT("share_mean", "mean") PERCENT("share_end", "end")
#define ANSWERS                                                                \
  "place AS task, method, asked, questions || iif(questions = questions_all,"  \
  " '', ' of ' || questions_all || ' *') AS questions" HELD                    \
  ", proportion(exact, exact_low, exact_high) AS right," KV_SHEET_LOGLIK       \
  " AS loglik,"                                                                \
  " about(kl, kl_se) AS kl, about(agree, agree_se) AS agree, ppl, CASE"        \
  " WHEN conflicts THEN 'CONFLICT' WHEN questions = 0 THEN 'no answer'"        \
  " WHEN measurable = 0 THEN 'not measurable' END AS note"
/* The first three are a heading. */
#define TEXTS                                                                  \
  "place || ', ' || item || ', question ' || question || ': ' ||"              \
  " coalesce(question_text, 'not stored') AS question,"                        \
  " coalesce(reference, 'not stored') AS 'right answer',"                      \
  " coalesce(dense_said, 'not stored') AS 'dense said',"                       \
  " method || iif(method GLOB 'kvpress/*' AND spec <> method, ' ' || spec,"    \
  " '') AS method, asked, CASE WHEN status <> 'ok' THEN status WHEN exact > 0" \
  " THEN 'right' WHEN exact = 0 THEN 'wrong' END AS answer, CASE WHEN"         \
  " status = 'ok' THEN coalesce(marked, 'not stored') ELSE reason END AS said"
/* Shows if a cell has no baseline, or if its baseline did not run. */
#define GAPS                                                                   \
  PLACE                                                                        \
  ", method, asked, equal_budget AS entries, baseline,"                        \
  " reference_budget AS at, output_error AS error, random, oracle,"            \
  " round(gap, 3) AS gap, mass, random_mass AS 'random mass',"                 \
  " oracle_mass AS 'oracle mass', round(mass_gap, 3) AS 'mass gap', CASE"      \
  " WHEN baseline IS NULL THEN 'chooses nothing' WHEN random IS NULL"          \
  " THEN 'not run: random and ' || baseline" CHECKED
/* Times of requests are steps. */
#define POOLS                                                                  \
  "spec, layout, bytes AS 'pool B', iif(arrive = 'file', arrive, arrive ||"    \
  " ' ' || every) AS arrive, CASE wait WHEN 0 THEN 'leaves' WHEN 1 THEN "      \
  "'waits' ELSE 'can stay' END AS full,"                                       \
  " requests || iif(refused, ', ' || refused || ' refused', '') AS requests,"  \
  " steps" PERCENT("utilisation", "in use") PERCENT(                           \
      "unused",                                                                \
      "unused") ", round(batch, 2) AS batch, round(queue, 2) AS queue,"        \
                " round(to_first, 1) AS 'to first', to_first_p95 AS 'p95',"    \
                " round(to_end, 1) AS 'to end', to_end_p95 AS 'end p95', "     \
                "put_back AS"                                                  \
                " 'put back', map_peak AS 'tables B'"

const kv_sheet kv_sheet_cells = {
    .view = "cell", .columns = CELLS, .words = WORDS};
const kv_sheet kv_sheet_every = {
    .view = "every_cell",
    .columns =
        CELLS ", iif(length(code) = 64, substr(code, 1, 12), code) AS code,"
              " iif(age = 1, 'newest', 'superseded') AS 'of the code'",
    .words = WORDS};
const kv_sheet kv_sheet_mean = {.view = "summary",
                                .columns = MEANS,
                                .order = KV_RANKED,
                                .words = WORDS,
                                .more = SPREAD};

const kv_sheet kv_sheet_gaps = {
    .view = "gap",
    .columns = GAPS,
    .words = "gap: the share of the way from random to the baseline, in mean "
             "output error (error, random, oracle); mass gap: the same in "
             "retained attention mass. 0: no better than chance, 1: equal to "
             "the baseline. entries: attended per query head, averaged over "
             "steps; random and the baseline ran at that many or one fewer "
             "(at). baseline: oracle-evict if the cell dropped or merged "
             "tokens, oracle-topk if it read some of what it stores, "
             "oracle-topp if it read a share of the probability. They choose "
             "by mass: the gap in error may pass 1; so may the gap in mass "
             "if lanes share a budget."};

const kv_sheet kv_sheet_answers = {
    .view = "answers",
    .columns = ANSWERS,
    .words =
        "Closed loop: the model went on with the method's cache. Means over "
        "the items of a task, \u00b1: two standard errors. [ ]: 95 % interval "
        "over contexts. With fewer than 5 there is neither. mean, "
        "end: bytes as shares of dense's for the same questions. right: greedy "
        "answers that contain the reference. loglik: of the reference answer, "
        "nats per token (rows of earlier versions: the sum). kl: of the next "
        "token from dense's, nats. agree: tokens until greedy decoding "
        "diverges from dense's. ppl: perplexity minus dense's. *: only the "
        "questions that have an answer, or this number.",
    .answers = true};

const kv_sheet kv_sheet_texts = {
    .view = "texts",
    .columns = TEXTS,
    .words = "\u00bb: from here on the text differs from dense's. \u2026: the "
             "same as dense's. right: the greedy answer contains the right "
             "one. Texts that are not stored are added by `kvreplay evaluate "
             "--again`. -f jsonl has the texts as they are.",
    .answers = true,
    .headed = 3};

const kv_sheet kv_sheet_pools = {
    .view = "pools",
    .columns = POOLS,
    .words = "Steps: a block of the prompt, or a token, of every running "
             "request. in use: share of the pool, averaged over steps; unused: "
             "the share of that without a token. batch, queue: requests that "
             "took a step, that took none, on average. to first, to end: steps "
             "from arrival to the first token and to the last, means and 95th "
             "percentiles of requests that were not refused. put back: how "
             "often a request had to give up its pages and wait. tables: the "
             "most bytes of page tables; they are not in the pool.",
    .bytes = true};

const kv_sheet kv_sheet_caches = {
    .view = "device_caches",
    .columns = PLACE ", method, asked, cache" PERCENT("found", "found")
        PERCENT("share_fetched",
                "fetched") ", round(fetched) AS 'B a step',"
                           " fetched_peak AS 'at most', held_peak AS 'held B'",
    .words = "found: of the entries in host memory that decode steps look up, "
             "those in the device's cache of N entries a lane. fetched: bytes "
             "a step of the others, and without a cache, over all layers, on "
             "average and at most. held: the most bytes in the caches.",
    .bytes = true};

/* Loads are per lane and step, whichever lanes a rank has. */
#define KIB(x, name) ", CAST(round(" x " / 1024.0) AS INTEGER) AS '" name "'"
#define LAYOUTS                                                                \
  PLACE                                                                        \
  ", method, asked, layout" KIB("bytes_end", "end K")                          \
      KIB("bytes_mean", "mean K") KIB("bytes_peak", "peak K") PERCENT(         \
          "share_freed",                                                       \
          "freed") ", round(loads * 1.0 / lanes / steps, 1) AS loads, ranks "  \
                   "AS tp" KIB("rank_bytes_mean", "tp K")                      \
                       PERCENT("rank_even",                                    \
                               "even") ", round(rank_loads * 1.0 / "           \
                                       "rank_lanes / steps, 1) AS 'tp loads'"

const kv_sheet kv_sheet_layouts = {
    .view = "layouts",
    .columns = LAYOUTS,
    .words = "Bytes of K and V in the memory of a layout, in KiB: at the end, "
             "on average over steps, at most. freed: the share of the bytes "
             "given up by the method that became free memory. loads: tokens "
             "that a lane loads at a decode step, for regular indices. tp: "
             "ranks of tensor parallelism (tp=N), each with its share of the "
             "KV heads and its own store; tp K: the mean of the fullest rank, "
             "even: that as a share of an Nth of all, tp loads: what it loads. "
             "A layout that itself ends in tp=N is that rank alone.",
    .bytes = true,
    .headed = 1};
