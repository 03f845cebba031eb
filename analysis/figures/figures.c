/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of the page as rows {title, SQL, mark, axes}, in the order of the
 * page; figure.h explains their fields. A new figure is a row here and, if its
 * SQL is a view, that view.
 */
#include "analysis/figures/figures.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/sheets.h"

#include <math.h>
#include <string.h>

/* SQL: "METHOD at ASKED", and "METHOD" without a budget. */
#define AT "substr(method, 1, 76) || iif(asked = '', '', ' at ' || asked)"

/* --- what a model answered ------------------------------------------------ */

/* SQL: the rows that have the measure. If dense does not answer a task, its
 * plot's name says so. */
#define PLACE(measure)                                                         \
  "SELECT place || coalesce(' (' || why || ')', '') AS panel, method AS"       \
  " series, basis, asked, share_mean, " measure ", " measure "_se, items,"     \
  " confirmations > 1 AS confirmed FROM answers a LEFT JOIN unmeasured u"      \
  " USING (place) WHERE " measure " IS NOT NULL AND share_mean IS NOT NULL"    \
  " ORDER BY panel, method, share_mean"
#define BYTES "bytes stored, share of dense"

int kv_page_find_answers(kv_page *p) {
  kv_grid g = {0};
  int rc =
      kv_grid_ask(p->db, "SELECT count(*) AS n FROM evaluation", 0, NULL, &g);
  if (!rc) p->answers = (int)kv_grid_number(&g, 0, "n");
  kv_grid_free(&g);
  return rc || !p->answers ? rc : kv_results_answers(p->db, p->path);
}

/* --- rows along an axis --------------------------------------------------- */

/* Values below -2 are drawn at -2, marked as beyond it. */
#define GAP                                                                    \
  "SELECT label AS name, label AS method, max(gap, -2) AS x, gap < -2 AS"      \
  " beyond, confirmed, printf('%s at %s, %s: gap %.3g at %s entries attended"  \
  " (error %.3g; at budget %s: random %.3g, %s %.3g)', substr(label, 1, 60),"  \
  " asked, substr(trace, 1, 60), gap, equal_budget, output_error,"             \
  " reference_budget, random, baseline, oracle) AS tip FROM gap JOIN line"     \
  " USING (key, basis, asked) WHERE abs(gap) < 1e30 ORDER BY label, gap.rowid"

/* A point for each of the two, and a line between them. */
#define MIRRORS                                                                \
  "WITH shown AS (SELECT * FROM mirrors" KV_PICTURED "), points AS (SELECT *," \
  " 0 AS nth, 'more bits for keys' AS series, pair AS own, output_error AS x," \
  " mirror_error AS high, kr AS bytes FROM shown UNION ALL SELECT *, 1, 'more" \
  " bits for values', mirror, mirror_error, NULL, mirror_kr FROM shown)"       \
  " SELECT method, " AT " || ', ' || pair || ' and ' || mirror AS name, nth,"  \
  " series, x, iif(high IS NULL, NULL, x) AS low, high, confirmed,"            \
  " printf('%.3g, %.3g', output_error, mirror_error) AS note, printf('%s %s:"  \
  " output error %.3g at %.3g%% of dense''s bytes', substr(method, 1, 76),"    \
  " own, x, 100 * bytes) AS tip FROM points ORDER BY method, basis, kr DESC,"  \
  " asked, pair, nth"

/* A kind of bytes as a bar, and the pages as a point. */
#define CHARGED                                                                \
  "WITH items AS (SELECT *, CASE nth WHEN 0 THEN codes WHEN 1 THEN metadata"   \
  " WHEN 2 THEN columns WHEN 3 THEN side WHEN 4 THEN slack ELSE unified END"   \
  " AS x FROM charged, (SELECT 0 AS nth, 'K and V, or their codes' AS series"  \
  " UNION ALL VALUES (1, 'metadata: scales, minima, positions, weights'), (2," \
  " 'numbers of the method, an entry'), (3, 'other memory of the method'),"    \
  " (4, 'held and unused'), (5, 'in unified pages, all that these"             \
  " hold'))" KV_PICTURED ") SELECT method, " AT " AS name, nth, series, nth <" \
  " 5 AS bar, x, 1 AS confirmed, printf('%.1f%%, all %.1f%%', 100 * codes,"    \
  " 100 * everything) AS note, printf('%s, %s: %.3g%% of dense',"              \
  " substr(method, 1, 76), iif(nth < 5, series, 'in unified pages'), 100 * x)" \
  " AS tip FROM items WHERE x > 0 ORDER BY everything DESC, method, basis,"    \
  " asked, nth"

