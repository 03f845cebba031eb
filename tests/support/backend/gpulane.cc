/* SPDX-License-Identifier: Apache-2.0
 *
 * The two lanes of gpulane.h. Device memory is the executor's: plain memory,
 * full of junk when it is taken.
 */
#include "tests/support/backend/gpulane.h"
#include "gpu/lane/verbs.cuh"
#include "gpu/module/kernels.h"
#include "gpu/shared/device.h"
#include "tests/gpu/gpupool.h"
extern "C" {
#include "ref/kernels/kernels.h"
}
#include <stdlib.h>

enum { LAYER = 5, LANE = 1 };

/* --- random -------------------------------------------------------------- */

static uint64_t state = 1;

void gpulane_seed(uint32_t seed) { state = seed; }

static uint32_t next(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 40);
}

int gpulane_below(int n) { return (int)(next() % (uint32_t)n); }

float gpulane_number(void) {
  return (float)((int32_t)next() - 0x800000) * 0x1p-22f;
}

/* --- the two lanes ------------------------------------------------------- */

/* n elements of device memory, full of junk, given back by close. */
template <class T> static T *take(gpulane *w, int n) {
  void *p = kv_emu_take((size_t)(n ? n : 1) * sizeof(T));
  assert_non_null(p);
  assert_true(w->n_taken < GPULANE_TAKEN);
  w->taken[w->n_taken++] = p;
  return (T *)p;
}

static void put(kv_dtype type, float x, void *at, size_t i) {
  if (type == KV_F32)
    ((float *)at)[i] = x;
  else
    ((uint16_t *)at)[i] = type == KV_F16 ? kv_to_f16(x) : kv_to_bf16(x);
}

/* Rows of all sizes that fp16 has, subnormals too; constant ones, and some
 * that are nearly so, where a minimum's rounding is more than a step. */
static void *random_rows(gpulane *w, int width) {
  int n = w->shape.n_kv_heads * w->shape.n_tokens;
  float *rows = take<float>(w, n * width);
  for (int i = 0; i < n * width; i += width) {
    float all = gpulane_number(), size = gpulane_below(8) ? 1 : 0;
    if (gpulane_below(4) == 0)
      size *= kv_float((uint32_t)(127 - gpulane_below(26)) << 23);
    if (gpulane_below(2)) all = size > 0 ? 0 : all;
    for (int x = 0; x < width; x++)
      put(w->shape.dtype, all + gpulane_number() * size, rows, (size_t)(i + x));
  }
  return rows;
}

static void mirror_slab(gpulane *w, const kv_slab *from, kv_gpu_slab *to) {
  const kv_coding *c = from->coding;
  *to = kv_gpu_slab{};
  if (!from->cap) return;
  to->size = from->size;
  to->width = from->width;
  to->type = (int)from->type;
  to->cap = from->cap;
  if (c) {
    char *settings = take<char>(w, (int)c->format->settings_size);
    memcpy(settings, c->settings, c->format->settings_size);
    to->format = kv_gpu_format_named(c->format->name);
    to->metadata_size =
        (size_t)c->format->size(c->settings, kv_coding_members(c), from->width)
            .metadata;
    to->settings = settings;
    assert_true(to->format > KV_GPU_ROWS);
  }
  to->free = take<int32_t>(w, to->cap);
  to->members = take<uint16_t>(w, to->cap);
  to->live = take<uint16_t>(w, to->cap);
  to->data = take<char>(w, to->cap * (int)to->size);
  to->fresh = take<int32_t>(w, to->cap);
}

/* All pages that a pool can need, one after another. */
static void open_pool(gpulane *w, int width, kv_gpu_raw *pool) {
  int t = w->shape.n_tokens, pages = kv_gpu_pages(t);
  pool->size = (size_t)width * kv_dtype_size(w->shape.dtype);
  pool->free = take<int32_t>(w, t);
  pool->page = take<char *>(w, pages);
  char *rows = take<char>(w, pages * KV_GPU_PAGE * (int)pool->size);
  for (int p = 0; p < pages; p++)
    pool->page[p] = rows + (size_t)p * KV_GPU_PAGE * pool->size;
}

