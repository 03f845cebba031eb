/* SPDX-License-Identifier: Apache-2.0
 *
 * Fidelity against bytes, a figure per measure: first the worst error, with the
 * sentence that it ranks right answers best, then needle, LSE error, KL and
 * output error. The large plot shows means over the traces with
 * the measure, only for lines with a result on each of them (a mean over fewer
 * traces could flatter). Below it are the same as a sorted table, including
 * lines without a result on some trace, then perhaps one plot per trace.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/ranked_txt.h"

#include <string.h>

/* Traces of one request count as one, with their mean. `places`: also a plot
 * per trace. y is an absolute value if the measure has either sign. */
#define FIDELITY(x, y, places)                                                 \
  "WITH point AS MATERIALIZED (SELECT label, trace, request, prompt_len,"      \
  " observe, basis, asked, " x " AS x, " y " AS y, confirmed, key, bytes_mean" \
  " AS bytes, cell.rowid AS nth FROM cell JOIN line USING (key, basis, asked)" \
  " WHERE x IS NOT NULL AND y IS NOT NULL), unit AS (SELECT label, basis,"     \
  " asked, request, prompt_len, observe, avg(x) AS x, avg(y) AS y,"            \
  " min(confirmed) AS confirmed, min(nth) AS nth FROM point GROUP BY label,"   \
  " basis, asked, request, prompt_len, observe), every AS (SELECT count(*) AS" \
  " n FROM (SELECT DISTINCT request, prompt_len, observe FROM unit)) SELECT"   \
  " '' AS panel, label AS series, basis, asked, avg(x) AS x, avg(y) AS y,"     \
  " min(confirmed) AS confirmed, count(*) AS traces, NULL AS bytes, NULL AS"   \
  " key FROM unit GROUP BY label, basis, asked HAVING count(*) = (SELECT n"    \
  " FROM every) UNION ALL SELECT trace || ', prompt ' || prompt_len ||"        \
  " iif(observe = 'recorded', '', ', observed ' || observe), label, basis,"    \
  " asked, x, y, confirmed, 1, bytes, key FROM point WHERE " places            \
  " AND (SELECT n > 1 FROM every) ORDER BY 1, 2, 5"

#define STORED                                                                 \
  "All bytes stored (codes, scales, positions, columns, side memory, slack), " \
  "as a share of the dense cache at the same step, averaged over decode "      \
  "steps. "
#define READ                                                                   \
  "Bytes that attention reads per decode step, as a share of what dense "      \
  "reads. This is where methods that retrieve differ: they store everything "  \
  "and read little. "
#define NEEDLE                                                                 \
  "Needle: attention mass left on the tokens that hold the answers, as a "     \
  "share of dense attention's; 1 is dense, and a method that dropped other "   \
  "tokens may exceed it."
#define WORST                                                                  \
  "Worst error: the largest |o\u0302 \u2212 o| of an element of the "          \
  "attention output, over layers, heads and decode steps; both axes are "      \
  "logarithmic, so points of error 0 (dense) are not drawn."
#define ERROR                                                                  \
  "Error: |o\u0302 \u2212 o| / |o|, averaged over layers, heads and decode "   \
  "steps; both axes are logarithmic, so points of error 0 (dense) are not "    \
  "drawn."
#define MARKS                                                                  \
  " Points that no other method beats in both are named; filled points are "   \
  "confirmed, hollow ones are one run. The large plot has the mean over all "  \
  "traces with the measure, if each of them has a result."
#define ACROSS_STORED                                                          \
  KV_LOG_SHARE("bytes stored, share of dense, decode's mean")
#define ACROSS_READ KV_LOG_SHARE("bytes read per step, share of dense")

/* Writes which measure ranks right answers. */
static void say_rank(const kv_page *p) {
  fputs("<p class=\"rank\">", p->f);
  kv_text_html(ranked_txt, p->f);
  fputs("</p>\n", p->f);
}

/* Explains the mark of some lines. */
static int write_reasons(const kv_page *p) {
  kv_grid g;
  int rc = kv_grid_ask(p->db, "SELECT * FROM reasons", 0, NULL, &g);
  if (rc) return rc;
  if (g.rows)
    fputs("<p class=\"soft\">*: the mean of only those traces that have an "
          "answer. Do not compare it with the others: it is listed below them, "
          "and drawn large only if no other trace has the "
          "measure.</p>\n<details><summary>Why not all traces have "
          "one</summary><ul>\n",
          p->f);
  for (int r = 0; r < g.rows; r++) {
    fputs("<li>", p->f);
    kv_text_html(kv_grid_text(&g, r, "said"), p->f);
    fputs("</li>\n", p->f);
  }
  if (g.rows) fputs("</ul></details>\n", p->f);
  kv_grid_free(&g);
  return rc;
}

#define ASCENDING(size, x)                                                     \
  " ORDER BY summary.traces < summary.traces_all, " x " IS NULL, " size "(" x  \
  "), summary.kr, summary.method"