/* A bar per cell, and a mark for each layout. */
#define UTILISED                                                               \
  "WITH shown AS (SELECT * FROM utilised" KV_PICTURED "), items AS (SELECT"    \
  " DISTINCT method, basis, asked, utilisation, overall, fullest, 1 AS bar, 9" \
  " AS nth, 'utilisation' AS series, utilisation AS x, 0 AS confirmed FROM"    \
  " shown UNION ALL SELECT method, basis, asked, utilisation, overall,"        \
  " fullest, 0, dense_rank() OVER (ORDER BY layout) - 1, layout || ': slots"   \
  " used', used, confirmed FROM shown) SELECT method, " AT " AS name, nth,"    \
  " series, bar, x, confirmed, printf('%.1f%% of %.1f%%', 100 * overall, 100"  \
  " * fullest) AS note, iif(bar, printf('%s: utilisation %.3g%%',"             \
  " substr(method, 1, 76), 100 * x), printf('%s, %s: %.3g%% of slots used',"   \
  " substr(method, 1, 76), replace(series, ': slots used', ''), 100 * x)) AS"  \
  " tip FROM items ORDER BY utilisation DESC, method, basis, asked, bar DESC," \
  " nth"

/* oracle-topp has no budget and is interpolated between two shares: these
 * attend from few entries to nearly all. */
#define SHARES                                                                 \
  "oracle-topp:p=0.3,oracle-topp:p=0.5,oracle-topp:p=0.7,oracle-topp:p=0.8,"   \
  "oracle-topp:p=0.9,oracle-topp:p=0.95,oracle-topp:p=0.99"

/* The budgets at which random and the baselines still have to run. */
static int missing(const kv_page *p, const kv_figure *f) {
  kv_grid g;
  (void)f;
  int rc = kv_grid_ask(
      p->db,
      "SELECT file, seen, baseline, group_concat(equal_budget) AS"
      " budgets FROM (SELECT DISTINCT coalesce(min(path), trace ||"
      " '.safetensors') AS file, replace(gap.observe, '+', ' --') AS seen, "
      "baseline,"
      " equal_budget FROM gap JOIN"
      " run USING (key) LEFT JOIN artefact a ON a.identity ="
      " run.identity AND kind = 'trace' WHERE"
      " equal_budget > 0 AND baseline IS NOT NULL AND random IS NULL"
      " GROUP BY run.identity, seen, baseline, equal_budget ORDER BY"
      " file, seen, baseline, equal_budget) GROUP BY file, seen,"
      " baseline ORDER BY file, seen, baseline",
      0, NULL, &g);
  if (rc || !g.rows) {
    if (!rc) kv_grid_free(&g);
    return rc;
  }
  fputs("<p>Random and their baseline were not run at the entries that these "
        "cells attend, or one fewer. These commands run them.</p>\n",
        p->f);
  for (int r = 0; r < g.rows; r++) {
    const char *baseline = kv_grid_text(&g, r, "baseline");
    fputs("<p><code>kvreplay run ", p->f);
    kv_text_shell_html(kv_grid_text(&g, r, "file"), p->f);
    if (strcmp(kv_grid_text(&g, r, "seen"), "recorded")) {
      fputs(" --observe ", p->f);
      kv_text_html(kv_grid_text(&g, r, "seen"), p->f);
    }
    fputs(" -m random,", p->f);
    fputs(strcmp(baseline, "oracle-topp") ? baseline : SHARES, p->f);
    fputs(" -b ", p->f);
    kv_text_html(kv_grid_text(&g, r, "budgets"), p->f);
    fputs(" --db ", p->f);
    kv_text_shell_html(p->path, p->f);
    fputs("</code></p>\n", p->f);
  }
  kv_grid_free(&g);
  return rc;
}

