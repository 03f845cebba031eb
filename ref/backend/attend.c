/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention by chunks, observation by rows: arithmetic 3 and 4.
 */
#include "ref/backend/attend.h"
#include "ref/formats/block.h"
#include "ref/ground/arith.h"
#include "ref/ground/places.h"
#include <stdlib.h>
#include <string.h>

kv_rc kv_attend_scratch_init(kv_attend_scratch *x, int d, int d_v, int heads,
                             int entries, kv_err *e) {
  size_t chunks = ((size_t)entries + KV_CHUNK - 1) / KV_CHUNK + 1;
  size_t m = (size_t)heads, wide = (size_t)(d > d_v ? d : d_v);
  *x = (kv_attend_scratch){
      .p = kv_zalloc(m * KV_CHUNK, sizeof(float)),
      .chunks = chunks,
      .mass = kv_zalloc(m, sizeof(int64_t)),
      .l = kv_zalloc(m, sizeof(float)),
      .best = kv_zalloc(m, sizeof(float)),
      .top = kv_zalloc(m * chunks, sizeof(float)),
      .part = kv_zalloc(m * (size_t)d_v, sizeof(float)),
      .pack = kv_zalloc((size_t)KV_PACK * (size_t)d, sizeof(float)),
      .rows = kv_zalloc(KV_CHUNK * wide, sizeof(float)),
      .room = kv_zalloc(KV_PLACE_ROOM(d), sizeof(float))};
  if (x->p && x->mass && x->l && x->best && x->top && x->part && x->pack &&
      x->rows && x->room)
    return KV_OK;
  return kv_no_memory(e, "attention", m * chunks * 4);
}

void kv_attend_scratch_release(kv_attend_scratch *x) {
  free(x->p);
  free(x->mass);
  free(x->l);
  free(x->best);
  free(x->top);
  free(x->part);
  free(x->pack);
  free(x->rows);
  free(x->room);
}

/* Computes m_c of a head's chunks from entry `from` on and returns the largest.
 * All are known before the first value is read, so the chains L and O take each
 * chunk as it comes, and no partial sum is kept. */
static float chunk_tops(const kv_kernels *kernel, int from, int n,
                        const float *s, float *top) {
  int count = n - from < KV_CHUNK ? n - from : KV_CHUNK;
  float best = kernel->max(s + from, count);
  for (int first = from; first < n; first += KV_CHUNK) {
    count = n - first < KV_CHUNK ? n - first : KV_CHUNK;
    top[first / KV_CHUNK] = kernel->max(s + first, count);
    best = kv_max(best, top[first / KV_CHUNK]);
  }
  return best;
}

/* How many entries' exponentials are computed before their values are weighed:
 * few, so that memory delivers the prefetched rows in the meantime. More if
 * many heads share a row, because arithmetic then takes the time. A whole chunk
 * if rows are codes, which take at most half of an fp16 row (measured). */
enum { SPAN = 32, SPAN_OF_MANY = 64, SPAN_OF_CODES = KV_CHUNK };

static int span_of(int m, kv_row_kind kind) {
  if (m >= KV_MANY_HEADS) return SPAN_OF_MANY;
  return kind.bits ? SPAN_OF_CODES : SPAN;
}

/* One attention in progress. */
typedef struct attention {
  const kv_kernels *kernel;
  int steps, m, n; /* step r: heads r * m .., entries 0 .. n + r - 1 */
  int d_v;
  const float *s;
  size_t lds;
  kv_value_rows value;
  void *ctx;
  kv_attend_scratch *x;
} attention;

/* Fetches the logits of the next span back into the first-level cache. */
static void fetch_logits(int m, const float *s, size_t lds) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < SPAN; j += 16)
      __builtin_prefetch(s + (size_t)i * lds + j);
}

/* Entries j..end-1 of the chunk that begins at `first`: computes p_j and the
 * mass of heads h..h+m-1, then adds to their a_c. row[0]: entry j's values. */