/* A table of means is sorted by this measure, its first column. */
static const struct order {
  const char *of, *first, *order; /* of: the caption's measure */
} orders[] = {
    {"worst error", "worst=worst error:up; ", KV_RANKED},
    {"needle", "needle=needle:down; ",
     " ORDER BY summary.traces < summary.traces_all, summary.needle_share DESC,"
     " summary.kr, summary.method"},
    {"LSE error", "lse=LSE error:up; ", ASCENDING("abs", "summary.lse_error")},
    {"KL", "kl=KL:up; ", ASCENDING("", "summary.kl")},
    {"output error", "error=output error:up; ",
     ASCENDING("", "summary.output_error")}};

/* Means over traces with two standard errors, below the plot of a figure. */
static int write_means(const kv_page *p, const kv_figure *f) {
  static const char all[] =
      "worst=worst error; needle; lse=LSE error; kl=KL; error=output error; ";
  const struct order *by = orders;
  char sql[1280], columns[320];
  kv_grid g;
  while (strncmp(f->panels.title, by->of, strlen(by->of))) by++;
  snprintf(columns, sizeof columns,
           "method=method:line; %sasked; stored; seen=read; ", by->first);
  for (const char *c = all; *c; c += strcspn(c, ";") + 2)
    if (strncmp(c, by->first, strcspn(by->first, "=")))
      snprintf(columns + strlen(columns), sizeof columns - strlen(columns),
               "%.*s; ", (int)strcspn(c, ";"), c);
  snprintf(columns + strlen(columns), sizeof columns - strlen(columns),
           "of=traces");
  snprintf(sql, sizeof sql,
           "SELECT method, asked, traces || iif(traces = traces_all, '',"
           " ' of ' || traces_all || iif(traces, ' *', '')) AS 'of',"
           " share(kr, kr_se) AS stored, share(share_read, share_read_se) AS"
           " seen, about(output_abs_max, output_abs_max_se) AS worst,"
           " about(needle_share, needle_share_se) AS needle,"
           " about(lse_error, lse_error_se) AS lse, about(kl, kl_se) AS kl,"
           " about(output_error, output_error_se) AS error FROM summary%s",
           by->order);
  int rc = kv_grid_ask(p->db, sql, 0, NULL, &g);
  if (rc) return rc;
  kv_page_table(p, &g, "Means over traces, sorted", columns);
  fputs("<p class=\"soft\">Means over traces, \u00b1 two standard errors, for "
        "5 traces or more; needles of the traces that have any.</p>\n",
        p->f);
  kv_grid_free(&g);
  return by == orders ? write_reasons(p) : rc;
}

const kv_figure kv_figures_fidelity[] = {
    {"worst_stored", "Worst error against bytes stored",
     FIDELITY("kr", "output_abs_max", "0"), STORED WORST MARKS,
     .panels = KV_PANELS("x", "y", ACROSS_STORED, KV_LOG("worst error"),
                         "worst error against bytes stored", .large = true,
                         .below = write_means),
     .lead = say_rank},
    {"worst_read", "Worst error against bytes read",
     FIDELITY("share_read", "output_abs_max", "0"), READ WORST MARKS,
     .panels = KV_PANELS("x", "y", ACROSS_READ, KV_LOG("worst error"),
                         "worst error against bytes read", .large = true)},
    {"needle_stored", "Needles against bytes stored",
     FIDELITY("kr", "needle_share", "1"), STORED NEEDLE MARKS,
     .panels =
         KV_PANELS("x", "y", ACROSS_STORED, KV_LINEAR("needle, dense is 1"),
                   "needle against bytes stored", .large = true, .more = true,
                   .below = write_means)},
    {"needle_read", "Needles against bytes read",
     FIDELITY("share_read", "needle_share", "0"), READ NEEDLE MARKS,
     .panels =
         KV_PANELS("x", "y", ACROSS_READ, KV_LINEAR("needle, dense is 1"),
                   "needle against bytes read", .large = true, .more = true)},
    {"lse", "LSE error and KL against bytes stored",
     FIDELITY("kr", "abs(lse_error)", "0"),
     STORED
     "LSE error: how far the log-sum-exp of the stored entries is off in "
     "either direction, averaged over layers, heads and decode steps." MARKS,
     .panels =
         KV_PANELS("x", "y", ACROSS_STORED, KV_LINEAR("LSE error, size, nats"),
                   "LSE error against bytes stored", .large = true,
                   .below = write_means)},
    {"lse", "KL against bytes stored", FIDELITY("kr", "kl", "0"),
     STORED "KL divergence of the attention over the view from dense "
            "attention, averaged over layers, heads and decode steps." MARKS,
     .panels = KV_PANELS(
         "x", "y", ACROSS_STORED, KV_LINEAR("KL divergence, nats"),
         "KL against bytes stored", .large = true, .below = write_means),
     .file = "kl"},
    {"stored", "Output error against bytes stored",
     FIDELITY("kr", "output_error", "1"), STORED ERROR MARKS,
     .panels = KV_PANELS("x", "y", ACROSS_STORED, KV_LOG("output error"),
                         "output error against bytes stored", .large = true,
                         .below = write_means),
     .file = "bytes_stored"},
    {"read", "Output error against bytes read",
     FIDELITY("share_read", "output_error", "1"), READ ERROR MARKS,
     .panels = KV_PANELS("x", "y", ACROSS_READ, KV_LOG("output error"),
                         "output error against bytes read", .large = true),
     .file = "bytes_read"},
    {.id = NULL}};
