/* SPDX-License-Identifier: Apache-2.0
 *
 * The page that kvreport html writes: its parts, in the order in which they
 * stand. Each writes to page->f; those that ask the database return an exit
 * code.
 */
#ifndef KV_ANALYSIS_PAGE_H
#define KV_ANALYSIS_PAGE_H

#include "analysis/plot.h"
#include "analysis/text.h"

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
/* Fidelity against bytes stored and read, a section a measure: what ranks
 * right answers first, output error after it. Needles only where traces have
 * any. */
int kv_page_fidelity(const kv_page *p);
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
int kv_page_along(const kv_page *p);
int kv_page_gap(const kv_page *p);
/* Maps of what each layer and KV head keeps, a method each, at one budget. */
int kv_page_heads(const kv_page *p);
/* Recall against page size and budget; nothing where no method has a page. */
int kv_page_pages(const kv_page *p);
/* Needles by depth and length; nothing where no two of each are there. */
int kv_page_needles(const kv_page *p);
/* Which tokens survive, and who keeps the same; nothing where no run says. */
int kv_page_tokens(const kv_page *p);
int kv_page_overlap(const kv_page *p);
/* What heads attend to; nothing where no trace was looked at (kvreplay
 * attention): tokens for 95 % of the mass, scores beside norms. */
int kv_page_critical(const kv_page *p);
int kv_page_decades(const kv_page *p);
/* How alike tokens are; nothing where no trace was looked at (kvreplay
 * residuals). */
int kv_page_residuals(const kv_page *p);
/* Runs of deltakv: a parameter turned, ablations, bytes beside equations. */
int kv_page_deltakv(const kv_page *p);
/* What shares of the probability select (kvreplay selection), and how far the
 * log-sum-exp drifts; each nothing where no such rows are. */
int kv_page_selection(const kv_page *p);
/* How tokens are stored; each nothing where no such rows are: bits for keys
 * against bits for values; fewer bits, fewer tokens or both; LeanKV's tokens by
 * head, by layer or the same in all. */
int kv_page_mirrors(const kv_page *p);
int kv_page_pruning(const kv_page *p);
int kv_page_sparsity(const kv_page *p);
/* What is held: codes alone and everything; pages at each step. */
int kv_page_charged(const kv_page *p);
int kv_page_paged(const kv_page *p);
/* Of regular indices; nothing where no such layout was asked for: how full
 * lanes are, and what a rewrite holds against masks, step by step. */
int kv_page_utilised(const kv_page *p);
int kv_page_rewritten(const kv_page *p);
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

/* A column of a table on the page. KV_NAME, only in the grid of all cells:
 * the name of the row's line in the figures, all parameters when pointed at.
 */
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
