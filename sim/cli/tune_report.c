/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `kvreplay tune` (sim/cli/tune.h). For one method: the rows of
 * its front as `run` prints them, the best first; in a table also the measures
 * of each point, what could not be judged, and the best as a command line. For
 * several methods: the best of each. Those that meet the bounds come first, in
 * the order of the goal, with their held-out measures; then those that do not,
 * the nearest first; then those that could not be judged. If rows are for
 * programs, the sentences are remarks on standard error.
 */
#include "sim/cli/tune.h"

#include "ref/ground/text.h"
#include "sim/cli/commands.h"
#include <stdlib.h>
#include <string.h>

static char *tuning_note(const char *line);

static char *tuning_line(const kv_tuning *s, const kv_tuned *m);

enum { WORDS = KV_TUNE_WORDS, NAME = 160 };

/* --- rows ---------------------------------------------------------------- */

static kv_rc add_rows(kv_row_writer *w, int n, const kv_result *row,
                      kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < n; i++) rc = kv_row_writer_add(w, &row[i], e);
  return rc;
}

/* Rows of n fronts on the traces tuned on, or on those held out. */
static kv_rc add_fronts(kv_row_writer *w, int n, const kv_tuned *const *of,
                        int traces, bool held, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < n; i++)
    for (int k = 0; !rc && k < of[i]->n_front; k++) {
      const kv_result *row = held ? of[i]->held_row : of[i]->row;
      rc = add_rows(w, traces, &row[of[i]->front[k] * traces], e);
    }
  return rc;
}

/* Prints rows of the fronts of n methods, of[0] first, on the traces tuned on,
 * then on those held out, as `run` does in options.format (a table with
 * --wide). KV_RESOURCE: memory, or standard output cannot be written. */
static kv_rc tuning_rows(const kv_tuning *s, int n, const kv_tuned *const *of,
                         kv_err *e) {
  const kv_tune_options *o = &s->options;
  kv_row_writer *w;
  kv_err closing = {0};
  kv_row_format format =
      o->format == KV_ROWS_TABLE ? KV_ROWS_WIDE : (kv_row_format)o->format;
  kv_rc rc =
      kv_row_writer_open(format, stdout, kv_colour_wanted(stdout), &w, e);
  if (!rc) rc = add_fronts(w, n, of, o->cells.traces.n, false, e);
  if (!rc) rc = add_fronts(w, n, of, o->hold_out.n, true, e);
  kv_rc closed = kv_row_writer_close(w, &closing);
  if (rc || !closed) return rc;
  return kv_fail(e, closed, "%s", closing.text);
}

static void tuning_table(const void *of, int rows, int columns,
                         kv_tuning_cell *cell) {
  int width[KV_TUNE_COLUMNS] = {0};
  char text[KV_TUNE_CELL];
  for (int row = -1; row < rows; row++)
    for (int c = 0; c < columns; c++) {
      cell(of, row, c, text);
      int wide = (int)strlen(text);
      width[c] = wide > width[c] ? wide : width[c];
    }
  for (int row = -1; row < rows; row++) {
    for (int c = 0; c < columns; c++) {
      cell(of, row, c, text);
      printf("  %*s", c ? width[c] : -width[c], text);
    }
    putchar('\n');
  }
}

/* Writes the means of a judged point with their bounds: "output_error.mean
 * 0.031 (at most 0.05), bytes.mean 9216". */
