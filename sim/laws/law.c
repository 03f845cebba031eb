/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of whole runs, and the table of all laws: contract in sim/laws/law.h.
 */
#include "sim/laws/law_lane.h"
#include "traces/trace/trace.h"

#include "ref/lane/compose.h"
#include "sim/spec/param.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* kv_backend_cost counts everything, what views read as well. */
static kv_rc same_cost(const kv_result *seen, const kv_result *cost,
                       kv_err *e) {
  for (int i = 0; i < seen->n_steps; i++) {
    const kv_step_cost *a = &seen->step[i], *b = &cost->step[i];
    if (a->bytes == b->bytes && a->codes == b->codes && a->read == b->read)
      continue;
    return kv_fail(e, KV_DIFFERENT,
                   "step %d stores %" PRId64 " bytes and reads %" PRId64
                   "; with no output computed it stores %" PRId64
                   " and reads %" PRId64,
                   a->step, a->bytes, a->read, b->bytes, b->read);
  }
  if (seen->totals.peak == cost->totals.peak) return KV_OK;
  return kv_fail(e, KV_DIFFERENT,
                 "the peak is %" PRId64
                 " bytes, with no output computed %" PRId64,
                 seen->totals.peak, cost->totals.peak);
}

static kv_rc same_stored(const kv_result *seen, const kv_result *blind,
                         kv_err *e) {
  for (int i = 0; i < seen->n_steps; i++) {
    const kv_step_cost *a = &seen->step[i], *b = &blind->step[i];
    if (a->bytes == b->bytes && a->codes == b->codes) continue;
    return kv_fail(e, KV_DIFFERENT,
                   "step %d stores %" PRId64 " bytes, %" PRId64
                   " of them codes; with no query shown it stores %" PRId64
                   ", %" PRId64 ": needs.lengths must be false",
                   a->step, a->bytes, a->codes, b->bytes, b->codes);
  }
  if (seen->totals.peak == blind->totals.peak &&
      memcmp(&seen->totals.end, &blind->totals.end, sizeof(kv_bytes)) == 0)
    return KV_OK;
  return kv_fail(e, KV_DIFFERENT,
                 "the peak is %" PRId64 " bytes, with no query shown %" PRId64
                 ", or kinds of bytes differ: needs.lengths must be false",
                 seen->totals.peak, blind->totals.peak);
}

/* *out: the method declares needs.lengths with this budget. */
static kv_rc says_so(const kv_law_case *c, bool *out, kv_err *e) {
  kv_asked_cell asked = {.spec = c->spec, .entries = c->entries};
  kv_cell cell = {0};
  kv_rc rc = kv_cell_open(c->trace, c->prompt_len, kv_kernels_best(), &asked,
                          &cell, e);
  if (!rc && !cell.runs) rc = kv_fail(e, KV_REFUSED, "%s", cell.result.reason);
  *out = !rc && cell.plan.needs.lengths;
  kv_cell_close(&cell);
  return rc;
}

/* Replays the case by a backend of searches, which must say the same. */
static kv_rc
searched(const kv_law_case *c, const kv_backend *b, const kv_result *seen,
         kv_rc (*same)(const kv_result *, const kv_result *, kv_err *),
         kv_err *e) {
  kv_law_case as = *c;
  kv_law_how how = {.threads = 1};
  kv_cell cell = {0};
  as.backend = b;
  kv_rc rc = kv_law_replay(&as, &how, &cell, e);
  if (!rc) rc = same(seen, &cell.result, e);
  kv_cell_close(&cell);
  return rc;
}

kv_rc kv_law_lengths(const kv_law_case *c, const kv_law_run *first, kv_err *e) {
  kv_law_how how = {.threads = 1};
  kv_cell seen = {0};
  bool asked;
  (void)first;
  kv_rc rc = says_so(c, &asked, e);
  if (rc) return rc;
  rc = kv_law_replay(c, &how, &seen, e);
  if (!rc) rc = searched(c, &kv_backend_cost, &seen.result, same_cost, e);
  if (!rc && asked)
    rc = searched(c, &kv_backend_blind, &seen.result, same_stored, e);
  kv_cell_close(&seen);
  return rc;
}

