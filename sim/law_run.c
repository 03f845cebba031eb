/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of whole runs.
 */
#include "sim/law_lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same(const kv_digest *a, const kv_digest *b) {
  return memcmp(a->byte, b->byte, sizeof a->byte) == 0;
}

/* --- full --------------------------------------------------------------- */

/* The specification with a budget of every token and the parameters that
 * lose nothing then. */
static kv_rc lossless(const kv_law_case *c, kv_spec *out, kv_err *e) {
  const kv_method *m = c->spec->method;
  char text[512];
  kv_spec over = {0};
  kv_rc rc = kv_spec_copy(c->spec, out, e);
  if (rc) return rc;
  const kv_param *budget = kv_spec_budget(m);
  if (budget) {
    int all = c->trace->shape.n_tokens;
    memcpy((char *)out->params + budget->offset, &all, sizeof all);
  }
  if (!m->lossless) return KV_OK;
  snprintf(text, sizeof text, "%s:%s", m->name, m->lossless);
  kv_registry *registry = kv_method_at;
  rc = kv_spec_parse(registry, text, &over, e);
  for (int i = 0; !rc && m->params[i].name; i++) {
    const kv_param *p = &m->params[i];
    size_t size = p->kind == KV_TEXT ? KV_TEXT_MAX : 4;
    if (over.given[i])
      memcpy((char *)out->params + p->offset,
             (const char *)over.params + p->offset, size);
  }
  kv_spec_free(&over);
  return rc;
}

kv_rc kv_law_full(const kv_law_case *c, kv_err *e) {
  kv_spec full = {0}, dense = {0};
  kv_cell a = {0}, b = {0};
  kv_law_case x = *c, y = *c;
  kv_law_how how = {.threads = 1};
  kv_rc rc = lossless(c, &full, e);
  if (!rc) rc = kv_spec_parse(kv_method_at, "dense", &dense, e);
  x.spec = &full;
  y.spec = &dense;
  x.entries = y.entries = -1;
  if (!rc) rc = kv_law_replay(&x, &how, &a, e);
  if (!rc) rc = kv_law_replay(&y, &how, &b, e);
  if (!rc && !same(&a.result.output, &b.result.output))
    rc = kv_fail(e, KV_DIFFERENT, "%s does not give the output of dense",
                 a.result.spec);
  kv_cell_close(&a);
  kv_cell_close(&b);
  kv_spec_free(&full);
  kv_spec_free(&dense);
  return rc;
}

/* --- repeat ------------------------------------------------------------- */

static kv_rc compare(const kv_result *a, const kv_result *b, int run,
                     kv_err *e) {
  const char *what = NULL;
  if (!same(&a->output, &b->output)) what = "output";
  if (!same(&a->state, &b->state)) what = "state";
  if (!same(&a->journal, &b->journal)) what = "journal";
  if (!what) return KV_OK;
  return kv_fail(e, KV_DIFFERENT, "run %d has another %s than run 0", run,
                 what);
}

kv_rc kv_law_repeat(const kv_law_case *c, kv_err *e) {
  enum { RUNS = 4 };
  kv_law_how how[RUNS] = {{.threads = 1},
                          {.threads = 1},
                          {.threads = 2, .by_steps = true},
                          {.threads = 3, .fidelity = true}};
  kv_cell cell[RUNS] = {{0}};
  kv_rc rc = kv_kernels_named("portable", &how[2].kernels, NULL, e);
  for (int i = 0; !rc && i < RUNS; i++) {
    rc = kv_law_replay(c, &how[i], &cell[i], e);
    if (!rc) rc = compare(&cell[0].result, &cell[i].result, i, e);
  }
  for (int i = 0; i < RUNS; i++) kv_cell_close(&cell[i]);
  return rc;
}

/* --- evidence ----------------------------------------------------------- */

/* Probabilities are made by the row kernel `scale` and by nothing else, so a
 * set of kernels that counts its calls counts rows. One thread, and one check
 * in a thread at a time. */
static _Thread_local int64_t rows;

static void count_scale(float r, int n, float *p) {
  rows++;
  kv_kernels_best()->scale(r, n, p);
}

typedef struct counts {
  int prompt_len;
  int64_t before, prompt, decode; /* rows until now; of the two phases */
} counts;

static void count_settled(void *self, int layer, int step,
                          const kv_lane *lane) {
  counts *n = self;
  (void)layer, (void)lane;
  if (step <= n->prompt_len)
    n->prompt += rows - n->before;
  else
    n->decode += rows - n->before;
  n->before = rows;
}

static void count_seen(void *self, int layer, int step, const kv_seen *seen) {
  counts *n = self;
  (void)layer, (void)step, (void)seen;
  n->decode += rows - n->before;
  n->before = rows;
}

static void count_finished(void *self, int layer, const kv_lane *lane) {
  count_seen(self, layer, 0, NULL);
  (void)lane;
}

/* Rows of the prompt and of decoding that the needs ask for. */
static counts asked_of(const kv_cell *cell) {
  const kv_needs *need = &cell->plan.needs;
  const kv_shape *s = &cell->shape;
  int64_t heads = (int64_t)s->n_heads * cell->trace->n_layers;
  bool wants = cell->plan.method->observe && need->want & (KV_P | KV_SUM);
  int p = s->prompt_len < need->prompt_rows ? s->prompt_len : need->prompt_rows;
  counts n = {0};
  if (wants) n.prompt = p * heads;
  if (wants && need->decode_rows)
    n.decode = (s->n_tokens - s->prompt_len) * heads;
  return n;
}

/* Where not every query row is recorded, recorded sums may stand in. */
static bool records_all(const kv_trace *t) {
  for (int i = 0; i < t->n_layers; i++)
    if (t->layer[i].data.rows) return false;
  return true;
}

kv_rc kv_law_evidence(const kv_law_case *c, kv_err *e) {
  kv_kernels counting = *kv_kernels_best();
  counts n = {.prompt_len =
                  c->prompt_len ? c->prompt_len : c->trace->shape.prompt_len};
  kv_watch watch = {.self = &n,
                    .settled = count_settled,
                    .seen = count_seen,
                    .finished = count_finished};
  kv_cell cell = {0};
  counting.scale = count_scale;
  rows = 0;
  kv_rc rc = kv_law_replay(
      c, &(kv_law_how){.kernels = &counting, .threads = 1, .watch = &watch},
      &cell, e);
  if (rc) goto out;
  counts asked = asked_of(&cell);
  bool decode = asked.decode ? n.decode >= asked.decode : n.decode == 0;
  bool prompt = records_all(c->trace) ? n.prompt == asked.prompt
                                      : n.prompt <= asked.prompt;
  if (!prompt || !decode)
    rc = kv_fail(e, KV_DIFFERENT,
                 "probabilities of %lld prompt and %lld decode rows; asked for "
                 "were %lld and %lld",
                 (long long)n.prompt, (long long)n.decode,
                 (long long)asked.prompt, (long long)asked.decode);
out:
  kv_cell_close(&cell);
  return rc;
}
