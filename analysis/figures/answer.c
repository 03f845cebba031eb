/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of the page, in words and as a sorted plot for each size: what
 * a model still answers (closed loop), then which method is best on recorded
 * attention. The words are those of `kvreport answer`. A plot is a table whose
 * middle column is drawn; it needs neither script nor a certain width.
 */
#include "analysis/compare/closed.h"
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"

#include <math.h>
#include <string.h>

static void paragraph(const kv_page *p, const char *class, const char *text) {
  if (!*text) return;
  fprintf(p->f, "<p class=\"%s\">", class);
  kv_text_html(text, p->f);
  fputs("</p>\n", p->f);
}

/* --- the sorted plot ------------------------------------------------------ */

/* SQL: of a table of kv_answer_put those that have a value: the ten best and
 * the ten worst at each size, and all baselines. nth: of `of` methods that are
 * no baselines, the best first. absent: names of those without a value. */
#define PLOTTED(table)                                                         \
  "WITH turned AS (SELECT *, value * iif(measure = 'output_abs_max', -1, 1)"   \
  " AS good FROM " table "), ranked AS (SELECT *, row_number() OVER"           \
  " (PARTITION BY basis, asked, baseline ORDER BY good DESC, rank) AS nth,"    \
  " count(*) OVER (PARTITION BY basis, asked, baseline) AS 'of', rank ="       \
  " min(iif(place = 'equal' AND NOT baseline, rank, NULL)) OVER (PARTITION BY" \
  " basis, asked) AS best FROM turned WHERE value IS NOT NULL) SELECT *,"      \
  " iif(size IS NULL, 'equal entries, -b ' || asked, printf('%.4g %% of the"   \
  " bytes%s', 100 * size, iif(reads, ' read', ''))) AS heading, traces ||"     \
  " iif(measure = 'exact_match', ' questions', ' traces') || iif(tasks > 1, '" \
  " of ' || tasks || ' tasks', '') || iif(contexts < traces, ', about ' ||"    \
  " contexts || ' contexts', '') || iif(verdict = '', '', '; ' || verdict) AS" \
  " tip, (SELECT group_concat(method, ', ') FROM " table " a WHERE value IS"   \
  " NULL AND (a.basis, a.asked) = (r.basis, r.asked)) AS absent FROM ranked r" \
  " WHERE baseline OR nth <= 10 OR nth > r.of - 10 ORDER BY reads, size IS"    \
  " NULL, basis, size, asked, good DESC, rank"

typedef struct plot {
  const kv_grid *g;
  const char *title; /* what x is */
  bool percent;      /* x is a share, written as percent */
  double end;        /* of the axis, which begins at 0 */
  double dense;      /* its x; NaN: none */
} plot;

/* In percent of the axis. */
static double at(const plot *t, double x) {
  return 100 * fmin(fmax(x / t->end, 0), 1);
}

/* The least of 1, 2, 4, 8, 10, .. that is not below x by more than 2 %: its
 * quarters are round enough. */
static double round_up(double x) {
  static const double step[] = {2, 4, 8, 10};
  double unit = pow(10, floor(log10(x)));
  int i = 0;
  if (!(x > 0) || x <= 1.02 * unit) return x > 0 ? unit : 1;
  while (step[i] * unit * 1.02 < x) i++;
  return step[i] * unit;
}

static void write_mark(const plot *t, int r, FILE *f) {
  double x = kv_grid_number(t->g, r, "value"), low, high;
  bool baseline = kv_grid_number(t->g, r, "baseline") > 0;
  fputs("<td class=track><svg aria-hidden=\"true\">", f);
  if (isfinite(t->dense))
    fprintf(f, "<line class=zero x1=\"%.1f%%\" x2=\"%.1f%%\" y2=\"100%%\"/>",
            at(t, t->dense), at(t, t->dense));
  low = kv_grid_number(t->g, r, "low"), high = kv_grid_number(t->g, r, "high");
  if (isfinite(low) && isfinite(high))
    fprintf(f,
            "<line class=w x1=\"%.1f%%\" x2=\"%.1f%%\" y1=\"50%%\" "
            "y2=\"50%%\"/>",
            at(t, low), at(t, high));
  fprintf(f, "<circle class=\"k%d m%s\" cx=\"%.1f%%\" cy=\"50%%\" r=5 /></svg>",
          baseline ? 7 : 0,
          strcmp(kv_grid_text(t->g, r, "place"), "equal") && !baseline ? " o"
                                                                       : "",
          at(t, x));
}

/* In C, as in sentences: SQLite rounds otherwise. */
static void write_numbers(const plot *t, int r, FILE *f) {
  double x = kv_grid_number(t->g, r, "value"), by = t->percent ? 100 : 1;
  double low = kv_grid_number(t->g, r, "low") * by;
  double high = kv_grid_number(t->g, r, "high") * by;
  double bytes = 100 * kv_grid_number(t->g, r, "share");
  fprintf(f, t->percent ? "<td>%.0f%%" : "<td>%.2g", x * by);
  if (!strcmp(kv_grid_text(t->g, r, "place"), "some")) fputs(" *", f);
  fputs("<td class=apart>", f);
  if (isfinite(low) && isfinite(high))
    fprintf(f, t->percent ? "[%.0f, %.0f]" : "[%.2g, %.2g]", low, high);
  fputs("<td class=bytes>", f);
  if (isfinite(bytes)) fprintf(f, bytes < 9.95 ? "%.2g%%" : "%.0f%%", bytes);
  fputs("\n", f);
}

