/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing cells: from a specification and a budget to a plan,
 * from measures to a row.
 */
#include "sim/engine/cell.h"

#include "ref/ground/arith.h"
#include "ref/ground/float.h"
#include "ref/ground/rope.h"
#include "ref/lane/needs.h"
#include "sim/spec/code.h"
#include "sim/spec/knob.h"
#include "sim/spec/param.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- open --------------------------------------------------------------- */

static int get_budget(const kv_spec *s) {
  const kv_param *p = kv_spec_budget(s->method);
  int entries = -1;
  if (p) memcpy(&entries, (const char *)s->params + p->offset, sizeof entries);
  return entries;
}

/* How many query rows among first..p-1 the layer has recorded. */
static int recorded_rows(const kv_layer_data *data, int first, int p) {
  int have = 0;
  if (!data->rows) return p - first;
  for (int r = 0; r < data->n_rows; r++)
    have += data->rows[r] >= first && data->rows[r] < p;
  return have;
}

/* True if recorded column sums can replace query rows: the method wants only
 * sums, over all rows of the recorded prompt, and observation does not come in
 * pieces. */
static bool sums_serve(const kv_cell *c, const kv_layer_data *data) {
  const kv_needs *need = &c->plan.needs;
  return data->colsum && data->colsum_len == c->shape.prompt_len &&
         need->want == KV_SUM && need->prompt_rows >= c->shape.prompt_len &&
         need->block == 0 && !need->reindex;
}

/* Why the trace's rotations cannot be used for re-indexing; NULL: they can. */
static const char *cannot_turn(const kv_trace *t) {
  if (!t->rope.inv_freq)
    return "re-indexed positions need rope.inv_freq, which the trace does not "
           "hold; take positions=original or reindex=no";
  if (kv_rope_reaches(&t->rope, t->shape.d, t->shape.n_tokens)) return NULL;
  return "re-indexed positions would turn keys by angles of 2^24 and more; "
         "take positions=original or reindex=no";
}

/* Why they cannot be used by a method that reads them; NULL: they can. */
static const char *cannot_read(const kv_trace *t) {
  return t->rope.inv_freq ? NULL
                          : "keys or queries as before their rotation need "
                            "rope.inv_freq, which the trace does not hold: "
                            "record it again with the model's frequencies, or "
                            "take another method; kivi has rope=after";
}

/* Refuses a cell that needs something the trace does not hold, before anything
 * runs. */
static void check_trace(kv_cell *c) {
  const kv_trace *t = c->trace;
  const kv_needs *need = &c->plan.needs;
  char why[256];
  const char *turns = need->reindex ? cannot_turn(t) : NULL;
  if (!turns && need->rope) turns = cannot_read(t);
  if (turns) {
    kv_cell_refuse(c, turns);
    return;
  }
  int p = c->shape.prompt_len;
  for (int i = 0; i < t->n_layers; i++) {
    const kv_layer_data *data = &t->layer[i].data;
    if (kv_cell_leaves(c, i)) continue; /* no method runs there */
    int asked = kv_cell_plan(c, i)->needs.prompt_rows;
    int rows = asked < p ? asked : p;
    int have = recorded_rows(data, p - rows, p);
    if (rows <= 0 || have == rows) continue;
    if (sums_serve(c, data)) {
      c->plan.colsum = true;
      continue;
    }
    snprintf(why, sizeof why,
             "%s needs the last %d query rows of the prompt; layer %d records "
             "%d of them",
             c->spec.method->name, rows, data->layer, have);
    kv_cell_refuse(c, why);
    return;
  }
}

/* Where later prompts are. Without the segments that say it the cell is
 * refused. */
static kv_rc take_turns(kv_cell *c, const kv_asked_cell *asked, kv_err *e) {
  kv_err why = {0};
  kv_rc rc = kv_observe_turns(c->trace, asked->observe, c->shape.prompt_len,
                              &c->turns, &c->turn, &why);
  if (rc == KV_REFUSED) kv_cell_refuse(c, why.text);
  return rc && rc != KV_REFUSED ? kv_fail(e, rc, "%s", why.text) : KV_OK;
}

