/* SPDX-License-Identifier: Apache-2.0
 *
 * Grading a replay: sim/grade/grade.h.
 */
#include "sim/grade/grade.h"

#include "ref/lane/records.h"

#include <math.h>
#include <string.h>

#include "sim/grade/grade_part.h"

/* --- what theirs says --------------------------------------------------- */

static void blame(kv_theirs *t, kv_wrong why, int32_t item) {
  if (t->fault) return;
  t->fault = why;
  t->item = item;
}

/* Adds the live entries of one item. */
static void read_item(kv_grading *g, const kv_lane *l, int32_t item, int page,
                      kv_theirs *t) {
  int64_t first = (int64_t)item * page, end = first + page;
  int found = 0;
  if (item < 0 || first >= g->cell->shape.n_tokens)
    blame(t, KV_WRONG_RANGE, item);
  else if (first >= l->step)
    blame(t, KV_WRONG_CAUSALITY, item);
  if (t->fault && (item < 0 || first >= l->step)) return;
  t->work += (end < l->step ? end : l->step) - first;
  for (int64_t x = first; x < end && x < l->step; x++) {
    int32_t entry = g->entry[x];
    if (entry < 0) continue;
    found++;
    if (g->theirs[entry])
      blame(t, KV_WRONG_DUPLICATE, item);
    else
      g->list[t->n++] = entry;
    g->theirs[entry] = true;
  }
  if (!found) blame(t, KV_WRONG_NOT_LIVE, item);
}

/* Reads a list into flags (g->theirs) and entries in their order (g->list).
 * items NULL: all entries in order. Pages of a valid list share no token, so
 * reading stops once twice the tokens seen were looked at. */
static kv_theirs read_list(kv_grading *g, const kv_lane *l, kv_items items,
                           int page) {
  kv_theirs t = {0};
  memset(g->theirs, !items.item, (size_t)l->n);
  if (!items.item) {
    for (int i = 0; i < l->n; i++) g->list[t.n++] = i;
    return t;
  }
  for (int i = 0; i < g->cell->shape.n_tokens; i++) g->entry[i] = -1;
  for (int i = 0; i < l->n; i++) g->entry[l->id[i]] = i;
  if (items.n == 0) blame(&t, KV_WRONG_EMPTY, 0);
  for (int i = 0; i < items.n && t.work <= 2 * (int64_t)l->step; i++)
    read_item(g, l, items.item[i], page, &t);
  return t;
}

/* --- counting ----------------------------------------------------------- */

int kv_grade_layer_index(const kv_grading *g, int layer) {
  int i = 0;
  while (g->layer[i].layer != layer) i++;
  return i;
}

static void count(kv_grading *g, const kv_judged *j) {
  kv_graded_layer *to = &g->layer[kv_grade_layer_index(g, j->layer)];
  bool wrong = j->grade == KV_GRADE_WRONG;
  if (wrong && !to->count[KV_GRADE_WRONG]) to->first = *j;
  if (wrong && g->all_wrong) kv_wrongs_add(&to->wrong, j);
  to->count[j->grade]++;
  if (isfinite(j->least_tie))
    to->least_tie = fmax(to->least_tie, j->least_tie);
  else
    to->never_ties++;
}

/* --- views -------------------------------------------------------------- */

static void flag_view(const kv_view *v, int n, bool *in) {
  memset(in, 0, (size_t)n);
  for (int r = 0; r < v->runs; r++)
    memset(in + v->run[r].first, true, (size_t)v->run[r].count);
}

void kv_grade_view(kv_grading *g, const kv_lane *l, int head, kv_view *out) {
  kv_lists lists = kv_decisions_view(g->theirs_file, l->data->layer);
  bool by_query = lists.heads == g->cell->shape.n_heads;
  kv_items items = kv_lists_find(&lists, l->step, by_query ? head : l->kv_head);
  kv_judged j = {
      .layer = l->data->layer, .step = l->step, .lane = l->lane, .head = head};
  flag_view(out, l->n, g->ours);
  kv_theirs t = read_list(g, l, items, lists.page);
  kv_sides s = {
      .n = l->n,
      .id = l->id,
      .ours = g->ours,
      .theirs = g->theirs,
      .no_list = items.item == NULL,
      .fault = t.fault,
      .item = t.item,
      .by = kv_ranks_of_view(&g->ranks, kv_needs_page(&g->needs), l->n)};
  kv_judge(&s, g->tie, &j);
  count(g, &j);
  if (g->follow_ours || t.fault || j.grade == KV_GRADE_EQUAL) return;
  out->runs = out->entries = 0;
  kv_view_mask(out, l->n, g->theirs);
}

/* --- lanes -------------------------------------------------------------- */

