/* SPDX-License-Identifier: Apache-2.0
 *
 * A judged decision as a sentence: sim/grade/judge.h.
 */
#include "sim/grade/judge.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 4 }; /* runs of either kind */

typedef struct text {
  char *out;
  int used;
} text;

static void add(text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int room = KV_VERDICT_TEXT - t->used;
  int n = vsnprintf(t->out + t->used, (size_t)room, format, args);
  va_end(args);
  t->used += n < room ? n : room - 1;
}

static void place(text *t, const kv_judged *j) {
  add(t, "layer %d, step %d, ", j->layer, j->step);
  if (j->head >= 0)
    add(t, "query head %d: ", j->head);
  else
    add(t, "lane %d: ", j->lane);
}

static void runs(text *t, const char *verb, int n, const kv_apart *a) {
  add(t, "%s ", verb);
  if (n == 0) add(t, "nothing");
  for (int i = 0; i < n && i < SHOWN; i++) {
    if (a[i].first == a[i].last)
      add(t, "%stoken %d", i ? ", " : "", a[i].first);
    else
      add(t, "%stokens %d-%d", i ? ", " : "", a[i].first, a[i].last);
    if (a[i].scored) add(t, " (%.7g)", (double)a[i].score);
  }
  if (n > SHOWN) add(t, " and %d more", n - SHOWN);
}

static void fault(text *t, const kv_judged *j, int page) {
  const char *what = page > 1 ? "page" : "position";
  if (j->why == KV_WRONG_RANGE)
    add(t, "%s %d is none of the trace's", what, j->item);
  if (j->why == KV_WRONG_CAUSALITY)
    add(t, "%s %d has not arrived yet", what, j->item);
  if (j->why == KV_WRONG_NOT_LIVE)
    add(t, "%s %d is not live any more", what, j->item);
  if (j->why == KV_WRONG_DUPLICATE)
    add(t, "%s %d is named twice", what, j->item);
  if (j->why == KV_WRONG_EMPTY) add(t, "the list is empty");
  if (j->why == KV_WRONG_FORCED) add(t, "no score decides here");
  if (j->why == KV_WRONG_PART) add(t, "part of a page");
  if (j->why == KV_WRONG_COUNT && !j->no_list)
    add(t, "%d entries, not %d", j->theirs, j->ours);
  if (j->why == KV_WRONG_COUNT && j->no_list)
    add(t, "no list for this step, so all %d live tokens, not %d", j->theirs,
        j->ours);
  if (j->why == KV_WRONG_SCORE) add(t, "no tie");
  if (j->why == KV_WRONG_ORDER) add(t, "the same entries in another order");
}

const char *kv_tie_text(double x, char out[KV_TIE_TEXT]) {
  char number[KV_TIE_TEXT], *exponent;
  assert(isfinite(x) && "a least tie that exists");
  for (double y = x;; y *= 1.01) {
    snprintf(number, sizeof number, "%.1e", y);
    if (strtod(number, NULL) >= x) break;
  }
  exponent = strchr(number, 'e');
  *exponent++ = 0;
  if (x == 0)
    strcpy(out, "0");
  else
    snprintf(out, KV_TIE_TEXT, "%.3se%d", number,
             (int)strtol(exponent, NULL, 10));
  return out;
}

const char *kv_judged_text(const kv_judged *j, double tie, int page,
                           char out[KV_VERDICT_TEXT]) {
  text t = {.out = out};
  place(&t, j);
  fault(&t, j, page);
  if (!j->why) add(&t, "%s", kv_grade_names[j->grade]);
  if (!j->took && !j->left) return out;
  add(&t, "; they ");
  runs(&t, "took", j->took, j->taken);
  add(&t, " and ");
  runs(&t, "left", j->left, j->missed);
  if (j->has_cut)
    add(&t, "; the cut is %.7g, a tie within %.3g of it", (double)j->cut,
        tie * fabs((double)j->cut));
  return out;
}