static kv_rc describe(kv_cell *c, const kv_asked_cell *asked, kv_err *e) {
  kv_result *r = &c->result;
  bool list = c->spec.layers != NULL;
  const kv_budget *b = asked->budget;
  snprintf(r->trace, sizeof r->trace, "%s", c->trace->name);
  r->prompt_len = c->shape.prompt_len;
  r->observe = asked->observe;
  r->n_tokens = c->shape.n_tokens;
  r->method = c->spec.method->name;
  r->revision = c->spec.method->revision;
  r->arithmetic = KV_ARITHMETIC;
  r->backend = "ref";
  r->budget = -1;
  r->achieved = NAN;
  bool entries = kv_spec_budget(c->spec.method) != NULL;
  if ((!entries || kv_spec_wants_budget(&c->spec)) &&
      !kv_knob_takes(&c->spec, b)) {
    r->status = KV_CELL_FIXED;
    return KV_OK;
  }
  r->status = KV_CELL_OK;
  if (entries) r->budget = list ? kv_cell_mean(c) : get_budget(&c->spec);
  r->basis = b ? b->basis : KV_BASIS_ENTRIES;
  if (!b && list) return kv_cell_name_list(&c->spec, r->target, e);
  if (b)
    snprintf(r->target, sizeof r->target, "%s", b->target);
  else
    snprintf(r->target, sizeof r->target, "%d", r->budget);
  return KV_OK;
}

/* Writes the parts of the row's key: code, parameters, specification. */
static kv_rc write_out(kv_cell *c, kv_err *e) {
  char code[65];
  kv_cell_code(c, code);
  if (*code) c->result.code = strdup(code);
  if (*code && !c->result.code) return kv_no_memory(e, "a row", sizeof code);
  const kv_method *m = c->spec.method;
  c->result.params =
      c->plan.layer
          ? kv_keys_json(&c->spec,
                         kv_params_json_each(m->params, c->spec.n_layers,
                                             m->params_size, c->params))
          : kv_spec_json(&c->spec);
  c->result.spec = kv_spec_text(&c->spec);
  if (c->result.params && c->result.spec) return KV_OK;
  return kv_no_memory(e, "a row", sizeof c->result);
}

kv_rc kv_cell_ask(kv_cell *c, void *params, kv_needs *needs, kv_err *e) {
  const kv_method *m = c->spec.method;
  kv_float_ground();
  kv_rc rc = m->open(&c->shape, params, needs, e);
  const char *mode = kv_float_astray();
  if (!mode) return rc ? rc : kv_needs_check(needs, e);
  kv_float_ground();
  return kv_fail(e, KV_REFUSED,
                 "open of %s returns with %s: a hook that changes the "
                 "floating-point mode restores it before it returns",
                 m->name, mode);
}

/* The budget goes into the parameters, or becomes a list in c->spec. */
static kv_rc take_budget(kv_cell *c, const kv_asked_cell *asked, kv_err *e) {
  const kv_budget *b = asked->budget;
  bool wants = kv_spec_wants_budget(&c->spec);
  if (wants && b && (b->layers || kv_cell_shares(c, b)))
    return kv_cell_take_list(c, b, e);
  if (asked->entries >= 0 && (wants || kv_knob_takes(&c->spec, b)))
    kv_param_put(kv_spec_knob(c->spec.method), asked->entries, c->spec.params);
  return KV_OK;
}

kv_rc kv_cell_open(const kv_trace *trace, int prompt_len,
                   const kv_kernels *kernels, const kv_asked_cell *asked,
                   kv_cell *c, kv_err *e) {
  *c = (kv_cell){.trace = trace, .shape = trace->shape, .runs = true};
  if (prompt_len) c->shape.prompt_len = prompt_len;
  c->shape.chunk = asked->spec->chunk;
  kv_rc rc = kv_spec_copy(asked->spec, &c->spec, e);
  if (!rc) rc = kv_cell_find_windows(c, e);
  if (!rc) rc = take_budget(c, asked, e);
  if (rc) return rc;
  c->plan = (kv_plan){.shape = &c->shape,
                      .rope = &trace->rope,
                      .kernels = kernels,
                      .method = c->spec.method,
                      .params = c->spec.params};
  kv_err why = {0};
  rc = describe(c, asked, e);
  if (rc) return rc;
  rc = kv_cell_lend(c, asked->files, &why);
  if (rc == KV_INPUT) rc = KV_REFUSED; /* only this cell cannot run */
  if (!rc)
    rc = c->spec.layers ? kv_cell_open_list(c, &why)
                        : kv_cell_ask(c, c->spec.params, &c->plan.needs, &why);
  if (rc && rc != KV_REFUSED) return kv_fail(e, rc, "%s", why.text);
  if (rc)
    kv_cell_refuse(c, why.text);
  else
    check_trace(c);
  kv_rc none = kv_cell_open_windows(c, e);
  if (none) return none;
  if (!rc && c->result.status == KV_CELL_FIXED)
    c->result.budget = get_budget(&c->spec);
  int block = kv_cell_block(c);
  c->blocks = block ? (c->shape.prompt_len + block - 1) / block : 1;
  kv_cell_tell_layers(c);
  rc = take_turns(c, asked, e);
  if (!rc && c->runs) kv_cell_check_chunks(c);
  return rc ? rc : write_out(c, e);
}

