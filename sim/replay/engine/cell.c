/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing cells: contract in sim/replay/engine/cell.h.
 */
#include "sim/replay/engine/cell.h"

#include "ref/ground/arith.h"
#include "ref/ground/float.h"
#include "ref/ground/rope.h"
#include "ref/lane/needs.h"
#include "sim/ask/door.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Can recorded column sums replace query rows? Only if the method wants just
 * sums, over all rows of the recorded prompt, and observes them at once. */
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
           "have; use positions=original or reindex=no";
  if (kv_rope_reaches(&t->rope, t->shape.d, t->shape.n_tokens)) return NULL;
  return "re-indexed positions would turn keys by angles of 2^24 or more; use "
         "positions=original or reindex=no";
}

/* Why a method cannot read the trace's rotations; NULL: it can. */
static const char *cannot_read(const kv_trace *t) {
  return t->rope.inv_freq ? NULL
                          : "keys or queries before their rotation need "
                            "rope.inv_freq, which the trace does not have; "
                            "record it again with the model's frequencies, or "
                            "use another method (kivi has rope=after)";
}

/* Does a layer in which the method runs have no key bias? */
static bool lacks_bias(const kv_cell *c) {
  for (int i = 0; i < c->trace->n_layers; i++)
    if (!kv_cell_leaves(c, i) && !c->trace->layer[i].data.k_bias) return true;
  return false;
}

/* Refuses a cell that needs something the trace lacks, before anything runs. */
static void check_trace(kv_cell *c) {
  const kv_trace *t = c->trace;
  const kv_needs *need = &c->plan.needs;
  char why[256];
  const char *turns = need->reindex ? cannot_turn(t) : NULL;
  if (!turns && need->rope) turns = cannot_read(t);
  if (!turns && need->key_bias && lacks_bias(c))
    turns = "key_bias=subtract needs layers.L.k_bias, which the trace does not "
            "have: the model adds no bias to keys, or normalises them, or the "
            "trace is older; use key_bias=mean or keep, or record it again";
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

/* Finds the later questions. Refuses if the trace lacks their segments. */
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
                 "open of %s returns with %s; a hook that changes the "
                 "floating-point mode must restore it",
                 m->name, mode);
}

/* Puts the budget into the parameters, or a list of budgets into c->spec. */
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
  if (!rc && c->fidelity)
    rc = kv_fidelity_kept(c->fidelity, &c->result.totals, e);
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

/* --- a prompt that is read in chunks ------------------------------------- */

/* Does the index-th layer have the queries of all rows of later chunks, and of
 * those rows of the first chunk that the method sees? */
static bool has_rows(const kv_cell *c, int index) {
  const kv_layer_data *data = &c->trace->layer[index].data;
  int shown = kv_cell_plan(c, index)->needs.prompt_rows;
  int first = c->shape.chunk, p = c->shape.prompt_len, have = 0;
  if (first < p) first = first > shown ? first - shown : 0;
  for (int r = 0; data->rows && r < data->n_rows; r++)
    have += data->rows[r] >= first && data->rows[r] < p;
  return !data->rows || have >= p - first;
}

/* Why the cell cannot read its prompt in chunks, without a subject, or NULL. */
static const char *cannot(const kv_cell *c) {
  if (!c->plan.needs.chunks)
    return "cannot read a prompt in chunks yet (needs.chunks); leave prefill "
           "out";
  if (c->window)
    return "cannot read a prompt in chunks when layers have a sliding window; "
           "leave prefill out";
  if (c->turns)
    return "reads later questions as prompts of their own, which cannot be cut "
           "into chunks; leave prefill or --turns out";
  for (int i = 0; i < c->trace->n_layers; i++)
    if (!has_rows(c, i))
      return "needs the queries of all prompt rows to read the prompt in "
             "chunks, and the trace does not record them; record it again with "
             "them";
  return NULL;
}

void kv_cell_check_chunks(kv_cell *c) {
  char why[256];
  const char *says = c->shape.chunk ? cannot(c) : NULL;
  if (!says) return;
  snprintf(why, sizeof why, "%s %s", c->spec.method->name, says);
  kv_cell_refuse(c, why);
}

/* --- the ledger ---------------------------------------------------------- */

/* The first layer of the group that holds its rows of a step together with the
 * index-th layer; that layer itself if it frees its rows alone. */
static int group_of(const kv_cell *c, int index) {
  const kv_plan *p = kv_cell_plan(c, index);
  int layer = c->trace->layer[index].data.layer;
  if (!p->method->temporary_from) return layer;
  return p->method->temporary_from(&c->shape, p->params, layer);
}

