/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay tune` prints of one method (sim/commands/tune.h). Rows of the
 * front, as `run` prints them, the best first; in a table also what each point
 * of it is worth, what could not be judged, and the best as a command line.
 */
#include "sim/commands/tune.h"

#include "sim/commands/commands.h"
#include "traces/text/text.h"
#include <string.h>

enum { TOLD = 5, WORDS = KV_TUNE_WORDS, NAME = 160 };

static const kv_result *row_of(const kv_tuning *s, int at, int trace) {
  return &s->method->row[at * s->options.cells.traces.n + trace];
}

/* --- what the points of the front are worth ------------------------------- */

typedef struct worth {
  const kv_tuning *s;
  const kv_tune_judgement *judged;
} worth;

static const char *mark(const worth *w, const kv_tune_judgement *j) {
  if (!kv_tune_met(j)) return "-";
  return j == &w->s->method->judged[w->s->method->search.best] ? "best"
                                                               : "meets";
}

static void value_of(const kv_tuned *m, int axis, int row,
                     char out[KV_TUNE_CELL]) {
  const kv_tune_axis *a = &m->space->axis[axis];
  char value[KV_TUNE_TEXT];
  if (row >= 0)
    kv_tune_axis_text(a, m->search.point[m->front[row]].at[axis], value);
  snprintf(out, KV_TUNE_CELL, "%s", row < 0 ? a->param->name : value);
}

static void cell(const void *of, int row, int column, char out[KV_TUNE_CELL]) {
  const worth *w = of;
  const kv_tuned *m = w->s->method;
  const kv_tune_goal *g = &w->s->options.goal;
  const kv_tune_judgement *j = row < 0 ? NULL : &w->judged[m->front[row]];
  if (column > g->n)
    value_of(m, column - 1 - g->n, row, out);
  else if (column == 0)
    snprintf(out, KV_TUNE_CELL, "%s", j ? mark(w, j) : "");
  else if (!j)
    snprintf(out, KV_TUNE_CELL, "%s", g->measure[column - 1].key);
  else if (j->score.ran)
    snprintf(out, KV_TUNE_CELL, "%.6g", j->mean[column - 1]);
  else
    strcpy(out, "-");
}

static void print_worth(const kv_tuning *s, const kv_tune_judgement *judged) {
  worth w = {s, judged};
  kv_tuning_table(&w, s->method->n_front,
                  1 + s->options.goal.n + s->method->space->axes, cell);
}

/* --- words ---------------------------------------------------------------- */

static void print_unjudged(const kv_tuning *s) {
  const kv_tuned *m = s->method;
  int n = 0;
  char why[WORDS];
  for (int i = 0; i < m->search.n; i++) {
    if (m->judged[i].score.ran || ++n > TOLD) continue;
    kv_tuning_why(s, m, i, &m->judged[i], row_of(s, i, 0), why);
    fputs(n == 1 ? "not judged:\n  " : "  ", stdout);
    kv_put_plain(stdout, why);
    putchar('\n');
  }
  if (n > TOLD) printf("  and %d more\n", n - TOLD);
}

static void print_ended(const kv_tuned *m) {
  if (m->search.end == KV_TUNE_SPENT)
    printf("all %d probes are spent: --probes N tries more\n", m->search.n);
  else
    printf("after %d probes no neighbour of the best is better\n", m->search.n);
}

static void print_summary(const kv_tuning *s) {
  int on = s->options.cells.traces.n, out = s->options.hold_out.n;
  const kv_tuned *m = s->method;
  printf("\nfront of %d probes", m->search.n);
  if (m->refused + m->failed)
    printf(" (%d refused, %d failed)", m->refused, m->failed);
  printf(", means over %d trace%s\n", on, on > 1 ? "s" : "");
  print_worth(s, m->judged);
  if (out) {
    printf("held out, means over %d trace%s\n", out, out > 1 ? "s" : "");
    print_worth(s, m->held);
  }
  print_unjudged(s);
  print_ended(m);
}

kv_rc kv_tuning_report(const kv_tuning *s, kv_err *e) {
  const kv_tuned *m = s->method;
  kv_rc rc = kv_tuning_rows(s, 1, &m, e);
  if (rc || !m->n_front) return rc;
  if (s->options.format == KV_ROWS_TABLE) print_summary(s);
  return kv_tune_met(&m->judged[m->search.best]) ? kv_tuning_best(s, m, e)
                                                 : KV_OK;
}

/* --- the exit code -------------------------------------------------------- */

static int no_number(const kv_tuning *s) {
  char why[WORDS];
  kv_err e = {0};
  kv_tuning_why(s, s->method, 0, s->method->judged, row_of(s, 0, 0), why);
  kv_fail(&e, s->method->failed ? KV_INPUT : KV_USAGE,
          "no probe could be judged: %s", why);
  return kv_say(&e);
}

static int none_meets(const kv_tuning *s) {
  const kv_tuned *m = s->method;
  char words[WORDS], name[NAME];
  kv_err e = {0};
  kv_tune_space_show(m->space, m->search.point[m->search.best].at, NAME, name);
  kv_tuning_describe(&s->options.goal, &m->judged[m->search.best], words);
  kv_fail(&e, KV_DIFFERENT,
          "none of %d probes meets what was asked; the nearest is %s: %s",
          m->search.n, name, words);
  return kv_say(&e);
}

static int held_differs(const kv_tuning *s) {
  const kv_tuned *m = s->method;
  int best = m->search.best;
  const kv_tune_judgement *j = &m->held[best];
  const kv_result *row = &m->held_row[best * s->options.hold_out.n];
  char words[WORDS];
  kv_err e = {0};
  if (j->score.ran)
    kv_tuning_describe(&s->options.goal, j, words);
  else
    kv_tuning_why(s, m, best, j, row, words);
  kv_fail(&e, KV_DIFFERENT,
          "the best does not meet what was asked on held-out traces: %s",
          words);
  return kv_say(&e);
}

int kv_tuning_conclude(const kv_tuning *s) {
  const kv_tuned *m = s->method;
  if (s->of.differed) return KV_DIFFERENT;
  if (!m->n_front) return no_number(s);
  if (!kv_tune_met(&m->judged[m->search.best])) return none_meets(s);
  if (s->options.hold_out.n && !kv_tune_met(&m->held[m->search.best]))
    return held_differs(s);
  return KV_OK;
}
