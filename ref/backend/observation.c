/* SPDX-License-Identifier: Apache-2.0
 *
 * The prompt's observation: query rows of a block with what a lane holds, in
 * ascending tiles. Lanes that still hold exactly the trace's rows are equal, so
 * their rows are computed once for all stores; a lane that verbs have changed
 * is computed alone. Logits are computed only if a plan wants more than
 * queries. Cost: rows * entries logits; memory: one tile.
 */
#include "ref/backend/store.h"
#include "ref/ground/arith.h"
#include <string.h>

/* Query rows t..t+rows-1 of `heads` query heads from `head` on, for a lane. The
 * last row sees `seen` entries. */
typedef struct tile {
  const kv_lane *lane;
  int head, heads;
  int t, rows, seen;
  unsigned want; /* union of the wants of all methods that observe the tile */
} tile;

/* --- wanted rows --------------------------------------------------------- */

static int first_wanted(const kv_store *s, int first) {
  kv_shape shape = s->shape;
  if (s->plan->pieces && s->plan->needs.chunks) shape.chunk = 1; /* not 0 */
  return kv_chunk_shown(&shape, s->plan->needs.prompt_rows, first);
}

/* The same for a lane that may have dropped tokens of earlier chunks: the first
 * row whose token and all later ones the lane still holds. */
static int first_held(const kv_store *s, const kv_lane *l, int first,
                      int last) {
  int from = first, least = first_wanted(s, first);
  if (least >= first) return least;
  for (int i = l->n - (last - first); from > least && i > 0; i--, from--)
    if ((int)l->id[i - 1] != from - 1) break;
  return from;
}

/* Do recorded sums replace rows of the first prompt that the layer lacks? */
static bool by_sums(const kv_store *s) {
  return s->plan->colsum && s->data->colsum && s->data->rows &&
         s->shape.prompt_len == s->opened->shape->prompt_len;
}

static bool wants_rows(const kv_store *s) {
  return s->plan->method->observe && s->plan->needs.prompt_rows > 0 &&
         !by_sums(s);
}

static kv_lane *lane_of(const kv_store *s, int g, int i) {
  return &s->lane[g * (s->lanes / s->plan->shape->n_kv_heads) + i];
}

static int lanes_of(const kv_store *s) {
  return s->lanes / s->plan->shape->n_kv_heads;
}

/* Is entry i token i, as recorded, in every lane of KV head g? */
static bool untouched(const kv_store *s, int g) {
  for (int i = 0; i < lanes_of(s); i++) {
    const kv_lane *l = lane_of(s, g, i);
    if (l->dropped || l->holes || l->rewritten) return false;
  }
  return true;
}

static bool shares(const kv_store *s, int g) {
  return wants_rows(s) && untouched(s, g);
}

/* The end of the rows from t on that the same stores need, at most one tile. */
static int tile_end(kv_store *const *s, int n, int g, int first, int t,
                    int last, const kv_scratch *x) {
  int end = t + x->tile_rows < last ? t + x->tile_rows : last;
  for (int i = 0; i < n; i++) {
    int from = first_wanted(s[i], first);
    if (shares(s[i], g) && from > t && from < end) end = from;
  }
  return end;
}

/* --- a tile ------------------------------------------------------------- */

/* The first entry that the row of token t sees, among the lane's first n, the
 * last of which is t. A sliding window hides the entries before it. */