/* --- lines and maps ------------------------------------------------------- */

/* A plot for each budget; methods without one are in each plot. */
#define ALONG                                                                  \
  "WITH one AS (SELECT label, asked, bin, avg(progress) AS progress,"          \
  " avg(output_error) AS output_error, min(confirmed) AS confirmed FROM along" \
  " JOIN line USING (key, basis, asked) GROUP BY label, asked, bin, request,"  \
  " prompt_len, observe), mean AS (SELECT label AS series, asked, bin,"        \
  " count(*) AS traces, avg(progress) AS progress, avg(output_error) AS"       \
  " output_error, min(confirmed) AS confirmed FROM one GROUP BY label, asked," \
  " bin), budget AS (SELECT DISTINCT asked AS at FROM mean WHERE asked <> ''"  \
  " UNION ALL SELECT '' WHERE NOT EXISTS (SELECT 1 FROM mean WHERE asked <>"   \
  " '')) SELECT 'budget asked: ' || iif(at = '', 'none', at) AS panel, mean.*" \
  " FROM budget JOIN mean ON asked IN ('', at) ORDER BY"                       \
  " CAST(ltrim(at, 'abcdefghijklmnopqrstuvwxyz:') AS REAL), at, series, bin"

/* `flat`: all squares of a map show this number. */
#define HEADS                                                                  \
  "WITH shown AS (SELECT * FROM heads" KV_PICTURED ") SELECT traces || '"      \
  " trace' || iif(traces = 1, '', 's') || ', ' || layers || ' layers of ' ||"  \
  " kv_heads || ' KV heads recorded' || coalesce(', budget asked: ' ||"        \
  " (SELECT asked FROM pictured), '') AS heading, method AS panel, asked,"     \
  " layer, head, share, iif(round(100 * min(share) OVER map) = round(100 *"    \
  " max(share) OVER map), 100 * share, NULL) AS flat FROM shown WINDOW map AS" \
  " (PARTITION BY layers, kv_heads, method, asked) ORDER BY layers, kv_heads," \
  " method, asked, layer, head"

/* Bins of tokens down, moments across; then, set apart, the share shown. */
#define TOKENS                                                                 \
  "WITH all_of AS (SELECT method, bin, moment, stored AS share FROM tokens"    \
  " UNION ALL SELECT method, bin, 25, NULL FROM tokens WHERE moment = 0 UNION" \
  " ALL SELECT method, bin, 26, shown FROM tokens WHERE moment = 0 UNION ALL"  \
  " SELECT method, bin, 27, shown FROM tokens WHERE moment = 0) SELECT method" \
  " AS panel, bin, iif(bin % 6, '', bin / 6 * 25 || '%') AS bin_name, moment," \
  " iif(moment % 12 OR moment > 24, '', moment / 12 * 50 || '%') AS"           \
  " moment_name, share FROM all_of ORDER BY method, bin, moment"
#define OVERLAP                                                                \
  "SELECT 'after the prompt' AS panel, method, other, after_prompt AS share"   \
  " FROM overlap WHERE (SELECT count(DISTINCT method) > 1 FROM overlap) UNION" \
  " ALL SELECT 'at the end', method, other, at_end FROM overlap WHERE (SELECT" \
  " count(DISTINCT method) > 1 FROM overlap)"

static int older(const kv_page *p) {
  kv_grid g;
  int rc = kv_grid_ask(p->db,
                       "SELECT count(*) AS n FROM aged JOIN ask USING (run_id) "
                       "WHERE age > 1",
                       0, NULL, &g);
  double n = rc ? 0 : kv_grid_number(&g, 0, "n");
  if (rc) return rc;
  if (n > 0)
    fprintf(p->f,
            "<p class=\"soft\">Not on this page: %.0f cells of superseded "
            "code. <code>kvreport table --history</code> lists them.</p>\n",
            n);
  kv_grid_free(&g);
  return rc;
}

/* --- the figures ---------------------------------------------------------- */

