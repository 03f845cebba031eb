/* SPDX-License-Identifier: Apache-2.0
 *
 * What the heads of the traces attend to (kvreplay attention): how many tokens
 * they cannot do without, and how scores spread beside the norms of values.
 * Nothing where no trace was looked at.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/strip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- tokens that heads cannot do without ---------------------------------- */

const kv_maps kv_maps_heads = {.row = "layer",
                               .column = "head",
                               .value = "share",
                               .row_title = "layer",
                               .column_title = "KV head",
                               .high = 20,
                               .least_wide = 150,
                               .most_high = 260};

/* A layer's row, which has head -1: its mean, and its deviation where there is
 * one. */
static int add_layer(const kv_grid *g, int r, kv_strip *s) {
  kv_strip_row *name = &s->row[s->rows];
  kv_strip_item *item = &s->item[s->n];
  double mean = kv_grid_number(g, r, "share");
  double deviation = kv_grid_number(g, r, "share_deviation");
  double tokens = kv_grid_number(g, r, "tokens");
  bool spread = isfinite(deviation);
  if (!(kv_grid_number(g, r, "head") < 0)) return r + 1;
  snprintf(name->name, sizeof name->name, "layer %s",
           kv_grid_text(g, r, "layer"));
  if (spread)
    snprintf(name->note, sizeof name->note,
             "%.1f \u00b1 %.1f%%, %.1f \u00b1 %.1f tokens", 100 * mean,
             100 * deviation, tokens, kv_grid_number(g, r, "deviation"));
  else
    snprintf(name->note, sizeof name->note, "%.1f%%, %.1f tokens", 100 * mean,
             tokens);
  item[0] = (kv_strip_item){.row = s->rows, .x0 = mean, .solid = true};
  snprintf(item[0].tip, sizeof item[0].tip, "%.150s: %.90s", name->name,
           name->note);
  item[1] = (kv_strip_item){.row = s->rows,
                            .kind = KV_STRIP_LINE,
                            .x0 = fmax(mean - deviation, 0),
                            .x1 = mean + deviation};
  s->n += spread ? 2 : 1;
  s->rows++;
  return r + 1;
}

static int draw_shape(const kv_page *p, const kv_grid *g, int first) {
  int end = kv_grid_end(g, first, KV_SHAPE);
  kv_maps over = kv_maps_heads;
  kv_page_shape(p, g, first);
  kv_strip_rows(&(kv_strip){.title = "Tokens for 95 % of the mass by layer",
                            .x = {"tokens that hold 95 % of a row's mass, "
                                  "share of those that it sees",
                                  0, 0, false, true}},
                g, first, end, 2, add_layer, p->f);
  fputs("<div class=\"small maps\">\n", p->f);
  kv_map_show(g, &kv_maps_heads, first, end, "percent of tokens", p->f);
  over.value = "share_deviation";
  if (kv_grid_number(g, first, "traces") > 1)
    kv_map_show(g, &over, first, end, "deviation over traces", p->f);
  fputs("</div>\n", p->f);
  return end;
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
  int end = kv_grid_end(g, first, KV_SHAPE), layers = 0, i = 0;
  for (int r = first; r < end; r++)
    layers += r == first || !kv_grid_alike(g, r - 1, r, "layer");
  find_side(g, first, end, "score", &c->score, &c->scores);
  find_side(g, first, end, "norm", &c->norm, &c->norms);
  name_sides(c);
  kv_page_shape(p, g, first);
  fputs("<div class=\"small two\">\n", p->f);
  for (int r = first, next; r < end; r = next, i++) {
    next = kv_grid_end(g, r, KV_SHAPE " layer");
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

const kv_figure kv_figures_attention[] = {
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
     .draw = draw_decades},
    {.id = NULL}};
