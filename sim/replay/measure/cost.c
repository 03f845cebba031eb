/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger (sim/replay/measure/cost.h). While it is fed, integers are added
 * or maximised. The totals are sums over layers that are divided once at the
 * end. Counters are in bytes unless a comment says otherwise.
 */
#include "sim/replay/measure/cost.h"

#include "ref/ground/counter.h"
#include "ref/lane/records.h"
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One block of the prompt, or one decode step: sums over layers, except the
 * excesses, which are a layer's largest (INT64_MIN: none closed the block). */
typedef struct kv_cost_block {
  kv_counter compressed[KV_N_BYTE_KINDS]; /* held after compression, by kind
                                             (kv_byte_kind_at) */
  kv_counter excess;       /* held before compression, less that */
  kv_counter made;         /* decoded rows of a step, held by a group */
  kv_counter codes_excess; /* the excess of payload alone */
  kv_counter read, scanned, fetched;
  kv_counter attended; /* entries, summed over query heads */
} kv_cost_block;

/* Over all blocks: records of verbs, and bytes that they moved. */
typedef struct kv_cost_changes {
  kv_counter records, moved;
} kv_cost_changes;

struct kv_cost {
  const kv_shape *shape;  /* the caller's */
  int layers, lanes;      /* recorded layers; lanes of a layer */
  int blocks, points;     /* blocks of the prompt; these and the decode steps */
  int rows;               /* layers if they are kept apart, else 1 */
  const int *window;      /* [layers] from kv_cost_take_windows; not owned */
  const int *group;       /* [layers] from kv_cost_take_groups; not owned */
  int left;               /* layers on which the method does not run */
  int64_t queries;        /* bytes from kv_cost_take_queries */
  kv_cost_block *at;      /* [rows][points] */
  kv_cost_changes *verbs; /* [rows] */
  int32_t *kept;          /* [layers][lanes] entries at the end */
};

/* The counters of a block (asserted to exist) in a row: a layer if layers are
 * kept apart, else row 0. */
static inline kv_cost_block *kv_cost_block_of(const kv_cost *c, int row,
                                              int block) {
  assert(row >= 0 && row < c->rows && block >= 0 && block < c->points);
  return &c->at[(size_t)row * (size_t)c->points + (size_t)block];
}

/* One byte for each entry, then one for each block of each coding. */
size_t kv_cost_mark_size(const kv_shape *shape) {
  return (size_t)shape->n_tokens * (1 + KV_MAX_CODINGS);
}

/* Bytes of a coded block with `members` rows; slab: k_slab or v_slab. */
static int64_t coded_bytes(const kv_lane *l, const kv_slab *slab, int format,
                           int members) {
  assert(format >= KV_CODED && format < KV_CODED + l->needs->codings);
  kv_coded_size size = kv_slab_bytes(&slab[format], members);
  return (int64_t)(size.codes + size.metadata);
}

/* READ: a head attends the entry, or an attended one decodes from what it
 * decodes to. READ_AS_IT_CAME: an attended one decodes from its original rows.
 */
enum { READ = 1, READ_AS_IT_CAME };

/* Marks the entries that at least one head attends. */
static void mark_union(const kv_seen *seen, uint8_t *mark) {
  for (int h = 0; h < seen->queries; h++) {
    const kv_view *v = &seen->view[h];
    for (int r = 0; r < v->runs; r++)
      memset(mark + v->run[r].first, READ, (size_t)v->run[r].count);
  }
}

/* The layered coding of entry i; NULL: none. */
static const kv_coding *layered_of(const kv_lane *l, int i) {
  int f = l->needs->codings && l->k ? l->k[i].format : KV_RAW;
  const kv_coding *c = f < KV_CODED ? NULL : &l->needs->coding[f - KV_CODED];
  return c && c->format->layered ? c : NULL;
}

/* The entry of a token that a block names; entries are in order of ids. */
static int entry_of(const kv_lane *l, int id) {
  int i = id < l->n ? id : l->n - 1;
  while (i > 0 && l->id[i] != (uint32_t)id) i--;
  assert(l->id[i] == (uint32_t)id && "what a block names stays as it is");
  return i;
}