const kv_figure kv_figures_answers[] = {
    {"answers", "What the model answered",
     "SELECT *, proportion(exact, exact_low, exact_high) AS "
     "answered," KV_SHEET_LOGLIK
     " AS likely, about(kl, kl_se) AS apart, about(agree, agree_se) AS alike,"
     " CASE WHEN conflicts THEN 'conflict' WHEN questions = 0 THEN"
     " reason WHEN questions < questions_all THEN questions || ' of ' ||"
     " questions_all || ': ' || coalesce(reason, 'the rest was not asked')"
     " ELSE coalesce(why, reason) END AS note FROM answers LEFT JOIN "
     "unmeasured USING (place)"
     " ORDER BY place, basis, asked, exact DESC, coalesce(loglik_token,"
     " loglik) DESC, ppl, method",
     "Means over the items of a task, with two standard errors; right answers "
     "with a 95 % interval over contexts. With fewer than 5, neither is shown. "
     "Within each budget, most right answers first. Perplexity: minus dense's, "
     "averaged over positions. *: only questions that have a log-likelihood "
     "per token.",
     .mark = KV_TABLE,
     .columns =
         "place=task:long; method=method:long; asked; questions; "
         "share_mean=bytes, mean:percent; share_end=at the end:percent; "
         "answered=right; likely=log-likelihood; apart=KL; alike=agrees; "
         "ppl=perplexity; note=note:long",
     .closed = true},
    {"right", "Right answers", PLACE("exact"),
     "Share of questions whose greedy answer contains the reference answer, "
     "averaged over the task's items, against bytes stored: averaged over "
     "steps, as a share of dense's for the same questions. Points above each "
     "other have equal bytes. Only tasks that dense answers at 60 % or more "
     "are counted.",
     .panels = KV_PANELS("share_mean", "exact", KV_SHARE(BYTES),
                         KV_SHARE("right answers"), "Right answers"),
     .closed = true},
    {"loglik", "Log-likelihood of the answer", PLACE("loglik_token"),
     "Log-likelihood of the reference answer, fed token by token, in nats per "
     "token; higher is better.",
     .panels =
         KV_PANELS("share_mean", "loglik_token", KV_SHARE(BYTES),
                   KV_LINEAR("log-likelihood, nats a token"), "Log-likelihood"),
     .closed = true},
    {.id = NULL}};

