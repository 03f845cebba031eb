/* SPDX-License-Identifier: Apache-2.0
 *
 * Grading a replay: sim/grade.h.
 */
#include "sim/grade.h"

#include <stdlib.h>
#include <string.h>

#include "sim/decide.h"
#include "sim/grade_part.h"

/* --- what theirs says --------------------------------------------------- */

static void blame(kv_theirs *t, kv_wrong why, int32_t item) {
  if (t->fault) return;
  t->fault = why;
  t->item = item;
}

/* Live entries of one item. */
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

/* Flags in g->theirs and, in their order, entries in g->list. items NULL:
 * everything, as it is. Pages of a list without fault share no token, so that
 * what scans the lane twice is not read to its end. */
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

static int layer_index(const kv_grading *g, int layer) {
  int i = 0;
  while (g->layer[i].layer != layer) i++;
  return i;
}

static void count(kv_grading *g, const kv_judged *j) {
  kv_graded_layer *to = &g->layer[layer_index(g, j->layer)];
  if (j->grade == KV_GRADE_WRONG && !to->count[KV_GRADE_WRONG]) to->first = *j;
  to->count[j->grade]++;
}

/* --- views -------------------------------------------------------------- */

static void flag_view(const kv_view *v, int n, bool *in) {
  memset(in, 0, (size_t)n);
  for (int r = 0; r < v->runs; r++)
    memset(in + v->run[r].first, true, (size_t)v->run[r].count);
}

void kv_grade_view(kv_grading *g, const kv_lane *l, int head, kv_view *out) {
  const kv_lists *lists =
      &kv_decided_at(&g->theirs_file->decisions, l->data->layer)->view;
  bool by_query = lists->heads == g->cell->shape.n_heads;
  kv_items items = kv_lists_find(lists, l->step, by_query ? head : l->kv_head);
  kv_judged j = {
      .layer = l->data->layer, .step = l->step, .lane = l->lane, .head = head};
  flag_view(out, l->n, g->ours);
  kv_theirs t = read_list(g, l, items, lists->page);
  kv_sides s = {.n = l->n,
                .id = l->id,
                .ours = g->ours,
                .theirs = g->theirs,
                .no_list = items.item == NULL,
                .fault = t.fault,
                .item = t.item,
                .by = kv_ranks_of_view(&g->ranks, g->needs.page, l->n)};
  kv_judge(&s, g->tie, &j);
  count(g, &j);
  if (g->follow_ours || t.fault || j.grade == KV_GRADE_EQUAL) return;
  out->runs = out->entries = 0;
  kv_view_mask(out, l->n, g->theirs);
}

/* --- lanes -------------------------------------------------------------- */

/* Would the order in which they stand be told apart? */
static bool reordered(const kv_grading *g, int n, const int32_t *list,
                      const kv_theirs *t) {
  bool orders = g->needs.reindex;
  for (int i = 1; i < n; i++) orders |= list[i] < list[i - 1];
  return orders && t->n == n &&
         memcmp(list, g->list, (size_t)n * sizeof *list) != 0;
}

/* In g->list: theirs in our order, unless the order is part of it. */
static void settle_order(kv_grading *g, const kv_lane *l, bool in_order) {
  int n = 0;
  for (int i = 0; !in_order && i < l->n; i++)
    if (g->theirs[i]) g->list[n++] = i;
}

/* What is to stay in the lane, *n entries, where the method keeps list. */
static const int32_t *grade_lane(kv_grading *g, const kv_lane *l,
                                 const bool *flags, const int32_t *list,
                                 int *n) {
  const kv_lists *lists =
      &kv_decided_at(&g->theirs_file->decisions, l->data->layer)->stored;
  kv_items items = kv_lists_find(lists, l->step, l->lane);
  kv_judged *j = &g->judged[l->lane];
  memset(g->ours, 0, (size_t)l->n);
  for (int i = 0; i < *n; i++) g->ours[list[i]] = true;
  kv_theirs t = read_list(g, l, items, lists->page);
  kv_sides s = {
      .n = l->n,
      .id = l->id,
      .ours = g->ours,
      .theirs = g->theirs,
      .reordered = reordered(g, *n, list, &t),
      .no_list = items.item == NULL,
      .fault = t.fault,
      .item = t.item,
      .by = kv_ranks_of_keep(&g->ranks, g->needs.page, flags, l->n, g->ours)};
  kv_ranked by = s.by ? *s.by : (kv_ranked){0};
  by.any_count |= g->ranks.shared;
  if (s.by) s.by = &by;
  *j = (kv_judged){
      .layer = l->data->layer, .step = l->step, .lane = l->lane, .head = -1};
  kv_judge(&s, g->tie, j);
  bool fits = t.n == *n || by.any_count;
  if (g->follow_ours || t.fault || !fits || j->grade == KV_GRADE_EQUAL)
    return list;
  settle_order(g, l, s.reordered);
  *n = t.n;
  return g->list;
}

