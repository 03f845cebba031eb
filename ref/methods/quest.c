/* SPDX-License-Identifier: Apache-2.0
 *
 * Quest: attends the pages whose bounding boxes promise the largest logits for
 * the query.
 *
 *   every token that enters, from the prompt on: its page (by its index in the
 *     lane) widens its box, in the trace's type (arithmetic 2):
 *     lo[x] = min(lo[x], k[x]), hi[x] = max(hi[x], k[x])
 *   every decode step, for every query head, layers >= skip, N pages:
 *     U(page) = sum over x of max(q[x] * lo[x], q[x] * hi[x])  >= any q . k
 *               (arithmetic 5)
 *     share=group_sum, group_max: the query heads of the KV head share one
 *       choice, by the sum of U in the heads' order, each addition rounded, or
 *       by the largest U
 *     rule=engine:   everything if budget >= n; else the last page and the best
 *                    max(1, budget div page) - 1 of the others
 *     rule=paper:    the best min(N, max(3, min(n, budget) div page)) of all
 *     rule=twilight: the best min(N, ceil(budget / page)) of all
 *     attend the tokens of the chosen pages
 *
 * Tang et al. 2024, Quest: Query-Aware Sparsity for Efficient Long-Context LLM
 * Inference. The authors have two programs:
 * - The engine counts the last, possibly partial page in the budget and always
 *   attends it: the default. It counts pages, so if the budget is no multiple
 *   of `page`, it also selects in texts of n <= budget that begin one page
 *   more. Here such texts are attended whole.
 * - The evaluation code, the source of the paper's numbers, takes at least
 *   three pages and does not force the last. So it may miss the current token,
 *   and it selects in a short text even below its budget: rule=paper. Its layer
 *   count exempts the wrong layers of models that do not have 32. Here `skip`
 *   counts the model's first layers, as the paper says.
 *
 * Twilight's authors have a copy that rounds up and forces no page. Sharing by
 * group is from the sparse-frontier code. Everything stays stored. Each started
 * page is charged two rows of K, in skipped layers too, as the engine holds
 * them. Boxes have the layout of the kernel box_bound: tiles of 16.
 *
 * Family: read. Acts: every step. Needs: the query before attention; bounds of
 * pages. Bound: t stored; attended from `skip` on: engine max(B, page), paper
 * max(B, 3 page), twilight B rounded up to pages. Bytes: t R + 2 d e for each
 * page. Gather: a page of keys. Reduce: bound of q k over the page, given to
 * all of it. Sample: top-k of pages. Cost: O(d) a token; O(d * n / page) a
 * query head and step (with sharing, a lane's query heads each compute the
 * group's sum).
 */
#include "ref/methods/quest.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static int pages_of(int n, int page) { return (n + page - 1) / page; }

/* Bytes of one side of all boxes. */
static size_t side_bytes(const kv_shape *s, int page) {
  int tiles = (pages_of(s->n_tokens, page) + TILE - 1) / TILE;
  return (size_t)tiles * TILE * (size_t)s->d * kv_dtype_size(s->dtype);
}

/* Lanes of at most so many entries attend every page and read no bound. */
static int attended_whole(const params *o) {
  if (o->rule == PAPER) return PAPER_PAGES * o->page;
  if (o->rule == TWILIGHT) return pages_of(o->budget, o->page) * o->page;
  return o->budget > o->page ? o->budget : o->page;
}

/* Most entries that a head attends if it does not attend all. */
static int attended_most(const params *o) {
  int whole = attended_whole(o);
  return o->rule == PAPER && o->budget > whole ? o->budget : whole;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  size_t bounds = 2 * (size_t)shape->d * kv_dtype_size(shape->dtype);
  needs->metas = 1;
  needs->lengths = needs->chunks = true;
  needs->meta[0] = (kv_meta){.name = "page bounds",
                             .per = KV_PER_PAGE,
                             .page = o->page,
                             .bytes = bounds,
                             .scanned = bounds,
                             .from_layer = o->skip,
                             .above = attended_whole(o)};
  needs->viewed = attended_most(o);
  needs->lane_state = 2 * side_bytes(shape, o->page);
  needs->work = 2 * (size_t)shape->d * sizeof(int32_t) + 256;
  return kv_open_budget("quest", o->budget, e);
}