static void mirror_lane(gpulane *w) {
  kv_lane *h = &w->host;
  int t = w->shape.n_tokens;
  kv_gpu_lane *l = w->lane = take<kv_gpu_lane>(w, 1);
  *l = kv_gpu_lane{};
  l->lane = h->lane;
  l->kv_head = h->kv_head;
  l->id = take<uint32_t>(w, t);
  l->weight = take<uint32_t>(w, t);
  l->tier = take<uint8_t>(w, t);
  l->k = take<kv_cell_ref>(w, t);
  l->v = take<kv_cell_ref>(w, t);
  open_pool(w, w->shape.d, &l->k_raw);
  open_pool(w, w->shape.d_v, &l->v_raw);
  if (h->last) {
    l->last = take<uint32_t>(w, t);
    l->next = take<uint32_t>(w, t);
    memset(l->next, 0, (size_t)t * sizeof *l->next);
  }
  for (int c = 0; c < GPULANE_COLUMNS; c++)
    l->column[c].i = take<int64_t>(w, t);
  for (int f = 0; f < KV_SLABS; f++) {
    mirror_slab(w, &h->k_slab[f], &l->k_slab[f]);
    mirror_slab(w, &h->v_slab[f], &l->v_slab[f]);
  }
  l->cap_verbs = (int)h->verbs.cap;
  l->verbs = take<uint32_t>(w, l->cap_verbs);
  l->cap_log = 2 * t + 64;
  l->log_id = take<uint32_t>(w, l->cap_log);
  l->log = take<float>(w, l->cap_log * (w->shape.d + w->shape.d_v));
  l->joined = take<uint32_t>(w, t);
  l->list = take<int32_t>(w, t);
  l->spare = take<uint64_t>(w, t);
}

gpulane *gpulane_open(const gpulane_case *m) {
  gpulane *w = (gpulane *)calloc(1, sizeof *w);
  assert_non_null(w);
  w->shape = {1, 2,        2,    m->d, m->d_v, m->n_tokens, 1,
              0, m->dtype, 1.0f, 0,    0,      nullptr};
  w->needs.merges = m->merges;
  w->needs.merge_bias = m->merges ? 0.6f : 0;
  w->needs.merged = m->merged;
  w->needs.classes = GPULANE_CLASSES;
  w->needs.columns = GPULANE_COLUMNS;
  w->needs.column[0] = KV_INT64;
  w->needs.column[1] = KV_FLOAT;
  w->needs.codings = m->codes ? 2 : 0;
  w->settings = {m->bits, m->group, m->fp16_ops};
  w->needs.coding[0] = {&kv_format_channel, &w->settings, false, KV_BOTH_SIDES};
  w->needs.coding[1] = {&kv_format_token, &w->settings, false, KV_BOTH_SIDES};
  for (int i = 0; m->coding && i < 2; i++) w->needs.coding[i] = m->coding[i];
  w->data.layer = LAYER;
  w->data.k = random_rows(w, m->d);
  w->data.v = random_rows(w, m->d_v);
  assert_false(kv_lane_init(&w->host, &w->shape, &w->needs, kv_kernels_best(),
                            LANE, NULL));
  assert_int_equal(kv_lane_room_init(&w->host.room, m->n_tokens, NULL), 0);
  kv_lane_begin(&w->host, w->host.needs, &w->data);
  mirror_lane(w);
  w->layer.shape = w->shape;
  w->layer.needs = w->needs;
  w->layer.layer = LAYER;
  w->layer.lanes = 1;
  w->clock = take<kv_gpu_clock>(w, 1);
  w->layer.clock = w->clock;
  w->layer.lane = w->lane;
  w->layer.k = (const char *)w->data.k;
  w->layer.v = (const char *)w->data.v;
  w->k = take<float>(w, m->n_tokens * m->d);
  w->v = take<float>(w, m->n_tokens * m->d_v);
  w->bias = take<float>(w, m->n_tokens);
  w->list = take<int32_t>(w, m->n_tokens);
  w->keep = take<uint8_t>(w, m->n_tokens);
  return w;
}

void gpulane_close(gpulane *w) {
  kv_lane_room_release(&w->host.room);
  kv_lane_release(&w->host);
  for (int i = 0; i < w->n_taken; i++) kv_emu_give(w->taken[i]);
  free(w);
}

/* Tokens enter both. The journal and the log go on, though to the device a step
 * begins. */
