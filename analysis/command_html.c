/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport html: one self-contained page, of one database or of two side by
 * side. It begins with what a model still answers and its texts, then which
 * method is best on recorded traces, and four figures; the rest is folded. No
 * network and no time of day: the same databases give the same bytes. Its
 * content security policy allows one style sheet and one script (embed/), by
 * their digests, so that nothing in a database can become more than text.
 * Everything can be read without the script.
 */
#include "analysis/commands.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page_js.h"
#include "analysis/style_css.h"
#include "analysis/tables/lines.h"
#include "analysis/tables/output.h"

#include "config.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- loading -------------------------------------------------------------- */

static void release(kv_page *p) {
  kv_variants_free(&p->variants);
  kv_grid_free(&p->cell);
  sqlite3_close(p->db);
}

/* first: the page's first database, which sets the looks of lines; may be p. */
static int load(kv_page *p, const kv_page *first) {
  static const kv_variants none = {.n = 0};
  int rc = kv_results_open_kept(p->path, &p->db);
  if (!rc) rc = kv_grid_ask(p->db, "SELECT * FROM cell", 0, NULL, &p->cell);
  if (rc) return rc;
  if (!kv_variants_find(&p->cell, &p->variants) ||
      !kv_look_all(&p->variants, &p->cell,
                   p == first ? &none : &first->variants))
    return kv_tell_short();
  rc = kv_lines_put(p->db, &p->cell, &p->variants);
  if (!rc) rc = kv_results_keep_lines(p->db, p->path);
  return rc ? rc : kv_page_find_answers(p);
}

/* --- the head ------------------------------------------------------------- */

static int count(const kv_page *p, const char *status) {
  int n = 0;
  for (int r = 0; r < p->cell.rows; r++)
    n += !strcmp(kv_grid_text(&p->cell, r, "status"), status);
  return n;
}

static int sum(const kv_page *p, const char *column) {
  int n = 0;
  for (int r = 0; r < p->cell.rows; r++)
    n += kv_grid_number(&p->cell, r, column) > 0 &&
         isfinite(kv_grid_number(&p->cell, r, "kr"));
  return n;
}

/* Writes n and a noun; nothing of 0. */
static void say(FILE *f, int n, const char *class, const char *text) {
  if (n)
    fprintf(f, " \u00b7 <span class=\"%s\"><b>%d</b> %s</span>", class, n,
            text);
}

/* Writes counts of what is in a database. */
static void counts(const kv_page *p, FILE *f) {
  int ran = count(p, "ok") + count(p, "fixed"), against = 0, places = 0;
  for (int r = 0; r < p->cell.rows; r++)
    against += kv_grid_number(&p->cell, r, "conflicts") > 0;
  /* Rows are sorted by these columns. */
  for (int r = 0; r < p->cell.rows; places++)
    r = kv_grid_end(&p->cell, r, "trace prompt_len observe");
  kv_text_html(p->path, f);
  say(f, p->answers, "", "answers of a model");
  say(f, places, "", "recorded traces");
  say(f, p->variants.n, "", "methods and variants");
  say(f, ran, "", "cells with a result");
  say(f, sum(p, "confirmed"), "yes", "of them confirmed");
  say(f, against, "no", "contradicted");
  say(f, count(p, "refused") + count(p, "failed"), "", "refused or failed");
}

static void head(const kv_page *page, int pages, FILE *f) {
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src "
        "'sha256-",
        f);
  fprintf(f, "%s'; script-src 'sha256-%s'\">\n", style_hash, script_hash);
  fputs("<link rel=\"icon\" href=\"data:,\">\n"
        "<title>KV-cache compression: results</title>\n<style>",
        f);
  fputs(style_css, f);
  fprintf(f, "</style>\n</head>\n<body><main%s>\n",
          pages > 1 ? " class=\"two\"" : "");
  kv_look_shapes(f);
  fputs("<h1>KV-cache compression: results</h1>\n", f);
  for (int i = 0; i < pages; i++) {
    fputs("<p class=\"sub\">", f);
    if (pages > 1) fprintf(f, "%c: ", "AB"[i]);
    counts(page + i, f);
    fputs("</p>\n", f);
  }
}

