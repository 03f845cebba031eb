/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables below the page's large figures: means over traces with two
 * standard errors, the best by the figure's measure first, each with the mark
 * that it has there. Also of lines that some trace has no answer for, which no
 * large figure draws: they are marked, and say why.
 */
#include "analysis/database/say.h"
#include "analysis/page/page.h"
#include "analysis/ranked_txt.h"

void kv_page_rank(const kv_page *p) {
  fputs("<p class=\"rank\">", p->f);
  kv_text_html(KV_SAY_RANK, p->f);
  fputs("</p>\n<details><summary>What was asked, and how sure it is"
        "</summary><p>",
        p->f);
  fputs(ranked_txt, p->f);
  fputs("</p></details>\n", p->f);
}

typedef struct field {
  const char *name, *title; /* in the answer below; on the page */
  kv_ranking by;            /* the ranking that is sorted by it */
} field;

/* The measure that a table is sorted by stands before these. */
static const field fields[] = {
    {"asked", "asked", KV_NO_RANKING},      {"stored", "stored", KV_NO_RANKING},
    {"seen", "read", KV_NO_RANKING},        {"needle", "needle", KV_BY_NEEDLE},
    {"lse", "LSE error", KV_BY_LSE},        {"kl", "KL", KV_BY_KL},
    {"error", "output error", KV_BY_ERROR}, {"of", "traces", KV_NO_RANKING}};
enum { FIELDS = sizeof fields / sizeof *fields };

/* The i-th field of a table: the one that it is sorted by, then the others. */
static const field *field_at(int i, kv_ranking by) {
  int first = 0;
  while (fields[first].by != by) first++;
  return fields + (i ? i - (i <= first) : first);
}

#define ASCENDING(size, x)                                                     \
  " ORDER BY summary.traces < summary.traces_all, " x " IS NULL, " size "(" x  \
  "), summary.kr, summary.method"
static const char *const order[] = {
    [KV_NO_RANKING] = "",
    [KV_BY_NEEDLE] = KV_RANKED,
    [KV_BY_LSE] = ASCENDING("abs", "summary.lse_error"),
    [KV_BY_KL] = ASCENDING("", "summary.kl"),
    [KV_BY_ERROR] = ASCENDING("", "summary.output_error")};

static void head(const kv_page *p, kv_ranking by) {
  fputs("<div class=\"scroll whole\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"Means over traces, sorted\"><table><thead><tr>"
        "<th scope=col class=x>method</th>",
        p->f);
  for (int i = 0; i < FIELDS; i++)
    fprintf(p->f, "<th scope=col%s>%s</th>",
            i                    ? ""
            : by == KV_BY_NEEDLE ? " aria-sort=\"descending\""
                                 : " aria-sort=\"ascending\"",
            field_at(i, by)->title);
  fputs("</tr></thead><tbody>\n", p->f);
}

static void row(const kv_page *p, const kv_grid *g, int r, kv_ranking by) {
  int line = kv_variants_same(&p->variants, kv_grid_text(g, r, "method"));
  fputs("<tr", p->f);
  if (line >= 0)
    fprintf(p->f, " class=\"v%d\"", kv_look_line(&p->variants, line).line);
  fputs("><td class=x>", p->f);
  if (line >= 0) kv_look_swatch(kv_look_line(&p->variants, line), p->f);
  kv_text_html(kv_grid_text(g, r, "method"), p->f);
  fputs("</td>", p->f);
  for (int i = 0; i < FIELDS; i++) {
    const char *text = kv_grid_text(g, r, field_at(i, by)->name);
    fputs("<td>", p->f);
    kv_text_html(*text ? text : "\u2013", p->f);
    fputs("</td>", p->f);
  }
  fputs("</tr>\n", p->f);
}

/* What the mark of some lines means. */
int kv_page_reasons(const kv_page *p) {
  kv_grid g;
  int rc = kv_grid_ask(p->db, "SELECT * FROM reasons", 0, NULL, &g);
  if (rc) return rc;
  if (g.rows)
    fputs("<p class=\"soft\">*: the mean of those traces alone that have an "
          "answer: below the others, for it is not to be compared with them, "
          "and drawn large only where they are all that have the measure.</p>\n"
          "<details><summary>Why not all traces have one</summary><ul>\n",
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

int kv_page_ranking(const kv_page *p, kv_ranking by) {
  char sql[1024];
  kv_grid g;
  int rc;
  if (by == KV_NO_RANKING) return KV_EXIT_OK;
  snprintf(sql, sizeof sql,
           "SELECT method, asked, traces || iif(traces = traces_all, '',"
           " ' of ' || traces_all || iif(traces, ' *', '')) AS 'of',"
           " share(kr, kr_se) AS stored, share(share_read, share_read_se) AS"
           " seen, about(needle_share, needle_share_se) AS needle,"
           " about(lse_error, lse_error_se) AS lse, about(kl, kl_se) AS kl,"
           " about(output_error, output_error_se) AS error FROM summary%s",
           order[by]);
  rc = kv_grid_ask(p->db, sql, 0, NULL, &g);
  if (rc) return rc;
  head(p, by);
  for (int r = 0; r < g.rows; r++) row(p, &g, r, by);
  fputs("</tbody></table></div>\n<p class=\"soft\">Means over traces, "
        "\u00b1 two of their standard errors, of 5 traces and more; needles "
        "of the traces that have any.</p>\n",
        p->f);
  kv_grid_free(&g);
  return rc;
}
