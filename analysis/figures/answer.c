/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of the page: the answer of `kvreport answer`, which method is
 * best at equal bytes, in words and as its two tables.
 */
#include "analysis/compare/answer.h"
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"

static void paragraph(const kv_page *p, const char *class, const char *text) {
  fprintf(p->f, "<p class=\"%s\">", class);
  kv_text_html(text, p->f);
  fputs("</p>\n", p->f);
}

/* A row per method, a column per size. */
static int write_table(const kv_page *p, const kv_answer *a, bool reads) {
  kv_grid g;
  int rc = kv_answer_ask(p->db, a, reads, &g);
  if (rc || !g.rows) return rc;
  fprintf(p->f, "<figure class=\"half\"><h3>Equal bytes %s</h3>\n",
          reads ? "read and scanned" : "stored");
  kv_page_table(p, &g, reads ? "By bytes read" : "By bytes stored", NULL);
  fputs("</figure>\n", p->f);
  kv_grid_free(&g);
  return KV_EXIT_OK;
}

static int write(const kv_page *p, const kv_answer *a) {
  char said[KV_ANSWER_SAID];
  int rc = KV_EXIT_OK;
  kv_answer_say(a, said);
  paragraph(p, "answer", said);
  if (!a->sizes) return rc;
  fputs("<div class=\"halves\">\n", p->f);
  for (int reads = 0; reads < 2 && !rc; reads++) rc = write_table(p, a, reads);
  fputs("</div>\n", p->f);
  paragraph(p, "soft", kv_answer_marks);
  kv_answer_say_fewest(a, said);
  if (*said) paragraph(p, "", said);
  return rc;
}

static int write_answer(const kv_page *p, const kv_figure *f) {
  kv_answer a = {.sizes = 0};
  (void)f;
  int rc = kv_answer_find(p->db, &a);
  if (!rc) rc = kv_answer_put(p->db, &a);
  if (!rc) rc = write(p, &a);
  kv_answer_free(&a);
  return rc;
}

const kv_figure kv_figures_answer[] = {
    {"answer", "Which method is best at equal bytes?", .write = write_answer},
    {.id = NULL}};