static kv_rc open_fidelity(kv_cell *c, kv_err *e) {
  const kv_trace *t = c->trace;
  kv_rc rc = KV_OK;
  int *layer = kv_zalloc((size_t)t->n_layers, sizeof *layer);
  int *budget = kv_zalloc((size_t)t->n_layers, sizeof *budget);
  kv_needle *needle = kv_zalloc((size_t)t->n_answers + 1, sizeof *needle);
  if (!layer || !budget || !needle)
    rc = kv_no_memory(e, "fidelity", sizeof *needle);
  for (int i = 0; !rc && i < t->n_layers; i++) {
    layer[i] = t->layer[i].data.layer;
    budget[i] = kv_cell_entries(c, i);
  }
  for (int i = 0; !rc && i < t->n_answers; i++)
    needle[i] = (kv_needle){t->answer[i].start, t->answer[i].end,
                            t->answer[i].source_start, t->answer[i].source_end};
  if (!rc)
    rc = kv_fidelity_open(&c->shape, t->n_layers, layer, budget, t->n_answers,
                          needle, &c->fidelity, e);
  free(layer);
  free(budget);
  free(needle);
  return rc;
}

kv_rc kv_cell_prepare(kv_cell *c, bool fidelity, bool apart, kv_err *e) {
  size_t layers = (size_t)c->trace->n_layers;
  c->plan.logits = fidelity;
  c->plan.asked = c->turn;
  c->plan.n_asked = c->turns;
  kv_cell_tell_layers(c);
  int lanes = kv_lane_count(&c->plan.needs, &c->shape);
  kv_rc rc = kv_cell_open_cost(c, lanes, apart, e);
  c->digest = kv_zalloc(layers, sizeof *c->digest);
  c->seconds = kv_zalloc(layers, sizeof *c->seconds);
  c->fault = kv_zalloc(layers, sizeof *c->fault);
  if (!rc && (!c->digest || !c->seconds || !c->fault))
    rc = kv_no_memory(e, "digests", layers * sizeof *c->digest);
  if (!rc && c->lay_out)
    rc = kv_layouts_open(c->lay_out, &c->shape, &c->plan.needs, (int)layers,
                         lanes, c->blocks, apart, &c->layouts, e);
  const kv_needs *need = &c->plan.needs;
  if (!rc && need->across == KV_DOWN)
    rc = kv_messages_open(need->message,
                          c->blocks + c->shape.n_tokens - c->shape.prompt_len,
                          &c->messages, e);
  return rc || !fidelity ? rc : open_fidelity(c, e);
}

void kv_cell_forget(kv_cell *c, int layer) {
  c->seconds[layer] = 0;
  kv_cost_layer_begin(c->cost, layer);
  if (c->layouts) kv_layouts_layer_begin(c->layouts, layer);
}

void kv_cell_answer(kv_cell *c, const kv_result *asked) {
  kv_result *r = &c->result;
  r->basis = asked->basis;
  memcpy(r->target, asked->target, sizeof r->target);
  if (kv_result_ran(r))
    r->status = r->basis == KV_BASIS_NONE ? KV_CELL_FIXED : KV_CELL_OK;
}

void kv_cell_fail(kv_cell *c, int layer, const kv_err *why) {
  c->fault[layer] = *why;
#pragma omp critical(kv_fault)
  if (c->result.status != KV_CELL_FAILED || layer < c->fault_at) {
    c->result.status = KV_CELL_FAILED;
    c->result.of_layout = why->rc == KV_USAGE;
    c->fault_at = layer;
    memcpy(c->result.reason, why->text, sizeof why->text);
  }
}

