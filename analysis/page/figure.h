/* SPDX-License-Identifier: Apache-2.0
 *
 * A figure of the page as a row: heading, SQL, caption, and one of the marks by
 * which its answer is drawn. analysis/figures has the rows, command_html.c puts
 * them on the page. Columns of the answer that a mark needs are said at the
 * mark; beside them `heading` begins a group of drawings with that text above
 * it.
 */
#ifndef KV_ANALYSIS_FIGURE_H
#define KV_ANALYSIS_FIGURE_H

#include "analysis/page/maps.h"
#include "analysis/page/page.h"

typedef struct kv_figure kv_figure;

typedef enum kv_mark_kind {
  KV_LINES,  /* small line plots beside each other: panels */
  KV_POINTS, /* points in rows along an axis: panels.across; strip.h */
  KV_BARS,   /* the same; items that have `bar` are bars behind each other */
  KV_MAP,    /* a map for each run of rows alike in `panel`: map */
  KV_TABLE   /* a table: columns */
} kv_mark_kind;

/* Small line plots of a query's answer: one for each panel, in it a line for
 * each series, which looks the same in all of them. The answer has the columns
 * `asked` and `confirmed`, too. At most 48 panels are drawn. */
typedef struct kv_panels {
  const char *x, *y;  /* columns of numbers; a row without one is left out */
  kv_axis across, up; /* titles and scales; limits are found in the rows */
  const char *title;  /* for who cannot see it; before the panel's name */
  bool apart;         /* limits of its own for each panel, not for all */
  bool bare;          /* no point is marked but the last of a line */
  const char *panel;  /* column whose runs of alike rows are a plot, and its
                         heading; NULL: "panel" */
  const char *series; /* column that names the line; NULL: "series" */
  /* Rows whose panel is "" are drawn large, and first. */
  bool large;
  bool more; /* y: the higher, the better; else few that are far above the rest
                stand beyond the axis. Of large plots alone */
  /* What stands between the large plot and the small ones; or NULL. */
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

/* SQL: the rows of a view at the budget that the page's maps are of, and those
 * of methods that have no budget. */
#define KV_PICTURED(view)                                                      \
  "SELECT * FROM " view " WHERE (asked = '' OR (basis, asked) ="               \
  " (SELECT basis, asked FROM pictured))"

/* A figure; tables of them end with id NULL. Rows of one id that follow each
 * other are one section, with the heading of the first. */
struct kv_figure {
  const char *id;    /* of its place in the page, and of its file of numbers */
  const char *title; /* the heading */
  const char *ask;   /* SQL that gives the rows; none: no figure, no heading */
  const char *caption; /* below it */
  kv_panels panels;
  /* Draws g, which has rows, within the figure; NULL: by its mark. */
  void (*draw)(const kv_page *p, const kv_grid *g);
  /* Writes all of it, without heading, in place of what else is here, or
   * nothing; an exit code (analysis/database/say.h). NULL: as above. */
  int (*write)(const kv_page *p, const kv_figure *f);
  const char *group; /* class of what is around the drawing; NULL: nothing is */
  bool unlinked;     /* too many numbers to stand in the page as a file */
  bool closed;       /* of answers, in closed loop; the caption says so */
  kv_mark_kind mark;
  kv_maps map;
  const char *columns; /* of a table, as kv_page_table takes them */
  bool
      few; /* a table of more than KV_PAGE_MOST rows stands in its file alone */
  const char *file, *data; /* its file's name, and the SQL of its numbers; NULL:
                              id and ask */
  const char *none;        /* what is said where there are no rows; or NULL */
  /* What stands above the figure, and within it below the caption; or NULL. */
  void (*lead)(const kv_page *p);
  int (*below)(const kv_page *p);
};

/* Draws a figure into the page p, without its heading, or nothing where its SQL
 * has no rows. Returns an exit code (analysis/database/say.h): KV_EXIT_OK, or
 * what went wrong with a query, which has been said. */
int kv_figure_draw(const kv_page *p, const kv_figure *figure);

/* Writes the section, a heading and what the figure is of one database or of
 * two beside each other, unless no database has anything: the section of a
 * figure to f: of pages 0 .. pages - 1, one or two, whose own f is not looked
 * at. folds: it is closed until a reader opens it. *shown: there is one. An
 * exit code (analysis/database/say.h); of what lacked memory nothing is
 * written, which is said (kv_tell_short). */
int kv_section_write(FILE *f, int pages, kv_page *page, const kv_figure *figure,
                     bool folds, bool *shown);

#endif
