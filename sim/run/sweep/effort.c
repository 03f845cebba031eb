/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting a cell's work from its shape and needs: sim/run/sweep/effort.h. Rows
 * and lanes grow while a trace is replayed; the counts use their means over the
 * steps. Products saturate, so that no shape overflows.
 */
#include "sim/run/sweep/effort.h"

#include "ref/lane/compose.h"
#include "sim/run/sweep/batch.h"
#include <assert.h>

/* Picoseconds a unit, from the fit that sim/run/README.md describes. */
static const int64_t price[KV_EFFORTS] = {
    [KV_EFFORT_CELL] = 3400000000, [KV_EFFORT_BYTE] = 1000,
    [KV_EFFORT_PRODUCT] = 10,      [KV_EFFORT_EXACT] = 2000,
    [KV_EFFORT_LOGS] = 10000,      [KV_EFFORT_ROW] = 3500,
    [KV_EFFORT_HEAD] = 300000,     [KV_EFFORT_LANE] = 6800000,
    [KV_EFFORT_VIEW] = 10000,      [KV_EFFORT_GAP] = 200,
    [KV_EFFORT_OWN] = 30000,       [KV_EFFORT_STORED] = 700,
    [KV_EFFORT_RANK] = 6000,       [KV_EFFORT_BOUND] = 50,
    [KV_EFFORT_TURN] = 1200,       [KV_EFFORT_SEEN] = 3700,
    [KV_EFFORT_COMPRESS] = 40000,  [KV_EFFORT_DECODE] = 100};

/* --- integers that do not overflow -------------------------------------- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t plus(int64_t a, int64_t b) {
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t times(int64_t a, int64_t b) {
  return b > 0 && a > INT64_MAX / b ? INT64_MAX : a * b;
}

static void add(kv_effort *x, kv_effort_kind kind, int64_t a, int64_t b,
                int64_t c) {
  assert(a >= 0 && b >= 0 && c >= 0 && "counts are not negative");
  x->n[kind] = plus(x->n[kind], times(times(a, b), c));
}

int64_t kv_effort_cost(const kv_effort *x) {
  int64_t sum = 0;
  for (int i = 0; i < KV_EFFORTS; i++)
    sum = plus(sum, times(x->n[i], price[i]));
  return least(sum / 1000000, KV_EFFORT_MOST);
}

/* --- a cell on one layer ------------------------------------------------ */

/* What decides the counts; entries are means over the decode steps. */
typedef struct scene {
  const kv_needs *needs;
  const kv_method *method;
  int64_t prompt, steps; /* tokens of the prompt; decode steps */
  int64_t heads, lanes;  /* query heads and lanes of the layer */
  int64_t d, d_v;
  int64_t budget;                  /* entries; all tokens without a budget */
  int64_t exact, stored, attended; /* entries of a row, a lane and a view */
  int64_t blocks, in_block;        /* of the prompt; entries of a lane then */
  bool picks;                      /* is a view less than what is stored? */
  bool views;                      /* do heads have views of their own? */
  bool as_dense;                   /* does it attend every token as recorded? */
} scene;

/* Does the method choose? On layers below its first, all is attended. */
static bool chooses(const scene *s, int layer) {
  for (int i = 0; i < s->needs->metas; i++)
    if (layer < s->needs->meta[i].from_layer) return false;
  return true;
}

/* Steps between two compressions of the method that selects, the first of two
 * on a lane; 0: none. */
static int every(const kv_plan *plan) {
  kv_method_part part[KV_MOST_PARTS];
  kv_parts_opened(plan->method, plan->params, &plan->needs, part);
  return part[0].needs->every;
}

/* Methods with a view and no compression keep everything; those that compress
 * at steps keep their budget; others keep it when the prompt ends, then grow.
 * The size of a view that follows the mass, not a number, is a guess. */