static const int32_t *seen_keep(void *self, const kv_lane *l, const bool *flags,
                                const int32_t *list, int *n) {
  kv_grading *g = self;
  if (g->kept[l->lane]++ || !g->stores) return list;
  return grade_lane(g, l, flags, list, n);
}

static void seen_selection(void *self, const kv_selection *s) {
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

/* A budget that lanes share may move between them, not grow. */
static void weigh(const kv_grading *g, kv_lane *const *lane, int lanes) {
  int more = 0;
  for (int i = 0; i < lanes; i++)
    more += g->judged[lane[i]->lane].theirs - g->judged[lane[i]->lane].ours;
  for (int i = 0; more && i < lanes; i++) {
    kv_judged *j = &g->judged[lane[i]->lane];
    if (j->grade != KV_GRADE_TIE || j->theirs == j->ours) continue;
    j->grade = KV_GRADE_WRONG;
    j->why = KV_WRONG_COUNT;
  }
}

/* What else than one keep a settling did to the lane. */
static void look_at_verbs(kv_grading *g, const kv_lane *l) {
  const uint32_t *w = l->verbs.word;
  bool other = g->kept[l->lane] > 2;
  for (size_t i = 0; i < l->verbs.n; i += 5 + w[i + 4])
    other |= w[i] != KV_KEEP;
  if (!other || g->fault.rc) return;
  kv_fail(&g->fault, KV_REFUSED,
          "%s settles with more than one keep (layer %d, step %d, lane %d), "
          "which lists cannot be compared with",
          g->real->name, l->data->layer, l->step, l->lane);
}

void kv_grade_settled(kv_grading *g, kv_lane *const *lane, int lanes) {
  weigh(g, lane, lanes);
  for (int i = 0; i < lanes; i++) {
    look_at_verbs(g, lane[i]);
    count(g, &g->judged[lane[i]->lane]);
  }
}

bool kv_grade_has_list(const kv_grading *g, const kv_lane *l) {
  const kv_decided *d =
      kv_decided_at(&g->theirs_file->decisions, l->data->layer);
  return kv_lists_find(&d->stored, l->step, l->lane).item != NULL;
}

/* --- outputs ------------------------------------------------------------ */

static void seen_row(void *self, int layer, int step, const kv_seen *seen) {
  const kv_grading *g = self;
  size_t d_v = (size_t)g->cell->shape.d_v;
  if (!g->outputs) return;
  for (int h = 0; h < seen->queries; h++)
    kv_outputs_row(g->outputs, layer_index(g, layer), step,
                   seen->lane->first_head + h, seen->out + (size_t)h * d_v,
                   seen->lse[h]);
}

/* --- life --------------------------------------------------------------- */

const kv_watch *kv_grading_watch(kv_grading *g) { return &g->watch; }

void kv_grading_close(kv_grading *g) {
  if (!g) return;
  kv_ranks_close(&g->ranks);
  free(g->layer);
  free(g->entry);
  free(g->ours);
  free(g->theirs);
  free(g->list);
  free(g->all);
  free(g->kept);
  free(g->judged);
  free(g);
}

static kv_rc take(kv_grading *g, int lanes, kv_err *e) {
  const kv_trace *t = g->cell->trace;
  size_t n = (size_t)g->cell->shape.n_tokens + 1;
  g->layer = kv_zalloc((size_t)t->n_layers, sizeof *g->layer);
  g->entry = kv_zalloc(n, sizeof *g->entry);
  g->ours = kv_zalloc(n, sizeof *g->ours);
  g->theirs = kv_zalloc(n, sizeof *g->theirs);
  g->list = kv_zalloc(n, sizeof *g->list);
  g->all = kv_zalloc(n, sizeof *g->all);
  g->kept = kv_zalloc((size_t)lanes, sizeof *g->kept);
  g->judged = kv_zalloc((size_t)lanes, sizeof *g->judged);
  if (!g->layer || !g->entry || !g->ours || !g->theirs || !g->list || !g->all ||
      !g->kept || !g->judged)
    return kv_no_memory(e, "grading", n * sizeof *g->entry);
  for (int i = 0; i < t->n_layers; i++)
    g->layer[i].layer = t->layer[i].data.layer;
  return KV_OK;
}

static kv_rc refuse_block(const kv_grading *g, kv_err *e) {
  const char *path = g->theirs_file->path, *name = g->real->name;
  int theirs = g->theirs_file->decisions.block, ours = g->needs.block;
  if (ours == 0)
    return kv_fail(e, KV_REFUSED,
                   "%.120s takes the prompt %d tokens at a time and %s all at "
                   "once; leave the metadata block out, and settle only after "
                   "the prompt",
                   path, theirs, name);
  if (theirs == 0)
    return kv_fail(e, KV_REFUSED,
                   "%.120s takes the prompt all at once and %s %d tokens at a "
                   "time; write the metadata block=%d",
                   path, name, ours, ours);
  return kv_fail(e, KV_REFUSED,
                 "%.120s takes the prompt %d tokens at a time and %s %d; its "
                 "lists must settle after each %d, with the metadata block=%d",
                 path, theirs, name, ours, ours, ours);
}

/* Lists of the same lanes, and a prompt that enters alike. */
static kv_rc check(const kv_grading *g, int lanes, kv_err *e) {
  const kv_decisions *d = &g->theirs_file->decisions;
  const char *path = g->theirs_file->path, *name = g->real->name;
  if (d->stores && d->stored_heads != lanes)
    return kv_fail(e, KV_REFUSED,
                   "%.120s has %d lists a layer where %s stores %d lanes; its "
                   "lists must be one per %s head, or change the method's "
                   "group",
                   path, d->stored_heads, name, lanes,
                   lanes == g->cell->shape.n_heads ? "query" : "KV");
  if (d->stores && d->block != g->needs.block) return refuse_block(g, e);
  return KV_OK;
}

/* The same methods as those of which there are files of decisions. */
static kv_rc can(const kv_cell *c, kv_err *e) {
  kv_err why = {0};
  if (!kv_decide_can(c, &why)) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s %s entries, which lists of tokens cannot say: it cannot "
                 "be graded; `kvreplay methods` lists others",
                 c->spec.method->name,
                 c->plan.needs.merges ? "merges" : "codes");
}

