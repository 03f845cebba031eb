/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a grading: what can be graded, what it needs, and its
 * results (sim/grade/grade.h).
 */
#include <stdlib.h>

#include "ref/lane/compose.h"
#include "sim/grade/grade_part.h"
#include "sim/look/decide.h"

/* --- outputs ------------------------------------------------------------ */

static void seen_row(void *self, int layer, int step, const kv_seen *seen) {
  const kv_grading *g = self;
  size_t d_v = (size_t)g->cell->shape.d_v;
  if (!g->outputs) return;
  for (int h = 0; h < seen->queries; h++)
    kv_outputs_row(g->outputs, kv_grade_layer_index(g, layer), step,
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
        "%.120s takes the prompt %d tokens at a time and %s all at "
        "once; leave the metadata block out, and compress only after "
        "the prompt",
        path, theirs, name);
  if (theirs == 0)
    return kv_fail(e, KV_REFUSED,
                   "%.120s takes the prompt all at once and %s %d tokens at a "
                   "time; write the metadata block=%d",
                   path, name, ours, ours);
  return kv_fail(
      e, KV_REFUSED,
      "%.120s takes the prompt %d tokens at a time and %s %d; its "
      "lists must compress after each %d, with the metadata block=%d",
      path, theirs, name, ours, ours, ours);
}

/* Checks that the file has lists of the method's lanes, and that the prompt
 * enters alike. */
static kv_rc check(const kv_grading *g, int lanes, kv_err *e) {
  const kv_decisions_form *d = &g->theirs_file->form;
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

/* Methods that a decisions file can describe can be graded, also with a format
 * that codes what they keep. */
static kv_rc can(const kv_cell *c, kv_err *e) {
  const kv_plan *plan = &c->plan;
  kv_method_part part[KV_MOST_PARTS];
  kv_err why = {0};
  kv_parts_opened(plan->method, plan->params, &plan->needs, part);
  bool selects = !part[0].needs->codings && !plan->needs.merges;
  if (selects || !kv_decide_can(c, &why)) return KV_OK;
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
  int lanes = kv_lane_count(&c->plan.needs, &c->shape);
  *g = (kv_grading){.cell = c,
                    .theirs_file = how->theirs,
                    .outputs = how->outputs,
                    .follow_ours = how->follow_ours,
                    .tie = how->tie,
                    .stores = how->theirs->form.stores,
                    .views = how->theirs->form.views,
                    .real = c->plan.method,
                    .own = c->plan,
                    .needs = c->plan.needs,
                    .all_wrong = how->all,
                    .layers = c->trace->n_layers,
                    .look = {g, kv_grade_selection, kv_grade_keep},
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
  for (int i = 0; i < g->layers; i++) {
    if (g->layer[i].wrong.no_memory)
      return kv_no_memory(e, "--all", g->layer[i].wrong.used);
    for (int k = 0; k < KV_GRADES; k++) n += g->layer[i].count[k];
  }
  if (n == 0)
    return kv_fail(e, KV_REFUSED,
                   "%.120s says nothing that %s decides on this trace: there "
                   "is nothing to grade",
                   g->theirs_file->path, g->real->name);
  *out = g->layer;
  return KV_OK;
}
