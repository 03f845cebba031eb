/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay tune` prints (sim/commands/tune.h). Rows of the front, as
 * `run` prints them, the best first; in a table also what each point of it is
 * worth, what could not be judged, and the best as a command line. Where rows
 * are for programs that line is a remark on standard error.
 */
#include "sim/commands/tune.h"

#include "sim/commands/commands.h"
#include "sim/commands/tune_line.h"
#include "traces/text/text.h"
#include <stdlib.h>
#include <string.h>

enum { CELL = 80, TOLD = 5, WORDS = 320, NAME = 160 };

static bool met(const kv_tune_judgement *j) {
  return j->score.ran && j->score.far == 0;
}

static const kv_result *row_of(const kv_tuning *s, int at, int trace) {
  return &s->row[at * s->options.cells.traces.n + trace];
}

/* --- rows ----------------------------------------------------------------- */

static kv_rc add_rows(kv_row_writer *w, int n, const kv_result *row,
                      kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < n; i++) rc = kv_row_writer_add(w, &row[i], e);
  return rc;
}

static kv_rc write_rows(kv_tuning *s, kv_err *e) {
  int held = s->options.hold_out.n;
  kv_row_writer *w;
  kv_err closing = {0};
  kv_rc rc = kv_row_writer_open((kv_row_format)s->options.format, stdout,
                                kv_colour_wanted(stdout), &w, e);
  for (int i = 0; !rc && i < s->n_front; i++)
    rc = add_rows(w, s->options.cells.traces.n, row_of(s, s->front[i], 0), e);
  for (int i = 0; !rc && i < s->n_front; i++)
    rc = add_rows(w, held, &s->held_row[s->front[i] * held], e);
  kv_rc closed = kv_row_writer_close(w, &closing);
  if (rc || !closed) return rc;
  return kv_fail(e, closed, "%s", closing.text);
}

/* --- what the points of the front are worth ------------------------------- */

/* A cell of that table; row -1 is the heading. */
static void cell(const kv_tuning *s, const kv_tune_judgement *judged, int row,
                 int column, char out[CELL]) {
  const kv_tune_goal *g = &s->options.goal;
  int at = row < 0 ? 0 : s->front[row], axis = column - 1 - g->n;
  const kv_tune_judgement *j = &judged[at];
  char value[KV_TUNE_TEXT];
  if (column == 0)
    snprintf(out, CELL, "%s",
             row < 0                           ? ""
             : !met(j)                         ? "-"
             : j == &s->judged[s->search.best] ? "best"
                                               : "meets");
  else if (axis < 0 && row < 0)
    snprintf(out, CELL, "%s", g->measure[column - 1].key);
  else if (axis < 0 && j->score.ran)
    snprintf(out, CELL, "%.6g", j->mean[column - 1]);
  else if (axis < 0)
    strcpy(out, "-");
  else if (row < 0)
    snprintf(out, CELL, "%s", s->options.space.axis[axis].param->name);
  else {
    kv_tune_axis_text(&s->options.space.axis[axis],
                      s->search.point[at].at[axis], value);
    snprintf(out, CELL, "%s", value);
  }
}

static void print_worth(const kv_tuning *s, const kv_tune_judgement *judged) {
  enum { COLUMNS = 1 + KV_TUNE_MEASURES + KV_TUNE_AXES };
  int n = 1 + s->options.goal.n + s->options.space.axes, width[COLUMNS] = {0};
  char text[CELL];
  for (int row = -1; row < s->n_front; row++)
    for (int c = 0; c < n; c++) {
      cell(s, judged, row, c, text);
      int wide = (int)strlen(text);
      width[c] = wide > width[c] ? wide : width[c];
    }
  for (int row = -1; row < s->n_front; row++) {
    for (int c = 0; c < n; c++) {
      cell(s, judged, row, c, text);
      printf("  %*s", c ? width[c] : -width[c], text);
    }
    putchar('\n');
  }
}

/* --- words ---------------------------------------------------------------- */

/* "output_error.mean 0.031 (at most 0.05), bytes.mean 9216" */
static void describe(const kv_tune_goal *g, const kv_tune_judgement *j,
                     char out[WORDS]) {
  size_t n = 0;
  *out = 0;
  for (int i = 1; i <= g->n && n < WORDS; i++) {
    const kv_tune_measure *m = &g->measure[i % g->n];
    n += (size_t)snprintf(out + n, WORDS - n, "%s%s %.6g", i > 1 ? ", " : "",
                          m->key, j->mean[i % g->n]);
    if (i < g->n && n < WORDS)
      n += (size_t)snprintf(out + n, WORDS - n, " (at %s %.6g)",
                            m->sign > 0 ? "most" : "least", m->bound);
  }
}

/* Why a point has no score: "h2o:recent=4 on chat: REASON". row: its rows. */
static void say_why(const kv_tuning *s, int at, const kv_tune_judgement *j,
                    const kv_result *row, size_t room, char *out) {
  const kv_result *r = &row[j->lacks];
  char name[NAME];
  kv_tune_space_show(&s->options.space, s->search.point[at].at, NAME, name);
  if (j->measure < 0)
    snprintf(out, room, "%s on %.80s: %.200s", name, r->trace, r->reason);
  else
    snprintf(out, room, "%s on %.80s has no %s", name, r->trace,
             s->options.goal.measure[j->measure].key);
}

static void print_unjudged(const kv_tuning *s) {
  int n = 0;
  char why[512];
  for (int i = 0; i < s->search.n; i++) {
    if (s->judged[i].score.ran || ++n > TOLD) continue;
    say_why(s, i, &s->judged[i], row_of(s, i, 0), sizeof why, why);
    fputs(n == 1 ? "not judged:\n  " : "  ", stdout);
    kv_put_plain(stdout, why);
    putchar('\n');
  }
  if (n > TOLD) printf("  and %d more\n", n - TOLD);
}

static void print_ended(const kv_tuning *s) {
  if (s->search.end == KV_TUNE_SPENT)
    printf("all %d probes are spent: --probes N tries more\n", s->search.n);
  else
    printf("after %d probes no neighbour of the best is better\n", s->search.n);
}

static void print_summary(const kv_tuning *s) {
  int on = s->options.cells.traces.n, out = s->options.hold_out.n;
  printf("\nfront of %d probes", s->search.n);
  if (s->refused + s->failed)
    printf(" (%d refused, %d failed)", s->refused, s->failed);
  printf(", means over %d trace%s\n", on, on > 1 ? "s" : "");
  print_worth(s, s->judged);
  if (out) {
    printf("held out, means over %d trace%s\n", out, out > 1 ? "s" : "");
    print_worth(s, s->held);
  }
  print_unjudged(s);
  print_ended(s);
}

kv_rc kv_tuning_report(kv_tuning *s, kv_err *e) {
  bool table = s->options.format == KV_ROWS_TABLE;
  kv_rc rc = write_rows(s, e);
  if (rc || !s->n_front) return rc;
  if (table) print_summary(s);
  if (!met(&s->judged[s->search.best])) return KV_OK;
  char *line = kv_tuning_line(s);
  if (!line) return kv_no_memory(e, "a command line", 1);
  if (table) {
    puts("\nbest:");
    kv_put_plain(stdout, line);
    putchar('\n');
  } else {
    char *note = kv_tuning_note(line);
    if (note) kv_note(note);
    if (!note) rc = kv_no_memory(e, "a command line", 1);
    free(note);
  }
  free(line);
  return rc;
}

/* --- the exit code -------------------------------------------------------- */

static int no_number(const kv_tuning *s) {
  char why[512];
  kv_err e = {0};
  say_why(s, 0, s->judged, row_of(s, 0, 0), sizeof why, why);
  kv_fail(&e, s->failed ? KV_INPUT : KV_USAGE, "no probe could be judged: %s",
          why);
  return kv_say(&e);
}

static int none_meets(const kv_tuning *s) {
  char words[WORDS], name[NAME];
  kv_err e = {0};
  kv_tune_space_show(&s->options.space, s->search.point[s->search.best].at,
                     NAME, name);
  describe(&s->options.goal, &s->judged[s->search.best], words);
  kv_fail(&e, KV_DIFFERENT,
          "none of %d probes meets what was asked; the nearest is %s: %s",
          s->search.n, name, words);
  return kv_say(&e);
}

static int held_differs(const kv_tuning *s) {
  const kv_tune_judgement *j = &s->held[s->search.best];
  const kv_result *row = &s->held_row[s->search.best * s->options.hold_out.n];
  char words[512];
  kv_err e = {0};
  if (j->score.ran)
    describe(&s->options.goal, j, words);
  else
    say_why(s, s->search.best, j, row, sizeof words, words);
  kv_fail(&e, KV_DIFFERENT,
          "the best does not meet what was asked on held-out traces: %s",
          words);
  return kv_say(&e);
}

int kv_tuning_conclude(const kv_tuning *s) {
  if (s->of.differed) return KV_DIFFERENT;
  if (!s->n_front) return no_number(s);
  if (!met(&s->judged[s->search.best])) return none_meets(s);
  if (s->options.hold_out.n && !met(&s->held[s->search.best]))
    return held_differs(s);
  return KV_OK;
}
