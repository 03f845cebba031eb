/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer in words: analysis/compare/answer.h.
 */
#include "analysis/compare/answer.h"
#include "analysis/compare/paired.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A text that grows; what does not fit is left out. */
typedef struct text {
  char *out;
  size_t n;
} text;

static void put(text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(text *t, const char *format, ...) {
  va_list all;
  va_start(all, format);
  int n = vsnprintf(t->out + t->n, KV_ANSWER_SAID - t->n, format, all);
  va_end(all);
  if (n > 0) t->n += (size_t)n;
  if (t->n >= KV_ANSWER_SAID) t->n = KV_ANSWER_SAID - 1;
}

static const char *kind(const kv_answer_size *z) {
  return z->reads ? "read and scanned" : "stored";
}

/* What stands before the i-th of a list: nothing, a comma, or the next kind. */
static void put_between(text *t, const kv_answer *a, int i) {
  const kv_answer_size *z = &a->size[i];
  if (i == 0 || z->reads != z[-1].reads)
    put(t, "%s%s, ", i ? "; " : "", kind(z));
  else
    put(t, ", ");
}

/* --- who is best ---------------------------------------------------------- */

enum { NAMED = 3 }; /* methods that are named before "and 2 more" */

static void put_alike(text *t, const kv_answer_size *z) {
  int n = 0;
  for (int i = 0; i < z->n; i++) {
    if (i == z->best || !z->row[i].alike || ++n > NAMED) continue;
    put(t, "%s%s", n > 1 ? ", " : ", not told from ", z->row[i].method);
  }
  if (n > NAMED) put(t, " and %d more", n - NAMED);
}

/* Whoever does better with fewer bytes, of which there is no more to have. */
static void put_below(text *t, const kv_answer_size *z) {
  const kv_answer_row *best = &z->row[z->best], *below = NULL;
  for (int i = 0; i < z->n; i++) {
    const kv_answer_row *r = &z->row[i];
    if (r->place != KV_ANSWER_OWN || r->ruler || r->traces < z->traces)
      continue;
    double more = (r->value - (below ? below : best)->value) * z->x.by->better;
    if (r->share < z->share && more > 0) below = r;
  }
  if (below)
    put(t, "; %s has %.2g at %.3g %%", below->method, below->value,
        100 * below->share);
}

static void put_best(text *t, const kv_answer_size *z) {
  double percent = 100 * z->share;
  if (z->best < 0) {
    put(t, "nobody at %.4g %%", percent);
    return;
  }
  const kv_answer_row *r = &z->row[z->best];
  put(t, "%s at %.4g %% (%.2g", r->method, percent, r->value);
  put_alike(t, z);
  put_below(t, z);
  put(t, ")");
}

/* How many of the methods that are no rulers stand at other bytes, or on some
 * of the traces alone. */
static void put_missing(text *t, const kv_answer_size *z) {
  int all = 0, missing = 0;
  for (int i = 0; i < z->n; i++) {
    if (z->row[i].ruler) continue;
    all++;
    missing += z->row[i].place != KV_ANSWER_EQUAL;
  }
  put(t, "%d of %d methods at %.4g %%", missing, all, 100 * z->share);
}

/* Of how many traces, and whether they give a verdict. */
static void put_verdict(text *t, const kv_answer *a) {
  int few = a->size[0].traces, weak = 0;
  for (int i = 0; i < a->sizes; i++) {
    if (a->size[i].traces < few) few = a->size[i].traces;
    weak += a->size[i].tests && !a->size[i].able;
  }
  if (few < KV_PAIRS_LEAST)
    put(t,
        ": means of %d trace%s, fewer than the %d that a verdict takes, so "
        "methods near each other are not told apart",
        few, few == 1 ? "" : "s", KV_PAIRS_LEAST);
  else
    put(t,
        ": means of %d traces; who is not named as alike is worse, Holm's "
        "p < .05 of sign flips",
        few);
  if (weak) put(t, " (too few for as many comparisons, at %d sizes)", weak);
}

static void say_unequal(text *t) {
  put(t, "No answer: nothing was asked for at equal bytes. kvreplay run "
         "TRACE... -m all -b mean:10%%,mean:20%%,mean:40%%,traffic:20%% --db "
         "FILE compares fairly.");
}

void kv_answer_say(const kv_answer *a, char out[KV_ANSWER_SAID]) {
  text t = {out, 0};
  *out = 0;
  if (!a->sizes) {
    say_unequal(&t);
    return;
  }
  put(&t, "Best at equal bytes, by %s (%s): ", a->by->name, a->by->what);
  for (int i = 0; i < a->sizes; i++) {
    put_between(&t, a, i);
    put_best(&t, &a->size[i]);
  }
  put_verdict(&t, a);
  put(&t, "; not covered, for they have other bytes on some trace: ");
  for (int i = 0; i < a->sizes; i++) {
    put_between(&t, a, i);
    put_missing(&t, &a->size[i]);
  }
  put(&t, ".");
  if (a->repeated.rows) put(&t, " %s", kv_grid_text(&a->repeated, 0, "said"));
}

/* --- the other way round -------------------------------------------------- */

#define NEEDLE 0.9 /* of dense's */
#define KL 0.1     /* nats */

static bool by_needle(const kv_answer *a) { return a->by->better > 0; }

static bool meets(const kv_answer *a, const kv_answer_size *z,
                  const kv_answer_row *r) {
  if (r->ruler || !r->traces || r->traces < z->traces) return false;
  return by_needle(a) ? r->value >= NEEDLE : r->kl <= KL;
}

/* The method with the fewest bytes among those above `more` that no row at
 * fewer bytes has named: rows of all sizes of a kind. NULL: none. */
static const kv_answer_row *next_of(const kv_answer *a, bool reads,
                                    const kv_answer_row *const *had, int n) {
  const kv_answer_row *least = NULL;
  for (int i = 0; i < a->sizes; i++) {
    const kv_answer_size *z = &a->size[i];
    for (int j = 0; j < z->n && z->reads == reads; j++) {
      const kv_answer_row *r = &z->row[j];
      bool old = !meets(a, z, r) || !(r->share > 0);
      for (int k = 0; k < n; k++) old |= !strcmp(had[k]->method, r->method);
      if (!old && (!least || r->share < least->share)) least = r;
    }
  }
  return least;
}

static bool put_fewest(text *t, const kv_answer *a, bool reads) {
  const kv_answer_row *had[NAMED], *r;
  int n = 0;
  for (; n < NAMED && (r = next_of(a, reads, had, n)); n++) {
    had[n] = r;
    put(t, "%s%s (%.3g %%)", n ? ", then " : "", r->method, 100 * r->share);
  }
  return n > 0;
}

void kv_answer_say_fewest(const kv_answer *a, char out[KV_ANSWER_SAID]) {
  text t = {out, 0};
  *out = 0;
  if (!a->sizes) return;
  if (by_needle(a))
    put(&t,
        "The other way round, the fewest bytes for a needle of %.2g: ", NEEDLE);
  else
    put(&t,
        "The other way round, the fewest bytes for a KL of at most %.2g: ", KL);
  for (int i = 0; i < a->sizes; i++) {
    const kv_answer_size *z = &a->size[i];
    if (i && z->reads == z[-1].reads) continue;
    put(&t, "%s%s, ", i ? "; " : "", kind(z));
    if (!put_fewest(&t, a, z->reads)) put(&t, "nobody");
  }
  put(&t,
      ", of these rows; kvreplay tune TRACE... -m all %s --least "
      "mean_bytes searches between the sizes.",
      by_needle(a) ? "--at-least needle_share=0.9" : "--at-most kl=0.1");
}
