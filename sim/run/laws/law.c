/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of lanes and views at every step, for kv_law_walk, which checks all of
 * them in one replay; laws of whole runs; and the table of all laws. Contract
 * in sim/run/laws/law.h.
 */
#include "ref/lane/compose.h"
#include "sim/ask/param.h"
#include "sim/run/laws/law_walk.h"
#include "traces/trace/trace.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tokens ------------------------------------------------------------- */

static kv_rc tokens_hold(const kv_replica *s, const kv_lane *l, kv_err *e) {
  (void)s;
  if (l->n < 1) return kv_law_broken(l, e, "the lane is empty");
  if (l->n > l->step)
    return kv_law_broken(l, e, "%d entries of %d tokens", l->n, l->step);
  for (int i = 0; i < l->n; i++) {
    if (l->id[i] >= (uint32_t)l->step)
      return kv_law_broken(l, e, "token %u has not been seen", l->id[i]);
    for (int j = 0; j < i; j++)
      if (l->id[j] == l->id[i])
        return kv_law_broken(l, e, "token %u is stored twice", l->id[i]);
  }
  return KV_OK;
}

static const kv_law_look law_tokens = {.lane = tokens_hold};

/* --- views -------------------------------------------------------------- */

static kv_rc view_holds(const kv_lane *l, int h, const kv_view *v, int step,
                        kv_err *e) {
  int end = -1, sum = 0;
  for (int r = 0; r < v->runs; r++) {
    const kv_run *run = &v->run[r];
    if (run->count < 1 || run->first <= end)
      return kv_law_broken(l, e, "head %d: runs do not ascend, or touch", h);
    end = run->first + run->count;
    if (end > l->n)
      return kv_law_broken(l, e, "head %d sees entry %d of %d", h, end - 1,
                           l->n);
    for (int i = run->first; i < end; i++)
      if (l->id[i] >= (uint32_t)step)
        return kv_law_broken(l, e, "head %d sees token %u", h, l->id[i]);
    sum += run->count;
  }
  if (sum >= 1 && sum == v->entries) return KV_OK;
  return kv_law_broken(l, e, "head %d: a view of %d entries has %d", h,
                       v->entries, sum);
}

/* Reads the record at w; *next: the word after it. */
static bool is_recorded(const kv_lane *l, int h, const kv_view *v, int step,
                        const uint32_t *w, size_t *next) {
  size_t n = 2 * (size_t)v->runs;
  const uint32_t head[5] = {KV_VIEW, (uint32_t)l->data->layer, (uint32_t)step,
                            (uint32_t)(l->first_head + h), (uint32_t)n};
  if (*next + 5 + n > l->views.n) return false;
  bool same = memcmp(w + *next, head, sizeof head) == 0;
  for (size_t r = 0; r < (size_t)v->runs; r++)
    same = same && w[*next + 5 + 2 * r] == (uint32_t)v->run[r].first &&
           w[*next + 6 + 2 * r] == (uint32_t)v->run[r].count;
  *next += 5 + n;
  return same;
}

/* Does the view hold exactly the entries of the classes that are read? */
static bool is_by_class(const kv_lane *l, const kv_view *v) {
  int r = 0;
  for (int i = 0; i < l->n; i++) {
    while (r < v->runs && i >= v->run[r].first + v->run[r].count) r++;
    bool seen = r < v->runs && i >= v->run[r].first;
    if (seen == (l->needs->unread >> kv_class_of(l, i) & 1)) return false;
  }
  return true;
}

static kv_rc views_hold(const kv_seen *seen, int step, kv_err *e) {
  const kv_lane *l = seen->lane;
  size_t next = 0;
  for (int h = 0; h < seen->queries; h++) {
    kv_rc rc = view_holds(l, h, &seen->view[h], step, e);
    if (rc) return rc;
    if (l->needs->unread) {
      if (!is_by_class(l, &seen->view[h]))
        return kv_law_broken(l, e, "head %d: classes give another view", h);
    } else if (!is_recorded(l, h, &seen->view[h], step, l->views.word, &next))
      return kv_law_broken(l, e, "head %d: the journal has another view", h);
  }
  if (next == l->views.n) return KV_OK;
  return kv_law_broken(l, e, "the journal has more views than heads");
}

static const kv_law_look law_views = {.row = views_hold};

/* --- weights ------------------------------------------------------------ */

/* Number of members of entry i by the lane's lists; 0 if one belongs elsewhere.
 */
