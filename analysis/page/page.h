/* SPDX-License-Identifier: Apache-2.0
 *
 * The page that kvreport html writes: what its figures (analysis/figures)
 * share, and its tables. Each writes to page->f; those that ask the database
 * return an exit code.
 */
#ifndef KV_ANALYSIS_PAGE_H
#define KV_ANALYSIS_PAGE_H

#include "analysis/page/plot.h"
#include "analysis/tables/text.h"

typedef struct kv_page {
  FILE *f;
  sqlite3 *db;
  const char *path;
  kv_grid cell; /* every cell, the view of that name */
  kv_variants variants;
  int *place; /* of each cell: which trace and prompt_len */
  int places;
  char **place_name;
} kv_page;

/* Shapes, colours and names of all lines. */
void kv_page_legend(const kv_page *p);
/* What output error is not, and on what that was found. */
void kv_page_rank(const kv_page *p);
/* Means over traces as a table, the best by one measure first. */
typedef enum kv_ranking {
  KV_NO_RANKING, /* no table */
  KV_BY_NEEDLE,
  KV_BY_LSE,
  KV_BY_KL,
  KV_BY_ERROR
} kv_ranking;
int kv_page_ranking(const kv_page *p, kv_ranking by);
/* Why some of them are not of all traces, below the first such table. */
int kv_page_reasons(const kv_page *p);
int kv_page_check(const kv_page *p);
int kv_page_cells(const kv_page *p);
/* Nothing where no layout was asked for. */
int kv_page_layouts(const kv_page *p);
/* Nothing where no method gives its entries classes. */
int kv_page_classes(const kv_page *p);
int kv_page_machines(const kv_page *p);

/* What stands below every figure: the caption, that it is open loop, and its
 * data as a file (`name`.csv inside the page). */
void kv_page_caption(const kv_page *p, const char *text, const char *name,
                     const kv_grid *data);

/* A column of a table on the page. KV_NAME, only in the grid of all cells: the
 * name of the row's line in the figures, all parameters when pointed at. */
typedef struct kv_column {
  const char *name, *title; /* in the grid; on the page */
  enum {
    KV_PLAIN,
    KV_PERCENT,
    KV_TENTH, /* percent, to a tenth */
    KV_TWICE, /* of a standard error */
    KV_BYTES,
    KV_SHORT,
    KV_LONG,
    KV_MARK,
    KV_NAME
  } kind;
} kv_column;
/* Columns end with a NULL name. */
void kv_page_table(const kv_page *p, const kv_grid *g, const char *label,
                   const kv_column *column);

/* "1 result", "2 results". */
void kv_page_count(FILE *f, int n, const char *one);
/* Variant of a row of any grid that has method, params, budget, trace. */
int kv_page_variant(const kv_page *p, const char *key);

#endif
