/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport html: one self-contained page. No script, no network, no time of
 * day: the same database gives the same bytes. Its own policy forbids the
 * browser what it does not use, so that nothing a database says can become
 * more than text.
 */
#include "analysis/commands.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/style_css.h"
#include "analysis/tables/lines.h"
#include "analysis/tables/output.h"

#include "config.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- what the page is about ----------------------------------------------- */

static bool find_places(kv_page *p) {
  const kv_grid *g = &p->cell;
  p->place = calloc((size_t)g->rows + 1, sizeof *p->place);
  p->place_name = calloc((size_t)g->rows + 1, sizeof *p->place_name);
  for (int r = 0; p->place && p->place_name && r < g->rows; r++) {
    char name[320];
    int i = 0;
    const char *observe = kv_grid_text(g, r, "observe");
    bool recorded = !strcmp(observe, "recorded");
    snprintf(name, sizeof name, "%s, prompt %s%s%s",
             kv_grid_text(g, r, "trace"), kv_grid_text(g, r, "prompt_len"),
             recorded ? "" : ", observed ", recorded ? "" : observe);
    while (i < p->places && strcmp(p->place_name[i], name)) i++;
    if (i == p->places && !(p->place_name[p->places++] = strdup(name)))
      return false;
    p->place[r] = i;
  }
  return p->place && p->place_name;
}

static void release(kv_page *p) {
  for (int i = 0; p->place_name && i < p->places; i++) free(p->place_name[i]);
  free(p->place_name);
  free(p->place);
  kv_variants_free(&p->variants);
  kv_grid_free(&p->cell);
  sqlite3_close(p->db);
}

static int load(kv_page *p) {
  int rc = kv_results_open(p->path, &p->db);
  if (!rc) rc = kv_grid_ask(p->db, "SELECT * FROM cell", 0, NULL, &p->cell);
  if (rc) return rc;
  if (!find_places(p) || !kv_variants_find(&p->cell, &p->variants) ||
      !kv_look_all(&p->variants, &p->cell))
    return kv_tell(KV_EXIT_RESOURCE, "not enough memory for the page");
  return kv_lines_put(p->db, &p->cell, &p->variants);
}

/* --- its head ------------------------------------------------------------- */

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

static void tile(FILE *f, int n, const char *class, const char *text) {
  fprintf(f, "<div%s%s%s><b>%d</b><span>%s</span></div>\n",
          *class ? " class=\"" : "", class, *class ? "\"" : "", n, text);
}

static void tiles(const kv_page *p) {
  int ran = count(p, "ok") + count(p, "fixed");
  int confirmed = sum(p, "confirmed"), against = 0;
  for (int r = 0; r < p->cell.rows; r++)
    against += kv_grid_number(&p->cell, r, "conflicts") > 0;
  fputs("<div class=\"tiles\">\n", p->f);
  tile(p->f, p->places, "", p->places == 1 ? "trace" : "traces");
  tile(p->f, p->variants.n, "", "methods and variants");
  tile(p->f, ran, "", "cells with a result");
  tile(p->f, confirmed, confirmed ? "good" : "", "of them confirmed");
  tile(p->f, against, against ? "bad" : "", "contradicted");
  tile(p->f, count(p, "refused") + count(p, "failed"), "",
       "refused or failed, with reason");
  fputs("</div>\n", p->f);
}

/* Does any trace say where its answers stand? */
static bool needles(const kv_page *p) {
  for (int r = 0; r < p->cell.rows; r++)
    if (isfinite(kv_grid_number(&p->cell, r, "needle_share"))) return true;
  return false;
}

