/* SPDX-License-Identifier: Apache-2.0
 *
 * What the heads of the traces attend to (kvreplay attention): how many tokens
 * they cannot do without, and how scores spread beside the norms of values.
 * Nothing where no trace was looked at.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/heat.h"
#include "analysis/page/panels.h"
#include "analysis/page/strip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 1024 }; /* more than any model has */

static bool same(const kv_grid *g, int a, int b, const char *name) {
  return !strcmp(kv_grid_text(g, a, name), kv_grid_text(g, b, name));
}

static bool same_shape(const kv_grid *g, int a, int b) {
  return same(g, a, b, "layers") && same(g, a, b, "kv_heads");
}

static int end_of_shape(const kv_grid *g, int first) {
  int r = first;
  while (r < g->rows && same_shape(g, first, r)) r++;
  return r;
}

static void head_of_shape(const kv_page *p, const kv_grid *g, int r) {
  fputs("<h3>", p->f);
  kv_page_count(p->f, (int)kv_grid_number(g, r, "traces"), "trace");
  fprintf(p->f, ", %s layers of %s KV heads recorded</h3>\n",
          kv_grid_text(g, r, "layers"), kv_grid_text(g, r, "kv_heads"));
}

/* --- tokens that heads cannot do without ---------------------------------- */

/* Rows first..first+n-1 of the grid: one shape, a row a layer of head -1 before
 * those of its heads. */
typedef struct map {
  const kv_grid *g;
  int first, n, rows, columns;
} map;

/* -1: the row is the layer's. */
static int head_of(const kv_grid *g, int r) {
  return kv_grid_int(g, r, "head", -1, HEADS - 1, -1);
}

static map find_map(const kv_grid *g, int first) {
  map m = {g, first, end_of_shape(g, first) - first, 0, 0};
  for (int r = first; r < first + m.n; r++) {
    int head = head_of(g, r);
    m.rows += head < 0;
    if (head >= m.columns) m.columns = head + 1;
  }
  return m;
}

static const char *layer_name(const void *self, int i) {
  const map *m = self;
  int r = m->first;
  while (head_of(m->g, r) >= 0 || i-- > 0) r++;
  return kv_grid_text(m->g, r, "layer");
}

static const char *head_name(const void *self, int i) {
  const map *m = self;
  for (int r = m->first; r < m->first + m->n; r++)
    if (head_of(m->g, r) == i) return kv_grid_text(m->g, r, "head");
  return "";
}

static void draw_heads(const kv_page *p, const map *m, const char *column,
                       const char *title) {
  size_t n = (size_t)m->rows * (size_t)m->columns;
  double *value = calloc(n + 1, sizeof *value);
  kv_heat h = {title,
               m->rows,
               m->columns,
               value,
               "layer",
               "KV head",
               layer_name,
               head_name,
               m,
               150,
               fmin(260, 20. * m->rows)};
  if (!value) {
    kv_tell_short();
    return;
  }
  for (size_t i = 0; i < n; i++) value[i] = NAN;
  for (int r = m->first, row = -1; r < m->first + m->n; r++) {
    int head = head_of(m->g, r);
    if (head < 0)
      row++;
    else if (row >= 0)
      value[row * m->columns + head] = kv_grid_number(m->g, r, column);
  }
  kv_heat_titled(&h, title, p->f);
  free(value);
}

/* The mean of a layer, and its deviation where there is one. */
static int layer_row(const kv_grid *g, int r, int row, kv_strip_row *name,
                     kv_strip_item *item) {
  double mean = kv_grid_number(g, r, "share");
  double deviation = kv_grid_number(g, r, "share_deviation");
  double tokens = kv_grid_number(g, r, "tokens");
  bool spread = isfinite(deviation);
  snprintf(name->name, sizeof name->name, "layer %s",
           kv_grid_text(g, r, "layer"));
  if (spread)
    snprintf(name->note, sizeof name->note,
             "%.1f \u00b1 %.1f%%, %.1f \u00b1 %.1f tokens", 100 * mean,
             100 * deviation, tokens, kv_grid_number(g, r, "deviation"));
  else
    snprintf(name->note, sizeof name->note, "%.1f%%, %.1f tokens", 100 * mean,
             tokens);
  item[0] = (kv_strip_item){.row = row, .x0 = mean, .solid = true};
  snprintf(item[0].tip, sizeof item[0].tip, "%.150s: %.90s", name->name,
           name->note);
  item[1] = (kv_strip_item){.row = row,
                            .kind = KV_STRIP_LINE,
                            .x0 = fmax(mean - deviation, 0),
                            .x1 = mean + deviation};
  return spread ? 2 : 1;
}