/* True if the two stored orders differ in a way that matters. */
static bool reordered(const kv_grading *g, int n, const int32_t *list,
                      const kv_theirs *t) {
  bool orders = g->needs.reindex;
  for (int i = 1; i < n; i++) orders |= list[i] < list[i - 1];
  return orders && t->n == n &&
         memcmp(list, g->list, (size_t)n * sizeof *list) != 0;
}

/* Puts their entries into g->list in our order, unless the order is part of the
 * decision. */
static void compress_order(kv_grading *g, const kv_lane *l, bool in_order) {
  int n = 0;
  for (int i = 0; !in_order && i < l->n; i++)
    if (g->theirs[i]) g->list[n++] = i;
}

/* What a keep should store instead, *n entries; `list` is what the method
 * keeps. */
static const int32_t *grade_lane(kv_grading *g, const kv_lane *l,
                                 const bool *flags, const int32_t *list,
                                 int *n) {
  kv_lists lists = kv_decisions_stored(g->theirs_file, l->data->layer);
  kv_items items = kv_lists_find(&lists, l->step, l->lane);
  kv_judged *j = &g->judged[l->lane];
  memset(g->ours, 0, (size_t)l->n);
  for (int i = 0; i < *n; i++) g->ours[list[i]] = true;
  kv_theirs t = read_list(g, l, items, lists.page);
  kv_sides s = {.n = l->n,
                .id = l->id,
                .ours = g->ours,
                .theirs = g->theirs,
                .reordered = reordered(g, *n, list, &t),
                .no_list = items.item == NULL,
                .fault = t.fault,
                .item = t.item,
                .by = kv_ranks_of_keep(&g->ranks, kv_needs_page(&g->needs),
                                       flags, l->n, g->ours)};
  kv_ranked by = s.by ? *s.by : (kv_ranked){0};
  by.any_count |= g->ranks.shared;
  if (s.by) s.by = &by;
  *j = (kv_judged){
      .layer = l->data->layer, .step = l->step, .lane = l->lane, .head = -1};
  kv_judge(&s, g->tie, j);
  bool fits = t.n == *n || by.any_count;
  if (g->follow_ours || t.fault || !fits || j->grade == KV_GRADE_EQUAL)
    return list;
  compress_order(g, l, s.reordered);
  *n = t.n;
  return g->list;
}

const int32_t *kv_grade_keep(void *self, const kv_lane *l, const bool *flags,
                             const int32_t *list, int *n) {
  kv_grading *g = self;
  if (g->kept[l->lane]++ || !g->stores) return list;
  return grade_lane(g, l, flags, list, n);
}

void kv_grade_selection(void *self, const kv_selection *s) {
  kv_grading *g = self;
  kv_ranks_add(&g->ranks, s);
}

void kv_grade_lane_end(kv_grading *g, kv_lane *l) {
  int n = l->n;
  if (g->kept[l->lane]++) return;
  for (int i = 0; i < n; i++) g->all[i] = i;
  const int32_t *list = grade_lane(g, l, NULL, g->all, &n);
  if (list != g->all) kv_keep(l, n, list);
}

/* Lanes that share a budget may move it between them, but not store more in
 * total. */
static void weigh(const kv_grading *g, kv_lane *const *lane, int lanes) {
  int more = 0;
  for (int i = 0; i < lanes; i++)
    more += g->judged[lane[i]->lane].theirs - g->judged[lane[i]->lane].ours;
  for (int i = 0; more && i < lanes; i++) {
    kv_judged *j = &g->judged[lane[i]->lane];
    if (j->theirs == j->ours) continue;
    j->least_tie = INFINITY;
    if (j->grade != KV_GRADE_TIE) continue;
    j->grade = KV_GRADE_WRONG;
    j->why = KV_WRONG_COUNT;
  }
}

/* Checks that the compression changed the lane by nothing but one keep. */
static void look_at_verbs(kv_grading *g, const kv_lane *l) {
  size_t i = 0;
  kv_record_at r;
  bool other = g->kept[l->lane] > 2;
  while (kv_records_next(&l->verbs, &i, &r)) other |= r.head[0] != KV_KEEP;
  if (!other || g->fault.rc) return;
  kv_fail(&g->fault, KV_REFUSED,
          "%s compresses with more than one keep (layer %d, step %d, lane %d), "
          "which lists cannot be compared with",
          g->real->name, l->data->layer, l->step, l->lane);
}

void kv_grade_compressed(kv_grading *g, kv_lane *const *lane, int lanes) {
  weigh(g, lane, lanes);
  for (int i = 0; i < lanes; i++) {
    look_at_verbs(g, lane[i]);
    count(g, &g->judged[lane[i]->lane]);
  }
}

bool kv_grade_has_list(const kv_grading *g, const kv_lane *l) {
  kv_lists stored = kv_decisions_stored(g->theirs_file, l->data->layer);
  return kv_lists_find(&stored, l->step, l->lane).item != NULL;
}