static void span(const attention *a, int h, int m, int first, int j, int end,
                 const void *const *row, kv_row_kind kind) {
  kv_attend_scratch *x = a->x;
  const float *s = a->s + (size_t)h * a->lds + first;
  const float *top = x->top + (size_t)h * x->chunks + first / KV_CHUNK;
  float *p = x->p + (size_t)h * KV_CHUNK + j;
  for (int i = 0; i < m; i++)
    x->mass[h + i] += a->kernel->exp_sum(s + (size_t)i * a->lds + j,
                                         top[(size_t)i * x->chunks], end - j,
                                         p + (size_t)i * KV_CHUNK);
  if (m < KV_MANY_HEADS) fetch_logits(m, s + end, a->lds);
  float *part = x->part + (size_t)h * (size_t)a->d_v;
  if (kind.block)
    a->kernel->block_weigh(m, end - j, a->d_v, p, KV_CHUNK, row, kind.block,
                           part);
  else if (kind.bits)
    a->kernel->code_weigh(m, end - j, a->d_v, p, KV_CHUNK, row, kind.bits,
                          kind.run, part);
  else
    a->kernel->weigh(m, end - j, a->d_v, p, KV_CHUNK, row, kind.type, part);
}

static void read_codes(const attention *a, kv_row_kind kind, const void *block,
                       float *out) {
  size_t runs = (size_t)((a->d_v + kind.run - 1) / kind.run);
  const char *scale = block, *min = scale + 2 * runs;
  a->kernel->minmax(kind.bits, a->d_v, kind.run, min + 2 * runs, scale, min,
                    out);
}

/* The n named rows as fp32. */
static void widen_rows(const attention *a, int n, kv_row_kind *kind) {
  kv_attend_scratch *x = a->x;
  size_t d_v = (size_t)a->d_v;
  for (int i = 0; i < n; i++) {
    float *row = x->rows + (size_t)i * d_v;
    if (kind->bits)
      read_codes(a, *kind, x->row[i], row);
    else
      a->kernel->widen(kind->type, x->row[i], d_v, row);
    x->row[i] = row;
  }
  *kind = (kv_row_kind){.type = KV_F32};
}

/* Weighs entries from..end-1 of the chunk that begins at `first`. */
static void weigh(const attention *a, int h, int m, int first, int from,
                  int end) {
  for (int n; from < end; from += n) {
    kv_row_kind kind = {.type = KV_F32};
    n = a->value(a->ctx, first + from, end - from, a->x, &kind);
    if (m >= KV_MANY_HEADS && !kind.block && (kind.bits || kind.type != KV_F32))
      widen_rows(a, n, &kind);
    const int most = span_of(m, kind);
    for (int j = from, stop; j < from + n; j = stop) {
      stop = j + most < from + n ? j + most : from + n;
      span(a, h, m, first, j, stop, a->x->row + (j - from), kind);
    }
  }
}

/* How many entries of the chunk step r sees. */
static int seen_of(const attention *a, int r, int first) {
  int seen = a->n + r - first;
  return seen < 0 ? 0 : seen > KV_CHUNK ? KV_CHUNK : seen;
}

/* Adds a chunk to a head's chains L and O. */
static void add_chunk(const attention *a, int head, const kv_chunk *c,
                      float *out) {
  const void *part = c->a;
  kv_attend_scratch *x = a->x;
  float w = kv_expm(c->m - x->best[head]);
  x->l[head] = kv_fma(w, c->l, x->l[head]);
  a->kernel->weigh(1, 1, a->d_v, &w, 1, &part, KV_F32,
                   out + (size_t)head * (size_t)a->d_v);
}

/* Computes l_c and a_c of the chunk for every head and adds them to the chains.
 * Entries that all steps see are weighed for all of them at once. */