static uint32_t count_members(const kv_replica *s, const kv_lane *l, int i) {
  uint32_t n = 0, t = l->id[i];
  for (;; t = l->next[t]) {
    if (t >= (uint32_t)l->step || kv_replica_owner(s, t) != (int32_t)l->id[i])
      return 0;
    n++;
    if (t == l->last[i] || n > l->weight[i]) return n;
  }
}

static kv_rc weights_hold(const kv_replica *s, const kv_lane *l, kv_err *e) {
  int64_t sum = s->dropped;
  for (int i = 0; i < l->n; i++) {
    uint32_t members = l->last ? count_members(s, l, i) : 1;
    sum += l->weight[i];
    if (l->weight[i] < 1 || members != l->weight[i])
      return kv_law_broken(l, e, "token %u has weight %u and %u members",
                           l->id[i], l->weight[i], members);
  }
  if (sum == l->step) return KV_OK;
  return kv_law_broken(l, e, "weights and what was dropped add up to %lld",
                       (long long)sum);
}

static const kv_law_look law_weights = {.lane = weights_hold};

/* --- journal ------------------------------------------------------------ */

static kv_rc journal_holds(const kv_replica *s, const kv_lane *l, kv_err *e) {
  if (s->n != l->n)
    return kv_law_broken(l, e, "%d entries, %d by the journal", l->n, s->n);
  for (int i = 0; i < l->n; i++) {
    const kv_replica_entry *x = kv_replica_at(s, i);
    int k = l->k ? l->k[i].format : KV_RAW, v = l->v ? l->v[i].format : KV_RAW;
    if (x->id != l->id[i] || x->weight != l->weight[i])
      return kv_law_broken(l, e,
                           "entry %d: token %u of weight %u, by the journal "
                           "%u of %u",
                           i, l->id[i], l->weight[i], x->id, x->weight);
    if (x->format[KV_SIDE_K] != k || x->format[KV_SIDE_V] != v)
      return kv_law_broken(l, e,
                           "entry %d: formats %d, %d, by the journal "
                           "%d, %d",
                           i, k, v, x->format[KV_SIDE_K], x->format[KV_SIDE_V]);
    if (x->tier != kv_class_of(l, i))
      return kv_law_broken(l, e, "entry %d: class %d, by the journal %d", i,
                           kv_class_of(l, i), x->tier);
  }
  return KV_OK;
}

static const kv_law_look law_journal = {.lane = journal_holds};

/* --- bytes -------------------------------------------------------------- */

/* Adds entry i's bytes of one side. A group counts with its first live member.
 */
static void charge(const kv_replica *s, const kv_lane *l, int i, int side,
                   kv_bytes *sum) {
  const kv_replica_entry *x = kv_replica_at(s, i);
  int width = side == KV_SIDE_K ? l->shape->d : l->shape->d_v;
  int format = x->format[side];
  if (format == KV_RAW)
    sum->payload += width * (l->shape->dtype == KV_F32 ? 4 : 2);
  if (format == KV_MERGED)
    sum->payload +=
        width * (l->shape->dtype == KV_F32 || l->needs->merged == KV_MEANS_FP32
                     ? 4
                     : 2);
  if (format < KV_CODED) return;
  for (int j = 0; j < i; j++)
    if (kv_replica_at(s, j)->group[side] == x->group[side]) return;
  const kv_coding *c = &l->needs->coding[format - KV_CODED];
  int members = s->group[x->group[side]].members;
  kv_coded_size size =
      kv_coding_size(c, 2 * l->lane + (side == KV_SIDE_V),
                     2 * kv_lane_count(l->needs, l->shape), members, width);
  sum->payload += (int64_t)size.codes;
  sum->metadata += (int64_t)size.metadata;
}

/* Adds to the entry's class what entry i has added to `sum`. */
static void charge_class(const kv_replica *s, int i, const kv_bytes *before,
                         kv_bytes *sum) {
  *kv_bytes_of_tier(sum, kv_replica_at(s, i)->tier) +=
      sum->payload - before->payload + sum->metadata - before->metadata +
      sum->columns - before->columns;
}

/* Is V of entry i a part of its K, so that it takes no bytes of its own? */
static bool is_shared(const kv_replica *s, const kv_lane *l, int i) {
  const int16_t *format = kv_replica_at(s, i)->format;
  return l->shape->shared && format[KV_SIDE_K] == format[KV_SIDE_V] &&
         format[KV_SIDE_K] < KV_CODED;
}

/* Is it one run of tokens in a layer with a sliding window, so that no entry
 * needs a position? */