static void mark_named(const kv_lane *l, const kv_coding *c, int i,
                       uint8_t *mark) {
  const int32_t *named = kv_lane_named(l, i);
  int most = c->format->layered->named(c->settings);
  for (int j = 0; j < most && named[j] != KV_NO_TOKEN; j++) {
    int at = entry_of(l, named[j]);
    const kv_coding *of = layered_of(l, at);
    bool held = of && of->format->layered->held &&
                of->format->layered->held(of->settings);
    if (!mark[at]) mark[at] = held ? READ_AS_IT_CAME : READ;
  }
}

/* Marks the entries that decoding a marked entry reads: the tokens that its
 * block names, none of them later. Returns the number of rows decoded. */
static int mark_parts(const kv_lane *l, uint8_t *mark) {
  int made = 0;
  for (int i = l->n - 1; i >= 0; i--) {
    const kv_coding *c = mark[i] == READ ? layered_of(l, i) : NULL;
    made += c != NULL;
    if (c) mark_named(l, c, i, mark);
  }
  return made;
}

static int count(const kv_lane *l, const uint8_t *mark) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += mark[i] != 0;
  return n;
}

/* Bytes of one side (K or V) of the marked entries. block: a byte for each
 * block of each coding, zero before and after. */
static int64_t side_bytes(const kv_lane *l, const kv_cell_ref *ref,
                          const kv_slab *slab, int width, const uint8_t *mark,
                          uint8_t *block) {
  int64_t sum = 0, raw = width * (int64_t)kv_dtype_size(l->shape->dtype);
  int64_t merged = (int64_t)kv_slab_bytes(&slab[KV_MERGED], 1).codes;
  size_t n = (size_t)l->shape->n_tokens;
  for (int i = 0; i < l->n; i++) {
    int f = ref[i].format;
    if (!mark[i]) continue;
    if (f < KV_CODED || mark[i] == READ_AS_IT_CAME) {
      sum += f != KV_MERGED ? raw : merged;
      continue;
    }
    uint8_t *seen = &block[(size_t)(f - KV_CODED) * n + (size_t)ref[i].block];
    if (!*seen) sum += coded_bytes(l, slab, f, slab[f].members[ref[i].block]);
    *seen = 1;
  }
  for (int c = 0; c < l->needs->codings; c++)
    memset(block + (size_t)c * n, 0, (size_t)slab[KV_CODED + c].used);
  return sum;
}

/* K and V bytes that are counted twice if V is a part of K. */
static int64_t shared_bytes(const kv_lane *l, const uint8_t *mark) {
  int64_t sum = 0;
  for (int i = 0; l->shape->shared && i < l->n; i++)
    if (mark[i] == READ_AS_IT_CAME)
      sum += kv_lane_shared(l, KV_RAW);
    else if (mark[i])
      sum += kv_lane_shared_entry(l, i);
  return sum;
}

int64_t kv_cost_marked(const kv_lane *l, uint8_t *mark) {
  const kv_shape *s = l->shape;
  size_t n = (size_t)s->n_tokens;
  int read = count(l, mark);
  if (l->rewritten == 0) return read * kv_token_bytes(s);
  if (read == l->n && !memchr(mark, READ_AS_IT_CAME, (size_t)l->n))
    return kv_lane_row_bytes(l);
  return side_bytes(l, l->k, l->k_slab, s->d, mark, mark + n) +
         side_bytes(l, l->v, l->v_slab, s->d_v, mark, mark + n) -
         shared_bytes(l, mark);
}

/* Unmarks all entries that are not in host memory. */
static void mark_host(const kv_lane *l, uint8_t *mark) {
  for (int i = 0; i < l->n; i++)
    if (!(l->needs->host >> kv_class_of(l, i) & 1)) mark[i] = 0;
}

/* Is every entry read as stored? Then they need not be marked one by one. */
static bool reads_lane(const kv_lane *l, const kv_seen *seen) {
  bool layered = false, all = false;
  for (int c = 0; c < l->needs->codings; c++)
    layered |= l->needs->coding[c].format->layered != NULL;
  for (int h = 0; h < seen->queries; h++) all |= seen->view[h].entries == l->n;
  return all && !l->needs->host && (!layered || l->rewritten == 0);
}

void kv_cost_mark_fetched(const kv_seen *seen, uint8_t *mark) {
  const kv_lane *l = seen->lane;
  mark_union(seen, mark);
  if (l->rewritten) mark_parts(l, mark);
  mark_host(l, mark);
}