static void chunk(const attention *a, int first, float *out) {
  kv_attend_scratch *x = a->x;
  int all = a->steps * a->m, shared = seen_of(a, 0, first);
  memset(x->mass, 0, (size_t)all * sizeof *x->mass);
  memset(x->part, 0, (size_t)all * (size_t)a->d_v * sizeof *x->part);
  weigh(a, 0, all, first, 0, shared);
  for (int r = 1; r < a->steps; r++)
    weigh(a, r * a->m, a->m, first, shared, seen_of(a, r, first));
  for (int i = 0; i < all; i++) {
    if (seen_of(a, i / a->m, first) == 0) continue;
    kv_chunk c = {.m = x->top[(size_t)i * x->chunks + (size_t)first / KV_CHUNK],
                  .l = kv_unfix(x->mass[i]),
                  .a = x->part + (size_t)i * (size_t)a->d_v};
    add_chunk(a, i, &c, out);
  }
}

/* The method's own chunk, which comes after the last; NULL: none. */
static const kv_chunk *one_more(const kv_attend_scratch *x, int head) {
  return x->more && x->more[head].l > 0 ? &x->more[head] : NULL;
}

/* M of a head, over entries from `from` on and the method's own chunk. */
static float best_of(const attention *a, int head, int from) {
  kv_attend_scratch *x = a->x;
  float best = chunk_tops(a->kernel, from, a->n + head / a->m,
                          a->s + (size_t)head * a->lds,
                          x->top + (size_t)head * x->chunks);
  const kv_chunk *more = one_more(x, head);
  if (x->sink) best = kv_max(best, x->sink[head % a->m]);
  return more ? kv_max(best, more->m) : best;
}

/* Can the attention continue from what was begun? It can if every head's M is
 * as predicted. L, O and M are then valid. */
static bool goes_on(const attention *a, float *out) {
  kv_attend_scratch *x = a->x;
  const kv_begun *b = x->begun;
  if (!b || a->steps > 1 || b->entries >= a->n) return false;
  for (int i = 0; i < a->m; i++) {
    x->best[i] = kv_max(b->first[i], best_of(a, i, b->entries));
    if (x->best[i] != b->best[i]) return false;
  }
  memcpy(x->l, b->l, (size_t)a->m * sizeof *x->l);
  memcpy(out, b->o, (size_t)a->m * (size_t)a->d_v * sizeof *out);
  return true;
}

static void start(const attention *a, float *out) {
  kv_attend_scratch *x = a->x;
  size_t heads = (size_t)a->steps * (size_t)a->m;
  memset(x->l, 0, heads * sizeof *x->l);
  memset(out, 0, heads * (size_t)a->d_v * sizeof *out);
}

static void finish(const attention *a, int head, float *out, float *lse) {
  const kv_attend_scratch *x = a->x;
  float l, *row = out + (size_t)head * (size_t)a->d_v;
  if (one_more(x, head)) add_chunk(a, head, one_more(x, head), out);
  l = x->l[head];
  if (x->sink)
    l = kv_add(kv_expm(kv_sub(x->sink[head % a->m], x->best[head])), l);
  for (int v = 0; v < a->d_v; v++) row[v] = row[v] / l;
  lse[head] = x->best[head] + kv_log(l);
}

void kv_attend_tile(const kv_kernels *kernel, int steps, int m, int n, int d_v,
                    const float *s, size_t lds, kv_value_rows value, void *ctx,
                    kv_attend_scratch *x, float *out, float *lse) {
  const attention a = {kernel, steps, m, n, d_v, s, lds, value, ctx, x};
  int first = 0;
  if (goes_on(&a, out)) {
    first = x->begun->entries;
  } else {
    start(&a, out);
    for (int i = 0; i < steps * m; i++) x->best[i] = best_of(&a, i, 0);
  }
  for (; first < n + steps - 1; first += KV_CHUNK) chunk(&a, first, out);
  for (int i = 0; i < steps * m; i++) finish(&a, i, out, lse);
}

