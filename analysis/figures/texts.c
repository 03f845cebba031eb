/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of a model's answers: for each question what is right and what each
 * method said, with the words marked in which it differs from dense. Methods
 * that said the same share a row. Texts come from other people's models and
 * files, so all of them are written by kv_text_html.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_TEXT =
      1500000,  /* bytes of HTML; the page must be small enough to send */
  OPEN = 8,     /* questions that are listed before the rest folds */
  SUMMARY = 110 /* bytes of a question in the list */
};

/* A row for each answer: by question, then dense's text and those equal to it,
 * then right answers, then texts that many methods share. */
#define TEXTS                                                                  \
  "WITH one AS (SELECT m.model, q.task, q.item, q.number, q.question,"         \
  " q.asked AS ask, q.reference, q.context, e.method, e.target AS asked,"      \
  " e.status, e.said, iif(e.status = 'ok', coalesce(e.said, 'not stored'),"    \
  " e.status || ': ' || e.reason) AS text, v.value AS exact"                   \
  " FROM newest_evaluation e JOIN question q USING (question)"                 \
  " JOIN model m ON m.model_digest = q.model_digest"                           \
  " LEFT JOIN evaluated v ON v.evaluation_id = e.evaluation_id"                \
  " AND v.name = 'exact'), alike AS (SELECT *,"                                \
  " max(method = 'dense') OVER same AS base, count(*) OVER same AS n,"         \
  " dense_rank() OVER (PARTITION BY question ORDER BY status = 'ok', exact,"   \
  " said IS NULL, text) AS kind, sum(exact) OVER (PARTITION BY question) AS"   \
  " good, count(*) OVER (PARTITION BY question) AS answers FROM one WINDOW"    \
  " same AS (PARTITION BY question, status, exact, said IS NULL, text))"       \
  " SELECT *, (SELECT count(DISTINCT asked) FROM one WHERE asked <> '') > 1"   \
  " AS sized FROM alike ORDER BY model, task, item, number, question,"         \
  " base DESC, status <> 'ok', exact DESC, n DESC, kind,"                      \
  " CAST(ltrim(asked, 'abcdefghijklmnopqrstuvwxyz:') AS REAL), asked, method"

/* Writes n bytes of t, in which an end of line is visible. */
static void write_part(const char *t, size_t n, FILE *f) {
  char *part = strndup(t, n), *rest = part, *line;
  if (!part) kv_tell_short();
  while (part && (line = strsep(&rest, "\n"))) {
    kv_text_html(line, f);
    if (rest) fputs(" \xe2\x86\xb5 ", f);
  }
  free(part);
}

/* Writes t and marks its words from the first that differs from those of base
 * to the last. */
static void write_marked(const char *t, const char *base, FILE *f) {
  size_t n = strlen(t), of = strlen(base), head = 0, tail = 0;
  if (!strcmp(t, base)) {
    write_part(t, n, f);
    return;
  }
  while (head < n && t[head] == base[head]) head++;
  while (head && t[head - 1] != ' ') head--;
  while (tail < n - head && tail < of - head &&
         t[n - 1 - tail] == base[of - 1 - tail])
    tail++;
  while (tail && t[n - tail] != ' ') tail--;
  write_part(t, head, f);
  fputs("<mark>", f);
  write_part(t + head, n - head - tail, f);
  fputs("</mark>", f);
  write_part(t + n - tail, tail, f);
}

/* Names the methods of rows r .. end - 1, by budget if there are several. */
static void write_methods(const kv_grid *g, int r, int end, FILE *f) {
  bool sized = kv_grid_number(g, r, "sized") > 0;
  for (int i = r; i < end; i++) {
    const char *asked = kv_grid_text(g, i, "asked");
    bool next = i == r || strcmp(asked, kv_grid_text(g, i - 1, "asked"));
    if (i > r) fputs(next && sized ? "; " : ", ", f);
    if (next && sized && *asked) {
      kv_text_html(asked, f);
      fputs(": ", f);
    }
    kv_text_html(kv_grid_text(g, i, "method"), f);
  }
}

static bool is_stored(const kv_grid *g, int r) {
  return *kv_grid_text(g, r, "status") == 'o' &&
         g->value[r * g->columns + kv_grid_column(g, "said")].text;
}