/* Fills in c->group. *any: do two layers hold their rows together? */
static kv_rc find_groups(kv_cell *c, bool *any, kv_err *e) {
  size_t layers = (size_t)c->trace->n_layers;
  *any = false;
  c->group = kv_zalloc(layers, sizeof *c->group);
  if (!c->group) return kv_no_memory(e, "groups", layers * sizeof *c->group);
  for (size_t i = 0; i < layers; i++) {
    c->group[i] = group_of(c, (int)i);
    *any |= i > 0 && c->group[i] == c->group[i - 1];
  }
  return KV_OK;
}

/* Bytes of the last queries, in the trace's type, that an engine must keep from
 * chunk to chunk because a method sees them again with later chunks. At most as
 * many rows as the chunks before the last have. */
static int64_t queries_kept(const kv_cell *c) {
  const kv_shape *s = &c->shape;
  int64_t rows = 0, most = (int64_t)(c->blocks - 1) * s->chunk;
  for (int i = 0; i < c->trace->n_layers; i++) {
    int shown = kv_cell_plan(c, i)->needs.prompt_rows;
    if (shown < KV_ALL_ROWS) rows += shown < most ? shown : most;
  }
  return rows * s->n_heads * s->d * (int64_t)kv_dtype_size(s->dtype);
}

kv_rc kv_cell_open_cost(kv_cell *c, int lanes, bool apart, kv_err *e) {
  bool together;
  kv_rc rc = find_groups(c, &together, e);
  if (!rc)
    rc = kv_cost_open(&c->shape, c->trace->n_layers, lanes, c->blocks,
                      apart || together, &c->cost, e);
  if (rc) return rc;
  kv_cost_take_windows(c->cost, c->window, !kv_cell_slides(c));
  if (together) kv_cost_take_groups(c->cost, c->group);
  kv_cost_take_queries(c->cost, queries_kept(c));
  return KV_OK;
}

int64_t kv_cell_dense(const kv_cell *c, int first, int last, bool attended) {
  return kv_dense_tokens(c->trace->n_layers, c->window, first, last, attended) *
         c->shape.n_kv_heads * kv_token_bytes(&c->shape);
}

void kv_cell_in_basis(const kv_cell *c, kv_basis basis, int64_t *bytes,
                      int64_t *dense) {
  const kv_result *r = &c->result;
  int p = c->shape.prompt_len, t = c->shape.n_tokens;
  *dense = kv_cell_dense(c, t, t, false);
  switch (basis) {
  case KV_BASIS_MEAN:
    *bytes = r->totals.mti;
    *dense = kv_cell_dense(c, p, t, false);
    return;
  case KV_BASIS_PEAK:
    *bytes = r->totals.peak;
    return;
  case KV_BASIS_READ:
  case KV_BASIS_TRAFFIC:
    *bytes = 0;
    for (int i = 1; i < r->n_steps; i++)
      *bytes += r->step[i].read +
                (basis == KV_BASIS_TRAFFIC ? r->step[i].scanned : 0);
    *dense = kv_cell_dense(c, p + 1, t, true);
    return;
  default:
    *bytes = kv_bytes_total(&r->totals.end);
    return;
  }
}

/* --- the method's files -------------------------------------------------- */

/* KV_REFUSED unless the trace can read files. */
static kv_rc expect_reader(const kv_cell *c, int i, kv_err *e) {
  const kv_trace_reads *reads = c->trace->reads;
  if (reads && reads->asset_open && reads->asset_beside) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s needs a file, but trace %s has no file reader; set its "
                 "reads, or give the cell the opened file",
                 kv_spec_reader(&c->spec, i)->name, c->trace->name);
}

/* Looks for the i-th file at its default path, next to the trace. */
static kv_rc look_beside(const kv_cell *c, int i, kv_file *f, kv_err *e) {
  const kv_param *p = kv_method_file(c->spec.method, i);
  const char *name = kv_spec_reader(&c->spec, i)->name;
  char show[KV_TEXT_MAX];
  if (!p->fallback)
    return kv_fail(e, KV_USAGE, "%s needs a file; write %s:%s=NAME.safetensors",
                   name, name, p->name);
  kv_rc rc =
      c->trace->reads->asset_beside(c->trace, name, sizeof f->path, f->path, e);
  if (rc) {
    *f->path = 0;
    return rc;
  }
  f->beside = true;
  if (access(f->path, F_OK) == 0) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "no file of %s for this model: there is no %s, none in the "
                 "folders of KVREPLAY_ASSETS, and %s:%s= names none",
                 name, kv_plain(f->path, 300, show), name, p->name);
}

static kv_rc read_one(kv_cell *c, int i, kv_err *e) {
  const kv_param *p = kv_method_file(c->spec.method, i);
  kv_file *f = kv_spec_file(&c->spec, i);
  kv_rc rc = KV_OK;
  f->asset = NULL;
  if (kv_file_optional(p) && strcmp(f->path, KV_FILE_OPTIONAL) == 0)
    *f->path = 0;
  if (kv_file_is_none(p, f)) return KV_OK;
  rc = expect_reader(c, i, e);
  if (rc) return rc;
  if (!*f->path || f->beside) rc = look_beside(c, i, f, e);
  if (!rc)
    rc = c->trace->reads->asset_open(f->path, p->reads, c->trace,
                                     c->shape.prompt_len, &c->file[i], e);
  f->asset = c->file[i];
  return rc;
}