void kv_attend_begin(const kv_kernels *kernel, int m, int n, int d_v,
                     const float *s, size_t lds, kv_value_rows value, void *ctx,
                     kv_attend_scratch *x, const float *best, float *l,
                     float *o) {
  const attention a = {kernel, 1, m, n, d_v, s, lds, value, ctx, x};
  start(&a, o);
  for (int i = 0; i < m; i++) best_of(&a, i, 0);
  memcpy(x->best, best, (size_t)m * sizeof *best);
  for (int first = 0; first < n; first += KV_CHUNK) chunk(&a, first, o);
  memcpy(l, x->l, (size_t)m * sizeof *l);
}

void kv_attend_rows(const kv_kernels *kernel, int m, int n, int d_v,
                    const float *s, size_t lds, kv_value_rows value, void *ctx,
                    kv_attend_scratch *x, float *out, float *lse) {
  kv_attend_tile(kernel, 1, m, n, d_v, s, lds, value, ctx, x, out, lse);
}

int64_t kv_observation_row(const kv_kernels *kernel, int n, const float *s,
                           float *p) {
  int64_t mass = kernel->exp_sum(s, kernel->max(s, n), n, p);
  kernel->scale(1.0f / kv_unfix(mass), n, p);
  return mass;
}

int64_t kv_observation_sink(const kv_kernels *kernel, int n, const float *s,
                            const float *sink, float *p, float *share) {
  *share = 0;
  if (!sink) return kv_observation_row(kernel, n, s, p);
  float top = kv_max(kernel->max(s, n), *sink);
  float e = kv_expm(kv_sub(*sink, top));
  int64_t mass = kernel->exp_sum(s, top, n, p) + kv_fix_exp(e);
  float r = 1.0f / kv_unfix(mass);
  kernel->scale(r, n, p);
  *share = kv_mul(e, r);
  return mass;
}

bool kv_all_finite(const float *x, int n) {
  enum { AT_ONCE = 16 };
  uint32_t carry[AT_ONCE] = {0}, any = 0; /* sign bit: an exponent of ones */
  int i = 0;
  for (; i + AT_ONCE <= n; i += AT_ONCE)
    for (int j = 0; j < AT_ONCE; j++)
      carry[j] |= (kv_bits(x[i + j]) & 0x7f800000u) + 0x00800000u;
  for (; i < n; i++) any |= (kv_bits(x[i]) & 0x7f800000u) + 0x00800000u;
  for (int j = 0; j < AT_ONCE; j++) any |= carry[j];
  return any < 0x80000000u;
}

/* --- rows of a lane ------------------------------------------------------- */

/* Keys and values of a lane as attention reads them: raw rows directly from the
 * trace, rewritten rows from their blocks. Re-indexed keys are rotated when
 * read, and never stored. */

void kv_lane_query(const kv_lane *l, int i, kv_attend_scratch *x, float *q) {
  if (l->needs->reindex) kv_place_row(l->places, l->id[i], i, x->room, q);
}

static bool raw_key(const kv_lane *l, int i) {
  return !l->needs->reindex && (!l->k || l->k[i].format == KV_RAW);
}

static bool raw_value(const kv_lane *l, int i) {
  return !l->v || l->v[i].format == KV_RAW;
}

static bool coded_key(const kv_lane *l, int i) {
  return l->k && l->k[i].format >= KV_CODED;
}

static bool coded_value(const kv_lane *l, int i) {
  return l->v && l->v[i].format >= KV_CODED;
}

/* Key of entry i as attention reads it, fp32. */
static void read_key(const kv_lane *l, int i, kv_attend_scratch *x,
                     float *row) {
  kv_lane_key(l, i, row);
  if (l->needs->reindex) kv_place_row(l->places, l->id[i], i, x->room, row);
}

void kv_lane_materialise(const kv_lane *l, int i, const kv_materialised *to,
                         kv_attend_scratch *x) {
  if (to->k && coded_key(l, i))
    read_key(l, i, x, to->k + (size_t)i * (size_t)l->shape->d);
  if (to->v && coded_value(l, i))
    kv_lane_value(l, i, to->v + (size_t)i * (size_t)l->shape->d_v);
}

/* The fewest neighboring coded rows of one kind for which reading them in place
 * is faster: a register full of keys. */
