/* SPDX-License-Identifier: Apache-2.0
 *
 * Grading a replay (sim/run/grade/grade.h): the reference replays a cell, and
 * each decision of a foreign kernel (theirs) is compared with the method's own
 * (ours). A wrapped copy of the method calls its hooks, with its own needs, and
 * reports. One thread. The first error that makes grading impossible is kept in
 * g->fault and ends grading after the replay.
 */
#include "sim/run/grade/grade.h"

#include "ref/lane/compose.h"
#include "ref/lane/hooks.h"
#include "ref/lane/records.h"
#include "sim/run/grade/ranked.h"
#include "sim/run/look/decide.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One of their lists, once read. */
typedef struct kv_theirs {
  int n;          /* number of entries, which are in g->list */
  kv_wrong fault; /* the first thing wrong with the list itself */
  int32_t item;   /* the token or page at fault, if `fault` is about one */
  int64_t work;   /* tokens looked at, which bounds the cost of reading */
} kv_theirs;

struct kv_grading {
  const kv_cell *cell;                  /* the replayed cell */
  const kv_decisions_file *theirs_file; /* their lists */
  kv_outputs *outputs;                  /* their outputs, or NULL */
  bool follow_ours;   /* the replay continues with ours, not with theirs */
  bool stores, views; /* does their file list what is kept; attended? */
  bool all_wrong;     /* keep every wrong decision, not only the first */
  double tie;         /* share of the cut within which two scores are a tie */
  const kv_method *real;  /* the method itself */
  kv_plan own;            /* the cell's plan before wrapping */
  kv_needs needs;         /* the method's own */
  kv_around around;       /* calls its hooks, with grading around them */
  kv_method method;       /* the wrapped table, in the cell's plan */
  kv_plan *wrapped;       /* [layers of the model] the layers' wrapped plans, if
                             layers have plans of their own */
  kv_selecting look;      /* receives selections and keeps while hooks run */
  kv_watch watch;         /* of the replay: compares outputs */
  int layers;             /* recorded layers of the trace */
  kv_graded_layer *layer; /* [layers] results */
  /* State of the hook that is running. */
  kv_ranks ranks;      /* its selections */
  int32_t *entry;      /* [n_tokens] entry by token; -1: not live */
  bool *ours, *theirs; /* [n_tokens] by entry: is it in the list? */
  int32_t *list;       /* [n_tokens] their entries, in their order */
  int32_t *all;        /* [n_tokens] scratch: all entries */
  int *kept;           /* [lanes] keeps in this step, plus 1 after its end */
  kv_judged *judged;   /* [lanes] */
  kv_err fault;        /* why the method cannot be graded; rc 0: it can */
};

/* --- reading their lists ------------------------------------------------- */

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
 * reading stops when it has looked at twice the tokens seen. */
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

/* Index in g->layer of the recorded layer with the model's number `layer`. */
static int grade_layer_index(const kv_grading *g, int layer) {
  int i = 0;
  while (g->layer[i].layer != layer) i++;
  return i;
}

