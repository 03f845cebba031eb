/* SPDX-License-Identifier: Apache-2.0
 *
 * A coarse grid, then a pattern that shrinks: sim/run/tune/search.h.
 */
#include "sim/run/tune/search.h"

#include <stdlib.h>
#include <string.h>

enum {
  FINEST = 9, /* most values of an axis in the first grid */
  CENTRES = 2 /* points that a round looks around */
};

static int by(double a, double b) { return a < b ? -1 : a > b; }

int kv_tune_score_compare(const kv_tune_score *a, const kv_tune_score *b) {
  if (a->ran != b->ran) return a->ran ? -1 : 1;
  if (!a->ran) return 0;
  int order = by(a->far, b->far);
  if (!order) order = by(a->value, b->value);
  return order ? order : by(a->ease, b->ease);
}

int kv_tune_point_compare(const kv_tune_search *s, const kv_tune_point *a,
                          const kv_tune_point *b) {
  int order = kv_tune_score_compare(&a->score, &b->score);
  for (int i = 0; !order && i < s->axes; i++)
    order = (a->at[i] > b->at[i]) - (a->at[i] < b->at[i]);
  return order;
}

/* Is b so near a that the patterns around them would overlap? */
static bool near(const kv_tune_search *s, const kv_tune_point *a,
                 const kv_tune_point *b) {
  for (int i = 0; i < s->axes; i++)
    if (abs(a->at[i] - b->at[i]) > s->step[i]) return false;
  return true;
}

/* The best point with numbers that is not near point `but` (>= 0), or -1. */
static int best_of(const kv_tune_search *s, int but) {
  int best = -1;
  for (int i = 0; i < s->n; i++) {
    const kv_tune_point *p = &s->point[i];
    if (!p->score.ran || (but >= 0 && near(s, &s->point[but], p))) continue;
    if (best < 0 || kv_tune_point_compare(s, p, &s->point[best]) < 0) best = i;
  }
  return best;
}

/* Proposes a point that has not been proposed. */
static void ask(kv_tune_search *s, const int *at) {
  if (s->n == s->most) return;
  for (int i = 0; i < s->axes; i++)
    if (at[i] < 0 || at[i] >= s->size[i]) return;
  for (int i = 0; i < s->n; i++)
    if (!memcmp(s->point[i].at, at, (size_t)s->axes * sizeof *at)) return;
  memcpy(s->point[s->n++].at, at, (size_t)s->axes * sizeof *at);
}

/* Moves `by` steps along an axis, at most to the end of the range. */
static void move(const kv_tune_search *s, int axis, int by, int *at) {
  int last = s->size[axis] - 1, to = at[axis] + by * s->step[axis];
  at[axis] = to < 0 ? 0 : to > last ? last : to;
}

/* Along each axis, then along two axes at once: at a bound, a better point is
 * usually one where one number makes up for another. */
static void look_around(kv_tune_search *s, int centre) {
  const int *from = s->point[centre].at;
  int at[KV_TUNE_AXES];
  for (int i = 0; i < s->axes; i++)
    for (int way = -1; way <= 1; way += 2) {
      memcpy(at, from, sizeof at);
      move(s, i, way, at);
      ask(s, at);
    }
  for (int i = 0; i < s->axes; i++)
    for (int k = i + 1; k < s->axes; k++)
      for (int way = 0; way < 4; way++) {
        memcpy(at, from, sizeof at);
        move(s, i, way & 2 ? 1 : -1, at);
        move(s, k, way & 1 ? 1 : -1, at);
        ask(s, at);
      }
}

/* How many values of each axis the grid has, at least one: the grid may use up
 * to half of all points. */
static int sides(const kv_tune_search *s) {
  int half = s->most > 1 ? s->most / 2 : 1;
  for (int side = FINEST; side > 1; side--) {
    int64_t all = 1;
    for (int i = 0; i < s->axes; i++)
      all *= side < s->size[i] ? side : s->size[i];
    if (all <= half) return side;
  }
  return 1;
}

/* The j-th of n values spread evenly over 0 .. size - 1, both ends included; if
 * n is 1, the middle one. */
static int spread(int j, int n, int size) {
  if (n < 2) return (size - 1) / 2;
  return (int)(((int64_t)j * (size - 1) + (n - 1) / 2) / (n - 1));
}

static void lay_grid(kv_tune_search *s) {
  int side = sides(s), n[KV_TUNE_AXES], j[KV_TUNE_AXES] = {0};
  int at[KV_TUNE_AXES] = {0}, axis = 0;
  for (int i = 0; i < s->axes; i++) {
    n[i] = side < s->size[i] ? side : s->size[i];
    int gap = n[i] > 1 ? (s->size[i] - 1) / (n[i] - 1) : s->size[i] / 2;
    s->step[i] = gap > 1 ? (gap + 1) / 2 : 1;
  }
  while (axis >= 0) {
    for (int i = 0; i < s->axes; i++) at[i] = spread(j[i], n[i], s->size[i]);
    ask(s, at);
    for (axis = s->axes - 1; axis >= 0 && ++j[axis] == n[axis]; axis--)
      j[axis] = 0;
  }
}

/* False: every step was already 1. */
static bool halve(kv_tune_search *s) {
  bool halved = false;
  for (int i = 0; i < s->axes; i++) {
    halved |= s->step[i] > 1;
    s->step[i] = (s->step[i] + 1) / 2;
  }
  return halved;
}

static bool end(kv_tune_search *s, kv_tune_end why) {
  s->end = why;
  return false;
}

bool kv_tune_search_next(kv_tune_search *s, int *first) {
  int before = s->best;
  *first = s->n;
  if (s->rounds++ == 0) {
    lay_grid(s);
    return true;
  }
  s->best = best_of(s, -1);
  if (s->best < 0) return end(s, KV_TUNE_BLIND);
  bool better =
      before < 0 || kv_tune_score_compare(&s->point[s->best].score,
                                          &s->point[before].score) < 0;
  if (!better && !halve(s)) return end(s, KV_TUNE_NO_BETTER);
  for (;;) {
    int centre = s->best;
    for (int i = 0; i < CENTRES && centre >= 0; i++) {
      look_around(s, centre);
      centre = best_of(s, s->best);
    }
    if (s->n > *first) return true;
    if (s->n == s->most) return end(s, KV_TUNE_SPENT);
    if (!halve(s)) return end(s, KV_TUNE_NO_BETTER);
  }
}

kv_rc kv_tune_search_open(int axes, const int *size, int most,
                          kv_tune_search *s, kv_err *e) {
  *s = (kv_tune_search){.axes = axes, .most = most, .best = -1};
  if (axes > 0) memcpy(s->size, size, (size_t)axes * sizeof *size);
  s->point = kv_zalloc((size_t)most, sizeof *s->point);
  if (s->point) return KV_OK;
  return kv_no_memory(e, "points", (size_t)most * sizeof *s->point);
}

void kv_tune_search_free(kv_tune_search *s) {
  free(s->point);
  *s = (kv_tune_search){0};
}