static void look(const kv_cell *c, int layer, scene *s) {
  const kv_plan *plan = kv_cell_plan(c, layer);
  const kv_shape *shape = &c->shape;
  int window = c->trace->layer[layer].data.window;
  int entries = kv_cell_entries(c, layer);
  if (window && (kv_cell_leaves(c, layer) || entries >= window))
    entries = window - 1;
  int rhythm = every(plan);
  *s = (scene){.needs = &plan->needs,
               .method = plan->method,
               .prompt = shape->prompt_len,
               .steps = shape->n_tokens - shape->prompt_len,
               .heads = shape->n_heads,
               .lanes = kv_lane_count(&plan->needs, shape),
               .d = shape->d,
               .d_v = shape->d_v,
               .blocks = c->blocks};
  s->exact = s->prompt + (s->steps + 1) / 2;
  if (window) s->exact = least(s->exact, window - 1);
  s->budget = entries >= 0 ? entries : shape->n_tokens;
  int number = c->trace->layer[layer].data.layer;
  bool keeps = plan->method->view && !rhythm;
  if (keeps)
    s->stored = s->exact;
  else if (rhythm)
    s->stored = least(s->budget + rhythm / 2, s->exact);
  else
    s->stored = least(least(s->budget, s->prompt) + s->steps / 2, s->exact);
  s->attended = s->stored;
  s->views = plan->method->view && (rhythm || chooses(s, number));
  s->picks = keeps && s->views;
  if (s->picks)
    s->attended = entries >= 0 ? least(s->budget, s->stored) : s->stored / 8;
  s->in_block = least(s->budget, (s->prompt + 1) / 2);
  s->as_dense = !s->picks && s->stored == s->exact && !plan->needs.codings &&
                !plan->needs.merges && !plan->needs.reindex;
}

/* Query rows of the prompt that the method observes; 0: none. */
static int64_t rows_of(const kv_cell *c, const scene *s) {
  if (!s->method->observe || c->plan.colsum) return 0;
  return least(s->needs->prompt_rows, s->prompt);
}

/* --- decoding ----------------------------------------------------------- */

static void count_attention(const scene *s, kv_effort *x) {
  int64_t rows = times(s->steps, s->heads), lanes = times(s->steps, s->lanes);
  add(x, KV_EFFORT_HEAD, rows, 1, 1);
  add(x, KV_EFFORT_LANE, lanes, 1, 1);
  add(x, KV_EFFORT_PRODUCT, rows, s->attended, s->d_v);
  if (s->needs->reindex) {
    add(x, KV_EFFORT_TURN, lanes, s->attended, s->d);
    add(x, KV_EFFORT_PRODUCT, rows, s->attended, s->d);
  }
  if (s->needs->codings)
    add(x, KV_EFFORT_DECODE, lanes, s->stored, s->d + s->d_v);
}

static void count_measures(const scene *s, kv_effort *x) {
  int64_t rows = times(s->steps, s->heads);
  if (s->as_dense) return;
  add(x, KV_EFFORT_VIEW, rows, s->attended, 1);
  add(x, KV_EFFORT_GAP, rows, s->exact, 1);
}

static void count_view(const scene *s, kv_effort *x) {
  int64_t rows = times(s->steps, s->heads);
  int page = kv_needs_page(s->needs);
  if (!s->views) return;
  add(x, KV_EFFORT_OWN, rows, s->attended, 1);
  add(x, KV_EFFORT_STORED, rows, s->stored, 1);
  if (!s->picks) return;
  if (s->needs->view_logits) add(x, KV_EFFORT_RANK, rows, s->stored, 1);
  if (page) add(x, KV_EFFORT_BOUND, rows, s->stored / page + 1, s->d);
}

/* --- compression and the prompt ------------------------------------------ */

static void count_compression(const scene *s, kv_effort *x) {
  const kv_needs *n = s->needs;
  int64_t often = n->every ? times(s->steps / n->every, s->lanes) : 0;
  int64_t over = s->prompt > s->budget ? s->prompt - s->budget : 0;
  if (n->decode_rows) add(x, KV_EFFORT_SEEN, s->steps, s->heads, s->stored);
  add(x, KV_EFFORT_COMPRESS, often, s->stored, 1);
  if (n->future) { /* coming rows are added, and later subtracted */
    add(x, KV_EFFORT_PRODUCT, times(2 * s->steps, s->heads), s->exact, s->d);
    add(x, KV_EFFORT_SEEN, 2 * s->steps, s->heads, s->exact);
  }
  if (!n->merges) return;
  add(x, KV_EFFORT_PRODUCT, often, s->stored, s->d);
  if (!n->block)
    add(x, KV_EFFORT_PRODUCT, times(over, s->lanes), s->budget, s->d);
}

/* A prompt that enters at once compresses once. If it enters in blocks, its
 * observation is the cell's own. */