/* Rows of one text: whether it is right, who said it, and it. base: the first
 * row of the question, dense's if it has one. */
static void write_said(const kv_grid *g, int base, int r, int end, FILE *f) {
  double exact = kv_grid_number(g, r, "exact");
  const char *text = kv_grid_text(g, r, "text");
  bool stored = is_stored(g, r);
  fputs("<tr><td>", f);
  if (isfinite(exact))
    fputs(exact > 0 ? "<span class=yes>right</span>"
                    : "<span class=no>wrong</span>",
          f);
  fputs("<td>", f);
  write_methods(g, r, end, f);
  fputs(stored ? "<td dir=auto>" : "<td class=soft>", f);
  write_marked(text,
               stored && kv_grid_number(g, base, "base") > 0
                   ? kv_grid_text(g, base, "text")
                   : text,
               f);
  if (!*text) fputs("<span class=soft>(empty)</span>", f);
  fputs("\n", f);
}

static void write_named(const char *name, const char *text, FILE *f) {
  fprintf(f, "<p class=asked><b>%s</b> <span dir=auto>", name);
  write_part(*text ? text : "not stored", strlen(*text ? text : "not stored"),
             f);
  fputs("</span></p>\n", f);
}

static void write_question(const kv_grid *g, int r, int end, FILE *f) {
  const char *ask = kv_grid_text(g, r, "ask");
  double good = kv_grid_number(g, r, "good");
  fputs("<details><summary><b>", f);
  kv_text_html(kv_grid_text(g, r, "item"), f);
  fputs("</b> ", f);
  write_part(*ask ? ask : "(question not stored)",
             (size_t)(*ask ? kv_text_cut(ask, SUMMARY) : 21), f);
  if (strlen(ask) > SUMMARY) fputs(" ..", f);
  if (isfinite(good))
    fprintf(f, " <span class=soft>%.0f of %d right</span>", good,
            (int)kv_grid_number(g, r, "answers"));
  fputs("</summary>\n", f);
  if (strlen(ask) > SUMMARY) write_named("Question", ask, f);
  write_named("Right answer", kv_grid_text(g, r, "reference"), f);
  fputs("<table class=said><tbody>\n", f);
  for (int i = r, next; i < end; i = next) {
    next = kv_grid_end(g, i, "question kind base");
    write_said(g, r, i, next, f);
  }
  fputs("</table></details>\n", f);
}

/* Questions after the first few are folded; those beyond MOST_TEXT are only
 * counted. */
static void write_questions(const kv_page *p, const kv_grid *g) {
  long begin = ftell(p->f);
  int n = 0, left = 0;
  for (int r = 0, end; r < g->rows; r = end) {
    end = kv_grid_end(g, r, "question");
    if (left || ftell(p->f) - begin > MOST_TEXT) {
      left++;
      continue;
    }
    if (n++ == OPEN)
      fputs("<details><summary>All other questions</summary>\n", p->f);
    write_question(g, r, end, p->f);
  }
  if (n > OPEN) fputs("</details>\n", p->f);
  if (!left) return;
  fprintf(p->f, "<p>%d more question%s would make the page too large. ", left,
          left == 1 ? "" : "s");
  fputs("<code>kvreport table ", p->f);
  kv_text_shell_html(p->path, p->f);
  fputs(" --answers --texts</code> prints all texts.</p>\n", p->f);
}

static bool has_texts(const kv_grid *g) {
  for (int r = 0; r < g->rows; r++)
    if (is_stored(g, r)) return true;
  return false;
}

static void draw_texts(const kv_page *p, const kv_grid *g) {
  if (!has_texts(g)) {
    fputs("<p>The texts of these answers are not stored.</p>\n", p->f);
    return;
  }
  fputs(
      "<p class=\"soft\">A question opens on a click. <mark>Marked</mark>: "
      "where an answer differs from dense's. \xe2\x86\xb5: a new line. Right: "
      "the answer contains the right one.</p>\n",
      p->f);
  write_questions(p, g);
}

const kv_figure kv_figures_texts[] = {
    {"texts", "What was asked, and what each method said", TEXTS,
     .draw = draw_texts, .group = "texts"},
    {.id = NULL}};
