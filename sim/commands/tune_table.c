/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay tune` prints of several methods (sim/commands/tune.h): of each
 * the best, those that meet what was asked first, in the order of what is to be
 * best, with what held-out traces say of it; then those that do not, the
 * nearest first, each with what it comes to, and those that could not be
 * judged. Where rows are for programs they are those of `run`, in the same
 * order, and the sentences are remarks on standard error.
 */
#include "sim/commands/tune.h"

#include "sim/commands/commands.h"
#include "traces/text/text.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS = KV_TUNE_WORDS, CELL = KV_TUNE_CELL };

typedef struct listing {
  const kv_tuning *s;
  const kv_tuned **of; /* sorted; owned */
  int meet, near;      /* that meet what was asked; that have numbers */
} listing;

static const kv_tune_judgement *best_of(const kv_tuned *m) {
  return m->n_front ? &m->judged[m->search.best] : NULL;
}

/* Of the best, on the traces that were held out; NULL: there are none. */
static const kv_tune_judgement *held_of(const kv_tuning *s, const kv_tuned *m) {
  return s->options.hold_out.n && m->n_front ? &m->held[m->search.best] : NULL;
}

static bool holds(const kv_tuning *s, const kv_tuned *m) {
  const kv_tune_judgement *held = held_of(s, m);
  return !held || kv_tune_met(held);
}

/* In the order of -m among equals. */
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

/* An oracle knows what no cache can: it says how far others could come. */
static bool rules(const kv_tuned *m) {
  return !strncmp(m->space->specs.spec->method->name, "oracle-", 7);
}

/* The first that meets what was asked, on held-out traces, too, and is no
 * oracle, where others were asked for; NULL: none. */
static const kv_tuned *winner(const listing *l) {
  int n = l->s->options.methods, rulers = 0;
  for (int i = 0; i < n; i++) rulers += rules(l->of[i]);
  for (int i = 0; i < l->meet; i++)
    if (holds(l->s, l->of[i]) && (rulers == n || !rules(l->of[i])))
      return l->of[i];
  return NULL;
}

/* --- the table ------------------------------------------------------------ */

static const char *mark(const listing *l, const kv_tuned *m) {
  if (m == winner(l)) return "best";
  if (!holds(l->s, m)) return "not held";
  return rules(m) ? "ruler" : "meets";
}

static void number(const kv_tune_judgement *j, int measure, char out[CELL]) {
  if (j->score.ran)
    snprintf(out, CELL, "%.6g", j->mean[measure]);
  else
    strcpy(out, "-");
}

/* Mean over the traces of the share of dense's bytes. */
static void share(const kv_tuning *s, const kv_tuned *m, char out[CELL]) {
  int n = s->options.cells.traces.n;
  double sum = 0, x;
  strcpy(out, "-");
  for (int i = 0; i < n; i++, sum += x)
    if (!kv_tune_key_value(&m->row[m->search.best * n + i], "kr", &x)) return;
  snprintf(out, CELL, "%.1f%%", 100 * sum / n);
}

/* Columns: method, mark, measures, bytes of dense's, measures held out. */
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

/* --- words ---------------------------------------------------------------- */

/* What a method that does not meet it comes to, or why nobody knows. */
static void sentence(const kv_tuning *s, const kv_tuned *m, char out[WORDS]) {
  char name[160], words[WORDS];
  if (!m->n_front) {
    kv_tuning_why(s, m, 0, m->judged, m->row, out);
    return;
  }
  kv_tune_space_show(m->space, m->search.point[m->search.best].at, sizeof name,
                     name);
  kv_tuning_describe(&s->options.goal, best_of(m), words);
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
  printf("%d of %d methods meet it, %d probes in all", l->meet,
         l->s->options.methods, probes);
  if (spent) printf("; %d spent all of theirs: --probes N tries more", spent);
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
  if (l->meet) kv_tuning_table(l, l->meet, 3 + s->options.goal.n + held, cell);
  print_rest(l, l->meet, l->near, "do not meet it, the nearest of each:");
  print_rest(l, l->near, s->options.methods, "not judged:");
  print_spent(l);
}

/* The same for people who read rows with a program. */
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
  if (!rc && !table) rc = kv_tuning_rows(s, l.near, l.of, e);
  if (!rc && !table && !s->options.cells.quiet) note_rest(&l);
  if (!rc && winner(&l)) rc = kv_tuning_best(s, winner(&l), e);
  free(l.of);
  return rc;
}

/* --- the exit code -------------------------------------------------------- */

static int none_holds(const listing *l) {
  char words[WORDS];
  kv_err e = {0};
  sentence(l->s, l->of[0], words);
  if (l->meet)
    kv_fail(&e, KV_DIFFERENT,
            "none of the %d methods that meet what was asked %s", l->meet,
            l->s->options.hold_out.n
                ? "does on held-out traces, rulers left out"
                : "can be had: oracles are rulers");
  else if (l->near)
    kv_fail(&e, KV_DIFFERENT,
            "none of %d methods meets what was asked; the nearest is %s",
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
