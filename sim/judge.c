/* SPDX-License-Identifier: Apache-2.0
 *
 * Judging a decision: sim/judge.h.
 */
#include "sim/judge.h"

#include <math.h>
#include <stddef.h>

const char *const kv_grade_names[KV_GRADES] = {"equal", "tie", "wrong"};

const char *const kv_wrong_names[] = {
    "",          "range", "causality", "not live", "duplicate", "empty",
    "no choice", "part",  "count",     "score",    "order"};

bool kv_judge_score(const kv_ranked *by, int entry, bool ours, float *out) {
  if (!by || entry / by->unit >= by->n) return false;
  int i = entry / by->unit;
  *out = by->score[i];
  return by->fate[i] == (ours ? KV_CHOSEN : KV_LEFT);
}

/* --- where they part ---------------------------------------------------- */

typedef struct tally {
  bool forced, part, far; /* reasons found so far */
  int took, left;         /* indexes */
} tally;

static bool differs(const kv_sides *s, int i) {
  return s->ours[i] != s->theirs[i];
}

/* The entry after the last of those that are chosen as one with entry i and
 * differ alike, without a gap in their tokens. */
static int run_end(const kv_sides *s, int unit, int i) {
  int end = i + 1;
  while (end < s->n && end / unit == i / unit && differs(s, end) &&
         s->ours[end] == s->ours[i] && s->id[end] == s->id[end - 1] + 1)
    end++;
  return end;
}

/* Do all entries of that index go the same way on their side? */
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

/* Nothing is near to what is no number, nor to an infinity but itself. */
static bool near(double score, double cut, double tie) {
  if (score == cut) return true;
  return isfinite(score) && isfinite(cut) &&
         fabs(score - cut) <= tie * fabs(cut);
}

static void note_index(const kv_sides *s, int unit, int i, double tie,
                       tally *t) {
  float score;
  s->theirs[i] ? t->took++ : t->left++;
  if (!kv_judge_score(s->by, i, s->ours[i], &score) || !s->by->has_cut) {
    t->forced = true;
    return;
  }
  if (!whole(s, unit, i)) t->part = true;
  if (!near((double)score, (double)s->by->cut, tie)) t->far = true;
}

static void compare(const kv_sides *s, double tie, kv_judged *out, tally *t) {
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
    if (i / unit != last) note_index(s, unit, i, tie, t);
    last = i / unit;
  }
}

/* Another number explains what differs beside it, so it goes before. */
static kv_wrong reason(const kv_sides *s, const tally *t, const kv_judged *j) {
  bool any_count = s->by && s->by->any_count;
  if (s->fault) return s->fault;
  if (t->part) return KV_WRONG_PART;
  if (t->took != t->left && j->theirs != j->ours && !any_count)
    return KV_WRONG_COUNT;
  if (t->forced) return KV_WRONG_FORCED;
  if (t->far) return KV_WRONG_SCORE;
  return s->reordered ? KV_WRONG_ORDER : KV_WRONG_NOT;
}

void kv_judge(const kv_sides *s, double tie, kv_judged *out) {
  tally t = {0};
  out->ours = out->theirs = out->took = out->left = 0;
  out->item = s->item;
  out->no_list = s->no_list;
  out->has_cut = s->by && s->by->has_cut;
  out->cut = out->has_cut ? s->by->cut : 0;
  compare(s, tie, out, &t);
  if (out->took || out->left || s->reordered || s->fault)
    out->why = reason(s, &t, out);
  else
    out->why = KV_WRONG_NOT;
  bool same = !out->took && !out->left;
  out->grade = out->why ? KV_GRADE_WRONG : same ? KV_GRADE_EQUAL : KV_GRADE_TIE;
}