static void write_row(const kv_page *p, const plot *t, int r) {
  const char *method = kv_grid_text(t->g, r, "method");
  int line = kv_variants_same(&p->variants, method);
  bool baseline = kv_grid_number(t->g, r, "baseline") > 0;
  fputs("<tr title=\"", p->f);
  kv_text_html(kv_grid_text(t->g, r, "tip"), p->f);
  fprintf(p->f, "\" class=\"%s",
          baseline                              ? "soft"
          : kv_grid_number(t->g, r, "best") > 0 ? "best"
                                                : "");
  if (line >= 0)
    kv_look_line_class(kv_look_line(&p->variants, line).line, p->f);
  fputs("\"><th scope=row>", p->f);
  kv_text_html(method, p->f);
  write_mark(t, r, p->f);
  write_numbers(t, r, p->f);
}

static void write_head(const plot *t, int r, FILE *f) {
  fprintf(f, "<table class=dots><caption>%s at ", t->title);
  kv_text_html(kv_grid_text(t->g, r, "heading"), f);
  fputs("</caption><thead><tr><th><th class=track><div>", f);
  for (int i = 0; i <= 4; i += 2)
    fprintf(f, t->percent ? "<span>%.3g%%</span>" : "<span>%.3g</span>",
            t->end * i / 4 * (t->percent ? 100 : 1));
  fputs("</div><th><th class=apart><th class=bytes>bytes<tbody>\n", f);
}

/* The methods between the ten best and the ten worst are in the table. */
static void write_plot(const kv_page *p, plot *t, int r, int end) {
  const char *absent = kv_grid_text(t->g, r, "absent");
  int nth = 0;
  t->dense = NAN;
  for (int i = r; i < end; i++)
    if (!strcmp(kv_grid_text(t->g, i, "method"), "dense"))
      t->dense = kv_grid_number(t->g, i, "value");
  write_head(t, r, p->f);
  for (; r < end; r++) {
    int n = (int)kv_grid_number(t->g, r, "nth");
    bool counts = !(kv_grid_number(t->g, r, "baseline") > 0);
    if (counts && n > nth + 1)
      fprintf(p->f, "<tr class=soft><th colspan=5>.. %d between them\n",
              n - nth - 1);
    if (counts) nth = n;
    write_row(p, t, r);
  }
  if (*absent) {
    fputs("<tr class=soft><th colspan=5>not at this size: ", p->f);
    kv_text_html(absent, p->f);
  }
  fputs("</table>\n", p->f);
}

/* Writes each line of text as two paragraphs: its first sentence, and details.
 */
static void paragraphs(const kv_page *p, char *text) {
  for (char *line, *more; (line = strsep(&text, "\n"));) {
    more = strstr(line, ". ");
    if (more) more[1] = 0;
    paragraph(p, "answer", line);
    if (more) paragraph(p, "soft", more + 2);
  }
}

/* A plot for each size, from the rows of PLOTTED. */
static int write_plots(const kv_page *p, const char *sql, const char *title,
                       bool percent, const char *over) {
  kv_grid g;
  double most = 0;
  int rc = kv_grid_ask(p->db, sql, 0, NULL, &g);
  if (rc) return rc;
  for (int r = 0; r < g.rows; r++)
    most = fmax(most, kv_grid_number(&g, r, "value"));
  plot t = {&g, title, percent, percent ? 1 : round_up(most), NAN};
  if (g.rows) fputs("<figure><div class=\"plots\">\n", p->f);
  for (int r = 0, end; r < g.rows; r = end) {
    end = kv_grid_end(&g, r, "basis asked");
    write_plot(p, &t, r, end);
  }
  if (g.rows)
    fprintf(p->f,
            "</div><figcaption>Lines: 95 %% intervals, from 5 %s on. Dashed: "
            "dense, the whole "
            "cache. Gray: to compare with. Hollow: other bytes, or no result "
            "on some %s (*).</figcaption></figure>\n",
            over, over);
  kv_grid_free(&g);
  return KV_EXIT_OK;
}

/* --- what a model answered ------------------------------------------------ */

static int write_closed(const kv_page *p, const kv_figure *f) {
  kv_closed c;
  char said[KV_ANSWER_SAID];
  (void)f;
  if (!p->answers) return KV_EXIT_OK;
  int rc = kv_closed_find(p->db, &c);
  if (!rc) rc = kv_closed_put(p->db, &c);
  if (!rc) {
    kv_closed_say(&c, said);
    paragraphs(p, said);
    rc = write_plots(p, PLOTTED("closed_all"), "Right answers", true,
                     "questions");
  }
  kv_closed_free(&c);
  return rc;
}

/* --- which method is best on recorded attention --------------------------- */

/* The plots fold in a database that also has answers of a model. */
static int write_open(const kv_page *p, const kv_answer *a) {
  char said[KV_ANSWER_SAID];
  if (!a->sizes && p->answers) return KV_EXIT_OK;
  kv_answer_say(a, said);
  paragraphs(p, said);
  if (p->answers) fputs("<details><summary>At each size</summary>\n", p->f);
  int rc = write_plots(p, PLOTTED("answered_at"), a->by->name, false, "traces");
  if (p->answers) fputs("</details>\n", p->f);
  kv_answer_say_fewest(a, said);
  paragraph(p, "", said);
  return rc;
}

static int write_answer(const kv_page *p, const kv_figure *f) {
  kv_answer a = {.sizes = 0};
  (void)f;
  int rc = kv_answer_find(p->db, &a);
  if (!rc) rc = kv_answer_put(p->db, &a);
  if (!rc) rc = write_open(p, &a);
  kv_answer_free(&a);
  return rc;
}

const kv_figure kv_figures_closed[] = {
    {"answered", "Does the model still answer?", .write = write_closed},
    {.id = NULL}};
const kv_figure kv_figures_answer[] = {
    {"answer", "Which method is best at equal bytes?", .write = write_answer},
    {.id = NULL}};