static void count_prompt(const kv_cell *c, const scene *s, kv_effort *x) {
  int64_t lanes = times(s->blocks, s->lanes), rows = rows_of(c, s);
  bool alone = s->needs->block || s->needs->reindex;
  int64_t seen = s->needs->block ? s->in_block : s->prompt - rows / 2;
  if (s->needs->want & KV_P) add(x, KV_EFFORT_SEEN, rows, s->heads, seen);
  if (alone && s->needs->want & KV_LOGITS)
    add(x, KV_EFFORT_PRODUCT, times(rows, s->heads), seen, s->d);
  if (!s->needs->block) {
    add(x, KV_EFFORT_COMPRESS, s->lanes, s->prompt, 1);
    return;
  }
  add(x, KV_EFFORT_LANE, lanes, 1, 1);
  add(x, KV_EFFORT_COMPRESS, lanes, s->in_block, 1);
  if (s->needs->merges) add(x, KV_EFFORT_PRODUCT, lanes, s->in_block, s->d);
}

void kv_effort_cell(const kv_cell *c, kv_effort *x) {
  *x = (kv_effort){{0}};
  add(x, KV_EFFORT_CELL, 1, 1, 1);
  for (int i = 0; i < c->trace->n_layers; i++) {
    scene s;
    look(c, i, &s);
    count_attention(&s, x);
    count_measures(&s, x);
    count_view(&s, x);
    count_compression(&s, x);
    count_prompt(c, &s, x);
  }
}

/* --- what cells share --------------------------------------------------- */

static void add_rows(int64_t rows, const scene *s, kv_effort *x) {
  int64_t seen = times(times(rows, s->heads), s->prompt - rows / 2);
  if (!(s->needs->want & KV_LOGITS)) return;
  add(x, KV_EFFORT_ROW, seen, 1, 1);
  add(x, KV_EFFORT_PRODUCT, seen, s->d, 1);
}

/* The prompt's observation, unless it is the cell's own. */
static void count_rows(const kv_cell *c, const scene *s, kv_effort *x) {
  if (!s->needs->block && !s->needs->reindex) add_rows(rows_of(c, s), s, x);
}

void kv_effort_shared(const kv_cell *c, kv_effort *x) {
  *x = (kv_effort){{0}};
  for (int i = 0; i < c->trace->n_layers; i++) {
    scene s;
    look(c, i, &s);
    count_rows(c, &s, x);
    if (!s.as_dense)
      add(x, KV_EFFORT_LOGS, times(s.steps, s.heads), s.exact, 1);
  }
}

void kv_effort_trace(const kv_trace *t, int prompt_len, kv_effort *x) {
  const kv_shape *s = &t->shape;
  int64_t prompt = prompt_len ? prompt_len : s->prompt_len;
  int64_t steps = s->n_tokens - prompt;
  int64_t kept = times(s->n_tokens, (s->d + s->d_v) * (int64_t)s->n_kv_heads);
  int64_t exact = times(times(steps, s->n_heads), prompt + (steps + 1) / 2);
  *x = (kv_effort){{0}};
  for (int i = 0; i < t->n_layers; i++) {
    int64_t asked = times(t->layer[i].data.n_rows, s->d * (int64_t)s->n_heads);
    add(x, KV_EFFORT_BYTE, plus(kept, asked), (int64_t)kv_dtype_size(s->dtype),
        1);
    add(x, KV_EFFORT_EXACT, exact, 1, 1);
    add(x, KV_EFFORT_PRODUCT, exact, s->d + s->d_v, 1);
  }
}

/* --- a probe of a search ------------------------------------------------ */

/* A probe has neither measures nor exact rows, and no attention if lengths
 * decide what is stored. */
void kv_effort_probe(const kv_cell *c, kv_basis basis, kv_effort *x) {
  bool blind = kv_batch_blind(&c->plan, basis);
  *x = (kv_effort){{0}};
  for (int i = 0; i < c->trace->n_layers; i++) {
    scene s;
    look(c, i, &s);
    int64_t rows = times(s.steps, s.heads);
    count_compression(&s, x);
    if (blind) {
      add(x, KV_EFFORT_LANE, times(s.steps, s.lanes), 1, 1);
      continue;
    }
    count_rows(c, &s, x);
    count_attention(&s, x);
    count_view(&s, x);
    count_prompt(c, &s, x);
    if (!s.needs->codings && !s.needs->reindex)
      add(x, KV_EFFORT_PRODUCT, rows, s.attended, s.d);
  }
}
