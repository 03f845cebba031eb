/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of whole runs.
 */
#include "sim/laws/law_lane.h"

#include "ref/lane/compose.h"
#include "sim/spec/param.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same(const kv_digest *a, const kv_digest *b) {
  return memcmp(a->byte, b->byte, sizeof a->byte) == 0;
}

/* --- full --------------------------------------------------------------- */

/* The parameters with which the method declares that it loses nothing, as a
 * specification; false: none declared. */
static bool lossless_text(const kv_method *m, size_t size, char *text) {
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS], n = 0;
  int parts = kv_parts_of(m, part, offset);
  bool any = false;
  for (int i = 0; i < parts; i++) {
    const char *own = part[i]->lossless;
    n += (size_t)snprintf(text + n, size - n, "%s%s%s%s", i ? "+" : "",
                          part[i]->name, own ? ":" : "", own ? own : "");
    any |= own != NULL;
  }
  return any;
}

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
  if (m->lossless && !*m->lossless)
    return kv_fail(e, KV_REFUSED, "%s loses something whatever its parameters",
                   m->name);
  if (!lossless_text(m, sizeof text, text)) return KV_OK;
  kv_registry *registry = kv_method_at;
  rc = kv_spec_parse(registry, text, &over, e);
  for (int i = 0; !rc && m->params[i].name; i++) {
    const kv_param *p = &m->params[i];
    size_t size = kv_param_size(p->kind);
    if (over.given[i])
      memcpy((char *)out->params + p->offset,
             (const char *)over.params + p->offset, size);
  }
  kv_spec_free(&over);
  return rc;
}

static kv_rc output_of(const kv_law_case *c, const kv_spec *spec,
                       kv_digest *out, kv_err *e) {
  kv_law_case x = *c;
  kv_law_how how = {.threads = 1};
  kv_cell cell = {0};
  x.spec = spec;
  x.entries = -1;
  kv_rc rc = kv_law_replay(&x, &how, &cell, e);
  if (!rc) *out = cell.result.output;
  kv_cell_close(&cell);
  return rc;
}

kv_rc kv_law_dense(const kv_law_case *c, kv_digest *out, kv_err *e) {
  kv_spec dense = {0};
  kv_rc rc = kv_spec_parse(kv_method_at, "dense", &dense, e);
  if (!rc) rc = output_of(c, &dense, out, e);
  kv_spec_free(&dense);
  return rc;
}

kv_rc kv_law_full(const kv_law_case *c, const kv_law_run *first, kv_err *e) {
  kv_spec full = {0};
  kv_digest a, dense;
  (void)first;
  kv_rc rc = lossless(c, &full, e);
  if (!rc) rc = output_of(c, &full, &a, e);
  if (c->dense)
    dense = *c->dense;
  else if (!rc)
    rc = kv_law_dense(c, &dense, e);
  if (!rc && !same(&a, &dense))
    rc = kv_fail(e, KV_DIFFERENT,
                 "%s, given every token, does not give the output of dense",
                 c->spec->method->name);
  kv_spec_free(&full);
  return rc;
}

/* --- repeat ------------------------------------------------------------- */

static kv_rc compare(const kv_law_run *a, const kv_law_run *b, int run,
                     kv_err *e) {
  const char *what = NULL;
  if (!same(&a->output, &b->output)) what = "output";
  if (!same(&a->state, &b->state)) what = "state";
  if (!same(&a->journal, &b->journal)) what = "journal";
  if (!what) return KV_OK;
  return kv_fail(e, KV_DIFFERENT, "run %d has another %s than run 0", run,
                 what);
}

/* Compares runs that differ in kernels, threads and walk with the first one. If
 * that was not made, two equal ones are made here, and compared too. */
kv_rc kv_law_repeat(const kv_law_case *c, const kv_law_run *first, kv_err *e) {
  enum { RUNS = 4, OTHERS = 2 };
  kv_law_how how[RUNS] = {{.threads = 1},
                          {.threads = 1},
                          {.threads = 2, .by_steps = true},
                          {.threads = 3, .fidelity = true}};
  kv_law_run run[RUNS];
  kv_rc rc = kv_kernels_named("portable", &how[2].kernels, NULL, e);
  if (first) run[0] = *first;
  for (int i = first ? OTHERS : 0; !rc && i < RUNS; i++) {
    kv_cell cell = {0};
    rc = kv_law_replay(c, &how[i], &cell, e);
    run[i] = kv_law_run_of(&cell);
    if (!rc) rc = compare(&run[0], &run[i], i, e);
    kv_cell_close(&cell);
  }
  return rc;
}