void gpulane_append(gpulane *w, int count) {
  kv_lane *h = &w->host;
  kv_gpu_lane *l = w->lane, before = *l;
  if (count > w->shape.n_tokens - w->seen) count = w->shape.n_tokens - w->seen;
  if (count == 0) return;
  int from = h->n;
  kv_lane_append(h, w->seen, count);
  *w->clock = {w->seen, count, 0, 0, 0};
  kv_gpu_start_append(NULL, &w->layer, count);
  l->n_verbs = before.n_verbs;
  l->n_log = before.n_log;
  l->n_joined = before.n_joined;
  w->seen += count;
  for (int i = from; i < h->n; i++) {
    l->column[0].i[i] = h->column[0].i[i] = (int64_t)next() << 30 | next();
    l->column[1].f[i] = h->column[1].f[i] = gpulane_number();
  }
}

/* --- one verb on both ---------------------------------------------------- */

static __global__ void carry_out(kv_gpu_layer l, gpulane_verb v,
                                 const int32_t *list, const uint8_t *keep) {
  kv_gpu_at at = {&l, nullptr, nullptr, 0, nullptr, 0, 0, nullptr, -1};
  kv_gpu_lane *lane = l.lane;
  if (v.kind == gpulane_verb::KEEP) kv_gpu_keep(at, lane, v.n, list);
  if (v.kind == gpulane_verb::MASK) kv_gpu_keep_mask(at, lane, keep);
  if (v.kind == gpulane_verb::MERGE)
    kv_gpu_merge(at, lane, v.one, v.other, v.a, v.b);
  if (v.kind == gpulane_verb::RECODE)
    kv_gpu_recode(at, lane, v.n, list, v.k_format, v.v_format);
  if (v.kind == gpulane_verb::MOVE) kv_gpu_move(at, lane, v.one, v.other);
  if (v.kind == gpulane_verb::RETIER)
    kv_gpu_retier(at, lane, v.n, list, v.other);
  if (v.kind == gpulane_verb::SWEEP) kv_gpu_sweep(at, lane);
}

void gpulane_both(gpulane *w, gpulane_verb v) {
  kv_lane *h = &w->host;
  KV_LAUNCH(NULL, carry_out, 1u, KV_BLOCK, w->layer, v, w->list, w->keep);
  if (v.kind == gpulane_verb::KEEP) kv_keep(h, v.n, w->list);
  if (v.kind == gpulane_verb::MASK) kv_keep_mask(h, (const bool *)w->keep);
  if (v.kind == gpulane_verb::MERGE) kv_merge(h, v.one, v.other, v.a, v.b);
  if (v.kind == gpulane_verb::RECODE)
    kv_recode(h, v.n, w->list, v.k_format, v.v_format);
  if (v.kind == gpulane_verb::MOVE) kv_move(h, v.one, v.other);
  if (v.kind == gpulane_verb::RETIER) kv_retier(h, v.n, w->list, v.other);
  if (v.kind == gpulane_verb::SWEEP) kv_sweep(h);
}

/* --- equal? -------------------------------------------------------------- */

static void same(const void *a, const void *b, size_t n) {
  if (n) assert_memory_equal(a, b, n);
}

static void same_slab(const kv_slab *h, const kv_gpu_slab *l) {
  size_t used = (size_t)h->used;
  assert_int_equal(l->used, h->used);
  assert_int_equal(l->n_free, h->n_free);
  assert_int_equal(l->held, h->held);
  assert_int_equal(l->codes, h->bytes.codes);
  assert_int_equal(l->metadata, h->bytes.metadata);
  same(l->free, h->free, (size_t)h->n_free * sizeof *h->free);
  same(l->members, h->members, used * sizeof *h->members);
  same(l->live, h->live, used * sizeof *h->live);
  for (size_t b = 0; b < used; b++) {
    kv_coded_size size = kv_slab_bytes(h, h->members[b]);
    if (h->live[b])
      same(l->data + b * l->size, h->data + b * h->size,
           size.codes + size.metadata);
  }
}

