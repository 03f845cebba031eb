/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model answered while a method held its cache: a plot a task for each
 * measure, against bytes, so that methods at equal bytes stand above each
 * other, all of it as a table, and what ranks it. Nothing where no model was
 * asked.
 */
#include "analysis/compare/ranked.h"
#include "analysis/database/results.h"
#include "analysis/figures/figures.h"
#include "analysis/tables/sheets.h"

#include <math.h>
#include <stdio.h>

/* SQL: the rows that have the measure. A task that dense does not answer says
 * so in its plot's name, where the measure is one of right answers. */
#define PLACE(measure)                                                         \
  "SELECT place || coalesce(' (' || why || ')', '') AS panel, method AS"       \
  " series, basis, asked, share_mean, " measure ", " measure "_se, items,"     \
  " confirmations > 1 AS confirmed FROM answers a LEFT JOIN unmeasured u"      \
  " USING (place) WHERE " measure " IS NOT NULL AND share_mean IS NOT NULL"    \
  " ORDER BY panel, method, share_mean"
#define BYTES "bytes stored, share of dense"

static int write_table(const kv_page *p, const kv_figure *f) {
  (void)f;
  static const kv_column column[] = {{"place", "task", KV_LONG},
                                     {"method", "method", KV_LONG},
                                     {"asked", "asked", KV_PLAIN},
                                     {"questions", "questions", KV_PLAIN},
                                     {"share_mean", "bytes, mean", KV_PERCENT},
                                     {"share_end", "at the end", KV_PERCENT},
                                     {"answered", "right", KV_PLAIN},
                                     {"likely", "log-likelihood", KV_PLAIN},
                                     {"apart", "KL", KV_PLAIN},
                                     {"alike", "agrees", KV_PLAIN},
                                     {"ppl", "perplexity", KV_PLAIN},
                                     {"note", "note", KV_LONG},
                                     {NULL, NULL, KV_PLAIN}};
  kv_grid g;
  int rc = kv_grid_ask(
      p->db,
      "SELECT *, proportion(exact, items) AS answered," KV_SHEET_LOGLIK
      " AS likely, about(kl, kl_se) AS apart, about(agree, agree_se) AS alike,"
      " CASE WHEN conflicts THEN 'conflict' WHEN questions = 0 THEN"
      " reason WHEN questions < questions_all THEN questions || ' of ' ||"
      " questions_all || ': ' || coalesce(reason, 'the rest was not asked')"
      " ELSE coalesce(why, reason) END AS note FROM answers LEFT JOIN "
      "unmeasured USING (place)"
      " ORDER BY place, basis, asked, exact DESC, coalesce(loglik_token,"
      " loglik) DESC, ppl, method",
      0, NULL, &g);
  if (rc) return rc;
  if (g.rows) {
    fputs("<figure>", p->f);
    kv_page_table(p, &g, "Answers by task, method and budget", column);
    kv_page_answered(
        p,
        "Means over the items of a task with two standard errors "
        "of it, right answers with Wilson's 95 % of so many items; "
        "of fewer than 5 items there is neither. Within each "
        "budget the most right answers first. "
        "Perplexity: less dense's, mean over positions. "
        "*: of those questions alone that have a log-likelihood a token.",
        "answers", &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&g);
  return rc;
}

const kv_figure kv_figures_answers[] = {
    {"answers", "What the model answered", .write = write_table},
    {"right", "Right answers", PLACE("exact"),
     "Questions whose greedy answer holds the reference answer, mean over the "
     "items of the task, against the bytes that were stored, mean over the "
     "steps, as a share of dense's for the same questions. Methods above each "
     "other have equal bytes. A task counts where dense answers 60 % of it and "
     "more.",
     .panels = KV_PANELS("share_mean", "exact", KV_SHARE(BYTES),
                         KV_SHARE("right answers"), "Right answers"),
     .closed = true},
    {"loglik", "Log-likelihood of the answer", PLACE("loglik_token"),
     "Log-likelihood of the reference answer, fed token by token, in nats a "
     "token; higher is better.",
     .panels =
         KV_PANELS("share_mean", "loglik_token", KV_SHARE(BYTES),
                   KV_LINEAR("log-likelihood, nats a token"), "Log-likelihood"),
     .closed = true},
    {"next_token", "Divergence of the next token", PLACE("kl"),
     "KL divergence of the next token's distribution from dense's, on dense's "
     "own continuation, mean over its positions; lower is better.",
     .panels = KV_PANELS("share_mean", "kl", KV_SHARE(BYTES),
                         KV_LINEAR("KL divergence, nats"), "KL divergence"),
     .closed = true},
    {"agreement", "Agreement with dense", PLACE("agree"),
     "Tokens that greedy decoding has in common with dense's before it leaves "
     "it.",
     .panels = KV_PANELS("share_mean", "agree", KV_SHARE(BYTES),
                         KV_LINEAR("tokens"), "Agreement"),
     .closed = true},
    {"perplexity", "Perplexity along the text", "SELECT * FROM perplexities",
     "Perplexity of prose after the compressed part, less dense's, from each "
     "position to the next point, mean over the items; lower is better.",
     .panels = KV_PANELS("position", "apart", KV_LINEAR("tokens after it"),
                         KV_LINEAR("perplexity less dense's"), "Perplexity"),
     .closed = true},
    {.id = NULL}};

int kv_page_find_answers(const kv_page *p) {
  kv_grid g = {0};
  int rc = kv_grid_ask(p->db, "SELECT 1 FROM evaluation LIMIT 1", 0, NULL, &g);
  bool has = g.rows > 0;
  kv_grid_free(&g);
  if (rc || !has) return rc;
  rc = kv_results_answers(p->db, p->path);
  return rc ? rc
            : kv_ranked_fill(p->db, p->path,
                             &(kv_ranked_how){.draws = KV_RANKED_DRAWS});
}