/* --- observation --------------------------------------------------------- */

/* In ref, probabilities are computed by the row kernels `scale` and `fix_rows`
 * and nothing else, so a kernel set that counts their rows counts all; other
 * backends report their own count. One thread, and one check in a thread at a
 * time. */
static _Thread_local int64_t rows;

static void count_scale(float r, int n, float *p) {
  rows++;
  kv_kernels_best()->scale(r, n, p);
}

static void count_rows(int m, int n, const float *e, size_t lde, const float *r,
                       int64_t *acc) {
  rows += m;
  kv_kernels_best()->fix_rows(m, n, e, lde, r, acc);
}

static int64_t rows_scaled(void) { return rows; }

typedef struct counts {
  int prompt_len;
  int64_t (*now)(void);
  int64_t before, prompt, decode; /* rows so far; rows of the two phases */
} counts;

static void count_compressed(void *self, int layer, int step,
                             const kv_lane *lane) {
  counts *n = self;
  (void)layer, (void)lane;
  int64_t now = n->now();
  if (step <= n->prompt_len)
    n->prompt += now - n->before;
  else
    n->decode += now - n->before;
  n->before = now;
}

static void count_seen(void *self, int layer, int step, const kv_seen *seen) {
  counts *n = self;
  int64_t now = n->now();
  (void)layer, (void)step, (void)seen;
  n->decode += now - n->before;
  n->before = now;
}

static void count_finished(void *self, int layer, const kv_lane *lane) {
  count_seen(self, layer, 0, NULL);
  (void)lane;
}

/* Prompt rows a head that are shown where the last `most` are asked for. */
static int64_t prompt_shown(const kv_shape *s, int most) {
  int64_t shown = 0;
  kv_shape now = *s; /* whose prompt ends with the chunk */
  int size = s->chunk ? s->chunk : s->prompt_len;
  for (int first = 0; first < s->prompt_len; first += size) {
    bool last = size >= s->prompt_len - first;
    now.prompt_len = last ? s->prompt_len : first + size;
    shown += now.prompt_len - kv_chunk_shown(&now, most, first);
  }
  return shown;
}

/* Rows of the prompt and of decoding that the needs ask for. by_kernels: those
 * are counted, too, of which `future` is made: every decode row, before the
 * first compression, and once more when it has gone by. */
static counts asked_of(const kv_cell *cell, bool by_kernels) {
  const kv_needs *need = &cell->plan.needs;
  const kv_shape *s = &cell->shape;
  int layers = 0;
  for (int i = 0; i < cell->trace->n_layers; i++)
    layers += !kv_cell_leaves(cell, i);
  int64_t heads = (int64_t)s->n_heads * layers;
  bool wants = cell->plan.method->observe && need->want & (KV_P | KV_SUM);
  counts n = {0};
  if (wants) n.prompt = prompt_shown(s, need->prompt_rows) * heads;
  if (wants && need->decode_rows)
    n.decode = (s->n_tokens - s->prompt_len) * heads;
  if (need->future && by_kernels) {
    n.prompt += (s->n_tokens - s->prompt_len) * heads;
    n.decode += (s->n_tokens - s->prompt_len) * heads;
  }
  return n;
}

/* True if every query row is recorded; otherwise recorded sums may replace
 * rows. */
static bool records_all(const kv_trace *t) {
  for (int i = 0; i < t->n_layers; i++)
    if (t->layer[i].data.rows) return false;
  return true;
}

kv_rc kv_law_observation(const kv_law_case *c, const kv_law_run *first,
                         kv_err *e) {
  kv_kernels counting = *kv_kernels_best();
  counts n = {.prompt_len =
                  c->prompt_len ? c->prompt_len : c->trace->shape.prompt_len,
              .now = c->rows ? c->rows : rows_scaled};
  kv_watch watch = {.self = &n,
                    .compressed = count_compressed,
                    .seen = count_seen,
                    .finished = count_finished};
  kv_cell cell = {0};
  (void)first;
  counting.scale = count_scale;
  counting.fix_rows = count_rows;
  n.before = n.now();
  kv_rc rc = kv_law_replay(
      c, &(kv_law_how){.kernels = &counting, .threads = 1, .watch = &watch},
      &cell, e);
  if (rc) goto out;
  counts asked = asked_of(&cell, !c->rows);
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
