/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/goal.h"

#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

kv_rc kv_tune_goal_best(kv_tune_goal *g, const char *name, int sign,
                        kv_err *e) {
  g->measure[0].sign = sign;
  kv_rc rc = kv_tune_key_find(name, g->measure[0].key, e);
  if (!rc) g->n = 1;
  return rc;
}

kv_rc kv_tune_goal_bound(kv_tune_goal *g, const char *option, const char *text,
                         int sign, kv_err *e) {
  char name[KV_TUNE_KEY + 1], show[KV_SHOW];
  const char *number = strrchr(text, '=');
  size_t n = number ? (size_t)(number - text) : 0;
  kv_tune_measure m = {.sign = sign};
  if (!n || n >= sizeof name || !kv_number_parse(number + 1, &m.bound))
    return kv_fail(
        e, KV_USAGE,
        "%s must be MEASURE=NUMBER, as in output_error=0.05, not '%s'", option,
        kv_show(text, show));
  if (g->n == KV_TUNE_MEASURES)
    return kv_fail(e, KV_USAGE, "give at most %d bounds", KV_TUNE_MEASURES - 1);
  snprintf(name, sizeof name, "%.*s", (int)n, text);
  kv_rc rc = kv_tune_key_find(name, m.key, e);
  if (!rc) g->measure[g->n++] = m;
  return rc;
}

/* The log-sum-exp error has either sign, and dropping most entries makes it
 * very negative; it is judged by its absolute value. */
static double value_of(const char *key, double x) {
  const char *name = kv_measure_table[KV_LSE_ERROR].name;
  return strncmp(key, name, strlen(name)) ? x : fabs(x);
}

/* Adds in the order of the traces; false: a row has no number. */
static bool add_means(const kv_tune_goal *g, int rows, const kv_result *row,
                      kv_tune_judgement *j) {
  for (int i = 0; i < rows; i++)
    for (int m = 0; m < g->n; m++) {
      double x;
      bool ran = kv_result_ran(&row[i]);
      if (!ran || !kv_tune_key_value(&row[i], g->measure[m].key, &x)) {
        j->lacks = i;
        j->measure = ran ? m : -1;
        return false;
      }
      j->mean[m] += value_of(g->measure[m].key, x);
    }
  for (int m = 0; m < g->n; m++) j->mean[m] /= rows;
  return true;
}

/* By how much a mean exceeds its bound, as a share of it; negative: within. */
static double excess(const kv_tune_measure *m, double mean) {
  double over = m->sign * (mean - m->bound);
  return m->bound != 0 ? over / fabs(m->bound) : over;
}

kv_tune_judgement kv_tune_judge(const kv_tune_goal *g, int rows,
                                const kv_result *row) {
  kv_tune_judgement j = {.lacks = -1, .measure = -1};
  if (!add_means(g, rows, row, &j)) return j;
  j.score.ran = true;
  j.score.value = g->measure[0].sign * j.mean[0];
  for (int m = 1; m < g->n; m++) {
    double over = excess(&g->measure[m], j.mean[m]);
    j.score.far += over > 0 ? over : 0;
    j.score.ease += over;
  }
  return j;
}

/* --- the front ------------------------------------------------------------ */

/* True if b is better than a in no measure; *better: a is better in one. */
static bool covers(const kv_tune_goal *g, const double *a, const double *b,
                   bool *better) {
  *better = false;
  for (int m = 0; m < g->n; m++) {
    double less = g->measure[m].sign * (b[m] - a[m]);
    if (less < 0) return false;
    *better |= less > 0;
  }
  return true;
}

static bool beaten(const kv_tune_goal *g, const kv_tune_search *s,
                   const kv_tune_judgement *judged, int at) {
  for (int i = 0; i < s->n; i++) {
    bool better;
    if (i == at || !judged[i].score.ran) continue;
    if (!covers(g, judged[i].mean, judged[at].mean, &better)) continue;
    if (better || kv_tune_point_compare(s, &s->point[i], &s->point[at]) < 0)
      return true;
  }
  return false;
}

/* True if a comes before b in the list. */
static bool before(const kv_tune_search *s, const kv_tune_judgement *judged,
                   int a, int b) {
  double x = judged[a].score.value, y = judged[b].score.value;
  if (a == s->best || b == s->best) return a == s->best;
  if (x != y) return x < y;
  return kv_tune_point_compare(s, &s->point[a], &s->point[b]) < 0;
}

int kv_tune_front(const kv_tune_goal *g, const kv_tune_search *s,
                  const kv_tune_judgement *judged, int *out) {
  int n = 0;
  for (int i = 0; i < s->n; i++) {
    if (!judged[i].score.ran || beaten(g, s, judged, i)) continue;
    int at = n++;
    for (; at > 0 && before(s, judged, i, out[at - 1]); at--)
      out[at] = out[at - 1];
    out[at] = i;
  }
  return n;
}
