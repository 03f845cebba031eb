/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing cells: from a specification and a budget to a plan,
 * from measures to a row.
 */
#include "sim/cell.h"

#include "ref/arith.h"
#include "ref/rope.h"
#include "sim/door.h"
#include "sim/param.h"
#include "traces/filehash.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- open --------------------------------------------------------------- */

static void set_budget(kv_spec *s, int entries) {
  const kv_param *p = kv_spec_budget(s->method);
  memcpy((char *)s->params + p->offset, &entries, sizeof entries);
}

static int get_budget(const kv_spec *s) {
  const kv_param *p = kv_spec_budget(s->method);
  int entries = -1;
  if (p) memcpy(&entries, (const char *)s->params + p->offset, sizeof entries);
  return entries;
}

static void refuse(kv_cell *c, const char *why) {
  c->result.status = KV_CELL_REFUSED;
  c->runs = false;
  snprintf(c->result.reason, sizeof c->result.reason, "%s", why);
}

/* Query rows first..p-1 that a layer records. */
static int recorded_rows(const kv_layer_data *data, int first, int p) {
  int have = 0;
  if (!data->rows) return p - first;
  for (int r = 0; r < data->n_rows; r++)
    have += data->rows[r] >= first && data->rows[r] < p;
  return have;
}

/* May recorded column sums take the place of rows? Only sums are wanted, of
 * all rows of the recorded prompt, and no evidence comes in pieces. */
static bool sums_serve(const kv_cell *c, const kv_layer_data *data) {
  const kv_needs *need = &c->plan.needs;
  return data->colsum && data->colsum_len == c->shape.prompt_len &&
         need->want == KV_SUM && need->prompt_rows >= c->shape.prompt_len &&
         need->block == 0 && !need->reindex;
}

/* Why the trace's rotations do not serve re-indexing; NULL: they do. */
static const char *cannot_turn(const kv_trace *t) {
  if (!t->rope.inv_freq)
    return "re-indexed positions need rope.inv_freq, which the trace does not "
           "hold; take positions=original";
  int64_t range = kv_rope_range(&t->rope, t->shape.n_tokens);
  if (kv_rope_reaches(&t->rope, t->shape.d, range)) return NULL;
  return "re-indexed positions would turn keys by angles of 2^24 and more; "
         "take positions=original";
}

/* What the trace does not hold is refused here, before anything runs. */
static void check_trace(kv_cell *c) {
  const kv_trace *t = c->trace;
  const kv_needs *need = &c->plan.needs;
  char why[256];
  const char *turns = need->reindex ? cannot_turn(t) : NULL;
  if (turns) {
    refuse(c, turns);
    return;
  }
  int p = c->shape.prompt_len;
  int rows = need->prompt_rows < p ? need->prompt_rows : p;
  for (int i = 0; i < t->n_layers && rows > 0; i++) {
    const kv_layer_data *data = &t->layer[i].data;
    int have = recorded_rows(data, p - rows, p);
    if (have == rows) continue;
    if (sums_serve(c, data)) {
      c->plan.colsum = true;
      continue;
    }
    snprintf(why, sizeof why,
             "%s needs the last %d query rows of the prompt; layer %d records "
             "%d of them",
             c->spec.method->name, rows, data->layer, have);
    refuse(c, why);
    return;
  }
}

static void describe(kv_cell *c, const kv_asked_cell *asked) {
  kv_result *r = &c->result;
  const kv_budget *b = asked->budget;
  snprintf(r->trace, sizeof r->trace, "%s", c->trace->name);
  r->prompt_len = c->shape.prompt_len;
  r->n_tokens = c->shape.n_tokens;
  r->method = c->spec.method->name;
  r->revision = c->spec.method->revision;
  r->arithmetic = KV_ARITHMETIC;
  r->backend = "ref";
  r->budget = -1;
  r->achieved = NAN;
  if (!kv_spec_budget(c->spec.method)) {
    r->status = KV_CELL_FIXED;
    return;
  }
  r->status = KV_CELL_OK;
  r->budget = get_budget(&c->spec);
  r->basis = KV_BASIS_ENTRIES;
  if (!b) {
    snprintf(r->target, sizeof r->target, "%d", r->budget);
    return;
  }
  r->basis = b->basis;
  snprintf(r->target, sizeof r->target, "%s", b->target);
}