static void draw_layers(const kv_page *p, const map *m) {
  kv_strip_row *row = calloc((size_t)m->rows + 1, sizeof *row);
  kv_strip_item *item = calloc(2 * (size_t)m->rows + 1, sizeof *item);
  kv_strip s = {.title = "Tokens for 95 % of the mass by layer",
                .text = "The data are in the file below.",
                .x = {"tokens that hold 95 % of a row's mass, share of those "
                      "that it sees",
                      0, 0, false, true},
                .row = row,
                .item = item};
  for (int r = m->first; row && item && r < m->first + m->n; r++)
    if (head_of(m->g, r) < 0) {
      s.n += layer_row(m->g, r, s.rows, &row[s.rows], &item[s.n]);
      s.rows++;
    }
  if (row && item)
    kv_strip_write(&s, p->f);
  else
    kv_tell_short();
  free(row);
  free(item);
}

static int draw_shape(const kv_page *p, const kv_grid *g, int first) {
  map m = find_map(g, first);
  head_of_shape(p, g, first);
  draw_layers(p, &m);
  fputs("<div class=\"small maps\">\n", p->f);
  draw_heads(p, &m, "share", "percent of tokens");
  if (kv_grid_number(g, first, "traces") > 1)
    draw_heads(p, &m, "share_deviation", "deviation over traces");
  fputs("</div>\n", p->f);
  return first + m.n;
}

static void draw_critical(const kv_page *p, const kv_grid *g) {
  for (int r = 0; r < g->rows;) r = draw_shape(p, g, r);
}

/* --- scores beside norms -------------------------------------------------- */

/* Classes as traces/trace/sparsity.h has them: thirds of a power of ten. */
enum { LEAST = -36, MOST = 18, CLASSES = MOST - LEAST + 1, SQUARE = 14 };

/* Of one layer: tokens by class of score and of norm, and the sides that all
 * layers of a shape share, from whole powers of ten. */
typedef struct cloud {
  double tokens[CLASSES][CLASSES];
  int score, scores, norm, norms;
  char name[2][CLASSES][16]; /* of scores, of norms from the top */
} cloud;

static int class_of(const kv_grid *g, int r, const char *name) {
  return kv_grid_int(g, r, name, LEAST, MOST, 0);
}

static void find_side(const kv_grid *g, int first, int end, const char *name,
                      int *low, int *n) {
  int lo = MOST, hi = LEAST;
  for (int r = first; r < end; r++) {
    int c = class_of(g, r, name);
    if (c < lo) lo = c;
    if (c > hi) hi = c;
  }
  *low = lo - (lo - LEAST) % 3;
  *n = hi - *low + 1;
}

static void name_sides(cloud *c) {
  memset(c->name, 0, sizeof c->name);
  for (int i = 0; i < c->scores; i += 3)
    snprintf(c->name[0][i], 16, "1e%d", (c->score + i) / 3);
  for (int i = 0; i < c->norms; i += 3)
    snprintf(c->name[1][c->norms - 1 - i], 16, "1e%d", (c->norm + i) / 3);
}

static const char *score_name(const void *self, int i) {
  return ((const cloud *)self)->name[0][i];
}

static const char *norm_name(const void *self, int i) {
  return ((const cloud *)self)->name[1][i];
}

/* Powers of ten between the first and the last percent of the tokens, of which
 * each class of a side has sum[]. */
static double span(int n, const double *sum) {
  double all = 0, below = 0;
  int in = 0;
  for (int i = 0; i < n; i++) all += sum[i];
  for (int i = 0; i < n; i++) {
    bool first = below + sum[i] > .01 * all, last = below < .99 * all;
    in += first && last;
    below += sum[i];
  }
  return in / 3.;
}