enum { LEAST_IN_PLACE = 16 };

/* How many of at most `count` entries from i on are in the slab of entry i. */
static int alike(const kv_cell_ref *side, int i, int count) {
  int n = 1;
  while (n < count && side[i + n].format == side[i].format) n++;
  return n;
}

/* Names the blocks of at most count coded rows from entry i on, if kernels can
 * read them in place; returns how many, or 0. */
static int name_blocks(const kv_lane *l, const kv_cell_ref *side,
                       const kv_slab *slab, int i, int count,
                       kv_attend_scratch *x, kv_row_kind *kind) {
  if (!side || side[i].format < KV_CODED) return 0;
  const kv_slab *s = &slab[side[i].format];
  const kv_format *format = s->coding->format;
  if (kv_coding_prepares(s->coding)) return 0;
  const void *settings = kv_lane_settings(l, s->coding);
  kind->block = format == &kv_format_block ? &x->block : NULL;
  if (kind->block) {
    if (!kv_block_in_place(settings, s->width, &x->block)) return 0;
    kind->bits = x->block.bits;
  } else if (!format->in_place ||
             !format->in_place(settings, &kind->bits, &kind->run) ||
             !l->kernels->codes_suit(kind->bits, kind->run, s->width)) {
    return 0;
  }
  int n = alike(side, i, count);
  if (n < count && n < LEAST_IN_PLACE) return 0;
  for (int j = 0; j < n; j++)
    x->row[j] = s->data + (size_t)side[i + j].block * s->size;
  return n;
}

/* The same for keys. */
static int name_key_blocks(const kv_lane *l, int i, int count,
                           kv_attend_scratch *x, kv_row_kind *kind) {
  if (!coded_key(l, i) || x->materialised.k || l->needs->reindex) return 0;
  return name_blocks(l, l->k, l->k_slab, i, count, x, kind);
}

/* Names a run of key rows of one kind from entry i on, at most count. */
static int name_keys(const kv_lane *l, int i, int count, kv_attend_scratch *x,
                     kv_dtype *type) {
  bool raw = raw_key(l, i);
  int n = 0, d = l->shape->d;
  size_t size = (size_t)d * kv_dtype_size(l->shape->dtype);
  const char *base = kv_lane_raw_key(l, 0);
  *type = raw ? l->shape->dtype : KV_F32;
  for (; n < count && raw_key(l, i + n) == raw; n++) {
    if (raw) {
      x->row[n] = base + l->id[i + n] * size;
      continue;
    }
    if (x->materialised.k && coded_key(l, i + n)) {
      x->row[n] = x->materialised.k + (size_t)(i + n) * (size_t)d;
      continue;
    }
    float *row = x->rows + (size_t)n * (size_t)d;
    read_key(l, i + n, x, row);
    x->row[n] = row;
  }
  return n;
}

/* Copies the known logits of raw entries, from i on and at most count. Returns
 * how many it copied. */
static int copy_known(const kv_lane *l, int m, int i, int count,
                      const float *known, size_t known_stride, float *s,
                      size_t lds) {
  int n = 0;
  bool own_places = !l->dropped && !l->holes; /* entry i is token i */
  while (n < count && raw_key(l, i + n)) n++;
  for (int h = 0; h < m; h++) {
    const float *from = known + (size_t)h * known_stride;
    float *to = s + (size_t)h * lds + i;
    if (own_places)
      memcpy(to, from + i, (size_t)n * sizeof *to);
    else
      for (int j = 0; j < n; j++) to[j] = from[l->id[i + j]];
  }
  return n;
}

static void add_bias(const kv_lane *l, int m, int first, int count, float *s,
                     size_t lds) {
  if (l->needs->merge_bias == 0 || l->rewritten == 0) return;
  for (int i = first; i < first + count; i++) {
    if (l->weight[i] == 1) continue;
    float bias = kv_lane_bias(l, i);
    for (int h = 0; h < m; h++) {
      float *at = s + (size_t)h * lds + i;
      *at = *at + bias + 0.0f;
    }
  }
}

