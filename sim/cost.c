/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger's totals: integers added as they come, divided once at the end.
 */
#include "sim/cost.h"
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef _Atomic int64_t counter;

/* One block: sums over layers (settled: as kv_bytes has them), and the largest
 * excess of a layer before it settles. */
typedef struct held {
  counter settled[5], excess, codes_excess, read, attended;
} held;

struct kv_cost {
  const kv_shape *shape;
  int layers, lanes, blocks, points; /* prompt blocks; all blocks */
  held *at;                          /* [points] */
  counter records, moved;
  int32_t *kept; /* [layers][lanes] */
};

/* --- life --------------------------------------------------------------- */

kv_rc kv_cost_open(const kv_shape *shape, int layers, int lanes, int blocks,
                   kv_cost **out, kv_err *e) {
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
  c->at = kv_zalloc((size_t)points, sizeof *c->at);
  c->kept = kv_zalloc((size_t)layers * (size_t)lanes, sizeof *c->kept);
  if (!c->at || !c->kept) {
    kv_cost_close(c);
    return kv_no_memory(e, "the ledger", (size_t)points * sizeof(held));
  }
  kv_cost_begin(c);
  *out = c;
  return KV_OK;
}

void kv_cost_close(kv_cost *c) {
  if (!c) return;
  free(c->at);
  free(c->kept);
  free(c);
}

static void set(counter *c, int64_t x) {
  atomic_store_explicit(c, x, memory_order_relaxed);
}

static int64_t get(const counter *c) {
  return atomic_load_explicit(c, memory_order_relaxed);
}

static void add(counter *c, int64_t x) {
  atomic_fetch_add_explicit(c, x, memory_order_relaxed);
}

static void raise(counter *c, int64_t x) {
  int64_t old = get(c);
  while (old < x && !atomic_compare_exchange_weak_explicit(
                        c, &old, x, memory_order_relaxed, memory_order_relaxed))
    ;
}

void kv_cost_begin(kv_cost *c) {
  for (int i = 0; i < c->points; i++) {
    held *h = &c->at[i];
    for (int j = 0; j < 5; j++) set(&h->settled[j], 0);
    set(&h->read, 0);
    set(&h->attended, 0);
    set(&h->excess, INT64_MIN);
    set(&h->codes_excess, INT64_MIN);
  }
  set(&c->records, 0);
  set(&c->moved, 0);
  for (int i = 0; i < c->layers * c->lanes; i++) c->kept[i] = 0;
}

/* --- feeding ------------------------------------------------------------ */

void kv_cost_held(kv_cost *c, int block, const kv_bytes *before,
                  const kv_bytes *settled) {
  assert(block >= 0 && block < c->points);
  held *h = &c->at[block];
  add(&h->settled[0], settled->payload);
  add(&h->settled[1], settled->metadata);
  add(&h->settled[2], settled->columns);
  add(&h->settled[3], settled->side);
  add(&h->settled[4], settled->slack);
  raise(&h->excess, kv_bytes_total(before) - kv_bytes_total(settled));
  raise(&h->codes_excess, before->payload - settled->payload);
}

void kv_cost_read(kv_cost *c, int block, const kv_cost_row *row) {
  assert(block >= c->blocks && block < c->points && "decode steps only");
  add(&c->at[block].read, row->bytes);
  add(&c->at[block].attended, row->attended);
}

void kv_cost_moved(kv_cost *c, const kv_cost_verbs *v) {
  add(&c->records, v->records);
  add(&c->moved, v->moved);
}

void kv_cost_kept(kv_cost *c, int layer, int lane, int entries) {
  assert(layer < c->layers && lane < c->lanes);
  c->kept[layer * c->lanes + lane] = entries;
}

/* --- totals ------------------------------------------------------------- */

/* Bytes of the whole cache in the trace's own dtype at t tokens seen. */
static int64_t dense_bytes(const kv_cost *c, int t) {
  const kv_shape *s = c->shape;
  int64_t row = (int64_t)(s->d + s->d_v) * (int64_t)kv_dtype_size(s->dtype);
  return (int64_t)c->layers * s->n_kv_heads * t * row;
}