static void same_arrays(const gpulane *w) {
  const kv_lane *h = &w->host;
  const kv_gpu_lane *l = w->lane;
  size_t n = (size_t)h->n;
  same(l->id, h->id, n * sizeof *h->id);
  same(l->weight, h->weight, n * sizeof *h->weight);
  same(l->tier, h->tier, n);
  same(l->column[0].i, h->column[0].i, n * sizeof(int64_t));
  same(l->column[1].f, h->column[1].f, n * sizeof(float));
  for (size_t i = 0; h->k && i < n; i++) {
    assert_int_equal(l->k[i].format, h->k[i].format);
    assert_int_equal(l->v[i].format, h->v[i].format);
    if (h->k[i].format != KV_RAW) same(&l->k[i], &h->k[i], sizeof *h->k);
    if (h->v[i].format != KV_RAW) same(&l->v[i], &h->v[i], sizeof *h->v);
  }
  if (!h->last) return;
  same(l->last, h->last, n * sizeof *h->last);
  same(l->next, h->next, (size_t)w->shape.n_tokens * sizeof *h->next);
}

static __global__ void read_rows(kv_gpu_layer l, float *k, float *v,
                                 float *bias) {
  const kv_gpu_lane *lane = l.lane;
  int d = l.shape.d, d_v = l.shape.d_v;
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) {
    if (lane->weight[i] == 0) continue; /* marked: it has no rows */
    for (int x = 0; x < d; x++) k[i * d + x] = kv_gpu_key(l, lane, i, x);
    for (int x = 0; x < d_v; x++) v[i * d_v + x] = kv_gpu_value(l, lane, i, x);
    bias[i] = kv_gpu_bias(l, lane, i);
  }
}

static void same_rows(const gpulane *w) {
  float row[64];
  int d = w->shape.d, d_v = w->shape.d_v;
  KV_LAUNCH(NULL, read_rows, 1u, KV_BLOCK, w->layer, w->k, w->v, w->bias);
  for (int i = 0; i < w->host.n; i++) {
    if (w->host.weight[i] == 0) continue;
    float bias = kv_lane_bias(&w->host, i);
    kv_lane_key(&w->host, i, row);
    same(w->k + i * d, row, (size_t)d * sizeof *row);
    kv_lane_value(&w->host, i, row);
    same(w->v + i * d_v, row, (size_t)d_v * sizeof *row);
    same(w->bias + i, &bias, sizeof bias);
  }
}

/* R <- H(R || id || K bits || V bits) over the new rows of the log. */
static void same_log(gpulane *w) {
  size_t wide = (size_t)(w->shape.d + w->shape.d_v);
  for (; w->logged < w->lane->n_log; w->logged++) {
    kv_sha256 s;
    kv_sha256_init(&s);
    kv_sha256_add(&s, w->rewrites.byte, sizeof w->rewrites.byte);
    kv_sha256_add(&s, w->lane->log_id + w->logged, sizeof(uint32_t));
    kv_sha256_add(&s, w->lane->log + (size_t)w->logged * wide,
                  wide * sizeof(float));
    w->rewrites = kv_sha256_end(&s);
  }
  same(&w->rewrites, &w->host.rewrites, sizeof w->rewrites);
}

void gpulane_same(gpulane *w) {
  const kv_lane *h = &w->host;
  const kv_gpu_lane *l = w->lane;
  assert_int_equal(l->n, h->n);
  assert_int_equal(l->marked, h->marked);
  assert_int_equal(l->tail, h->tail);
  if (h->marked) assert_int_equal(l->first_marked, h->first_marked);
  assert_int_equal(l->dropped, h->dropped);
  assert_int_equal(l->holes, h->holes);
  assert_int_equal(l->rewritten, h->rewritten);
  assert_int_equal(l->n_verbs, h->verbs.n);
  same(l->verbs, h->verbs.word, h->verbs.n * sizeof *l->verbs);
  const char *wrong = gpupool_wrong(l);
  if (wrong) fail_msg("a pool has %s", wrong);
  same_arrays(w);
  for (int f = 0; f < KV_SLABS; f++) {
    same_slab(&h->k_slab[f], &l->k_slab[f]);
    same_slab(&h->v_slab[f], &l->v_slab[f]);
  }
  same_rows(w);
  same_log(w);
}

void gpulane_end_step(gpulane *w) {
  w->host.verbs.n = 0;
  w->lane->n_verbs = w->lane->n_log = w->lane->n_joined = w->logged = 0;
}