static int first_seen(const kv_lane *l, int n, int t) {
  uint32_t from = (uint32_t)kv_layer_first(l->data, t);
  int low = 0, high = n - 1;
  while (from > 0 && low < high) {
    int middle = low + (high - low) / 2;
    if (l->id[middle] < from)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void tile_queries(const kv_store *s, const tile *a, kv_scratch *x) {
  size_t d = (size_t)s->plan->shape->d;
  for (int r = 0; r < a->rows; r++)
    for (int h = 0; h < a->heads; h++) {
      float *q = x->q + (size_t)(r * a->heads + h) * d;
      kv_store_query(s, a->head + h, a->t + r, q);
      kv_lane_query(a->lane, a->seen - a->rows + r, &x->attend, q);
    }
}

static void tile_logits(const kv_store *s, const tile *a, kv_scratch *x) {
  int from = first_seen(a->lane, a->seen - a->rows + 1, a->t);
  kv_lane_logits(s->plan->kernels, a->lane, a->rows * a->heads, x->q,
                 (size_t)s->plan->shape->d, from, a->seen - from, NULL, 0, x->s,
                 x->stride, &x->attend);
}

/* Where rows of probabilities are written: over the logits unless a plan wants
 * those. Then only half as much must stay in the cache. */
static float *probabilities(const tile *a, const kv_scratch *x) {
  return a->want & (KV_P | KV_S) ? x->p : x->s;
}

/* Computes exp of row i of the tile by its largest logit, where its
 * probabilities go, and their factor *r. Returns false if a logit is not
 * finite. Entries that only later rows of the tile see, and entries that a
 * sliding window hides, count as 0, so that sums cover all rows alike. If
 * probabilities are wanted, they are computed here and added up row by row. */
static bool tile_row(const kv_kernels *kernel, const tile *a, int i, float *r,
                     kv_scratch *x) {
  int visible = a->seen - (a->rows - 1 - i / a->heads);
  int from = first_seen(a->lane, visible, a->t + i / a->heads);
  size_t at = (size_t)i * x->stride, n = (size_t)(visible - from);
  float *s = x->s + at, *e = probabilities(a, x) + at;
  bool finite;
  float top = kernel->max_finite(s + from, (int)n, &finite);
  if (!(a->want & (KV_P | KV_SUM))) return finite;
  const float *sink = kv_layer_sink(a->lane->data, a->head + i % a->heads);
  if (sink) top = kv_max(top, *sink);
  int64_t mass = kernel->exp_sum(s + from, top, (int)n, e + from);
  if (sink) mass += kv_fix_exp(kv_expm(kv_sub(*sink, top)));
  *r = 1.0f / kv_unfix(mass);
  memset(e, 0, (size_t)from * sizeof *e);
  memset(e + visible, 0, (size_t)(a->seen - visible) * sizeof *e);
  if (a->want & KV_P) kernel->scale(*r, visible, e);
  if ((a->want & KV_P) && (a->want & KV_SUM))
    kernel->fix_add(e, visible, x->sum + (size_t)(i % a->heads) * x->stride);
  return finite;
}

/* Probabilities and their sums, each row over the entries that it sees. Returns
 * the first row with a logit that is not finite, or -1. All rows of a head are
 * added in one pass, so a sum is read and written once. */
static int tile_observation(const kv_store *s, const tile *a, kv_scratch *x) {
  const kv_kernels *kernel = s->plan->kernels;
  int bad = -1;
  for (int h = 0; h < a->heads; h++) {
    float r[KV_TILE_ROWS];
    size_t at = (size_t)h * x->stride;
    if (a->want & KV_SUM)
      memset(x->sum + at, 0, (size_t)a->seen * sizeof *x->sum);
    for (int row = 0; row < a->rows; row++) {
      int i = row * a->heads + h;
      if (!tile_row(kernel, a, i, &r[row], x) && (bad < 0 || i < bad)) bad = i;
    }
    if ((a->want & (KV_P | KV_SUM)) == KV_SUM)
      kernel->fix_rows(a->rows, a->seen, probabilities(a, x) + at,
                       (size_t)a->heads * x->stride, r, x->sum + at);
  }
  return bad;
}

/* Computes the tile. Returns the first row and head whose logits are not all
 * finite, or -1. If only queries are wanted, logits are not computed. */
static int tile_fill(const kv_store *s, const tile *a, kv_scratch *x) {
  tile_queries(s, a, x);
  if (!(a->want & KV_LOGITS)) return -1;
  tile_logits(s, a, x);
  return tile_observation(s, a, x);
}

static void fail_lane(kv_lane *l, const tile *a, int bad) {
  if (l->fault.rc) return;
  kv_fail(&l->fault, KV_REFUSED,
          "layer %d, query head %d, row %d: a logit of the prompt is not "
          "finite",
          l->data->layer, a->head + bad % a->heads, a->t + bad / a->heads);
}

/* Passes lane l the tile's rows of its heads. */
static void show(kv_store *s, kv_lane *l, const tile *a, kv_scratch *x) {
  size_t h = (size_t)(l->first_head - a->head);
  kv_store_observe(s, l,
                   (kv_rows){.first = a->t,
                             .rows = a->rows,
                             .heads = l->queries,
                             .places = a->heads,
                             .entries = a->seen,
                             .stride = x->stride,
                             .q = x->q + h * (size_t)s->plan->shape->d,
                             .s = x->s + h * x->stride,
                             .p = x->p + h * x->stride,
                             .sum = x->sum + h * x->stride},
                   x);
}

static void hand_out(kv_store *s, int g, const tile *a, int bad,
                     kv_scratch *x) {
  if (bad >= 0 && s->plan->needs.want & KV_LOGITS)
    fail_lane(lane_of(s, g, 0), a, bad);
  for (int i = 0; i < lanes_of(s); i++) show(s, lane_of(s, g, i), a, x);
}

/* --- stores ------------------------------------------------------------- */

/* The recorded sums of all prompt rows, as one tile without rows. */
static void recorded_sums(kv_store *s, int g, kv_scratch *x) {
  size_t n = (size_t)s->data->colsum_len, row = n * sizeof *x->sum;
  const char *sums = (const char *)s->data->colsum;
  tile a = {lane_of(s, g, 0), g * x->heads, x->heads, 0,
            (int)n,           (int)n,       KV_SUM};
  for (int h = 0; h < x->heads; h++)
    memcpy(x->sum + (size_t)h * x->stride, sums + (size_t)(a.head + h) * row,
           row);
  hand_out(s, g, &a, -1, x);
}

/* Rows of the block for all stores whose lanes are equal. */
static void shown_together(kv_store *const *s, int n, int g, int first,
                           int last, kv_scratch *x) {
  int t = last;
  for (int i = 0; i < n; i++)
    if (shares(s[i], g) && first_wanted(s[i], first) < t)
      t = first_wanted(s[i], first);
  for (int end; t < last; t = end) {
    const kv_store *any = NULL;
    tile a = {.head = g * x->heads, .heads = x->heads, .t = t};
    end = tile_end(s, n, g, first, t, last, x);
    for (int i = 0; i < n; i++)
      if (shares(s[i], g) && first_wanted(s[i], first) <= t) {
        any = s[i];
        a.want |= any->plan->needs.want;
      }
    if (!any) return;
    a.lane = lane_of(any, g, 0);
    a.rows = end - t;
    a.seen = a.lane->n - (last - end);
    int bad = tile_fill(any, &a, x);
    for (int i = 0; i < n; i++)
      if (shares(s[i], g) && first_wanted(s[i], first) <= t)
        hand_out(s[i], g, &a, bad, x);
  }
}

/* Rows of a lane that differs from all others. */
static void shown_alone(kv_store *s, kv_lane *l, int first, int last,
                        kv_scratch *x) {
  for (int t = first_held(s, l, first, last), end; t < last; t = end) {
    end = t + x->tile_rows < last ? t + x->tile_rows : last;
    tile a = {l,       l->first_head,       l->queries,         t,
              end - t, l->n - (last - end), s->plan->needs.want};
    int bad = tile_fill(s, &a, x);
    if (bad >= 0) fail_lane(l, &a, bad);
    show(s, l, &a, x);
  }
}

void kv_ref_observation(kv_store *const *s, int n, int g, int first, int count,
                        kv_scratch *x) {
  int last = first + count;
  for (int i = 0; i < n; i++)
    if (by_sums(s[i])) recorded_sums(s[i], g, x);
  shown_together(s, n, g, first, last, x);
  for (int i = 0; i < n; i++)
    for (int j = 0;
         wants_rows(s[i]) && !untouched(s[i], g) && j < lanes_of(s[i]); j++)
      shown_alone(s[i], lane_of(s[i], g, j), first, last, x);
  if (count > 1)
    kv_give_back(x->sum, (size_t)x->heads * x->stride * sizeof *x->sum);
}