/* The shade grows with the logarithm of the count, so that few tokens show. */
static void shade(const cloud *c, double *value) {
  double most = 1;
  for (int a = 0; a < c->scores; a++)
    for (int b = 0; b < c->norms; b++) most = fmax(most, c->tokens[a][b]);
  for (int a = 0; a < c->scores; a++)
    for (int b = 0; b < c->norms; b++) {
      double n = c->tokens[a][b];
      value[(c->norms - 1 - b) * c->scores + a] =
          n > 0 ? (1 + log(n)) / (1 + log(most)) : NAN;
    }
}

static void draw_cloud(const kv_page *p, const cloud *c, const char *layer) {
  double value[CLASSES * CLASSES], score[CLASSES] = {0}, norm[CLASSES] = {0};
  char title[128];
  kv_heat h = {title,
               c->norms,
               c->scores,
               value,
               "norm of v",
               "score",
               norm_name,
               score_name,
               c,
               SQUARE * c->scores,
               SQUARE * c->norms};
  for (int a = 0; a < c->scores; a++)
    for (int b = 0; b < c->norms; b++) {
      score[a] += c->tokens[a][b];
      norm[b] += c->tokens[a][b];
    }
  shade(c, value);
  snprintf(title, sizeof title,
           "layer %.12s: scores over %.1f powers of ten, norms over %.1f",
           layer, span(c->scores, score), span(c->norms, norm));
  kv_heat_titled(&h, title, p->f);
}

/* Rows first..end-1 are a layer's. */
static void draw_layer(const kv_page *p, const kv_grid *g, int first, int end,
                       cloud *c) {
  memset(c->tokens, 0, sizeof c->tokens);
  for (int r = first; r < end; r++)
    c->tokens[class_of(g, r, "score") - c->score]
             [class_of(g, r, "norm") - c->norm] +=
        kv_grid_number(g, r, "tokens");
  draw_cloud(p, c, kv_grid_text(g, first, "layer"));
}

/* The first, the middle and the last layer of a shape. */
static int draw_clouds(const kv_page *p, const kv_grid *g, int first,
                       cloud *c) {
  int end = end_of_shape(g, first), layers = 0, i = 0;
  for (int r = first; r < end; r++)
    layers += r == first || !same(g, r - 1, r, "layer");
  find_side(g, first, end, "score", &c->score, &c->scores);
  find_side(g, first, end, "norm", &c->norm, &c->norms);
  name_sides(c);
  head_of_shape(p, g, first);
  fputs("<div class=\"small two\">\n", p->f);
  for (int r = first, next; r < end; r = next, i++) {
    next = r;
    while (next < end && same(g, r, next, "layer")) next++;
    if (i == 0 || i == layers / 2 || i == layers - 1)
      draw_layer(p, g, r, next, c);
  }
  fputs("</div>\n", p->f);
  return end;
}

static void draw_decades(const kv_page *p, const kv_grid *g) {
  cloud *c = calloc(1, sizeof *c);
  if (!c) kv_tell_short();
  for (int r = 0; c && r < g->rows;) r = draw_clouds(p, g, r, c);
  free(c);
}

int kv_page_attention(const kv_page *p) {
  static const kv_figure figures[] = {
      {"critical", "Tokens that heads cannot do without",
       "SELECT * FROM critical",
       "How few tokens hold 95 % of the attention mass of a row, "
       "mean over the recorded rows from token 64 on and the "
       "query heads of a KV head, of dense attention, in percent "
       "of the tokens that a row sees. By layer: mean over KV "
       "heads and traces, the line is one standard deviation "
       "over traces to each side; the numbers of tokens differ "
       "more, as traces differ in length. The maps: the same by "
       "KV head, and its standard deviation over traces.",
       .draw = draw_critical},
      {"decades", "Scores beside norms of values", "SELECT * FROM decades",
       "Tokens of all KV heads and traces by their score, the "
       "mean of their probabilities over the rows that see them "
       "(of a group's query heads the largest), and by the norm "
       "of their value; a square is a third of a power of ten "
       "each way, its name the least of it, and the darker, the "
       "more tokens (logarithmic). What a key decides spreads "
       "wider than what a value holds. Headings: powers of ten "
       "that all but a percent of the tokens at either end span. "
       "First, middle and last recorded layer; the data have "
       "all.",
       .draw = draw_decades}};
  return kv_figures_draw(p, sizeof figures / sizeof *figures, figures);
}