kv_cost_row kv_cost_view(const kv_seen *seen, uint8_t *mark) {
  const kv_lane *l = seen->lane;
  kv_cost_row row = {0};
  for (int h = 0; h < seen->queries; h++) row.attended += seen->view[h].entries;
  if (reads_lane(l, seen)) {
    row.bytes =
        l->rewritten ? kv_lane_row_bytes(l) : l->n * kv_token_bytes(l->shape);
    return row;
  }
  mark_union(seen, mark);
  if (l->rewritten)
    row.materialised = mark_parts(l, mark) * kv_token_bytes(l->shape);
  row.bytes = kv_cost_marked(l, mark);
  if (l->needs->host) {
    mark_host(l, mark);
    row.fetched = kv_cost_marked(l, mark);
  }
  memset(mark, 0, (size_t)l->n);
  return row;
}

/* Bytes that one recode record wrote. Its payload: K format, V format, ids in
 * call order; K and V are one group each. */
static int64_t recoded_bytes(const kv_lane *l, const uint32_t *payload,
                             int members) {
  int k = (int32_t)payload[0], v = (int32_t)payload[1];
  int64_t sum = 0;
  if (k != KV_SAME) sum += coded_bytes(l, l->k_slab, k, members);
  if (v != KV_SAME) sum += coded_bytes(l, l->v_slab, v, members);
  return sum;
}

kv_cost_verbs kv_cost_lane_verbs(const kv_lane *l) {
  kv_cost_verbs v = {0, 0};
  kv_record_at r;
  size_t i = 0;
  while (kv_records_next(&l->verbs, &i, &r)) {
    v.records++;
    if (r.head[0] == KV_MERGE)
      v.moved += (int64_t)(kv_slab_bytes(&l->k_slab[KV_MERGED], 1).codes +
                           kv_slab_bytes(&l->v_slab[KV_MERGED], 1).codes) -
                 kv_lane_shared(l, KV_MERGED);
    if (r.head[0] == KV_RECODE)
      v.moved += recoded_bytes(l, r.payload, (int)r.count - 2);
  }
  return v;
}

/* A kv_cost_block of all layers, as plain numbers. */
typedef struct sums {
  kv_bytes compressed;
  int64_t excess, codes_excess, read, scanned, fetched, attended;
} sums;

/* --- totals ------------------------------------------------------------- */

/* The sum of min(t, most) over t = first..last. */
static int64_t sum_of(int64_t first, int64_t last, int64_t most) {
  int64_t even = last < most ? last : most; /* up to here, min(t, most) = t */
  if (even < first) return most * (last - first + 1);
  return (first + even) * (even - first + 1) / 2 + most * (last - even);
}

int64_t kv_dense_tokens(int layers, const int *window, int first, int last,
                        bool attended) {
  int64_t sum = 0, full = layers;
  if (last < first) return 0;
  for (int l = 0; window && l < layers; l++) {
    if (!window[l]) continue;
    sum += sum_of(first, last, window[l] - !attended);
    full--;
  }
  return sum + full * sum_of(first, last, last);
}

/* Bytes of the whole cache in the trace's own dtype at t tokens seen. */
static int64_t dense_bytes(const kv_cost *c, int t) {
  return kv_dense_tokens(c->layers, c->window, t, t, false) *
         c->shape->n_kv_heads * kv_token_bytes(c->shape);
}

/* Most bytes held beyond `compressed` while a layer attends and compresses: the
 * maximum over groups of layers or, without groups, over layers. */
static int64_t excess_at(const kv_cost *c, int block) {
  int64_t most = INT64_MIN, of_group = INT64_MIN, made = 0;
  for (int r = 0; r < c->rows; r++) {
    const kv_cost_block *h = kv_cost_block_of(c, r, block);
    int64_t excess = kv_counter_get(&h->excess);
    if (!c->group || !r || c->group[r] != c->group[r - 1])
      of_group = INT64_MIN, made = 0;
    made += kv_counter_get(&h->made);
    if (excess > of_group) of_group = excess;
    if (of_group != INT64_MIN && of_group + made > most) most = of_group + made;
  }
  return most;
}