/* --- boxes: numbers as integers in rule 2's order ----------------------- */

/* Maps bits to such an integer and back; 16-bit elements use the upper half. */
static int32_t flip(uint32_t bits) {
  return (int32_t)(bits ^ ((bits >> 31) * 0x7fffffffu));
}

static int32_t load(size_t size, const char *at) {
  uint32_t wide = 0;
  uint16_t half;
  if (size == 4) {
    memcpy(&wide, at, 4);
    return flip(wide);
  }
  memcpy(&half, at, 2);
  wide = (uint32_t)half << 16;
  return flip(wide);
}

static void save(size_t size, int32_t number, char *at) {
  uint32_t wide = (uint32_t)flip((uint32_t)number);
  uint16_t half = (uint16_t)(wide >> 16);
  if (size == 4)
    memcpy(at, &wide, 4);
  else
    memcpy(at, &half, 2);
}

static void widen_box(size_t size, int d, const char *row, int32_t *lo,
                      int32_t *hi) {
  for (int x = 0; x < d; x++) {
    int32_t k = load(size, row + (size_t)x * size);
    if (k < lo[x]) lo[x] = k;
    if (k > hi[x]) hi[x] = k;
  }
}

/* Entries first..end-1, all of one page, widen its box. */
static void grow(const kv_at *at, kv_lane *lane, int page, int first, int end,
                 int32_t *lo, int32_t *hi) {
  const params *o = at->params;
  int d = at->shape->d;
  size_t size = kv_dtype_size(at->shape->dtype);
  char *low = kv_own(at, lane), *high = low + side_bytes(at->shape, o->page);
  size_t box =
      ((size_t)(page / TILE) * (size_t)d * TILE + (size_t)(page % TILE)) * size;
  for (int x = 0; x < d; x++) {
    size_t i = box + (size_t)x * TILE * size;
    bool fresh = first == page * o->page;
    lo[x] = fresh ? INT32_MAX : load(size, low + i);
    hi[x] = fresh ? INT32_MIN : load(size, high + i);
  }
  for (int i = first; i < end; i++)
    widen_box(size, d, kv_lane_raw_key(lane, lane->id[i]), lo, hi);
  for (int x = 0; x < d; x++) {
    size_t i = box + (size_t)x * TILE * size;
    save(size, lo[x], low + i);
    save(size, hi[x], high + i);
  }
}

static void arrive(const kv_at *at, kv_lane *lane, int first) {
  const params *o = at->params;
  int32_t *lo = KV_TAKE(at->work, int32_t, at->shape->d);
  int32_t *hi = KV_TAKE(at->work, int32_t, at->shape->d);
  if (at->layer < o->skip) return;
  for (int i = first; i < lane->n;) {
    int page = i / o->page, end = (page + 1) * o->page;
    if (end > lane->n) end = lane->n;
    grow(at, lane, page, i, end, lo, hi);
    i = end;
  }
}

/* --- the choice --------------------------------------------------------- */

static void combine(int share, int n, const float *u, float *total) {
  for (int i = 0; i < n; i++)
    total[i] = share == GROUP_SUM ? total[i] + u[i] : kv_max(total[i], u[i]);
}

static float *bounds(const kv_at *at, const kv_lane *lane, const kv_query *q,
                     int pages) {
  const params *o = at->params;
  const kv_shape *s = at->shape;
  const char *lo = kv_own(at, lane), *hi = lo + side_bytes(s, o->page);
  int room = (pages + TILE - 1) / TILE * TILE;
  float *u = KV_TAKE(at->work, float, room);
  const float *first = o->share == HEAD ? q->q : q->group_q;
  at->kernels->box_bound(pages, s->d, first, lo, hi, s->dtype, u);
  if (o->share == HEAD) return u;
  float *other = KV_TAKE(at->work, float, room);
  for (int h = 1; h < q->queries; h++) {
    const float *row = q->group_q + (size_t)h * (size_t)s->d;
    at->kernels->box_bound(pages, s->d, row, lo, hi, s->dtype, other);
    combine(o->share, pages, other, u);
  }
  return u;
}

