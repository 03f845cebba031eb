/* SPDX-License-Identifier: Apache-2.0
 *
 * The page that `kvreport html` writes while it is being written: what all its
 * figures share, and its tables. analysis/command_html.c opens the database,
 * fills a kv_page and calls the figures (analysis/figures/figures.h) and the
 * tables here in their order; figures call the rest. All write HTML to p->f,
 * whose errors kv_output_close finds. What asks the database returns an exit
 * code (analysis/database/say.h), KV_EXIT_OK or what was said to be wrong; want
 * of memory elsewhere is said by kv_tell_short and leaves the page unwritten.
 */
#ifndef KV_ANALYSIS_PAGE_H
#define KV_ANALYSIS_PAGE_H

#include "analysis/page/plot.h"
#include "analysis/tables/text.h"

typedef struct kv_page {
  FILE *f;     /* where it is written */
  sqlite3 *db; /* opened by kv_results_open, with the table of lines filled */
  const char *path;             /* of the database, as typed */
  const struct kv_page *beside; /* another database's, beside which it stands,
                                   so that plots have the same axes; or NULL */
  kv_grid cell;                 /* every row of the view `cell` */
  kv_variants variants; /* which line of the figures each cell belongs to */
} kv_page;

/* What stands below every figure: the caption `text`, that it is open loop, and
 * `data` as a link to a file NAME.csv within the page (NULL: no file). */
void kv_page_caption(const kv_page *p, const char *text, const char *name,
                     const kv_grid *data);
/* The same below a figure of what a model answered, which says closed loop. */
void kv_page_answered(const kv_page *p, const char *text, const char *name,
                      const kv_grid *data);

/* Writes all rows of g as a table that may scroll; a row that is of a line of
 * the page, by g's column key or method, goes when the line is switched off.
 * label: its name for who cannot see it. columns: "NAME", "NAME=TITLE" or
 * "NAME=TITLE:KIND", with "; " between: a column of g and what it is called. Of
 * no kind it is a text, or a number to 4 digits where it is not whole. Kinds:
 *   percent   a share as whole percent, to 2 digits below 10
 *   tenth     a share as percent, to a tenth
 *   twice     twice the number: a standard error
 *   bytes     B, KiB, MiB, .. to 3 digits
 *   some, some-percent, some-bytes   the same; no column where no row has a
 *             number
 *   up, down  by which the rows are in order; such a table is shown whole
 *   short     a digest, its first 10 digits
 *   long      a text that may break after a colon or a comma
 *   line      a text, with the mark of the line that the row is of
 *   mark      "confirmed", "one run", "conflict", or the status of a cell
 *             without a result; of `confirmed`, `conflicts`, `status`
 *   name      the name of a cell's line, with all parameters when pointed at
 * NULL: all columns, the first as a line. */
void kv_page_table(const kv_page *p, const kv_grid *g, const char *label,
                   const char *columns);

/* Marks, or rows of a table, beyond which a page that is to be sent is too
 * large: what a figure has besides is then left to files. */
enum { KV_PAGE_MOST = 1000 };

/* Writes n and a noun, `one` being its singular: "1 result", "2 results". */
void kv_page_count(FILE *f, int n, const char *one);
/* Columns by which views of layers and heads tell models of different shape
 * apart: rows that agree in them are drawn together. kv_page_shape writes the
 * heading above such rows, from a row of g, which has the column traces, too:
 * how many traces, layers and KV heads. */
#define KV_SHAPE "layers kv_heads"
void kv_page_shape(const kv_page *p, const kv_grid *g, int row);
/* The line, a number in p->variants, that the cell with this key belongs to;
 * -1: there is no such cell. */
int kv_page_variant(const kv_page *p, const char *key);

#endif