/* Takes a share of an opened file as the i-th file. */
static kv_rc file_share(kv_cell *c, int i, kv_asset *file) {
  c->file[i] = kv_asset_share(file);
  kv_spec_file(&c->spec, i)->asset = file;
  return KV_OK;
}

kv_rc kv_cell_lend(kv_cell *c, kv_asset *const *files, kv_err *e) {
  const kv_asset_kind *kind[KV_SPEC_FILES];
  const kv_param *p;
  kv_rc rc = KV_OK;
  int n = 0;
  for (; !rc && (p = kv_method_file(c->spec.method, n)); n++) {
    kind[n] = p->reads;
    rc = files && files[n] ? file_share(c, n, files[n]) : read_one(c, n, e);
  }
  if (!rc) rc = kv_assets_join(n, kind, c->file, &c->asset, e);
  c->plan.asset = c->asset;
  return rc;
}

void kv_cell_code(const kv_cell *c, char out[65]) {
  kv_digest file[KV_SPEC_FILES];
  int n = 0;
  for (int i = 0; i < KV_SPEC_FILES; i++)
    if (c->file[i]) file[n++] = c->file[i]->digest;
  kv_code(c->spec.method, n, file, out);
}

/* --- memory layouts, and cells that are refused -------------------------- */

void kv_cell_refuse(kv_cell *c, const char *why) {
  c->result.status = KV_CELL_REFUSED;
  c->runs = false;
  snprintf(c->result.reason, sizeof c->result.reason, "%s", why);
}

/* Refuses the cell if a layout cannot hold its rows. */
static void suit(kv_cell *c, const kv_layout_list *asked) {
  for (int i = 0; i < asked->n && c->runs; i++) {
    const kv_layout_asked *a = &asked->item[i];
    const kv_layout *l = a->layout;
    kv_err why = {0};
    c->plan.paged |= l->paged;
    if (!c->plan.indices) c->plan.indices = kv_layout_indices(a);
    if (!l->suits || !l->suits(a, &c->shape, &c->plan.needs, &why)) continue;
    kv_cell_refuse(c, why.text);
    c->result.of_layout = true;
  }
}

kv_rc kv_cell_lay_out(kv_cell *c, const kv_layout_list *asked, kv_err *e) {
  kv_result *r = &c->result;
  if (!asked || !asked->n) return KV_OK;
  if (c->shape.shared && c->runs) {
    kv_cell_refuse(c, "layouts store K and V separately, but this trace's V is "
                      "a part of its K (kv.shared); leave --layout out");
    c->result.of_layout = true;
  }
  suit(c, asked);
  r->layout = kv_zalloc((size_t)asked->n, sizeof *r->layout);
  if (!r->layout) return kv_no_memory(e, "layouts", (size_t)asked->n);
  r->n_layouts = asked->n;
  for (int i = 0; i < asked->n; i++)
    memcpy(r->layout[i].name, asked->item[i].name, sizeof r->layout[i].name);
  c->lay_out = asked;
  return KV_OK;
}

/* --- blocks, if later questions enter as prompts ------------------------- */

int kv_cell_prompt_at(const kv_cell *c, int step) {
  int end = c->shape.prompt_len, chunk = c->shape.chunk;
  if (chunk && step < end) {
    int last = kv_chunk_first(&c->shape, step) + chunk;
    return last < end ? last : end;
  }
  for (int i = 0; i < c->turns && c->turn[i].first < step; i++)
    end = c->turn[i].first + c->turn[i].count;
  return end;
}

const kv_asking *kv_cell_asks(const kv_cell *c, int t) {
  for (int i = 0; i < c->turns; i++)
    if (c->turn[i].first == t) return &c->turn[i];
  return NULL;
}

bool kv_cell_closing(const kv_cell *c, int n, int *first, int *count,
                     bool *decodes) {
  int size = kv_cell_block(c), p = c->shape.prompt_len;
  int from = n < c->blocks ? 0 : p, t = p + n - c->blocks, to = t + 1;
  *decodes = n >= c->blocks;
  if (!*decodes) {
    *first = n * size;
    *count = size && *first + size < p ? size : p - *first;
    return true;
  }
  *first = t;
  *count = 1;
  for (int i = 0; i < c->turns; i++) {
    const kv_asking *q = &c->turn[i];
    if (t < q->first || t >= q->first + q->count) continue;
    *decodes = false;
    from = q->first;
    int past = (to - from) % (size ? size : q->count);
    if (past && to < from + q->count) return false;
    *count = past ? past : size && size < q->count ? size : q->count;
    *first = to - *count;
  }
  return true;
}
