/* SPDX-License-Identifier: Apache-2.0
 *
 * Judging a decision, and describing the judgement: sim/run/grade/judge.h.
 */
#include "sim/run/grade/judge.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kv_grade_names[KV_GRADES] = {"equal", "tie", "wrong"};

const char *const kv_wrong_names[] = {
    "",          "range", "causality", "not live", "duplicate", "empty",
    "no choice", "part",  "count",     "score",    "order"};

bool kv_judge_score(const kv_ranked *by, int entry, bool ours, float *out) {
  if (!by || entry < by->first) return false;
  int i = (entry - by->first) / by->unit;
  if (i >= by->n) return false;
  *out = by->score[i];
  return by->fate[i] == (ours ? KV_CHOSEN : KV_LEFT);
}

typedef struct tally {
  bool forced, part; /* reasons found so far, whatever the scores */
  double far;        /* the largest distance from the cut, a share of it */
  int took, left;    /* indexes */
} tally;

static bool differs(const kv_sides *s, int i) {
  return s->ours[i] != s->theirs[i];
}

/* The end of the run that begins at entry i: entries of the same index that
 * differ the same way and whose tokens have no gap. */
static int run_end(const kv_sides *s, int unit, int i) {
  int end = i + 1;
  while (end < s->n && end / unit == i / unit && differs(s, end) &&
         s->ours[end] == s->ours[i] && s->id[end] == s->id[end - 1] + 1)
    end++;
  return end;
}

/* Do all entries of the index go the same way on their side? */
static bool whole(const kv_sides *s, int unit, int i) {
  int first = i / unit * unit, end = first + unit < s->n ? first + unit : s->n;
  for (int k = first; k < end; k++)
    if (s->theirs[k] != s->theirs[i] || s->ours[k] != s->ours[i]) return false;
  return true;
}

static void note_run(const kv_sides *s, int i, int end, kv_judged *out) {
  kv_apart a = {.first = (int32_t)s->id[i], .last = (int32_t)s->id[end - 1]};
  a.scored = kv_judge_score(s->by, i, s->ours[i], &a.score);
  if (!a.scored) a.score = 0;
  int n = s->theirs[i] ? out->took++ : out->left++;
  if (n < KV_MOST_APART) (s->theirs[i] ? out->taken : out->missed)[n] = a;
}

/* Distance of a score from the cut, as a share of the cut. NaN is near nothing,
 * an infinity only near itself. */
static double share(double score, double cut) {
  double by = fabs(score - cut);
  if (score == cut) return 0;
  if (!isfinite(score) || !isfinite(cut) || cut == 0) return INFINITY;
  double x = by / fabs(cut);
  return x * fabs(cut) < by ? nextafter(x, INFINITY) : x;
}

static void note_index(const kv_sides *s, int unit, int i, tally *t) {
  float score;
  s->theirs[i] ? t->took++ : t->left++;
  if (!kv_judge_score(s->by, i, s->ours[i], &score) || !s->by->has_cut) {
    t->forced = true;
    return;
  }
  if (!whole(s, unit, i)) t->part = true;
  t->far = fmax(t->far, share((double)score, (double)s->by->cut));
}

static void compare(const kv_sides *s, kv_judged *out, tally *t) {
  int unit = s->by ? s->by->unit : 1, last = -1;
  for (int i = 0; i < s->n; i++) {
    out->ours += s->ours[i];
    out->theirs += s->theirs[i];
  }
  for (int i = 0, end; i < s->n; i = end) {
    end = i + 1;
    if (!differs(s, i)) continue;
    end = run_end(s, unit, i);
    note_run(s, i, end, out);
    if (i / unit != last) note_index(s, unit, i, t);
    last = i / unit;
  }
}

/* The reason for a wrong decision. A differing number of entries explains other
 * differences, so it comes first. */
static kv_wrong reason(const kv_sides *s, const tally *t, const kv_judged *j,
                       double tie) {
  bool any_count = s->by && s->by->any_count;
  if (s->fault) return s->fault;
  if (t->part) return KV_WRONG_PART;
  if (t->took != t->left && j->theirs != j->ours && !any_count)
    return KV_WRONG_COUNT;
  if (t->forced) return KV_WRONG_FORCED;
  if (t->far > tie || isinf(t->far)) return KV_WRONG_SCORE;
  return s->reordered ? KV_WRONG_ORDER : KV_WRONG_NOT;
}

void kv_judge(const kv_sides *s, double tie, kv_judged *out) {
  tally t = {0};
  out->ours = out->theirs = out->took = out->left = 0;
  out->item = s->item;
  out->no_list = s->no_list;
  out->has_cut = s->by && s->by->has_cut;
  out->cut = out->has_cut ? s->by->cut : 0;
  compare(s, out, &t);
  bool same = !out->took && !out->left, alike = same && !s->reordered;
  out->why = alike && !s->fault ? KV_WRONG_NOT : reason(s, &t, out, tie);
  out->least_tie = t.far;
  if (out->why && reason(s, &t, out, INFINITY)) out->least_tie = INFINITY;
  out->grade = out->why ? KV_GRADE_WRONG : same ? KV_GRADE_EQUAL : KV_GRADE_TIE;
}

enum { SHOWN = 4 }; /* runs shown of either kind */

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
    add(t, "%s %d is outside the trace", what, j->item);
  if (j->why == KV_WRONG_CAUSALITY)
    add(t, "%s %d has not arrived yet", what, j->item);
  if (j->why == KV_WRONG_NOT_LIVE)
    add(t, "%s %d is no longer live", what, j->item);
  if (j->why == KV_WRONG_DUPLICATE)
    add(t, "%s %d appears twice", what, j->item);
  if (j->why == KV_WRONG_EMPTY) add(t, "the list is empty");
  if (j->why == KV_WRONG_FORCED) add(t, "no score decides here");
  if (j->why == KV_WRONG_PART) add(t, "part of a page");
  if (j->why == KV_WRONG_COUNT && !j->no_list)
    add(t, "%d entries, not %d", j->theirs, j->ours);
  if (j->why == KV_WRONG_COUNT && j->no_list)
    add(t, "no list for this step, which means all %d live tokens, not %d",
        j->theirs, j->ours);
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
