/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger's totals: sums over layers, divided once at the end.
 */
#include "sim/measure/cost_part.h"
#include <limits.h>
#include <math.h>

/* A kv_cost_block of all layers, as plain numbers. */
typedef struct sums {
  kv_bytes compressed;
  int64_t excess, codes_excess, read, scanned, fetched, attended;
} sums;

/* --- totals ------------------------------------------------------------- */

/* The sum of min(t, most) over t = first..last. */
static int64_t sum_of(int64_t first, int64_t last, int64_t most) {
  int64_t even = last < most ? last : most; /* t up to here counts as t */
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

/* What is held beyond `compressed` while a layer attends and compresses: the
 * most of all groups of layers, or, without groups, of all layers. */
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

/* Within a prompt that enters after decoding began nothing closes. */
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

/* Entries that the query heads of the other layers attend to at the step of t
 * tokens seen. */
static int64_t left_at(const kv_cost *c, int t) {
  int64_t sum = 0;
  for (int l = 0; c->window && l < c->layers; l++)
    if (is_left(c, l)) sum += t < c->window[l] ? t : c->window[l];
  return sum * c->shape->n_heads;
}

/* Totals over t = prompt_len..T after compression, as far as something closes
 * there, and over the decode steps: those that attend. */
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

/* Parts are layers, then KV heads, then bins, which keep their NaN. */
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
    bool here = !i || closed(&s); /* else as before the block that enters */
    r->step[i] = (kv_step_cost){
        c->shape->prompt_len + i, here ? total_of(&s) : r->step[i - 1].bytes,
        here ? s.compressed.payload : r->step[i - 1].codes, s.read, s.scanned};
  }
  sums last = sum_at(c, c->points - 1);
  kv_bytes end = last.compressed;
  r->totals = (kv_totals){.end = end,
                          .codes_end = end.payload,
                          .peak = peak_until(c, c->points - 1),
                          .codes_peak = codes_peak(c)};
  for (int i = 0; i < c->rows; i++) {
    r->totals.verbs += kv_counter_get(&c->verbs[i].records);
    r->totals.moved += kv_counter_get(&c->verbs[i].moved);
  }
  sum_steps(c, &r->totals);
  count_kept(c, &r->totals);
  fill_parts(c, r);
  return KV_OK;
}
