/* SPDX-License-Identifier: Apache-2.0
 *
 * A figure of the page as a row of a table: heading, SQL, caption, and the kind
 * of drawing. analysis/figures has the rows, command_html.c puts them on the
 * page. The comment of a kind lists the columns that it needs. In all kinds the
 * column `heading` begins a group of drawings below that text.
 */
#ifndef KV_ANALYSIS_FIGURE_H
#define KV_ANALYSIS_FIGURE_H

#include "analysis/page/maps.h"
#include "analysis/page/page.h"

typedef struct kv_figure kv_figure;

typedef enum kv_mark_kind {
  KV_LINES,  /* small line plots next to each other: panels */
  KV_POINTS, /* points in rows along an axis: panels.across; strip.h */
  KV_BARS,   /* the same; items with `bar` are bars in the background */
  KV_MAP,    /* a map for each run of rows that agree in `panel`: map */
  KV_TABLE   /* a table: columns */
} kv_mark_kind;

/* Small line plots of a query's rows: one for each panel, in it a line for each
 * series, which looks the same in all panels. The rows also need the columns
 * `asked` and `confirmed`. At most 48 panels are drawn. */
typedef struct kv_panels {
  const char *x, *y;  /* columns of numbers; a row without one is left out */
  kv_axis across, up; /* titles and scales; limits are found in the rows */
  const char *title;  /* for screen readers; the panel's name follows */
  bool apart;         /* each panel has its own limits */
  bool bare;          /* only the last point of a line is marked */
  const char *panel;  /* column whose runs of equal values are a plot, and its
                         heading; NULL: "panel" */
  const char *series; /* column that names the line; NULL: "series" */
  /* Rows whose panel is "" are drawn large, and first. */
  bool large;
  bool more; /* large plots: y, the higher the better; else a few values far
                above the rest are drawn beyond the axis */
  /* Writes what is between the large and the small plots; or NULL. */
  int (*below)(const kv_page *p, const kv_figure *f);
} kv_panels;

/* Initialisers of a kv_axis: linear, logarithmic, in percent, both. */
#define KV_LINEAR(title)                                                       \
  { title, 0, 0, false, false }
#define KV_LOG(title)                                                          \
  { title, 0, 0, true, false }
#define KV_SHARE(title)                                                        \
  { title, 0, 0, false, true }
#define KV_LOG_SHARE(title)                                                    \
  { title, 0, 0, true, true }
/* Initialiser of a kv_panels; other fields may follow its title. */
#define KV_PANELS(x_column, y_column, x_axis, y_axis, ...)                     \
  {                                                                            \
    .x = x_column, .y = y_column, .across = x_axis, .up = y_axis,              \
    .title = __VA_ARGS__                                                       \
  }

/* SQL, after "SELECT .. FROM VIEW": its rows at the budget of the page's maps,
 * and rows of methods without a budget. */
#define KV_PICTURED                                                            \
  " WHERE (asked = '' OR (basis, asked) = (SELECT basis, asked FROM "          \
  "pictured))"

/* A figure. Tables of figures end with id NULL. Consecutive rows with one id
 * are one section, with the heading of the first. */
struct kv_figure {
  const char *id;    /* anchor in the page, and name of its data file */
  const char *title; /* the heading */
  const char *ask;   /* SQL of the rows; without rows: no figure, no heading */
  const char *caption; /* below it */
  kv_panels panels;
  /* Draws g, which has rows, within the figure; NULL: by `mark`. */
  void (*draw)(const kv_page *p, const kv_grid *g);
  /* Writes the whole figure, without heading, instead of the other members, or
   * nothing; returns an exit code (analysis/database/say.h). NULL: as above. */
  int (*write)(const kv_page *p, const kv_figure *f);
  const char *group; /* class of the element around the drawing; NULL: none */
  bool unlinked;     /* too many numbers for a data file within the page */
  bool closed;       /* of answers, in closed loop; the caption says so */
  kv_mark_kind mark;
  kv_maps map;
  const char *columns; /* of a table, as kv_page_table takes them */
  /* A table of more than KV_PAGE_MOST rows is only in its data file. */
  bool few;
  const char *file, *data; /* its data file's name, and the SQL of its numbers;
                              NULL: id and ask */
  const char *none;        /* text if there are no rows; or NULL */
  /* Write what is above the figure, and what is below its caption; or NULL. */
  void (*lead)(const kv_page *p);
  int (*below)(const kv_page *p);
};

/* Draws a figure into the page p, without its heading, or nothing if its SQL
 * has no rows. Returns an exit code (analysis/database/say.h). If a query
 * fails, its error has been printed, and its exit code is returned. */
int kv_figure_draw(const kv_page *p, const kv_figure *figure);

/* Writes the section of a figure to f, a heading and the figure for one
 * database or two side by side, unless no database has rows. page[0 .. pages -
 * 1], one or two; their own f is ignored. folds: it is closed until a reader
 * opens it. *shown: it was written. Returns an exit code
 * (analysis/database/say.h). Parts that lacked memory are left out, which is
 * printed (kv_tell_short). */
int kv_section_write(FILE *f, int pages, kv_page *page, const kv_figure *figure,
                     bool folds, bool *shown);

#endif