const kv_figure kv_figures_cells[] = {
    {"along", "Error along decode", ALONG,
     "Output error in bins of decode steps, averaged over layers, heads and "
     "traces. A rising line loses more as decoding goes on.",
     .panels = KV_PANELS("progress", "output_error",
                         KV_SHARE("share of decode steps done"),
                         KV_LOG("output error"), "Error along decode"),
     .file = "along_mean"},
    {"gap", "How far from random to the baseline", GAP,
     "(random \xe2\x88\x92 x) / (random \xe2\x88\x92 baseline) "
     "in mean output error, both run at the budget "
     "that equals the mean entries x attends per query head and "
     "step or, if that was not run, at one fewer: a method that evicts to B, "
     "random and oracle-evict too, attends the current token "
     "besides its B, and oracle-topk counts it in B. The baseline is an "
     "oracle: oracle-evict, which knows future decode steps, if the cell "
     "dropped or merged tokens; oracle-topk if it read some of what it "
     "stores; oracle-topp, interpolated between its two nearest shares, if "
     "a share of the probability decides how many. All three choose by mass "
     "(mass_gap in the file), so the gap in error may pass 1. "
     "0: no better than chance; below 0: worse than chance, at "
     "the left edge with an arrow where the axis ends before it.",
     .mark = KV_POINTS,
     .panels = {.across = {"gap: 0 is random, 1 is the baseline", 0, 1, false,
                           false},
                .title = "Gap to its baseline by method"},
     .data = "SELECT * FROM gap"},
    {"missing", "Cells without a gap", .write = missing},
    {"heads", "Kept by layer and head", HEADS,
     "Entries that each KV head holds at the end, in percent of all tokens, "
     "averaged over traces; darker is more. Methods without a budget are shown "
     "unchanged; methods that retrieve keep everything.",
     .mark = KV_MAP,
     .map = {.row = "layer",
             .column = "head",
             .value = "share",
             .row_title = "layer",
             .column_title = "KV head",
             .high = 20,
             .least_wide = 150,
             .most_high = 260},
     .group = "small maps", .data = "SELECT * FROM heads" KV_PICTURED},
    {"pages", "Recall by page size", "SELECT *, method AS panel FROM pages",
     "Take as many tokens with the largest exact scores as the budget allows: "
     "the percentage of them that the method looks at, averaged over layers, "
     "heads, decode steps and traces. Rows are page sizes, columns budgets; "
     "darker is better. A sweep as -m quest:page=8,quest:page=16,quest:page=32 "
     "fills more rows.",
     .mark = KV_MAP,
     .map = {.row = "page",
             .column = "basis asked",
             .order = "budget",
             .value = "recall_budget",
             .row_title = "page, tokens",
             .column_title = "budget asked",
             .wide = 60,
             .high = 26,
             .most_wide = 480,
             .most_high = 300},
     .group = "small"},
    {"tokens", "Which tokens survive", TOKENS,
     "Rows are tokens by their position in the text, the first at the top; "
     "columns are decode steps, from the prompt's end to the last. The shade "
     "is the share of these tokens still stored, alone or within a merged "
     "entry; blank if none has entered. The strip on the right is the share of "
     "decode steps at which a query head saw them. Means over layers, lanes "
     "and traces, at the budget of the maps above. kvreport export writes the "
     "numbers as tokens.csv.",
     .mark = KV_MAP,
     .map = {.row = "bin",
             .column = "moment",
             .row_name = "bin_name",
             .column_name = "moment_name",
             .value = "share",
             .row_title = "token",
             .column_title = "decode",
             .wide = 6,
             .high = 5,
             .most_wide = 168,
             .most_high = 120},
     .group = "small maps", .unlinked = true},
    {"overlap", "Who keeps the same tokens", OVERLAP,
     "Tokens that two methods both store, divided by those that either stores "
     "(Jaccard), in percent, averaged over traces, layers and lanes that both "
     "have, at the budget of the maps above. A member of a merged entry counts "
     "as stored.",
     .mark = KV_MAP,
     .map = {.row = "method",
             .column = "other",
             .value = "share",
             .row_title = "method",
             .column_title = "number of the method",
             .numbered = true,
             .wide = 30,
             .high = 22,
             .most_wide = 480,
             .most_high = 480},
     .group = "small two", .data = "SELECT * FROM overlap"},
    {"needles", "Needles by depth and length",
     "SELECT *, method AS panel FROM needles" KV_PICTURED
     " AND (SELECT count(DISTINCT depth) > 1 AND count(DISTINCT length) > 1"
     " FROM needles)",
     "Attention mass on the needle, in percent of dense attention's, averaged "
     "over layers, heads, the answer's steps and traces. Depth: the share of "
     "the prompt before the needle. Darker is better; above 100 a method "
     "dropped other tokens and gives their mass to the needle. At the budget "
     "of the maps above.",
     .mark = KV_MAP,
     .map = {.row = "depth",
             .column = "length",
             .value = "needle_share",
             .row_title = "depth, %",
             .column_title = "prompt, tokens",
             .shared = true,
             .wide = 50,
             .high = 20,
             .most_wide = 300,
             .most_high = 300},
     .group = "small maps"},
    {"mirrors", "Bits for keys or for values", MIRRORS,
     "The same number of bits, given to keys or to values: K8V4 holds keys in "
     "8 bits and values in 4, K4V8 the reverse. Output error, averaged over "
     "layers, heads, decode steps and traces, on a logarithmic scale; the "
     "numbers at the right are in the order of the row's name. Further left is "
     "a better use of the same bytes. Errors in values enter an output "
     "directly, errors in keys through the probabilities.",
     .mark = KV_POINTS,
     .panels = {.across = KV_LOG("output error"),
                .title = "Output error of formats and their mirrors"},
     .data = "SELECT * FROM mirrors" KV_PICTURED},
    {"pruning", "Fewer bits, fewer tokens, or both", "SELECT * FROM pruning",
     "Output error against all bytes stored, as a share of the dense cache at "
     "the same step: every token in 8 bits (int8), fewer tokens uncoded, and "
     "fewer tokens in 8 bits. Means over layers, heads, decode steps and "
     "traces; both axes logarithmic, lower and further left is better. One "
     "plot per method.",
     .panels = KV_PANELS("kr", "output_error",
                         KV_LOG_SHARE("bytes stored, share of dense"),
                         KV_LOG("output error"), "Output error against bytes",
                         .panel = "method")},
    {"sparsity", "Tokens by head, by layer, or as many in all",
     "SELECT * FROM sparsity",
     "Output error of leankv against the share of all tokens dropped by the "
     "end, averaged over layers, heads, decode steps and traces; the error is "
     "logarithmic. head: thresholds decide in each head; layer: the heads of a "
     "layer share what the thresholds allow on average; static: every head of "
     "every layer holds the same number. Lower is better.",
     .panels = KV_PANELS("dropped", "output_error", KV_SHARE("tokens dropped"),
                         KV_LOG("output error"),
                         "Output error against tokens dropped",
                         .panel = "alike", .series = "sparsity")},
    {"charged", "Codes alone, and everything", CHARGED,
     "Bytes held at the end, as a share of the dense cache, averaged over "
     "traces. Papers mostly count only the codes; here everything needed to "
     "read them is charged, and both numbers are at the right. A mark shows "
     "the unified pages that would hold this at the end, including empty slots "
     "and one score per token, if --layout unified was run.",
     .mark = KV_BARS,
     .panels = {.across = KV_SHARE("bytes at the end, share of dense"),
                .title = "Bytes held at the end by kind"},
     .data = "SELECT * FROM charged" KV_PICTURED},
    {"paged", "Pages over time", "SELECT * FROM paged",
     "Pages that a layout holds after each step, over all layers and KV heads, "
     "from the end of the prompt on; one plot per layout and trace, with its "
     "own axes. Unified pages have one size; pages:N hold N tokens of K or of "
     "V, and shrink with their bits. At the budget of the maps above. At most "
     "121 steps per line. kvreport export writes the numbers as paged.csv.",
     .panels = KV_PANELS("step", "pages", KV_LINEAR("tokens seen"),
                         KV_LINEAR("pages held"), "Pages held at each step",
                         .series = "method", .apart = true, .bare = true),
     .unlinked = true},
    {"utilised", "How full lanes are", UTILISED,
     "Bars: entries in all lanes, as a share of what they would hold if each "
     "were as full as the fullest, over all steps from the end of the prompt "
     "on, averaged over traces; at the right the mean share of tokens that "
     "lanes hold, and that of the fullest. Marks: the same entries as a share "
     "of the slots that a layout of regular indices holds; for ha:max that is "
     "the bar.",
     .mark = KV_BARS,
     .panels = {.across = KV_SHARE("entries held, share"),
                .title = "How full lanes are"},
     .data = "SELECT * FROM utilised" KV_PICTURED},
    {"rewritten", "Rewriting against masks", "SELECT * FROM rewritten",
     "Bytes that layouts of regular indices hold after each step, one plot per "
     "cell. A rewritten layout (max) holds both copies during the copy. Has "
     "paid: the step at which bytes held x bytes touched, summed from the "
     "first rewrite on, drops to the sum with masks (sparse); times are not "
     "included, since memory is assumed to bound them. At the budget of the "
     "maps above; at most 121 steps per line.",
     .panels = KV_PANELS("step", "bytes", KV_LINEAR("tokens seen"),
                         KV_LINEAR("bytes held"), "Bytes held at each step",
                         .apart = true, .bare = true),
     .unlinked = true},
    {"drifts", "Drift of the log-sum-exp", "SELECT * FROM drifts",
     "How much lower the log-sum-exp of the stored tokens is than that of all "
     "tokens, summed over the steps since the prompt, averaged over layers and "
     "query heads: the lower, the more of the softmax's denominator is gone. A "
     "method that only drops never rises; merging keeps the distance to a line "
     "that drops. Tokens behind a mask are stored. At the budget of the maps "
     "above; at most 121 steps per line.",
     .panels = KV_PANELS("step", "drift", KV_LINEAR("tokens seen"),
                         KV_LINEAR("sum of LSE(stored) - LSE(all), nats"),
                         "Drift", .apart = true, .bare = true)},
    {"merging", "What merging does to the drift", "SELECT * FROM merging",
     "The drift with condensed=merge minus the drift without, for runs that "
     "differ in nothing else: above 0 merging keeps what dropping loses, below "
     "0 it loses more. A merged pair's logit is a mean, so for the queries "
     "that gave its weights the sum falls at least as much as by dropping the "
     "smaller one.",
     .panels = KV_PANELS("step", "added", KV_LINEAR("tokens seen"),
                         KV_LINEAR("drift with merging - without, nats"),
                         "Merging and drift", .apart = true, .bare = true)},
    {.id = NULL}};