static void tuning_describe(const kv_tune_goal *g, const kv_tune_judgement *j,
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

/* Writes why point `at` of the search, with judgement j, has no score:
 * "h2o:recent=4 on chat: REASON". row: its rows, one per trace. */
static void tuning_why(const kv_tuning *s, const kv_tuned *m, int at,
                       const kv_tune_judgement *j, const kv_result *row,
                       char out[WORDS]) {
  const kv_result *r = &row[j->lacks];
  char name[NAME];
  kv_tune_space_show(m->space, m->search.point[at].at, NAME, name);
  if (j->measure < 0)
    snprintf(out, WORDS, "%s on %.80s: %.200s", name, r->trace, r->reason);
  else
    snprintf(out, WORDS, "%s on %.80s has no %s", name, r->trace,
             s->options.goal.measure[j->measure].key);
}

/* Prints the best point as a command line to paste: on standard output below
 * "best:" or, if rows are for programs, as a remark on standard error.
 * KV_RESOURCE: memory. */
static kv_rc tuning_best(const kv_tuning *s, const kv_tuned *m, kv_err *e) {
  char *line = tuning_line(s, m), *note = NULL;
  if (line && s->options.format == KV_ROWS_TABLE) {
    puts("\nbest:");
    kv_put_plain(stdout, line);
    putchar('\n');
    free(line);
    return KV_OK;
  }
  if (line) note = tuning_note(line);
  if (note) kv_note(note);
  kv_rc rc = note ? KV_OK : kv_no_memory(e, "a command line", 1);
  free(note);
  free(line);
  return rc;
}

/* Writes a word, quoted if a shell would interpret it. */
static void word(FILE *f, const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
                              "VWXYZ0123456789_./:=,+%@-";
  fputc(' ', f);
  if (*text && !text[strspn(text, plain)]) {
    fputs(text, f);
    return;
  }
  fputc('\'', f);
  for (; *text; text++) {
    if (*text == '\'')
      fputs("'\\''", f);
    else
      fputc(*text, f);
  }
  fputc('\'', f);
}

static void options(FILE *f, const kv_tune_options *o) {
  const kv_cells_options *c = &o->cells;
  for (int i = 0; i < c->budget_text.n; i++) {
    fputs(" -b", f);
    word(f, c->budget_text.item[i]);
  }
  if (c->prompt_len) fprintf(f, " -p %d", c->prompt_len);
  if (c->observe) fprintf(f, " --observe %s", kv_observe_names[c->observe]);
#define ADDED(of, option, help) fputs(c->added[of] ? " --" option : "", f);
  KV_OBSERVE_ADDED(ADDED)
  if (o->backend != &kv_backend_ref) fprintf(f, " -B %s", o->backend->name);
}

/* Closes the memory stream; returns its text, or NULL if memory ran out. */
static char *finish(FILE *f, char **text) {
  bool bad = ferror(f);
  if (fclose(f) == 0 && !bad) return *text;
  free(*text);
  return NULL;
}

/* `kvreplay run TRACES -m SPEC ..`, quoted for a shell, which replays the
 * method's best point as it was tuned, without --db and --jobs. The method must
 * have a best point. To be freed with free(); NULL if memory ran out. */
static char *tuning_line(const kv_tuning *s, const kv_tuned *m) {
  const kv_list *traces = &s->options.cells.traces;
  const int *at = m->search.point[m->search.best].at;
  char *spec = kv_tune_space_text(m->space, at), *out = NULL;
  size_t size;
  FILE *f = spec ? open_memstream(&out, &size) : NULL;
  if (f) {
    fputs("kvreplay run", f);
    for (int i = 0; i < traces->n; i++) word(f, traces->item[i]);
    fputs(" -m", f);
    word(f, spec);
    options(f, &s->options);
  }
  free(spec);
  return f ? finish(f, &out) : NULL;
}

static char *tuning_note(const char *line) {
  char *out = NULL;
  size_t size;
  FILE *f = open_memstream(&out, &size);
  if (!f) return NULL;
  fprintf(f, "best: %s", line);
  return finish(f, &out);
}

/* --- several methods ----------------------------------------------------- */

enum { CELL = KV_TUNE_CELL };

typedef struct listing {
  const kv_tuning *s;
  const kv_tuned **of; /* sorted; owned */
  int meet, near;      /* how many meet the bounds; how many have numbers */
} listing;

static const kv_tune_judgement *best_of(const kv_tuned *m) {
  return m->n_front ? &m->judged[m->search.best] : NULL;
}

/* Of the best point, on the held-out traces; NULL: there are none. */
static const kv_tune_judgement *held_of(const kv_tuning *s, const kv_tuned *m) {
  return s->options.hold_out.n && m->n_front ? &m->held[m->search.best] : NULL;
}

static bool holds(const kv_tuning *s, const kv_tuned *m) {
  const kv_tune_judgement *held = held_of(s, m);
  return !held || kv_tune_met(held);
}

/* Equals stay in the order of -m. */
static bool before(const kv_tuned *a, const kv_tuned *b) {
  const kv_tune_judgement *x = best_of(a), *y = best_of(b);
  if (!x || !y) return x && !y;
  return kv_tune_score_compare(&x->score, &y->score) < 0;
}

static kv_rc sort(const kv_tuning *s, listing *out, kv_err *e) {
  int n = s->options.methods;
  *out = (listing){.s = s, .of = kv_zalloc((size_t)n, sizeof *out->of)};
  if (!out->of) return kv_no_memory(e, "a table", (size_t)n);
  for (int i = 0; i < n; i++) {
    const kv_tuned *m = &s->method[i];
    int at = i;
    for (; at > 0 && before(m, out->of[at - 1]); at--)
      out->of[at] = out->of[at - 1];
    out->of[at] = m;
    out->near += m->n_front > 0;
    out->meet += m->n_front > 0 && kv_tune_met(best_of(m));
  }
  return KV_OK;
}

/* An oracle uses what no cache can know, so it is only a baseline. */
static bool oracle(const kv_tuned *m) {
  return !strncmp(m->space->specs.spec->method->name, "oracle-", 7);
}

/* The first that meets the bounds, also on held-out traces; an oracle only if
 * all methods are oracles. NULL: none. */
static const kv_tuned *winner(const listing *l) {
  int n = l->s->options.methods, baselines = 0;
  for (int i = 0; i < n; i++) baselines += oracle(l->of[i]);
  for (int i = 0; i < l->meet; i++)
    if (holds(l->s, l->of[i]) && (baselines == n || !oracle(l->of[i])))
      return l->of[i];
  return NULL;
}

static const char *mark(const listing *l, const kv_tuned *m) {
  if (m == winner(l)) return "best";
  if (!holds(l->s, m)) return "not held";
  return oracle(m) ? "baseline" : "meets";
}

static void number(const kv_tune_judgement *j, int measure, char out[CELL]) {
  if (j->score.ran)
    snprintf(out, CELL, "%.6g", j->mean[measure]);
  else
    strcpy(out, "-");
}

/* Bytes as a share of the uncompressed cache, averaged over the traces. */
static void share(const kv_tuning *s, const kv_tuned *m, char out[CELL]) {
  int n = s->options.cells.traces.n;
  double sum = 0, x;
  strcpy(out, "-");
  for (int i = 0; i < n; i++, sum += x)
    if (!kv_tune_key_value(&m->row[m->search.best * n + i], "kr", &x)) return;
  snprintf(out, CELL, "%.1f%%", 100 * sum / n);
}

/* Columns: method, mark, measures, share of dense's bytes, held-out
 * measures. */
static void heading(const kv_tune_goal *g, int column, char out[CELL]) {
  int c = column - 2;
  bool held = c > g->n;
  if (c < 0)
    strcpy(out, column ? "" : "method");
  else if (c == g->n)
    strcpy(out, "of dense");
  else
    snprintf(out, CELL, "%s%s", held ? "held out " : "",
             g->measure[held ? c - g->n - 1 : c].key);
}

static void cell(const void *of, int row, int column, char out[CELL]) {
  const listing *l = of;
  const kv_tune_goal *g = &l->s->options.goal;
  const kv_tuned *m = row < 0 ? NULL : l->of[row];
  int c = column - 2;
  if (!m)
    heading(g, column, out);
  else if (column == 0)
    kv_tune_space_show(m->space, m->search.point[m->search.best].at, CELL, out);
  else if (column == 1)
    snprintf(out, CELL, "%s", mark(l, m));
  else if (c < g->n)
    number(best_of(m), c, out);
  else if (c == g->n)
    share(l->s, m, out);
  else
    number(held_of(l->s, m), c - g->n - 1, out);
}

/* The measures of a method that misses the bounds, or why there are none. */
static void sentence(const kv_tuning *s, const kv_tuned *m, char out[WORDS]) {
  char name[160], words[WORDS];
  if (!m->n_front) {
    tuning_why(s, m, 0, m->judged, m->row, out);
    return;
  }
  kv_tune_space_show(m->space, m->search.point[m->search.best].at, sizeof name,
                     name);
  tuning_describe(&s->options.goal, best_of(m), words);
  snprintf(out, WORDS, "%s: %.340s", name, words);
}

static void print_rest(const listing *l, int first, int end,
                       const char *heading) {
  char text[WORDS];
  if (first < end) puts(heading);
  for (int i = first; i < end; i++) {
    sentence(l->s, l->of[i], text);
    fputs("  ", stdout);
    kv_put_plain(stdout, text);
    putchar('\n');
  }
}

static void print_spent(const listing *l) {
  int probes = 0, spent = 0;
  for (int i = 0; i < l->s->options.methods; i++) {
    probes += l->of[i]->search.n;
    spent += l->of[i]->search.end == KV_TUNE_SPENT;
  }
  printf("%d of %d methods meet the bounds, after %d probes in all", l->meet,
         l->s->options.methods, probes);
  if (spent) printf("; %d used all of theirs: --probes N tries more", spent);
  putchar('\n');
}

static void print_asked(const kv_tuning *s) {
  const kv_tune_goal *g = &s->options.goal;
  int on = s->options.cells.traces.n, out = s->options.hold_out.n;
  printf("the best of each method: %s %s",
         g->measure[0].sign > 0 ? "least" : "most", g->measure[0].key);
  for (int i = 1; i < g->n; i++)
    printf(", %s at %s %.6g", g->measure[i].key,
           g->measure[i].sign > 0 ? "most" : "least", g->measure[i].bound);
  printf("; means over %d trace%s", on, on > 1 ? "s" : "");
  if (out) printf(", held out over %d", out);
  putchar('\n');
}

static void print_all(const listing *l) {
  const kv_tuning *s = l->s;
  int held = s->options.hold_out.n ? s->options.goal.n : 0;
  print_asked(s);
  if (l->meet) tuning_table(l, l->meet, 3 + s->options.goal.n + held, cell);
  print_rest(l, l->meet, l->near,
             "do not meet the bounds, the nearest of each:");
  print_rest(l, l->near, s->options.methods, "not judged:");
  print_spent(l);
}

/* The same as remarks, if rows are for programs. */
static void note_rest(const listing *l) {
  char text[WORDS + 40], words[WORDS];
  for (int i = l->meet; i < l->s->options.methods; i++) {
    sentence(l->s, l->of[i], words);
    snprintf(text, sizeof text, "%s: %s",
             i < l->near ? "does not meet it" : "not judged", words);
    kv_note(text);
  }
}

kv_rc kv_tuning_report_all(const kv_tuning *s, kv_err *e) {
  bool table = s->options.format == KV_ROWS_TABLE;
  listing l;
  kv_rc rc = sort(s, &l, e);
  if (!rc && table) print_all(&l);
  if (!rc && !table) rc = tuning_rows(s, l.near, l.of, e);
  if (!rc && !table && !s->options.cells.quiet) note_rest(&l);
  if (!rc && winner(&l)) rc = tuning_best(s, winner(&l), e);
  free(l.of);
  return rc;
}

static int none_holds(const listing *l) {
  char words[WORDS];
  kv_err e = {0};
  sentence(l->s, l->of[0], words);
  if (l->meet)
    kv_fail(&e, KV_DIFFERENT, "none of the %d methods that meet the bounds %s",
            l->meet,
            l->s->options.hold_out.n
                ? "does on held-out traces, baselines left out"
                : "can be used: oracles are baselines");
  else if (l->near)
    kv_fail(&e, KV_DIFFERENT,
            "none of %d methods meets the bounds; the nearest is %s",
            l->s->options.methods, words);
  else
    kv_fail(&e, l->of[0]->failed ? KV_INPUT : KV_USAGE,
            "no probe could be judged: %s", words);
  return kv_say(&e);
}

int kv_tuning_conclude_all(const kv_tuning *s) {
  listing l;
  kv_err e = {0};
  if (s->of.differed) return KV_DIFFERENT;
  if (sort(s, &l, &e)) return kv_say(&e);
  int code = winner(&l) ? KV_OK : none_holds(&l);
  free(l.of);
  return code;
}

/* --- one method ---------------------------------------------------------- */

enum { TOLD = 5 };

static const kv_result *row_of(const kv_tuning *s, int at, int trace) {
  return &s->method->row[at * s->options.cells.traces.n + trace];
}

typedef struct worth {
  const kv_tuning *s;
  const kv_tune_judgement *judged;
} worth;

static const char *report_mark(const worth *w, const kv_tune_judgement *j) {
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

static void report_cell(const void *of, int row, int column,
                        char out[KV_TUNE_CELL]) {
  const worth *w = of;
  const kv_tuned *m = w->s->method;
  const kv_tune_goal *g = &w->s->options.goal;
  const kv_tune_judgement *j = row < 0 ? NULL : &w->judged[m->front[row]];
  if (column > g->n)
    value_of(m, column - 1 - g->n, row, out);
  else if (column == 0)
    snprintf(out, KV_TUNE_CELL, "%s", j ? report_mark(w, j) : "");
  else if (!j)
    snprintf(out, KV_TUNE_CELL, "%s", g->measure[column - 1].key);
  else if (j->score.ran)
    snprintf(out, KV_TUNE_CELL, "%.6g", j->mean[column - 1]);
  else
    strcpy(out, "-");
}

static void print_worth(const kv_tuning *s, const kv_tune_judgement *judged) {
  worth w = {s, judged};
  tuning_table(&w, s->method->n_front,
               1 + s->options.goal.n + s->method->space->axes, report_cell);
}

static void print_unjudged(const kv_tuning *s) {
  const kv_tuned *m = s->method;
  int n = 0;
  char why[WORDS];
  for (int i = 0; i < m->search.n; i++) {
    if (m->judged[i].score.ran || ++n > TOLD) continue;
    tuning_why(s, m, i, &m->judged[i], row_of(s, i, 0), why);
    fputs(n == 1 ? "not judged:\n  " : "  ", stdout);
    kv_put_plain(stdout, why);
    putchar('\n');
  }
  if (n > TOLD) printf("  and %d more\n", n - TOLD);
}

static void print_ended(const kv_tuned *m) {
  if (m->search.end == KV_TUNE_SPENT)
    printf("all %d probes are used: --probes N tries more\n", m->search.n);
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
  kv_rc rc = tuning_rows(s, 1, &m, e);
  if (rc || !m->n_front) return rc;
  if (s->options.format == KV_ROWS_TABLE) print_summary(s);
  return kv_tune_met(&m->judged[m->search.best]) ? tuning_best(s, m, e) : KV_OK;
}

static int no_number(const kv_tuning *s) {
  char why[WORDS];
  kv_err e = {0};
  tuning_why(s, s->method, 0, s->method->judged, row_of(s, 0, 0), why);
  kv_fail(&e, s->method->failed ? KV_INPUT : KV_USAGE,
          "no probe could be judged: %s", why);
  return kv_say(&e);
}

static int none_meets(const kv_tuning *s) {
  const kv_tuned *m = s->method;
  char words[WORDS], name[NAME];
  kv_err e = {0};
  kv_tune_space_show(m->space, m->search.point[m->search.best].at, NAME, name);
  tuning_describe(&s->options.goal, &m->judged[m->search.best], words);
  kv_fail(&e, KV_DIFFERENT,
          "none of %d probes meets the bounds; the nearest is %s: %s",
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
    tuning_describe(&s->options.goal, j, words);
  else
    tuning_why(s, m, best, j, row, words);
  kv_fail(&e, KV_DIFFERENT,
          "the best does not meet the bounds on held-out traces: %s", words);
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