static bool is_run(const kv_replica *s, const kv_lane *l) {
  for (int i = 1; i < s->n; i++)
    if (kv_replica_at(s, i)->id != kv_replica_at(s, 0)->id + (uint32_t)i)
      return false;
  return l->data->window > 0;
}

static int64_t held_in(const kv_meta *m, int layer) {
  int last = layer > KV_BY_LAYER ? KV_BY_LAYER : layer;
  return m->in_layer ? m->in_layer[last] : (int64_t)m->bytes;
}

static kv_bytes cost_of(const kv_replica *s, const kv_lane *l) {
  const kv_needs *need = l->needs;
  int places = is_run(s, l) ? 0 : s->lost + s->gaps;
  kv_bytes sum = {0};
  for (int m = 0; m < need->metas; m++)
    if (need->meta[m].per == KV_PER_LANE ||
        (need->meta[m].per == KV_PER_LAYER && l->lane == 0))
      sum.side += held_in(&need->meta[m], l->data->layer);
  for (int i = 0; i < s->n; i++) {
    kv_bytes before = sum;
    charge(s, l, i, KV_SIDE_K, &sum);
    if (!is_shared(s, l, i)) charge(s, l, i, KV_SIDE_V, &sum);
    sum.metadata += 4 * (places + need->merges);
    sum.metadata += need->classes > 1 && !need->unread;
    for (int c = 0; c < need->columns; c++)
      sum.columns += need->column[c] == KV_INT64 ? 8 : 4;
    for (int m = 0; m < need->metas; m++)
      if (need->meta[m].per == KV_PER_ENTRY ||
          (need->meta[m].per == KV_PER_PAGE && i % need->meta[m].page == 0))
        sum.side += held_in(&need->meta[m], l->data->layer);
    if (need->classes > 1) charge_class(s, i, &before, &sum);
  }
  return sum;
}

static kv_rc bytes_hold(const kv_replica *s, const kv_lane *l, kv_err *e) {
  kv_bytes a = {0}, b = cost_of(s, l);
  kv_lane_bytes(l, &a);
  for (int i = 0; i < KV_N_BYTE_KINDS; i++) {
    int64_t held = kv_bytes_get(&a, i), cost = kv_bytes_get(&b, i);
    if (held != cost)
      return kv_law_broken(l, e, "%s is %lld bytes, and its entries cost %lld",
                           kv_byte_kind_at(i)->name, (long long)held,
                           (long long)cost);
  }
  return KV_OK;
}

static const kv_law_look law_bytes = {.lane = bytes_hold};

/* Laws of whole runs make their own replays. first: the digests of the case on
 * one thread with the best kernels, or NULL if they do not exist. KV_OK: it
 * holds; KV_DIFFERENT: it is broken, e says how; KV_REFUSED: it cannot be
 * checked on this case; other codes: the check failed. */
typedef kv_rc kv_law_check(const kv_law_case *c, const kv_law_run *first,
                           kv_err *e);

/* --- lengths ------------------------------------------------------------- */

/* kv_backend_cost counts everything, including what views read. */
static kv_rc same_cost(const kv_result *seen, const kv_result *cost,
                       kv_err *e) {
  for (int i = 0; i < seen->n_steps; i++) {
    const kv_step_cost *a = &seen->step[i], *b = &cost->step[i];
    if (a->bytes == b->bytes && a->codes == b->codes && a->read == b->read)
      continue;
    return kv_fail(e, KV_DIFFERENT,
                   "step %d stores %" PRId64 " bytes and reads %" PRId64
                   ", but %" PRId64 " and %" PRId64
                   " when no output is computed",
                   a->step, a->bytes, a->read, b->bytes, b->read);
  }
  if (seen->totals.peak == cost->totals.peak) return KV_OK;
  return kv_fail(e, KV_DIFFERENT,
                 "the peak is %" PRId64 " bytes, but %" PRId64
                 " when no output is computed",
                 seen->totals.peak, cost->totals.peak);
}

static kv_rc same_stored(const kv_result *seen, const kv_result *blind,
                         kv_err *e) {
  for (int i = 0; i < seen->n_steps; i++) {
    const kv_step_cost *a = &seen->step[i], *b = &blind->step[i];
    if (a->bytes == b->bytes && a->codes == b->codes) continue;
    return kv_fail(e, KV_DIFFERENT,
                   "step %d stores %" PRId64 " bytes, %" PRId64
                   " of them codes, but %" PRId64 " and %" PRId64
                   " when no query is shown; needs.lengths must be false",
                   a->step, a->bytes, a->codes, b->bytes, b->codes);
  }
  if (seen->totals.peak == blind->totals.peak &&
      memcmp(&seen->totals.end, &blind->totals.end, sizeof(kv_bytes)) == 0)
    return KV_OK;
  return kv_fail(e, KV_DIFFERENT,
                 "the peak is %" PRId64 " bytes, but %" PRId64
                 " when no query is shown, or kinds of bytes differ; "
                 "needs.lengths must be false",
                 seen->totals.peak, blind->totals.peak);
}