/* --- finish ------------------------------------------------------------- */

static double share(double part, double whole) {
  return whole > 0 ? 100 * part / whole : NAN;
}

double kv_cell_achieved(const kv_cell *c) {
  const kv_totals *t = &c->result.totals;
  const kv_shape *s = &c->shape;
  int p = s->prompt_len, last = s->n_tokens;
  double whole = (double)kv_cell_dense(c, last, last, false);
  bool views = c->spec.method->view && t->attended < t->kept;
  double entries = views ? t->attended : t->kept;
  switch (c->result.basis) {
  case KV_BASIS_ENTRIES:
    return entries;
  case KV_BASIS_PROMPT:
    return share(entries, kv_cell_mean_share(c));
  case KV_BASIS_RATIO:
    return 1 - entries / kv_cell_mean_share(c);
  case KV_BASIS_END:
    return share((double)kv_bytes_total(&t->end), whole);
  case KV_BASIS_MEAN:
    whole = (double)kv_cell_dense(c, p, last, false);
    return share(t->mean, whole / (last - p + 1));
  case KV_BASIS_PEAK:
    return share((double)t->peak, whole);
  case KV_BASIS_READ:
  case KV_BASIS_TRAFFIC:
    whole = (double)kv_cell_dense(c, p + 1, last, true);
    whole = last > p ? whole / (last - p) : 0;
    return share(c->result.basis == KV_BASIS_READ ? t->read
                                                  : t->read + t->scanned,
                 whole);
  default:
    return NAN;
  }
}

static kv_rc finish_layers(kv_cell *c, kv_err *e) {
  kv_result *r = &c->result;
  r->n_layers = c->trace->n_layers;
  r->layer = kv_zalloc((size_t)r->n_layers, sizeof *r->layer);
  if (!r->layer)
    return kv_no_memory(e, "a row", (size_t)r->n_layers * sizeof *r->layer);
  kv_tree journal, state, output, scores;
  kv_tree_begin(&journal);
  kv_tree_begin(&state);
  kv_tree_begin(&output);
  kv_tree_begin(&scores);
  for (int i = 0; i < r->n_layers; i++) {
    const kv_layer_digests *d = &c->digest[i];
    kv_tree_leaf(&journal, &d->journal);
    kv_tree_leaf(&state, &d->state);
    kv_tree_leaf(&output, &d->output);
    kv_tree_leaf(&scores, &d->scores);
    r->layer[i] = (kv_layer_result){c->trace->layer[i].data.layer, d->journal,
                                    d->state, d->output, d->scores};
  }
  r->journal = kv_tree_end(&journal);
  r->state = kv_tree_end(&state);
  r->output = kv_tree_end(&output);
  r->scores = kv_tree_end(&scores);
  r->has_scores = c->plan.scores;
  return KV_OK;
}

kv_rc kv_cell_finish(kv_cell *c, kv_err *e) {
  if (!kv_result_ran(&c->result)) return KV_OK;
  kv_rc rc = finish_layers(c, e);
  if (!rc && c->fidelity) rc = kv_fidelity_finish(c->fidelity, &c->result, e);
  if (!rc) rc = kv_cost_finish(c->cost, &c->result, e);
  c->result.totals.asset = c->asset ? (int64_t)c->asset->bytes : 0;
  if (!rc && c->layouts) rc = kv_layouts_finish(c->layouts, &c->result, e);
  for (int i = 0; i < c->trace->n_layers; i++)
    c->result.seconds += c->seconds[i];
  c->result.achieved = kv_cell_achieved(c);
  return rc;
}

void kv_cell_close(kv_cell *c) {
  if (!c) return;
  kv_cost_close(c->cost);
  kv_layouts_close(c->layouts);
  kv_fidelity_close(c->fidelity);
  kv_asset_close(c->asset);
  for (int i = 0; i < KV_SPEC_FILES; i++) kv_asset_close(c->file[i]);
  kv_messages_close(c->messages);
  free(c->digest);
  free(c->seconds);
  free(c->fault);
  free(c->layer);
  free(c->turn);
  free(c->params);
  free(c->window);
  free(c->group);
  free(c->left_layer);
  free(c->left_params);
  kv_result_free(&c->result);
  kv_spec_free(&c->spec);
  *c = (kv_cell){0};
}