static int write_about(const kv_page *p, const kv_figure *f) {
  (void)f;
  if (!p->cell.rows) return KV_EXIT_OK;
  fprintf(p->f,
          "<p>By kvreport %s. Recorded attention (queries, keys and values of "
          "every layer and head) was replayed through each method. The "
          "compressed cache's output is compared with the full cache's for the "
          "same query, and bytes are counted by walking the store.</p>\n",
          VERSION);
  fputs("<p><strong>Open loop:</strong> the recorded queries do not feel the "
        "approximation, so errors do not build up as they would in generation. "
        "These figures show how faithful attention is, not how accurate a task "
        "is. The worst error comes first, because it ranks right answers best; "
        "<a href=\"#stored\">mean output error</a> does not rank "
        "them.</p>\n<p>Filled points are <em>confirmed</em>: two runs that "
        "differ in backend, kernel set or processor found the same bits. "
        "Hollow points are one run.</p>\n",
        p->f);
  return KV_EXIT_OK;
}

static const kv_figure about[] = {
    {"about", "How to read this page", .write = write_about}, {.id = NULL}};

/* --- the sections --------------------------------------------------------- */

/* In the order of the page. */
static const kv_figure *const figures[] = {about,
                                           kv_figures_answers,
                                           kv_figures_fidelity,
                                           kv_figures_cells,
                                           kv_figures_deltakv,
                                           kv_figures_tables};
enum { TABLES = sizeof figures / sizeof *figures, FIRST = 4 };

/* The four figures that are shown open, before the rest: from each row the
 * first that has data. The worst error against bytes stored, how far methods
 * are from the baselines, the worst error against bytes read, and needles. */
static const char *const first[FIRST][3] = {
    {"worst_stored"}, {"gap"}, {"worst_read"}, {"needles", "along"}};

static const kv_figure *find(const char *id) {
  for (int i = 0; i < TABLES; i++)
    for (const kv_figure *f = figures[i]; f->id; f++)
      if (!strcmp(f->id, id)) return f;
  return NULL;
}

static int body(FILE *f, int pages, kv_page *page) {
  const kv_figure *open[FIRST] = {NULL};
  bool shown;
  int rc = kv_section_write(f, pages, page, kv_figures_closed, false, &shown);
  if (!rc)
    rc = kv_section_write(f, pages, page, kv_figures_texts, false, &shown);
  if (!rc)
    rc = kv_section_write(f, pages, page, kv_figures_answer, false, &shown);
  if (!rc && pages > 1)
    rc = kv_section_write(f, 1, page, kv_figures_beside, false, &shown);
  for (int i = 0; i < FIRST; i++)
    for (const char *const *id = first[i]; *id && !open[i] && !rc; id++) {
      rc = kv_section_write(f, pages, page, find(*id), false, &shown);
      if (shown) open[i] = find(*id);
    }
  fputs("<h2 id=\"more\">Everything else</h2>\n", f);
  for (int i = 0; i < TABLES; i++)
    for (const kv_figure *g = figures[i]; g->id && !rc; g++)
      if ((g == figures[i] || strcmp(g->id, g[-1].id)) && g != open[0] &&
          g != open[1] && g != open[2] && g != open[3])
        rc = kv_section_write(f, pages, page, g, true, &shown);
  return rc;
}

static int write(FILE *f, int pages, kv_page *page) {
  head(page, pages, f);
  int rc = body(f, pages, page);
  fputs("</main>\n<script>", f);
  fputs(script_js, f);
  fputs("</script>\n</body>\n</html>\n", f);
  return rc;
}

int kv_report_html(const kv_args *a) {
  kv_page page[2] = {{.f = NULL}, {.f = NULL}};
  int pages = a->files.n, rc = KV_EXIT_OK, end;
  for (int i = 0; i < pages && !rc; i++) {
    page[i].path = a->files.item[i];
    page[i].beside = pages > 1 ? page + !i : NULL;
    rc = load(page + i, page);
  }
  FILE *f = rc ? NULL : kv_output_open(a->output);
  if (!rc && !f) rc = KV_EXIT_RESOURCE;
  if (f) {
    rc = write(f, pages, page);
    end = kv_output_close(f, a->output);
    if (!rc) rc = end;
  }
  for (int i = 0; i < pages; i++) release(page + i);
  return rc;
}