static kv_rc write_code(kv_cell *c, const char *hex, kv_err *e) {
  c->result.code = strdup(hex);
  return c->result.code ? KV_OK : kv_no_memory(e, "a row", 65);
}

/* The file of a plugin is its code; a method that was built in has a
 * revision. */
static kv_rc write_out(kv_cell *c, kv_err *e) {
  const char *code = kv_door_code(c->spec.method);
  if (code && write_code(c, code, e)) return KV_RESOURCE;
  c->result.params = kv_spec_json(&c->spec);
  c->result.spec = kv_spec_text(&c->spec);
  if (c->result.params && c->result.spec) return KV_OK;
  return kv_no_memory(e, "a row", sizeof c->result);
}

/* Reads the decisions that the method is to follow, and tells its params.
 * The file's bytes are the method's code, its name the row's. */
static kv_rc lend_decisions(kv_cell *c, kv_err *e) {
  const kv_method *m = c->spec.method;
  const char *path = kv_spec_decisions(&c->spec);
  if (!path || !*path) return KV_OK; /* open says what is missing */
  kv_digest code;
  kv_rc rc =
      kv_decisions_open(path, c->trace, c->shape.prompt_len, &c->decisions, e);
  if (!rc) rc = kv_file_digest(path, &code, e);
  if (rc) return rc;
  const kv_param *name = &m->params[kv_params_find(m->params, "name")];
  char *called = (char *)c->spec.params + name->offset;
  if (!*called) snprintf(called, KV_TEXT_MAX, "%s", c->decisions->name);
  const kv_decisions *lent = &c->decisions->decisions;
  memcpy((char *)c->spec.params + m->decisions, &lent, sizeof lent);
  char hex[65];
  kv_digest_hex(&code, hex);
  return write_code(c, hex, e);
}

kv_rc kv_cell_open(const kv_trace *trace, int prompt_len,
                   const kv_kernels *kernels, const kv_asked_cell *asked,
                   kv_cell *c, kv_err *e) {
  *c = (kv_cell){.trace = trace, .shape = trace->shape, .runs = true};
  if (prompt_len) c->shape.prompt_len = prompt_len;
  kv_rc rc = kv_spec_copy(asked->spec, &c->spec, e);
  if (rc) return rc;
  if (asked->entries >= 0 && kv_spec_wants_budget(&c->spec))
    set_budget(&c->spec, asked->entries);
  c->plan = (kv_plan){.shape = &c->shape,
                      .rope = &trace->rope,
                      .kernels = kernels,
                      .method = c->spec.method,
                      .params = c->spec.params};
  describe(c, asked);
  kv_err why = {0};
  rc = lend_decisions(c, &why);
  if (rc == KV_INPUT) rc = KV_REFUSED; /* this cell alone */
  if (!rc)
    rc = c->spec.method->open(&c->shape, c->spec.params, &c->plan.needs, &why);
  if (rc && rc != KV_REFUSED) return kv_fail(e, rc, "%s", why.text);
  if (rc)
    refuse(c, why.text);
  else
    check_trace(c);
  c->top = c->result.budget;
  c->blocks = 1;
  if (c->plan.needs.block)
    c->blocks =
        (c->shape.prompt_len + c->plan.needs.block - 1) / c->plan.needs.block;
  return write_out(c, e);
}