/* Sums one block over all layers. */
static sums sum_at(const kv_cost *c, int block) {
  sums s = {.excess = excess_at(c, block), .codes_excess = INT64_MIN};
  for (int r = 0; r < c->rows; r++) {
    const kv_cost_block *h = kv_cost_block_of(c, r, block);
    int64_t codes = kv_counter_get(&h->codes_excess);
    for (int j = 0; j < KV_N_BYTE_KINDS; j++)
      *kv_bytes_of(&s.compressed, j) += kv_counter_get(&h->compressed[j]);
    s.read += kv_counter_get(&h->read);
    s.scanned += kv_counter_get(&h->scanned);
    s.fetched += kv_counter_get(&h->fetched);
    s.attended += kv_counter_get(&h->attended);
    if (codes > s.codes_excess) s.codes_excess = codes;
  }
  return s;
}

/* A prompt that enters after decoding began closes no block before its end. */
static bool closed(const sums *s) { return s->excess != INT64_MIN; }

static int64_t total_of(const sums *s) {
  return kv_bytes_total(&s->compressed);
}

static int64_t peak_until(const kv_cost *c, int last) {
  int64_t peak = 0;
  for (int i = 0; i <= last; i++) {
    sums s = sum_at(c, i);
    int64_t all = total_of(&s) + s.excess;
    if (i < c->blocks) all += c->queries;
    if (i == 0 || all > peak) peak = all;
  }
  return peak;
}

static int64_t codes_peak(const kv_cost *c) {
  int64_t peak = 0;
  for (int i = 0; i < c->points; i++) {
    sums s = sum_at(c, i);
    int64_t codes = s.compressed.payload + s.codes_excess;
    if (i == 0 || codes > peak) peak = codes;
  }
  return peak;
}

kv_cost_now kv_cost_until(const kv_cost *c, int block) {
  assert(block >= 0 && block < c->points);
  sums last = sum_at(c, block);
  kv_cost_now now = {.held = last.compressed, .peak = peak_until(c, block)};
  int first = c->blocks - 1;
  int64_t sum = 0, n = 0;
  for (int i = first; i <= block; i++) {
    sums s = sum_at(c, i);
    sum += total_of(&s);
    n += closed(&s);
  }
  if (n) now.mean = (double)sum / (double)n;
  return now;
}

static bool is_left(const kv_cost *c, int layer) {
  return c->left && c->window[layer];
}

/* Entries that the query heads of the layers without the method attend to, at
 * the step of t tokens seen. */
static int64_t left_at(const kv_cost *c, int t) {
  int64_t sum = 0;
  for (int l = 0; c->window && l < c->layers; l++)
    if (is_left(c, l)) sum += t < c->window[l] ? t : c->window[l];
  return sum * c->shape->n_heads;
}

/* Totals over t = prompt_len..T at which a block ends, after compression, and
 * over the decode steps: those that attend. */
static void sum_steps(const kv_cost *c, kv_totals *t) {
  const kv_shape *s = c->shape;
  int64_t codes = 0, read = 0, scanned = 0, attended = 0, dense = 0, left = 0;
  int n = 0, ends = 0, heads = (c->layers - c->left) * s->n_heads;
  double kr = 0;
  for (int i = 0; i <= c->points - c->blocks; i++) {
    sums all = sum_at(c, c->blocks - 1 + i);
    if (!closed(&all)) continue;
    bool decodes = i > 0 && all.attended > 0;
    ends++;
    n += decodes;
    int64_t bytes = total_of(&all);
    t->mti += bytes;
    codes += all.compressed.payload;
    kr += (double)bytes / (double)dense_bytes(c, s->prompt_len + i);
    read += all.read;
    scanned += all.scanned;
    t->fetched += all.fetched;
    attended += all.attended;
    if (!decodes) continue;
    int seen = s->prompt_len + i;
    dense +=
        s->n_heads * kv_dense_tokens(c->layers, c->window, seen, seen, true);
    left += left_at(c, seen);
  }
  t->mean = (double)t->mti / (double)ends;
  t->codes_mean = (double)codes / (double)ends;
  t->kr = kr / (double)ends;
  t->read = n ? (double)read / (double)n : (double)NAN;
  t->scanned = n ? (double)scanned / (double)n : (double)NAN;
  t->cr = n ? (double)attended / (double)dense : (double)NAN;
  t->attended =
      n ? (double)(attended - left) / ((double)heads * (double)n) : (double)NAN;
}

/* Mean entries at the end over lanes [low, high) of layers [first, last). */
static double mean_kept(const kv_cost *c, int first, int last, int low,
                        int high) {
  int64_t sum = 0;
  for (int l = first; l < last; l++)
    for (int i = low; i < high; i++) sum += c->kept[l * c->lanes + i];
  return (double)sum / (double)((last - first) * (high - low));
}