/* *out: does the method declare needs.lengths with this budget? */
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

/* Replays the case with a backend of searches; the result must be the same. */
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

static kv_rc law_lengths(const kv_law_case *c, const kv_law_run *first,
                         kv_err *e) {
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

/* The specification with a budget of all tokens and lossless parameters. */
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

static kv_rc law_full(const kv_law_case *c, const kv_law_run *first,
                      kv_err *e) {
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
    rc = kv_fail(
        e, KV_DIFFERENT,
        "with a budget of every token, %s differs from the output of dense",
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
  return kv_fail(e, KV_DIFFERENT, "run %d differs from run 0 in its %s", run,
                 what);
}

/* Compares runs that differ in kernels, threads and walk with the first one. If
 * there is none, makes two equal ones, and compares these, too. */
static kv_rc law_repeat(const kv_law_case *c, const kv_law_run *first,
                        kv_err *e) {
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

/* In ref, only the row kernels `scale` and `fix_rows` compute probabilities, so
 * a kernel set that counts their rows counts all; other backends report their
 * own count. One thread, and one check in a thread at a time. */
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

/* Prompt rows of a head that are shown if the last `most` are requested. */
static int64_t prompt_shown(const kv_shape *s, int most) {
  int64_t shown = 0;
  kv_shape now = *s; /* ends its prompt with the chunk */
  int size = s->chunk ? s->chunk : s->prompt_len;
  for (int first = 0; first < s->prompt_len; first += size) {
    bool last = size >= s->prompt_len - first;
    now.prompt_len = last ? s->prompt_len : first + size;
    shown += now.prompt_len - kv_chunk_shown(&now, most, first);
  }
  return shown;
}

/* Rows of the prompt and of decoding that the needs request. by_kernels: also
 * counts the rows for `future`: every decode row, once before the first
 * compression and once more when it is past. */
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

/* Is every query row recorded? Otherwise recorded sums may replace rows. */
static bool records_all(const kv_trace *t) {
  for (int i = 0; i < t->n_layers; i++)
    if (t->layer[i].data.rows) return false;
  return true;
}

static kv_rc law_observation(const kv_law_case *c, const kv_law_run *first,
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
                 "the method got probabilities of %lld prompt rows and %lld "
                 "decode rows but declared %lld and %lld",
                 (long long)n.prompt, (long long)n.decode,
                 (long long)asked.prompt, (long long)asked.decode);
out:
  kv_cell_close(&cell);
  return rc;
}

/* --- all laws ------------------------------------------------------------ */

/* A law either checks the replay that all such laws share, or makes its own. */
typedef struct rule {
  kv_law law;
  const kv_law_look *look;
  kv_law_check *check;
} rule;

static const rule list[] = {
    {{"tokens", "a lane is never empty, has no token twice and none of the "
                "future, and no more entries than tokens seen"},
     &law_tokens,
     NULL},
    {{"views", "a view is ascending maximal runs of live entries, of tokens up "
               "to the query's, and matches the journal"},
     &law_views,
     NULL},
    {{"weights", "weights are at least 1 and add up, with dropped tokens, to "
                 "the tokens seen; every token is a member of one entry, and "
                 "an entry has as many members as its weight"},
     &law_weights,
     NULL},
    {{"journal", "replaying the journal gives the lane that the store holds: "
                 "ids, weights, formats, order"},
     &law_journal,
     NULL},
    {{"bytes", "the ledger charges what the lane's entries, groups, columns "
               "and declared memory cost"},
     &law_bytes,
     NULL},
    {{"full", "a budget of every token gives dense's output to the bit"},
     NULL,
     law_full},
    {{"repeat", "digests do not change with threads, kernels, the other walk, "
                "or measures"},
     NULL,
     law_repeat},
    {{"observation",
      "probabilities are computed for the prompt rows that the method "
      "declares, and at decode steps only if it declares them"},
     NULL,
     law_observation},
    {{"lengths",
      "a search for bytes, which computes no output, stores and reads the "
      "same; so does a method that says lengths decide, shown no query"},
     NULL,
     law_lengths}};

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

/* Runs the laws that share a replay; *looked: were there any? */
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