static void count(kv_grading *g, const kv_judged *j) {
  kv_graded_layer *to = &g->layer[grade_layer_index(g, j->layer)];
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

/* A hook has chosen *out for a query head of the lane: judges it, and replaces
 * it by theirs unless g->follow_ours. */
static void grade_view(kv_grading *g, const kv_lane *l, int head,
                       kv_view *out) {
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

/* Do the two stored orders differ in a way that matters? */
static bool reordered(const kv_grading *g, int n, const int32_t *list,
                      const kv_theirs *t) {
  bool orders = g->needs.reindex;
  for (int i = 1; i < n; i++) orders |= list[i] < list[i - 1];
  return orders && t->n == n &&
         memcmp(list, g->list, (size_t)n * sizeof *list) != 0;
}

/* Puts their entries into g->list, in our order unless order is decided. */
static void compress_order(kv_grading *g, const kv_lane *l, bool in_order) {
  int n = 0;
  for (int i = 0; !in_order && i < l->n; i++)
    if (g->theirs[i]) g->list[n++] = i;
}

/* What a keep should store instead of the method's `list`: *n entries. */
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

static const int32_t *grade_keep(void *self, const kv_lane *l,
                                 const bool *flags, const int32_t *list,
                                 int *n) {
  kv_grading *g = self;
  if (g->kept[l->lane]++ || !g->stores) return list;
  return grade_lane(g, l, flags, list, n);
}

/* Both functions are callbacks of g->look; self is the grading. The first
 * records what a hook selected by its scores. The second judges the first keep
 * of lane l in a step, if their file has lists of what is kept. It gets the
 * list of *n entries that stay (flags: the same by entry, or NULL) and returns
 * the list that stays instead, of *n entries, valid until the next call. */
static void grade_selection(void *self, const kv_selection *s) {
  kv_grading *g = self;
  kv_ranks_add(&g->ranks, s);
}

/* Call it when the hooks of a lane have run in this step. If none of them kept
 * anything, judges that as keeping everything. */
static void grade_lane_end(kv_grading *g, kv_lane *l) {
  int n = l->n;
  if (g->kept[l->lane]++) return;
  for (int i = 0; i < n; i++) g->all[i] = i;
  const int32_t *list = grade_lane(g, l, NULL, g->all, &n);
  if (list != g->all) kv_keep(l, n, list);
}

/* Lanes that share a budget may divide it anew, but not store more in total. */
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

/* Checks that the compression changed the lane only by one keep. */
static void look_at_verbs(kv_grading *g, const kv_lane *l) {
  size_t i = 0;
  kv_record_at r;
  bool other = g->kept[l->lane] > 2;
  while (kv_records_next(&l->verbs, &i, &r)) other |= r.head[0] != KV_KEEP;
  if (!other || g->fault.rc) return;
  kv_fail(&g->fault, KV_REFUSED,
          "%s compresses with more than one keep (layer %d, step %d, lane %d), "
          "so lists cannot be compared with it",
          g->real->name, l->data->layer, l->step, l->lane);
}

/* Call it when all lanes that compress together have run. If their total of
 * entries differs from ours, ties in lanes with another number become wrong.
 * Then counts each lane's grade. Sets g->fault unless one keep was all. */
static void grade_compressed(kv_grading *g, kv_lane *const *lane, int lanes) {
  weigh(g, lane, lanes);
  for (int i = 0; i < lanes; i++) {
    look_at_verbs(g, lane[i]);
    count(g, &g->judged[lane[i]->lane]);
  }
}

/* Does their file say what the lane keeps at its current step? */
static bool grade_has_list(const kv_grading *g, const kv_lane *l) {
  kv_lists stored = kv_decisions_stored(g->theirs_file, l->data->layer);
  return kv_lists_find(&stored, l->step, l->lane).item != NULL;
}

/* --- wrap ---------------------------------------------------------------- */

/* Calls the method's own hook and records its selections. */
static void watched(const kv_grading *g, kv_call *c) {
  kv_selecting_now = &g->look;
  kv_hook_call(g->real, c);
  kv_selecting_now = NULL;
}

static void view(kv_grading *g, kv_call *c) {
  const kv_lane *lane = c->lane[0];
  if (g->real->view)
    watched(g, c);
  else
    kv_view_add(c->view, 0, lane->n);
  if (g->views) grade_view(g, lane, lane->first_head + c->query->head, c->view);
}

/* Removes entries that merges marked: lanes are graded without them. */
static void sweep(kv_call *c) {
  for (int i = 0; i < c->lanes; i++) kv_sweep(c->lane[i]);
}

/* Called at every step; calls the method's own hook if it is due. */
static void compress_lane(kv_grading *g, kv_call *c) {
  kv_lane *lane = c->lane[0];
  bool due = kv_compression_due(c->at.needs, c->at.shape, c->at.step);
  g->kept[lane->lane] = 0;
  if (due) watched(g, c);
  sweep(c);
  if (!g->stores || (due && g->real->compress_layer)) return;
  if (!due && !grade_has_list(g, lane)) return;
  grade_lane_end(g, lane);
  grade_compressed(g, c->lane, 1);
}

static void compress_layer(kv_grading *g, kv_call *c) {
  if (!kv_compression_due(c->at.needs, c->at.shape, c->at.step)) return;
  watched(g, c);
  sweep(c);
  if (!g->stores) return;
  for (int i = 0; i < c->lanes; i++) grade_lane_end(g, c->lane[i]);
  grade_compressed(g, c->lane, c->lanes);
}

static void call(const kv_around *around, kv_call *c) {
  kv_grading *g = around->self;
  kv_ranks_forget(&g->ranks);
  c->at.needs = &kv_plan_of(&g->own, c->at.layer)->needs;
  if (c->hook == KV_HOOK_view)
    view(g, c);
  else if (c->hook == KV_HOOK_compress_lane)
    compress_lane(g, c);
  else if (c->hook == KV_HOOK_compress_layer)
    compress_layer(g, c);
  else
    kv_hook_call(g->real, c);
}

static void put_copy(kv_grading *g, kv_plan *plan) {
  plan->method = &g->method;
  if (!g->stores) return;
  plan->needs.every = 1; /* their lists may be for any step */
  plan->needs.phase = 0;
}

/* Puts a copy of the method whose hooks grade into the plan, which the replay
 * then runs. Call it once, before the replay. */
static void grade_wrap(kv_grading *g, kv_plan *plan) {
  g->around =
      (kv_around){.call = call,
                  .self = g,
                  .inner = g->real,
                  .also = 1u << KV_HOOK_view | 1u << KV_HOOK_compress_lane};
  g->method = kv_method_around(&g->around);
  put_copy(g, plan);
  for (int l = 0; plan->layer && l < plan->shape->n_layers; l++) {
    g->wrapped[l] = plan->layer[l];
    put_copy(g, &g->wrapped[l]);
  }
  if (plan->layer) plan->layer = g->wrapped;
}

/* --- outputs ------------------------------------------------------------ */

static void seen_row(void *self, int layer, int step, const kv_seen *seen) {
  const kv_grading *g = self;
  size_t d_v = (size_t)g->cell->shape.d_v;
  if (!g->outputs) return;
  for (int h = 0; h < seen->queries; h++)
    kv_outputs_row(g->outputs, grade_layer_index(g, layer), step,
                   seen->lane->first_head + h, seen->out + (size_t)h * d_v,
                   seen->lse[h]);
}
/* --- life --------------------------------------------------------------- */

const kv_watch *kv_grading_watch(kv_grading *g) { return &g->watch; }

void kv_grading_close(kv_grading *g) {
  if (!g) return;
  kv_ranks_close(&g->ranks);
  for (int i = 0; g->layer && i < g->layers; i++)
    kv_wrongs_free(&g->layer[i].wrong);
  free(g->layer);
  free(g->entry);
  free(g->ours);
  free(g->theirs);
  free(g->list);
  free(g->all);
  free(g->kept);
  free(g->judged);
  free(g->wrapped);
  free(g);
}

static kv_rc take(kv_grading *g, int lanes, kv_err *e) {
  const kv_recorded *layer = g->cell->trace->layer;
  size_t n = (size_t)g->cell->shape.n_tokens + 1;
  g->layer = kv_zalloc((size_t)g->layers, sizeof *g->layer);
  g->entry = kv_zalloc(n, sizeof *g->entry);
  g->ours = kv_zalloc(n, sizeof *g->ours);
  g->theirs = kv_zalloc(n, sizeof *g->theirs);
  g->list = kv_zalloc(n, sizeof *g->list);
  g->all = kv_zalloc(n, sizeof *g->all);
  g->kept = kv_zalloc((size_t)lanes, sizeof *g->kept);
  g->judged = kv_zalloc((size_t)lanes, sizeof *g->judged);
  g->wrapped = kv_zalloc((size_t)g->cell->shape.n_layers, sizeof *g->wrapped);
  if (!g->layer || !g->entry || !g->ours || !g->theirs || !g->list || !g->all ||
      !g->kept || !g->judged || !g->wrapped)
    return kv_no_memory(e, "grading", n * sizeof *g->entry);
  for (int i = 0; i < g->layers; i++) g->layer[i].layer = layer[i].data.layer;
  return KV_OK;
}

static kv_rc refuse_block(const kv_grading *g, kv_err *e) {
  const char *path = g->theirs_file->path, *name = g->real->name;
  int theirs = g->theirs_file->form.block, ours = g->needs.block;
  if (ours == 0)
    return kv_fail(
        e, KV_REFUSED,
        "%.120s reads the prompt %d tokens at a time, but %s reads it at once; "
        "leave the metadata block out, and compress only after the prompt",
        path, theirs, name);
  if (theirs == 0)
    return kv_fail(e, KV_REFUSED,
                   "%.120s reads the prompt at once, but %s reads %d tokens at "
                   "a time; write the metadata block=%d",
                   path, name, ours, ours);
  return kv_fail(
      e, KV_REFUSED,
      "%.120s reads the prompt %d tokens at a time, but %s %d; its lists must "
      "compress after each %d, with the metadata block=%d",
      path, theirs, name, ours, ours, ours);
}

/* Checks that the file has lists for the method's lanes, and that the prompt
 * enters in the same blocks. */
static kv_rc check(const kv_grading *g, int lanes, kv_err *e) {
  const kv_decisions_form *d = &g->theirs_file->form;
  const char *path = g->theirs_file->path, *name = g->real->name;
  if (d->stores && d->stored_heads != lanes)
    return kv_fail(e, KV_REFUSED,
                   "%.120s has %d lists a layer, but %s stores %d lanes; write "
                   "one list per %s head, or change the method's group",
                   path, d->stored_heads, name, lanes,
                   lanes == g->cell->shape.n_heads ? "query" : "KV");
  if (d->stores && d->block != g->needs.block) return refuse_block(g, e);
  return KV_OK;
}

/* Can the method be graded? It can if a decisions file can describe it, also
 * with a format that codes what it keeps. */
static kv_rc can(const kv_cell *c, kv_err *e) {
  const kv_plan *plan = &c->plan;
  kv_method_part part[KV_MOST_PARTS];
  kv_err why = {0};
  kv_parts_opened(plan->method, plan->params, &plan->needs, part);
  bool selects = !part[0].needs->codings && !plan->needs.merges;
  if (selects || !kv_decide_can(c, &why)) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s %s entries, which lists of tokens cannot express, so it "
                 "cannot be graded; `kvreplay methods` lists other methods",
                 c->spec.method->name,
                 c->plan.needs.merges ? "merges" : "codes");
}

kv_rc kv_grading_open(kv_cell *c, const kv_grade_how *how, kv_grading **out,
                      kv_err *e) {
  const kv_decisions_form *form = &how->theirs->form;
  kv_rc rc = form->stores || form->views ? can(c, e) : KV_OK;
  kv_grading *g = rc ? NULL : kv_zalloc(1, sizeof *g);
  if (rc) return rc;
  if (!g) return kv_no_memory(e, "grading", sizeof *g);
  int lanes = kv_lane_count(&c->plan.needs, &c->shape);
  *g = (kv_grading){.cell = c,
                    .theirs_file = how->theirs,
                    .outputs = how->outputs,
                    .follow_ours = how->follow_ours,
                    .tie = how->tie,
                    .stores = form->stores,
                    .views = form->views,
                    .real = c->plan.method,
                    .own = c->plan,
                    .needs = c->plan.needs,
                    .all_wrong = how->all,
                    .layers = c->trace->n_layers,
                    .look = {g, grade_selection, grade_keep},
                    .watch = {.self = g, .seen = seen_row, .of = c}};
  kv_ranks_open(c->shape.n_tokens, &g->ranks);
  rc = take(g, lanes, e);
  if (!rc) rc = check(g, lanes, e);
  if (rc) {
    kv_grading_close(g);
    return rc;
  }
  grade_wrap(g, &c->plan);
  *out = g;
  return KV_OK;
}

kv_rc kv_grading_layers(const kv_grading *g, const kv_graded_layer **out,
                        kv_err *e) {
  int64_t n = 0;
  if (g->fault.rc) return kv_fail(e, g->fault.rc, "%s", g->fault.text);
  if (g->ranks.no_memory)
    return kv_no_memory(e, "grading", g->ranks.width * sizeof(float));
  for (int i = 0; i < g->layers; i++) {
    if (g->layer[i].wrong.no_memory)
      return kv_no_memory(e, "--all", g->layer[i].wrong.used);
    for (int k = 0; k < KV_GRADES; k++) n += g->layer[i].count[k];
  }
  if (n == 0 && (g->stores || g->views))
    return kv_fail(e, KV_REFUSED,
                   "%.120s has no decision that %s makes on this trace, so "
                   "there is nothing to grade",
                   g->theirs_file->path, g->real->name);
  *out = g->layer;
  return KV_OK;
}