/* Computes logits, without bias, of entries of one kind from i on, at most
 * count; returns how many. */
static int some_logits(const kv_kernels *kernel, const kv_lane *l, int m,
                       const float *q, size_t ldq, int i, int count, float *s,
                       size_t lds, kv_attend_scratch *x) {
  const kv_shape *shape = l->shape;
  kv_row_kind of;
  int n = count < KV_KEYS ? count : KV_KEYS;
  n = name_key_blocks(l, i, n, x, &of);
  if (n > 0 && (m < KV_MANY_HEADS || of.block)) {
    if (of.block)
      kernel->block_logits(m, n, shape->d, q, ldq, x->row, of.block,
                           shape->scale, s, lds, x->pack);
    else
      kernel->code_logits(m, n, shape->d, q, ldq, x->row, of.bits, of.run,
                          shape->scale, s, lds, x->pack);
    kernel->softcap(shape->softcap, m, n, s, lds);
    return n;
  }
  n = count < KV_CHUNK ? count : KV_CHUNK; /* rows that can be decoded */
  n = name_keys(l, i, n, x, &of.type);
  kernel->logits(m, n, shape->d, q, ldq, x->row, of.type, shape->scale, s, lds,
                 x->pack);
  kernel->softcap(shape->softcap, m, n, s, lds);
  return n;
}

void kv_lane_logits(const kv_kernels *kernel, const kv_lane *l, int m,
                    const float *q, size_t ldq, int first, int count,
                    const float *known, size_t known_stride, float *s,
                    size_t lds, kv_attend_scratch *x) {
  for (int i = first, left = count; left > 0;) {
    int n = 0;
    if (known) n = copy_known(l, m, i, left, known, known_stride, s, lds);
    if (n == 0) n = some_logits(kernel, l, m, q, ldq, i, left, s + i, lds, x);
    i += n;
    left -= n;
  }
  add_bias(l, m, first, count, s, lds);
}

/* --- values of a view --------------------------------------------------- */

/* The entry at index `at` of the view. Chunks come in order, so the search for
 * the run begins at the last one. */
static int entry_of(kv_lane_values *v, int at) {
  if (at < v->before) v->at_run = v->before = 0;
  while (at - v->before >= v->view->run[v->at_run].count)
    v->before += v->view->run[v->at_run++].count;
  return v->view->run[v->at_run].first + at - v->before;
}

/* The end of the current run: one past its last entry. */
static int run_end(const kv_lane_values *v) {
  return v->view->run[v->at_run].first + v->view->run[v->at_run].count;
}

int kv_lane_value_rows(void *values, int first, int count, kv_attend_scratch *x,
                       kv_row_kind *kind) {
  kv_lane_values *v = values;
  const kv_lane *l = v->lane;
  int entry = entry_of(v, first), end = run_end(v), n = 0;
  if (!x->materialised.v) {
    int left = end - entry < count ? end - entry : count;
    n = name_blocks(l, l->v, l->v_slab, entry, left, x, kind);
    if (n > 0) return n;
  }
  bool raw = raw_value(l, entry);
  size_t size = (size_t)l->shape->d_v * kv_dtype_size(l->shape->dtype);
  const char *base = kv_lane_raw_value(l, 0);
  *kind = (kv_row_kind){.type = raw ? l->shape->dtype : KV_F32};
  for (; n < count; n++, entry++) {
    if (entry == end) {
      entry = entry_of(v, first + n);
      end = run_end(v);
    }
    if (raw_value(l, entry) != raw) break;
    if (raw) {
      x->row[n] = base + l->id[entry] * size;
    } else if (x->materialised.v && coded_value(l, entry)) {
      x->row[n] = x->materialised.v + (size_t)entry * (size_t)l->shape->d_v;
    } else {
      float *row = x->rows + (size_t)n * (size_t)l->shape->d_v;
      kv_lane_value(l, entry, row);
      x->row[n] = row;
    }
  }
  return n;
}