/* --- run ----------------------------------------------------------------- */

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

/* --- law ----------------------------------------------------------------- */

/* A law either checks the replay that all such laws share, or makes its own. */
typedef struct rule {
  kv_law law;
  const kv_law_look *look;
  kv_law_check *check;
} rule;

static const rule list[] = {
    {{"tokens",
      "a lane is never empty, holds no token twice and none of the future, and "
      "no more entries than tokens seen"},
     &kv_law_tokens,
     NULL},
    {{"views",
      "a view is ascending maximal runs of live entries, of tokens up to the "
      "query's, and is what the journal says"},
     &kv_law_views,
     NULL},
    {{"weights",
      "weights are at least 1 and add up, with what was dropped, to the tokens "
      "seen; every token is a member of one entry, and members are as many as "
      "the weight says"},
     &kv_law_weights,
     NULL},
    {{"journal",
      "whoever carries out the records of the journal arrives at the lane that "
      "the store holds: ids, weights, formats, order"},
     &kv_law_journal,
     NULL},
    {{"bytes",
      "the ledger charges what the entries of the lane, their groups, columns "
      "and declared memory cost"},
     &kv_law_bytes,
     NULL},
    {{"full", "a budget of every token gives the output of dense to the bit"},
     NULL,
     kv_law_full},
    {{"repeat",
      "digests are the same again: other threads, other kernels, the other "
      "walk, with and without measures"},
     NULL,
     kv_law_repeat},
    {{"observation",
      "probabilities are computed for the prompt rows that were asked for, and "
      "at decode steps only if they were"},
     NULL,
     kv_law_observation},
    {{"lengths",
      "the replays of a search for bytes, which compute no output, store and "
      "read the same; so does who says that lengths decide, shown no query"},
     NULL,
     kv_law_lengths}};

enum { LAWS = sizeof list / sizeof *list };

const kv_law *kv_law_at(int index) {
  return index >= 0 && index < LAWS ? &list[index].law : NULL;
}

int kv_law_named(const char *name) {
  for (int i = 0; i < LAWS; i++)
    if (strcmp(list[i].law.name, name) == 0) return i;
  return -1;
}

kv_rc kv_law_open(const char *path, kv_trace **out, kv_err *e) {
  kv_rc rc = kv_trace_open(path, out, e);
  if (!rc) (*out)->shape.scale *= 0.25f;
  return rc;
}

/* Runs the laws that share a replay; *looked: there were any. */
static kv_rc look(const kv_law_case *c, uint32_t laws, int *broken,
                  bool *looked, kv_law_run *run, kv_err *e) {
  kv_law_look some[LAWS];
  int index[LAWS], n = 0, at;
  for (int i = 0; i < LAWS; i++)
    if (laws >> i & 1 && list[i].look) {
      some[n] = *list[i].look;
      index[n++] = i;
    }
  *looked = n > 0;
  if (n == 0) return KV_OK;
  kv_rc rc = kv_law_walk(c, n, some, &at, run, e);
  if (rc) *broken = index[at];
  return rc;
}

kv_rc kv_law_ask(const kv_law_case *c, uint32_t laws, int *broken, kv_err *e) {
  kv_law_run run;
  bool looked, held;
  kv_err why = {0}, no = {0};
  *broken = -1;
  kv_rc rc = look(c, laws, broken, &looked, &run, &why);
  held = looked;
  for (int i = 0; !rc && i < LAWS; i++)
    if (laws >> i & 1 && list[i].check) {
      rc = list[i].check(c, looked ? &run : NULL, &why);
      if (rc) *broken = i;
      held |= !rc;
      if (rc == KV_REFUSED) { /* only this law cannot be checked */
        no = why;
        rc = KV_OK;
      }
    }
  if (rc || held || !no.rc) return rc ? kv_fail(e, rc, "%s", why.text) : KV_OK;
  return kv_fail(e, KV_REFUSED, "%s", no.text);
}