static void count_kept(const kv_cost *c, kv_totals *t) {
  int64_t sum = 0;
  int least = INT_MAX, most = 0;
  for (int i = 0; i < c->layers * c->lanes; i++) {
    if (is_left(c, i / c->lanes)) continue;
    sum += c->kept[i];
    if (c->kept[i] < least) least = c->kept[i];
    if (c->kept[i] > most) most = c->kept[i];
  }
  t->kept = (double)sum / (double)((c->layers - c->left) * c->lanes);
  t->kept_min = least;
  t->kept_max = most;
}

/* Parts are layers, then KV heads, then bins, whose `kept` stays NaN. */
static void fill_parts(const kv_cost *c, kv_result *r) {
  int heads = c->shape->n_kv_heads, per = c->lanes / heads;
  for (int i = 0; i < r->n_parts; i++) {
    kv_part *p = &r->part[i];
    int l = i < c->layers ? i : (i - c->layers) / heads;
    if (p->bin >= 0) continue;
    p->kept = p->head < 0
                  ? mean_kept(c, l, l + 1, 0, c->lanes)
                  : mean_kept(c, l, l + 1, p->head * per, (p->head + 1) * per);
  }
}

kv_rc kv_cost_finish(const kv_cost *c, kv_result *r, kv_err *e) {
  int n = c->points - c->blocks + 1;
  r->step = kv_zalloc((size_t)n, sizeof *r->step);
  if (!r->step)
    return kv_no_memory(e, "the steps of a row", (size_t)n * sizeof *r->step);
  r->n_steps = n;
  for (int i = 0; i < n; i++) {
    sums s = sum_at(c, c->blocks - 1 + i);
    bool here = !i || closed(&s); /* else inside a prompt: as before it */
    r->step[i] = (kv_step_cost){
        c->shape->prompt_len + i, here ? total_of(&s) : r->step[i - 1].bytes,
        here ? s.compressed.payload : r->step[i - 1].codes, s.read, s.scanned};
  }
  sums last = sum_at(c, c->points - 1);
  kv_bytes end = last.compressed;
  r->totals = (kv_totals){.end = end,
                          .codes_end = end.payload,
                          .peak = peak_until(c, c->points - 1),
                          .codes_peak = codes_peak(c),
                          .needle_kept = (double)NAN,
                          .needle_worst = (double)NAN};
  for (int i = 0; i < c->rows; i++) {
    r->totals.verbs += kv_counter_get(&c->verbs[i].records);
    r->totals.moved += kv_counter_get(&c->verbs[i].moved);
  }
  sum_steps(c, &r->totals);
  count_kept(c, &r->totals);
  fill_parts(c, r);
  return KV_OK;
}

/* --- life --------------------------------------------------------------- */

void kv_cost_close(kv_cost *c) {
  if (!c) return;
  free(c->at);
  free(c->verbs);
  free(c->kept);
  free(c);
}

void kv_cost_take_windows(kv_cost *c, const int *window, bool left) {
  c->window = window;
  c->left = 0;
  for (int l = 0; window && l < c->layers; l++) c->left += window[l] > 0;
  if (!left || c->left == c->layers) c->left = 0;
}

void kv_cost_take_groups(kv_cost *c, const int *group) {
  assert((!group || c->rows == c->layers) && "layers are held apart");
  c->group = group;
}

void kv_cost_take_queries(kv_cost *c, int64_t bytes) { c->queries = bytes; }

static void set(kv_counter *c, int64_t x) {
  atomic_store_explicit(c, x, memory_order_relaxed);
}

static int row_of(const kv_cost *c, int layer) {
  assert(layer >= 0 && layer < c->layers);
  return c->rows == 1 ? 0 : layer;
}

static kv_cost_block *block_of(const kv_cost *c, int layer, int block) {
  return kv_cost_block_of(c, row_of(c, layer), block);
}

static void begin_row(kv_cost *c, int row) {
  for (int i = 0; i < c->points; i++) {
    kv_cost_block *h = kv_cost_block_of(c, row, i);
    for (int j = 0; j < KV_N_BYTE_KINDS; j++) set(&h->compressed[j], 0);
    set(&h->read, 0);
    set(&h->scanned, 0);
    set(&h->fetched, 0);
    set(&h->attended, 0);
    set(&h->made, 0);
    set(&h->excess, INT64_MIN);
    set(&h->codes_excess, INT64_MIN);
  }
  set(&c->verbs[row].records, 0);
  set(&c->verbs[row].moved, 0);
}