static void head(const kv_page *p) {
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src "
        "'sha256-",
        p->f);
  fputs(style_hash, p->f);
  fputs("'\">\n<link rel=\"icon\" href=\"data:,\">\n"
        "<title>KV-cache compression, replayed</title>\n<style>",
        p->f);
  fputs(style_css, p->f);
  fputs("</style>\n</head>\n<body><main>\n"
        "<h1>KV-cache compression, replayed</h1>\n<p class=\"sub\">From ",
        p->f);
  kv_text_html(p->path, p->f);
  fprintf(p->f, ", by kvreport %s</p>\n", VERSION);
  tiles(p);
  fputs("<p>Recorded attention (queries, keys and values of every layer and "
        "head) was replayed through each method. What the compressed cache "
        "answers is compared with what the full cache answers to the same "
        "query, and bytes are counted by walking what is stored.</p>\n"
        "<p><strong>Open loop:</strong> the queries are the recorded ones "
        "and do not feel the approximation, so errors do not build up as "
        "they would in generation. Read these figures as faithfulness of "
        "attention, not as accuracy on a task. They stand in the order in "
        "which they were seen to rank right answers; output error, which "
        "does not, comes <a href=\"#stored\">last</a>.</p>\n"
        "<p>Filled points are <em>confirmed</em>: two runs that differ in "
        "backend, kernel set or processor found the same bits. Hollow ones "
        "are one run.</p>\n"
        "<nav aria-label=\"Sections\">",
        p->f);
  fputs(kv_page_has_answers(p) ? "<a href=\"#answers\">Answers</a>" : "", p->f);
  fputs(needles(p) ? "<a href=\"#needle_stored\">Needles</a>" : "", p->f);
  fputs("<a href=\"#lse\">LSE error and KL</a><a href=\"#stored\">Output "
        "error</a><a href=\"#read\">Bytes read</a><a href=\"#along\">Along "
        "decode</a><a href=\"#gap\">Gap to its ruler</a><a "
        "href=\"#heads\">Layers and heads</a><a "
        "href=\"#check\">Cross-check</a><a href=\"#cells\">All cells</a><a "
        "href=\"#who\">Who computed</a></nav>\n",
        p->f);
}

static void section(const kv_page *p, const char *id, const char *title) {
  fprintf(p->f, "<h2 id=\"%s\">%s</h2>\n", id, title);
}

static int body(const kv_page *p) {
  static const kv_figure *const figures[] = {
      kv_figures_pages,     kv_figures_tokens,    kv_figures_needles,
      kv_figures_attention, kv_figures_residuals, kv_figures_selection,
      kv_figures_formats,   kv_figures_deltakv,   kv_figures_held,
      kv_figures_regular};
  int rc;
  head(p);
  rc = kv_page_answers(p);
  if (!rc) rc = kv_page_fidelity(p);
  section(p, "along", "Error along decode");
  if (!rc) rc = kv_page_along(p);
  section(p, "gap", "How far from random to the ruler");
  if (!rc) rc = kv_page_gap(p);
  section(p, "heads", "Kept by layer and head");
  if (!rc) rc = kv_page_heads(p);
  for (size_t i = 0; i < sizeof figures / sizeof *figures && !rc; i++)
    rc = kv_figures_draw(p, figures[i]);
  section(p, "check", "Cross-check");
  if (!rc) rc = kv_page_check(p);
  section(p, "cells", "All cells");
  if (!rc) rc = kv_page_cells(p);
  if (!rc) rc = kv_page_layouts(p);
  if (!rc) rc = kv_page_classes(p);
  section(p, "who", "Who computed");
  if (!rc) rc = kv_page_machines(p);
  fputs("</main></body>\n</html>\n", p->f);
  return rc;
}

int kv_report_html(const kv_args *a) {
  kv_page p = {.path = a->files.item[0]};
  int rc, end;
  rc = load(&p);
  if (!rc && !(p.f = kv_output_open(a->output))) rc = KV_EXIT_RESOURCE;
  if (!rc) {
    rc = body(&p);
    end = kv_output_close(p.f, a->output);
    if (!rc) rc = end;
  }
  release(&p);
  return rc;
}