#define COLUMN(column, heading, title, kind) kind(column, title)
#define SPREAD(column, title) ALONE(column, title) #column "_se=\u00b1:twice; "
#define ALONE(column, title) #column "=" title "; "
#define SOME(column, title) #column "=" title ":some; "

/* --- tables --------------------------------------------------------------- */

static void contradicted(const kv_page *p, const kv_grid *g) {
  fputs("<p><span class=\"no\">", p->f);
  kv_page_count(p->f, g->rows, "contradiction");
  fputs(".</span> One of two results is wrong; trust neither until you know "
        "which.</p>\n",
        p->f);
  kv_page_table(p, g, "Contradictions",
                "spec=cell:long; trace; what=difference:long; layer; backend; "
                "isa=kernels; threads; cpu=processor");
}

const kv_figure kv_figures_tables[] = {
    {"check", "Cross-check", "SELECT * FROM conflict", NULL,
     .draw = contradicted,
     .none = "<span class=\"yes\">No contradiction:</span> everything computed "
             "more than once gave the same digests and numbers."},
    {"check", "Kernels graded and found wrong", "SELECT * FROM graded", NULL,
     .mark = KV_TABLE,
     .columns = "theirs=kernel; trace; spec=against:long; layer; "
                "what=first wrong:long; started=graded"},
    {"check", "Cross-check", "SELECT * FROM crosscheck",
     "Digests of every decision (journal), of what is stored (state) and of "
     "every output bit (output), first ten digits. Confirmed: two runs that "
     "differ in backend, kernel set or processor found the same.",
     .mark = KV_TABLE, .few = true, .file = "crosscheck",
     .columns = "trace; observe; spec=cell:long; journal=journal:short; "
                "state=state:short; output=output:short; confirmations=runs; "
                "by_whom=backend, kernels, threads; status=checked:mark"},
    {"cells", "All cells", "SELECT * FROM cell",
     "The budget asked for, bytes stored at the end, averaged over decode "
     "steps and read are side by side because they differ: a share of the "
     "prompt is not a share of the cache at the end. Scanned: what a method "
     "looks at to choose what it reads, as a share of what dense reads. "
     "Worst error: the largest of an element of the attention output, which "
     "ranks right answers best. Needle: mass on the needles as a share of "
     "dense attention's. LSE error: of the log-sum-exp of the stored entries; "
     "KL: of the attention; error: of its output, on average. \u00b1: two "
     "standard errors of the mean, from the means of 16 "
     "bins of steps, at least 5 of them. Prompt error, prompt mass: for the "
     "rows of a prompt read in chunks. File: bytes that a method reads from "
     "its own file, once for all requests and not part of the stored bytes.",
     .mark = KV_TABLE,
     .columns = "trace; observe; method=method:name; asked; budget; kept; "
                "bytes_end=stored at end:bytes; share_end=of dense:percent; "
                "kr=mean:percent; share_read=read:percent; "
                "share_scanned=scanned:percent; " KV_SHOWN_EACH(
                    COLUMN) "asset_bytes=file:bytes; "
                            "status=checked:mark; reason=reason:long",
     .below = older},
    {"prompts", "Chunked prefill", "SELECT * FROM prompts",
     "What it costs to read a prompt in chunks (prefill=N), where rows after "
     "the first chunk attend by the method, as decode steps do. Attended: the "
     "share of the tokens before such a row that it attends to; prompt mass: "
     "the attention that dense puts on them; prompt error: of the row's "
     "output. Then decoding after it and, as `whole`, after the same prompt "
     "read at once, where no row loses anything, by the same method and "
     "budget; \u2013: that was not run.",
     .mark = KV_TABLE,
     .columns = "trace; spec=cell:long; asked; chunk; "
                "prompt_attended=attended:percent; prompt_mass=prompt mass; "
                "prompt_error=prompt error; needle_share=needle:some; "
                "whole_needle_share=needle, whole:some; mass; "
                "whole_mass=mass, whole; lse_error=LSE error; "
                "whole_lse_error=LSE error, whole; output_error=error; "
                "whole_output_error=error, whole; status=checked:mark"},
    {"layouts", "Memory layouts", "SELECT * FROM layouts",
     "Bytes of K and V in the memory that each layout holds. Slack: held but "
     "without an entry. Came free: the share of the bytes given up by the "
     "method that became free memory. Of unified pages: unused bytes, entries "
     "that changed their precision, entries of page tables, and page ids read "
     "from and written to the free list. Of base, ls, la, hs and ha: tokens "
     "that decode steps load, over all lanes; blocks after which some layer "
     "had other indices; the bytes that rewriting them moved, or the masks "
     "instead; entries held as a share of as many in every lane as in the "
     "longest; and decode steps until a rewrite's memory-time integral was no "
     "more than that of masks. Ranks: of tensor parallelism, each with its "
     "share of the KV heads and its own store (tp=N); what the fullest rank "
     "holds on average, that over an Nth of all, and what it loads.",
     .mark = KV_TABLE,
     .columns =
         "trace; spec=cell:long; asked; layout; pages_end=pages at end; "
         "bytes_end=held at end:bytes; share_end=of dense's K and V:percent; "
         "bytes_mean=mean:bytes; bytes_peak=peak:bytes; slack_end=slack:bytes; "
         "share_freed=came free:percent; unused_end=unused:bytes; moved; "
         "table_entries=table entries; list_operations=list operations; loads; "
         "rewrites; moved_bytes=bytes moved:bytes; mask_end=masks:bytes; "
         "utilisation=utilisation:percent; break_even=paid after steps; "
         "ranks=ranks:some; rank_bytes_mean=fullest, mean:some-bytes; "
         "rank_even=of an even share:some-percent; "
         "rank_loads=fullest, loads:some"},
    {"device_caches", "Caches on the device", "SELECT * FROM device_caches",
     "What a cache on the device, of this many entries a lane, would save of "
     "the transfers from host memory (kvreplay run --cache). lru keeps the "
     "entries looked up last; lfu those looked up at the most steps. Found: "
     "share of the entries that decode steps look up; fetched: bytes of the "
     "others, over all layers, and as a share of what is fetched without a "
     "cache. Caches are empty when decoding begins.",
     .mark = KV_TABLE,
     .columns = "trace; spec=cell:long; asked; cache; found=found:percent; "
                "fetched=fetched a step:bytes; share_fetched=of all:percent; "
                "fetched_peak=at most:bytes; held_peak=held at most:bytes"},
    {"classes", "Bytes by class", "SELECT * FROM classes",
     "What the entries of each class hold, where a method gives its entries "
     "classes (a residual, a tier): K and V, their metadata and columns.",
     .mark = KV_TABLE,
     .columns = "trace; spec=cell:long; asked; class; bytes=held at end:bytes; "
                "share=of the cell:percent"},
    {"who", "Who computed",
     "SELECT cpu, cores, os, version, commit_name, compiler, flags,"
     " count(*) AS rows FROM confirmations GROUP BY 1, 2, 3, 4, 5, 6, 7"
     " ORDER BY 1, 2, 3, 4, 5, 6, 7",
     NULL, .mark = KV_TABLE,
     .columns = "cpu=processor; cores; os=system; version; "
                "commit_name=commit; compiler=compiler:long; flags=flags:long; "
                "rows=results"},
    {.id = NULL}};
