/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/sections.h"
#include "analysis/database/say.h"

#include <stdlib.h>
#include <string.h>

enum { PAGES = 2 };

/* *text, to be freed: what the figure is on p, with those of its id after it;
 * NULL: no memory, which is said.
 */
static int take(kv_page *p, const kv_figure *figure, char **text) {
  size_t size = 0;
  p->f = open_memstream(text, &size);
  if (!p->f) {
    kv_tell_short();
    return KV_EXIT_OK;
  }
  int rc = KV_EXIT_OK;
  const char *id = figure->id;
  for (; figure->id && !strcmp(figure->id, id) && !rc; figure++)
    rc = kv_figure_draw(p, figure);
  if (fclose(p->f)) kv_tell_short();
  p->f = NULL;
  return rc;
}

static bool has(const char *text) { return text && *text; }

static void put_beside(FILE *f, const kv_page *page, char *const *text) {
  fputs("<div class=\"beside\">\n", f);
  for (int i = 0; i < PAGES; i++) {
    fprintf(f, "<div><p class=\"of\">%c: ", "AB"[i]);
    kv_text_html(page[i].path, f);
    fputs("</p>\n", f);
    fputs(has(text[i]) ? text[i] : "<p class=\"soft\">Nothing of it.</p>\n", f);
    fputs("</div>\n", f);
  }
  fputs("</div>\n", f);
}

static void put(FILE *f, int pages, const kv_page *page, char *const *text,
                const kv_figure *figure, bool folds) {
  fputs(folds ? "<details class=\"fold\"><summary>" : "<section>\n", f);
  fprintf(f, "<h2 id=\"%s\">%s</h2>%s\n", figure->id, figure->title,
          folds ? "</summary>" : "");
  if (pages == PAGES)
    put_beside(f, page, text);
  else
    fputs(text[0], f);
  fputs(folds ? "</details>\n" : "</section>\n", f);
}

int kv_section_write(FILE *f, int pages, kv_page *page, const kv_figure *figure,
                     bool folds, bool *shown) {
  char *text[PAGES] = {NULL, NULL};
  int rc = KV_EXIT_OK;
  for (int i = 0; i < pages && !rc; i++) rc = take(page + i, figure, text + i);
  *shown = !rc && (has(text[0]) || has(text[1]));
  if (*shown) put(f, pages, page, text, figure, folds);
  for (int i = 0; i < PAGES; i++) free(text[i]);
  return rc;
}