static kv_bytes settled_at(const kv_cost *c, int block) {
  const counter *x = c->at[block].settled;
  return (kv_bytes){get(&x[0]), get(&x[1]), get(&x[2]), get(&x[3]), get(&x[4])};
}

static int64_t total_at(const kv_cost *c, int block) {
  kv_bytes b = settled_at(c, block);
  return kv_bytes_total(&b);
}

static int64_t peak_until(const kv_cost *c, int last) {
  int64_t peak = 0;
  for (int i = 0; i <= last; i++) {
    int64_t all = total_at(c, i) + get(&c->at[i].excess);
    if (i == 0 || all > peak) peak = all;
  }
  return peak;
}

static int64_t codes_peak(const kv_cost *c) {
  int64_t peak = 0;
  for (int i = 0; i < c->points; i++) {
    int64_t codes = get(&c->at[i].settled[0]) + get(&c->at[i].codes_excess);
    if (i == 0 || codes > peak) peak = codes;
  }
  return peak;
}

kv_cost_now kv_cost_until(const kv_cost *c, int block) {
  assert(block >= 0 && block < c->points);
  kv_cost_now now = {.held = settled_at(c, block),
                     .peak = peak_until(c, block)};
  int first = c->blocks - 1;
  int64_t sum = 0;
  for (int i = first; i <= block; i++) sum += total_at(c, i);
  if (block >= first) now.mean = (double)sum / (double)(block - first + 1);
  return now;
}

/* From prompt_len to T, after settling; and over the decode steps. */
static void sum_steps(const kv_cost *c, kv_totals *t) {
  const kv_shape *s = c->shape;
  int64_t codes = 0, read = 0, attended = 0, dense = 0;
  int n = c->points - c->blocks, heads = c->layers * s->n_heads;
  double kr = 0;
  for (int i = 0; i <= n; i++) {
    const held *h = &c->at[c->blocks - 1 + i];
    int64_t bytes = total_at(c, c->blocks - 1 + i);
    t->mti += bytes;
    codes += get(&h->settled[0]);
    kr += (double)bytes / (double)dense_bytes(c, s->prompt_len + i);
    read += get(&h->read);
    attended += get(&h->attended);
    dense += i ? (int64_t)heads * (s->prompt_len + i) : 0;
  }
  t->mean = (double)t->mti / (double)(n + 1);
  t->codes_mean = (double)codes / (double)(n + 1);
  t->kr = kr / (double)(n + 1);
  t->read = n ? (double)read / (double)n : (double)NAN;
  t->cr = n ? (double)attended / (double)dense : (double)NAN;
  t->attended =
      n ? (double)attended / ((double)heads * (double)n) : (double)NAN;
}

/* Mean of lanes [low, high) of layers [first, last). */
static double mean_kept(const kv_cost *c, int first, int last, int low,
                        int high) {
  int64_t sum = 0;
  for (int l = first; l < last; l++)
    for (int i = low; i < high; i++) sum += c->kept[l * c->lanes + i];
  return (double)sum / (double)((last - first) * (high - low));
}

static void count_kept(const kv_cost *c, kv_totals *t) {
  t->kept = mean_kept(c, 0, c->layers, 0, c->lanes);
  t->kept_min = t->kept_max = c->kept[0];
  for (int i = 1; i < c->layers * c->lanes; i++) {
    if (c->kept[i] < t->kept_min) t->kept_min = c->kept[i];
    if (c->kept[i] > t->kept_max) t->kept_max = c->kept[i];
  }
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
    int at = c->blocks - 1 + i;
    const held *h = &c->at[at];
    r->step[i] = (kv_step_cost){c->shape->prompt_len + i, total_at(c, at),
                                get(&h->settled[0]), get(&h->read)};
  }
  kv_bytes end = settled_at(c, c->points - 1);
  r->totals = (kv_totals){.end = end,
                          .codes_end = end.payload,
                          .peak = peak_until(c, c->points - 1),
                          .codes_peak = codes_peak(c),
                          .verbs = get(&c->records),
                          .moved = get(&c->moved)};
  sum_steps(c, &r->totals);
  count_kept(c, &r->totals);
  fill_parts(c, r);
  return KV_OK;
}
