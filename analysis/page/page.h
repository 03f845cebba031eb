/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `kvreport html` while it is written: what all figures share, and
 * its tables. analysis/command_html.c opens the database, fills in a kv_page
 * and calls the figures (analysis/figures/figures.h) and the tables here in
 * order; figures call the rest. All write HTML to p->f, whose errors
 * kv_output_close finds. Functions that query the database return an exit code
 * (analysis/database/say.h): KV_EXIT_OK, or an error that was printed. Other
 * lack of memory is printed by kv_tell_short and leaves the page unwritten.
 */
#ifndef KV_ANALYSIS_PAGE_H
#define KV_ANALYSIS_PAGE_H

#include "analysis/page/plot.h"
#include "analysis/tables/text.h"

typedef struct kv_page {
  FILE *f;
  sqlite3 *db; /* opened by kv_results_open, with the table of lines filled */
  const char *path;             /* of the database, as typed */
  const struct kv_page *beside; /* of the other database, so that plots have the
                                   same axes; or NULL */
  kv_grid cell;                 /* every row of the view `cell` */
  kv_variants variants;         /* the line of the figures for each cell */
  int answers;                  /* a model's answers in the database */
} kv_page;

/* Writes what is below every figure: the caption `text`, the words "open loop",
 * and `data` as a link to a file NAME.csv within the page (NULL: no file). */
void kv_page_caption(const kv_page *p, const char *text, const char *name,
                     const kv_grid *data);
/* The same below a figure of a model's answers, with "closed loop". */
void kv_page_answered(const kv_page *p, const char *text, const char *name,
                      const kv_grid *data);

/* Writes all rows of g as a table that may scroll. A row that belongs to a line
 * of the page, by g's column key or method, is hidden when the line is switched
 * off. label: its name for screen readers. columns: "NAME", "NAME=TITLE" or
 * "NAME=TITLE:KIND", separated by "; ": a column of g and its title. NULL: all
 * columns, the first as a line. Without a kind it is a text, or a number, to 4
 * digits unless it is an integer. Kinds:
 *   percent   a share as whole percent, to 2 digits below 10
 *   tenth     a share as percent, to a tenth
 *   twice     twice the number: a standard error
 *   bytes     B, KiB, MiB, .. to 3 digits
 *   some, some-percent, some-bytes   the same; no column if no row has a
 *             number
 *   up, down  sorts the rows; such a table is shown whole
 *   short     a digest, its first 10 digits
 *   long      a text that may break after a colon or a comma
 *   line      a text, with the mark of the row's line
 *   mark      "confirmed", "one run", "conflict", or the status of a cell
 *             without a result; from `confirmed`, `conflicts`, `status`
 *   name      the name of a cell's line, with all parameters on hover */
void kv_page_table(const kv_page *p, const kv_grid *g, const char *label,
                   const char *columns);

/* Most marks, or rows of a table: more would make the page too large to send.
 * The rest is only in files. */
enum { KV_PAGE_MOST = 1000 };

/* Writes n and a noun with the singular `one`: "1 result", "2 results". */
void kv_page_count(FILE *f, int n, const char *one);
/* The line (a number in p->variants) of the cell with this key; -1: none. */
int kv_page_variant(const kv_page *p, const char *key);

#endif
