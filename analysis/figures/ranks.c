/* SPDX-License-Identifier: Apache-2.0
 *
 * Which open-loop measure ranks methods as their answers do: a chart a model
 * and kind of answer, a row a measure, after kv_ranked_fill. Nothing where
 * nothing could be ranked.
 */
#include "analysis/figures/figures.h"
#include "analysis/page/strip.h"

#include <math.h>
#include <string.h>

/* What tau is with one method left out: nothing where two are all. */
static void say_without(const kv_grid *g, int r, kv_strip_item *item) {
  const char *least = kv_grid_text(g, r, "least_without");
  size_t n = strlen(item->tip);
  if (!*least) return;
  snprintf(item->tip + n, sizeof item->tip - n,
           "; %.2f without %.60s, %.2f without %.60s",
           kv_grid_number(g, r, "least"), least, kv_grid_number(g, r, "most"),
           kv_grid_text(g, r, "most_without"));
}

/* tau as a point on the line of its interval. */
static int add_measure(const kv_grid *g, int r, kv_strip *s) {
  double tau = kv_grid_number(g, r, "tau");
  double low = kv_grid_number(g, r, "low"), high = kv_grid_number(g, r, "high");
  const char *name = kv_grid_text(g, r, "measure");
  kv_strip_item *item = &s->item[s->n];
  bool few = isnan(low);
  item[0] = (kv_strip_item){.row = s->rows,
                            .kind = KV_STRIP_LINE,
                            .x0 = few ? tau : low,
                            .x1 = few ? tau : high};
  item[1] = (kv_strip_item){.row = s->rows,
                            .series = kv_grid_number(g, r, "marked") == 0,
                            .x0 = tau,
                            .solid = true};
  snprintf(item[1].tip, sizeof item[1].tip, "%.40s: %.2f", name, tau);
  say_without(g, r, &item[1]);
  snprintf(s->row[s->rows].name, sizeof s->row->name, "%s%s", name,
           kv_grid_number(g, r, "pairs") < kv_grid_number(g, r, "pairs_all")
               ? " *"
               : "");
  snprintf(s->row[s->rows].note, sizeof s->row->note,
           few ? "%.2f, too few prompts" : "%.2f [%.2f, %.2f]", tau, low, high);
  s->n += 2;
  s->rows++;
  return r + 1;
}

static void draw(const kv_page *p, const kv_grid *g) {
  static char *names[2] = {"needs a marked answer", "needs none"};
  kv_plot_legend(&(kv_variants){.n = 2, .label = names}, p->f);
  for (int r = 0, end; r < g->rows; r = end) {
    const char *answer = kv_grid_text(g, r, "answer");
    end = kv_grid_end(g, r, "model answer");
    if (strcmp(answer, "loglik") && strcmp(answer, "exact_match")) continue;
    fputs("<h3>", p->f);
    kv_text_html(kv_grid_text(g, r, "model"), p->f);
    fprintf(p->f, ", %s</h3>\n",
            strcmp(answer, "loglik") ? "right answers"
                                     : "log-likelihood of the answer");
    kv_strip_rows(&(kv_strip){.title = "What ranks the answers",
                              .x = {"Kendall's tau-b", 0, 0, false, false}},
                  g, r, end, 2, add_measure, p->f);
  }
}

const kv_figure kv_figures_ranks[] = {
    {"ranks", "Which measure ranks the answers",
     "SELECT * FROM ranked_shown ORDER BY model, answer <> 'loglik', answer,"
     " tau DESC, measure",
     "Kendall's tau-b of each open-loop measure with the answers, over pairs "
     "of "
     "methods that were asked the same prompts at the same bytes, each measure "
     "turned so that more is better: 1 is the same order, 0 none. Lines: 95 %, "
     "1.96 standard deviations of bootstrap resamples of the prompts, none of "
     "fewer than 5 prompts. Of the "
     "percentiles of a measure "
     "the one that ranks best, where it does so better than the mean. *: only "
     "the tasks that have it. `kvreport rank` tells which two differ.",
     .draw = draw, .closed = true},
    {.id = NULL}};