kv_rc kv_cell_prepare(kv_cell *c, bool fidelity, kv_err *e) {
  const kv_trace *t = c->trace;
  c->plan.logits = fidelity;
  int lanes = c->plan.needs.lanes == QUERY_HEAD ? c->shape.n_heads
                                                : c->shape.n_kv_heads;
  kv_rc rc =
      kv_cost_open(&c->shape, t->n_layers, lanes, c->blocks, &c->cost, e);
  c->digest = kv_zalloc((size_t)t->n_layers, sizeof *c->digest);
  if (!rc && !c->digest)
    rc = kv_no_memory(e, "digests", (size_t)t->n_layers * sizeof *c->digest);
  if (rc || !fidelity) return rc;
  int *layer = kv_zalloc((size_t)t->n_layers, sizeof *layer);
  kv_needle *needle = kv_zalloc((size_t)t->n_answers + 1, sizeof *needle);
  if (!layer || !needle) rc = kv_no_memory(e, "fidelity", sizeof *needle);
  for (int i = 0; !rc && i < t->n_layers; i++)
    layer[i] = t->layer[i].data.layer;
  for (int i = 0; !rc && i < t->n_answers; i++)
    needle[i] = (kv_needle){t->answer[i].start, t->answer[i].end,
                            t->answer[i].source_start, t->answer[i].source_end};
  if (!rc)
    rc = kv_fidelity_open(&c->shape, t->n_layers, layer, c->top, t->n_answers,
                          needle, &c->fidelity, e);
  free(layer);
  free(needle);
  return rc;
}

/* --- finish ------------------------------------------------------------- */

static double share(double part, double whole) {
  return whole > 0 ? 100 * part / whole : NAN;
}

double kv_cell_achieved(const kv_cell *c) {
  const kv_totals *t = &c->result.totals;
  const kv_shape *s = &c->shape;
  double row = (double)(s->d + s->d_v) * (double)kv_dtype_size(s->dtype) *
               s->n_kv_heads * c->trace->n_layers;
  bool views = c->spec.method->view && t->attended < t->kept;
  double entries = views ? t->attended : t->kept;
  double middle = (s->prompt_len + s->n_tokens) / 2.0;
  switch (c->result.basis) {
  case KV_BASIS_ENTRIES:
    return entries;
  case KV_BASIS_PROMPT:
    return share(entries, s->prompt_len);
  case KV_BASIS_END:
    return share((double)kv_bytes_total(&t->end), row * s->n_tokens);
  case KV_BASIS_MEAN:
    return share(t->mean, row * middle);
  case KV_BASIS_PEAK:
    return share((double)t->peak, row * s->n_tokens);
  case KV_BASIS_READ:
    return share(t->read, row * (s->prompt_len + 1 + s->n_tokens) / 2);
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
  kv_tree journal, state, output;
  kv_tree_begin(&journal);
  kv_tree_begin(&state);
  kv_tree_begin(&output);
  for (int i = 0; i < r->n_layers; i++) {
    const kv_layer_digests *d = &c->digest[i];
    kv_tree_leaf(&journal, &d->journal);
    kv_tree_leaf(&state, &d->state);
    kv_tree_leaf(&output, &d->output);
    r->layer[i] = (kv_layer_result){c->trace->layer[i].data.layer, d->journal,
                                    d->state, d->output};
  }
  r->journal = kv_tree_end(&journal);
  r->state = kv_tree_end(&state);
  r->output = kv_tree_end(&output);
  return KV_OK;
}

kv_rc kv_cell_finish(kv_cell *c, kv_err *e) {
  if (!kv_result_ran(&c->result)) return KV_OK;
  kv_rc rc = finish_layers(c, e);
  if (!rc && c->fidelity) rc = kv_fidelity_finish(c->fidelity, &c->result, e);
  if (!rc) rc = kv_cost_finish(c->cost, &c->result, e);
  c->result.seconds = c->seconds;
  c->result.achieved = kv_cell_achieved(c);
  return rc;
}

void kv_cell_close(kv_cell *c) {
  if (!c) return;
  kv_cost_close(c->cost);
  kv_fidelity_close(c->fidelity);
  kv_decisions_close(c->decisions);
  free(c->digest);
  kv_result_free(&c->result);
  kv_spec_free(&c->spec);
  *c = (kv_cell){0};
}