/* How many pages are attended; all if nothing is saved. */
static int pages_wanted(const params *o, int n) {
  int pages = pages_of(n, o->page);
  int most = o->budget < n ? o->budget : n, k = most / o->page;
  int least = o->rule == PAPER ? PAPER_PAGES : 1;
  if (o->rule == ENGINE && o->budget >= n) return pages;
  if (o->rule == TWILIGHT) k = pages_of(o->budget, o->page);
  if (k < least) k = least;
  return k < pages ? k : pages;
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const params *o = at->params;
  int n = lane->n, pages = pages_of(n, o->page), k = pages_wanted(o, n);
  if (at->layer < o->skip || k == pages) {
    kv_view_add(out, 0, n);
    return;
  }
  const float *u = bounds(at, lane, q, pages);
  bool *in = KV_TAKE(at->work, bool, pages);
  int forced = o->rule == ENGINE;
  kv_top(u, pages - forced, k - forced, in);
  if (forced) in[pages - 1] = true;
  for (int i = 0, end; i < pages; i = end + 1) {
    for (end = i; end < pages && in[end];) end++;
    int stop = end * o->page < n ? end * o->page : n;
    if (end > i) kv_view_add(out, i * o->page, stop - i * o->page);
  }
}

/* --- stages ------------------------------------------------------------- */

static void box_size(const kv_at *at, const kv_lane *lane, kv_dtype *type,
                     int *rows, int *width) {
  const params *o = at->params;
  *type = at->shape->dtype;
  *rows = at->layer < o->skip ? 0 : pages_of(lane->n, o->page);
  *width = at->shape->d;
}

/* Copies one side of all boxes out of its tiles, page by page. */
static void copy_side(const kv_at *at, const kv_lane *lane, const char *side,
                      char *out) {
  const params *o = at->params;
  size_t d = (size_t)at->shape->d, size = kv_dtype_size(at->shape->dtype);
  size_t pages = (size_t)pages_of(lane->n, o->page);
  for (size_t i = 0; i < pages; i++)
    for (size_t x = 0; x < d; x++)
      memcpy(out + (i * d + x) * size,
             side + (((i / TILE) * d + x) * TILE + i % TILE) * size, size);
}

static void copy_low(const kv_at *at, const kv_lane *lane, void *out) {
  copy_side(at, lane, kv_own(at, lane), out);
}

static void copy_high(const kv_at *at, const kv_lane *lane, void *out) {
  const params *o = at->params;
  const char *low = kv_own(at, lane);
  copy_side(at, lane, low + side_bytes(at->shape, o->page), out);
}

static const kv_stage stages[] = {
    {"page_min",
     "page i is entries i * page .. (i + 1) * page - 1, the last may be "
     "shorter; the least of its keys in each channel, by rule 2 (the order of "
     "keys)",
     box_size, copy_low},
    {"page_max",
     "the largest of a page's keys in each channel, by rule 2; scores are, for "
     "each query head and page, the chain over x from +0 of u = u + "
     "max(q[x] * page_min[x], q[x] * page_max[x]), every operation rounded",
     box_size, copy_high},
    {.name = NULL}};

const kv_method kv_method_quest = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "quest",
    .title = "pages by a bound of their logits, chosen anew by every query",
    .paper = "Tang et al. 2024, Quest: Query-Aware Sparsity for Efficient "
             "Long-Context LLM Inference, arXiv:2406.10774",
    .lossless = "rule=engine",
    .arrive = arrive,
    .view = view,
    .stages = stages,
};