kv_rc kv_cost_open(const kv_shape *shape, int layers, int lanes, int blocks,
                   bool apart, kv_cost **out, kv_err *e) {
  assert(blocks >= 1 && "a prompt has at least one block");
  int points = blocks + shape->n_tokens - shape->prompt_len;
  kv_cost *c = kv_zalloc(1, sizeof *c);
  *out = NULL;
  if (!c) return kv_no_memory(e, "the ledger", sizeof *c);
  c->shape = shape;
  c->layers = layers;
  c->lanes = lanes;
  c->blocks = blocks;
  c->points = points;
  c->rows = apart ? layers : 1;
  size_t all = (size_t)c->rows * (size_t)points;
  c->at = kv_zalloc(all, sizeof *c->at);
  c->verbs = kv_zalloc((size_t)c->rows, sizeof *c->verbs);
  c->kept = kv_zalloc((size_t)layers * (size_t)lanes, sizeof *c->kept);
  if (!c->at || !c->verbs || !c->kept) {
    kv_cost_close(c);
    return kv_no_memory(e, "the ledger", all * sizeof(kv_cost_block));
  }
  for (int i = 0; i < c->rows; i++) begin_row(c, i);
  *out = c;
  return KV_OK;
}

void kv_cost_copy(const kv_cost *from, kv_cost *to) {
  size_t rows = (size_t)from->rows, points = (size_t)from->points;
  size_t lanes = (size_t)from->layers * (size_t)from->lanes;
  assert(to->rows == from->rows && to->points == from->points &&
         to->layers == from->layers && to->lanes == from->lanes);
  memcpy(to->at, from->at, rows * points * sizeof *to->at);
  memcpy(to->verbs, from->verbs, rows * sizeof *to->verbs);
  memcpy(to->kept, from->kept, lanes * sizeof *to->kept);
}

/* --- one layer ---------------------------------------------------------- */

void kv_cost_layer_begin(kv_cost *c, int layer) {
  assert(c->rows == c->layers && "layers are held apart");
  begin_row(c, layer);
}

void kv_cost_layer_copy(kv_cost *c, int layer, kv_copier *x) {
  assert(c->rows == c->layers && "layers are held apart");
  kv_copy(x, block_of(c, layer, 0), (size_t)c->points * sizeof *c->at);
  kv_copy(x, &c->verbs[layer], sizeof *c->verbs);
  kv_copy(x, c->kept + layer * c->lanes, (size_t)c->lanes * sizeof *c->kept);
}

/* --- feeding ------------------------------------------------------------ */

void kv_cost_held(kv_cost *c, int layer, int block, const kv_bytes *before,
                  int64_t materialised, const kv_bytes *compressed) {
  kv_cost_block *h = block_of(c, layer, block);
  for (int j = 0; j < KV_N_BYTE_KINDS; j++)
    kv_counter_add(&h->compressed[j], kv_bytes_get(compressed, j));
  kv_counter_add(&h->made, c->group ? materialised : 0);
  kv_counter_raise(&h->excess, kv_bytes_total(before) +
                                   (c->group ? 0 : materialised) -
                                   kv_bytes_total(compressed));
  kv_counter_raise(&h->codes_excess, before->payload - compressed->payload);
}

void kv_cost_read(kv_cost *c, int layer, int block, const kv_cost_row *row) {
  kv_cost_block *h = block_of(c, layer, block);
  assert(block >= c->blocks && "decode steps only");
  kv_counter_add(&h->read, row->bytes);
  kv_counter_add(&h->scanned, row->scanned);
  kv_counter_add(&h->fetched, row->fetched);
  kv_counter_add(&h->attended, row->attended);
}

void kv_cost_moved(kv_cost *c, int layer, const kv_cost_verbs *v) {
  kv_cost_changes *of = &c->verbs[row_of(c, layer)];
  kv_counter_add(&of->records, v->records);
  kv_counter_add(&of->moved, v->moved);
}

void kv_cost_kept(kv_cost *c, int layer, int lane, int entries) {
  assert(layer < c->layers && lane < c->lanes);
  c->kept[layer * c->lanes + lane] = entries;
}