kv_rc kv_grading_open(kv_cell *c, const kv_grade_how *how, kv_grading **out,
                      kv_err *e) {
  kv_rc rc = can(c, e);
  kv_grading *g = rc ? NULL : kv_zalloc(1, sizeof *g);
  if (rc) return rc;
  if (!g) return kv_no_memory(e, "grading", sizeof *g);
  int lanes = c->plan.needs.lanes == QUERY_HEAD ? c->shape.n_heads
                                                : c->shape.n_kv_heads;
  *g = (kv_grading){.cell = c,
                    .theirs_file = how->theirs,
                    .outputs = how->outputs,
                    .follow_ours = how->follow_ours,
                    .tie = how->tie,
                    .stores = how->theirs->decisions.stores,
                    .views = how->theirs->decisions.views,
                    .real = c->plan.method,
                    .params = c->plan.params,
                    .needs = c->plan.needs,
                    .look = {g, seen_selection, seen_keep},
                    .watch = {.self = g, .seen = seen_row, .of = c}};
  kv_ranks_open(c->shape.n_tokens, &g->ranks);
  rc = take(g, lanes, e);
  if (!rc) rc = check(g, lanes, e);
  if (rc) {
    kv_grading_close(g);
    return rc;
  }
  kv_grade_wrap(g, &c->plan);
  *out = g;
  return KV_OK;
}

kv_rc kv_grading_layers(const kv_grading *g, const kv_graded_layer **out,
                        kv_err *e) {
  int64_t n = 0;
  if (g->fault.rc) return kv_fail(e, g->fault.rc, "%s", g->fault.text);
  if (g->ranks.no_memory)
    return kv_no_memory(e, "grading", g->ranks.width * sizeof(float));
  for (int i = 0; i < g->cell->trace->n_layers; i++)
    for (int k = 0; k < KV_GRADES; k++) n += g->layer[i].count[k];
  if (n == 0)
    return kv_fail(e, KV_REFUSED,
                   "%.120s says nothing that %s decides on this trace: there "
                   "is nothing to grade",
                   g->theirs_file->path, g->real->name);
  *out = g->layer;
  return KV_OK;
}
