/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step attended: the lane as it was read and, for each query head, its
 * view, logits, chunks, output and LSE. Logits, output and LSE are computed
 * here from rows and codes in plain loops; a difference from the engine's is
 * KV_INTERNAL.
 */
#include "sim/run/look/vectors_part.h"

#include "ref/backend/attend.h"
#include "ref/formats/block.h"
#include "ref/ground/arith.h"
#include "ref/ground/rope.h"
#include <stdlib.h>
#include <string.h>

/* One step of one lane. */
typedef struct step {
  kv_vectors *v;
  const kv_lane *l;
  int layer, step;
  const float *k, *val; /* [n][d], [n][d_v] as read */
} step;

static void *put(const step *s, int stage, int head, kv_st_dtype type,
                 size_t rows, size_t width) {
  return kv_vectors_put(s->v, &(kv_vector){.stage = stage,
                                           .layer = s->layer,
                                           .step = s->step,
                                           .head = head,
                                           .type = type,
                                           .rows = rows,
                                           .width = width});
}

/* --- the lane ----------------------------------------------------------- */

static int32_t position(const step *s, int entry) {
  return kv_rope_position(&s->v->cell->trace->rope, 0) + entry;
}

/* Arithmetic 6: rotates back by the entry's position, then to its new one. */
static void rotate(const step *s, int entry, float *row) {
  const kv_rope *rope = &s->v->cell->trace->rope;
  int d = s->l->shape->d;
  int32_t from = kv_rope_position(rope, s->l->id[entry]);
  int32_t to = position(s, entry);
  if (from == to) return;
  kv_rope_table(rope->inv_freq, d, from, s->v->sc);
  kv_rope_unrotate(d, rope->interleaved, s->v->sc, row, row);
  kv_rope_table(rope->inv_freq, d, to, s->v->sc);
  kv_rope_rotate(d, rope->interleaved, s->v->sc, row, row);
}

static void put_entries(const step *s) {
  const kv_lane *l = s->l;
  size_t n = (size_t)l->n;
  int32_t *id = put(s, KV_V_ENTRIES, l->lane, KV_ST_I32, n, 1), *more;
  for (int i = 0; id && i < l->n; i++) id[i] = (int32_t)l->id[i];
  more =
      l->needs->merges ? put(s, KV_V_WEIGHTS, l->lane, KV_ST_I32, n, 1) : NULL;
  for (int i = 0; more && i < l->n; i++) more[i] = (int32_t)l->weight[i];
  more = l->needs->reindex ? put(s, KV_V_POSITIONS, l->lane, KV_ST_I32, n, 1)
                           : NULL;
  for (int i = 0; more && i < l->n; i++) more[i] = position(s, i);
}

/* Reads the rows as attention does, and adds them as matrices unless they are
 * the trace's rows. False after a fault. */
static bool read_rows(step *s, float *k, float *val) {
  const kv_lane *l = s->l;
  size_t n = (size_t)l->n, d = (size_t)l->shape->d, d_v = (size_t)l->shape->d_v;
  for (int i = 0; i < l->n; i++) {
    kv_lane_key(l, i, k + (size_t)i * d);
    kv_lane_value(l, i, val + (size_t)i * d_v);
    if (l->needs->reindex) rotate(s, i, k + (size_t)i * d);
  }
  s->k = k;
  s->val = val;
  float *out = NULL;
  if (l->rewritten || l->needs->reindex)
    out = put(s, KV_V_K_READ, l->lane, KV_ST_F32, n, d);
  if (out) memcpy(out, k, n * d * sizeof *k);
  out = l->rewritten ? put(s, KV_V_V_READ, l->lane, KV_ST_F32, n, d_v) : NULL;
  if (out) memcpy(out, val, n * d_v * sizeof *val);
  return !s->v->fault.rc;
}

/* --- codes -------------------------------------------------------------- */

/* The coded rows of one side in one format. */
typedef struct coded {
  const kv_cell_ref *ref;
  const kv_slab *slab;
  uint16_t format;
  int first; /* stage of the page table; codes, scales, minima, and what was
                clipped follow */
} coded;

static const char *block_of(const coded *c, int i) {
  return c->slab->data + (size_t)c->ref[i].block * c->slab->size;
}

/* Numbers the coded rows' groups, in the order of their first entries, and
 * fills the page table. group: for each block its number + 1, zeroed before. */
static size_t number(const step *s, const coded *c, int32_t *group,
                     int32_t *table, int *groups) {
  size_t rows = 0;
  for (int i = 0; i < s->l->n; i++) {
    table[2 * i] = table[2 * i + 1] = -1;
    if (c->ref[i].format != c->format) continue;
    int32_t *of = &group[c->ref[i].block];
    if (!*of) *of = ++*groups;
    table[2 * i] = (int32_t)rows++;
    table[2 * i + 1] = *of - 1;
  }
  return rows;
}

/* The prepared row that entry i's code was made from. */
static void original(const step *s, const coded *c, int i, float *row) {
  const kv_lane *l = s->l;
  const kv_shape *shape = l->shape;
  bool key = c->first == KV_V_K_PAGES;
  size_t width = (size_t)c->slab->width;
  size_t at = (size_t)l->kv_head * (size_t)shape->n_tokens + l->id[i];
  const char *from = key ? l->data->k : l->data->v;
  s->v->cell->plan.kernels->widen(
      shape->dtype, from + at * width * kv_dtype_size(shape->dtype), width,
      row);
  kv_lane_prepare(l, c->slab->coding, key, l->id[i], row);
}

/* Counts what formats with a scale of the tensor clip. table: of put_side. */
static void put_clipped(const step *s, const coded *c, const int32_t *table,
                        size_t rows) {
  const kv_coding *coding = c->slab->coding;
  const void *settings = kv_lane_settings(s->l, coding);
  int width = c->slab->width;
  if (coding->format != &kv_format_block || !kv_block_scaled(settings)) return;
  float *row = kv_zalloc((size_t)width, sizeof *row);
  int32_t *n = put(s, c->first + 4, s->l->lane, KV_ST_I32, rows, 1);
  if (!row) kv_vectors_no_memory(s->v, sizeof *row);
  for (int i = 0; row && n && i < s->l->n; i++) {
    if (table[2 * i] < 0) continue;
    original(s, c, i, row);
    for (int x = 0; x < width; x++)
      n[table[2 * i]] += kv_block_clips(settings, width, x, row[x],
                                        (const uint8_t *)block_of(c, i));
  }
  free(row);
}

static void put_side(const step *s, const coded *c) {
  const kv_lane *l = s->l;
  const kv_coding *coding = c->slab->coding;
  int groups = 0, width = c->slab->width;
  if (!coding || !coding->format->parts || c->slab->held == 0) return;
  kv_format_shown is = coding->format->shown(coding->settings, width);
  if (is.bytes == 0) return;
  int32_t *table = put(s, c->first, l->lane, KV_ST_I32, (size_t)l->n, 2);
  int32_t *group = kv_zalloc((size_t)c->slab->cap + 1, sizeof *group);
  if (!table || !group) {
    kv_vectors_no_memory(s->v, sizeof *group);
    free(group);
    return;
  }
  size_t rows = number(s, c, group, table, &groups);
  free(group);
  uint8_t *code = put(s, c->first + 1, l->lane, KV_ST_U8, rows, (size_t)width);
  size_t scales = (size_t)is.scales, minima = (size_t)is.minima;
  kv_st_dtype type = is.bytes == 2 ? KV_ST_F16 : KV_ST_U8;
  uint8_t *scale = NULL;
  uint16_t *min = NULL;
  if (scales)
    scale = put(s, c->first + 2, l->lane, type, (size_t)groups, scales);
  if (minima)
    min = put(s, c->first + 3, l->lane, KV_ST_F16, (size_t)groups, minima);
  if (!code || (scales && !scale) || (minima && !min)) return;
  for (int i = 0; i < l->n; i++) {
    if (table[2 * i] < 0) continue;
    size_t at = (size_t)table[2 * i + 1];
    coding->format->parts(coding->settings, width, block_of(c, i),
                          c->ref[i].member,
                          code + (size_t)table[2 * i] * (size_t)width,
                          scale ? scale + at * scales * (size_t)is.bytes : NULL,
                          min ? min + at * minima : NULL);
  }
  put_clipped(s, c, table, rows);
}

/* Collects the codes of each format, for the sides that use it. */
static void put_codes(const step *s) {
  const kv_lane *l = s->l;
  for (int f = KV_CODED; f < KV_CODED + l->needs->codings; f++) {
    if (l->k)
      put_side(s, &(coded){l->k, &l->k_slab[f], (uint16_t)f, KV_V_K_PAGES});
    if (l->v)
      put_side(s, &(coded){l->v, &l->v_slab[f], (uint16_t)f, KV_V_V_PAGES});
  }
}

/* --- one query head ----------------------------------------------------- */

static void differs(const step *s, int head, const char *what) {
  if (s->v->fault.rc) return;
  kv_fail(&s->v->fault, KV_INTERNAL,
          "%s, layer %d, step %d, query head %d: %s computed from the vectors "
          "differs from the engine's; please report the command",
          s->v->cell->result.spec, s->layer, s->step, head, what);
}

static bool same(const void *a, const void *b, size_t n) {
  return memcmp(a, b, n) == 0;
}

/* The step's query in fp32, rotated if the lane is re-indexed. */
static const float *query(const step *s, int head) {
  const kv_layer_data *data = s->l->data;
  size_t d = (size_t)s->l->shape->d, row = (size_t)s->step - 1;
  if (data->rows)
    for (row = 0; data->rows[row] != s->step - 1;) row++;
  const char *at = data->q;
  at += ((size_t)head * (size_t)data->n_rows + row) * d *
        kv_dtype_size(data->q_dtype);
  s->v->cell->plan.kernels->widen(data->q_dtype, at, d, s->v->row);
  if (!s->l->needs->reindex) return s->v->row;
  rotate(s, s->l->n - 1, s->v->row);
  float *out = put(s, KV_V_Q_READ, head, KV_ST_F32, 1, d);
  if (out) memcpy(out, s->v->row, d * sizeof *out);
  return s->v->row;
}

/* Rule 1 of ref/ground/arith.h. */
static float logit(const step *s, const float *q, int entry) {
  const kv_shape *shape = s->l->shape;
  const float *k = s->k + (size_t)entry * (size_t)shape->d;
  float acc = 0;
  for (int x = 0; x < shape->d; x++) acc = kv_fma(q[x], k[x], acc);
  return kv_add(kv_add(kv_mul(acc, shape->scale), kv_lane_bias(s->l, entry)),
                0.0f);
}

static void put_logits(const step *s, const kv_seen *seen, int h, int head,
                       const int32_t *view, float *out) {
  const float *q = query(s, head);
  for (int j = 0; j < seen->view[h].entries; j++) {
    out[j] = logit(s, q, view[j]);
    if (!same(&out[j], seen->s + (size_t)h * seen->stride + view[j], 4))
      differs(s, head, "a logit");
  }
}

/* Rule 3, one chunk. */
static void chunk(const step *s, int n, const float *logits,
                  const int32_t *view, float *max, float *sum, float *acc) {
  size_t d_v = (size_t)s->l->shape->d_v;
  int64_t mass = 0;
  *max = logits[0];
  for (int j = 1; j < n; j++) *max = kv_max(*max, logits[j]);
  for (int j = 0; j < n; j++) {
    float p = kv_expm(kv_sub(logits[j], *max));
    const float *v = s->val + (size_t)view[j] * d_v;
    mass += kv_fix(p);
    for (size_t x = 0; x < d_v; x++) acc[x] = kv_fma(p, v[x], acc[x]);
  }
  *sum = kv_unfix(mass);
}

/* Rule 3, combining chunks. */
static void combine(size_t chunks, size_t d_v, const float *max,
                    const float *sum, const float *acc, float *out,
                    float *lse) {
  float best = max[0], l = 0;
  memset(out, 0, d_v * sizeof *out);
  for (size_t c = 1; c < chunks; c++) best = kv_max(best, max[c]);
  for (size_t c = 0; c < chunks; c++) {
    float w = kv_expm(kv_sub(max[c], best));
    l = kv_fma(w, sum[c], l);
    for (size_t x = 0; x < d_v; x++)
      out[x] = kv_fma(w, acc[c * d_v + x], out[x]);
  }
  for (size_t x = 0; x < d_v; x++) out[x] = kv_div(out[x], l);
  *lse = kv_add(best, kv_log(l));
}

static void put_attention(const step *s, const kv_seen *seen, int h, int head,
                          const int32_t *view, const float *logits) {
  size_t n = (size_t)seen->view[h].entries, d_v = (size_t)s->l->shape->d_v;
  size_t chunks = (n + KV_CHUNK - 1) / KV_CHUNK, own = chunks;
  const kv_chunk *more = seen->more ? &seen->more[h] : NULL;
  if (more && more->l > 0) chunks++; /* the method's own is the last */
  float *max = put(s, KV_V_CHUNK_MAX, head, KV_ST_F32, chunks, 1);
  float *sum = put(s, KV_V_CHUNK_SUM, head, KV_ST_F32, chunks, 1);
  float *acc = put(s, KV_V_CHUNK_ACC, head, KV_ST_F32, chunks, d_v);
  float *out = put(s, KV_V_OUT, head, KV_ST_F32, 1, d_v);
  float *lse = put(s, KV_V_LSE, head, KV_ST_F32, 1, 1);
  if (!lse) return;
  if (own < chunks) {
    max[own] = more->m;
    sum[own] = more->l;
    memcpy(acc + own * d_v, more->a, d_v * sizeof *acc);
  }
  for (size_t c = 0; c < own; c++) {
    size_t at = c * KV_CHUNK, left = n - at < KV_CHUNK ? n - at : KV_CHUNK;
    chunk(s, (int)left, logits + at, view + at, max + c, sum + c,
          acc + c * d_v);
  }
  combine(chunks, d_v, max, sum, acc, out, lse);
  if (!same(out, seen->out + (size_t)h * d_v, d_v * sizeof *out))
    differs(s, head, "the output");
  if (!same(lse, seen->lse + h, sizeof *lse)) differs(s, head, "the LSE");
}

static void put_head(const step *s, const kv_seen *seen, int h) {
  const kv_view *view = &seen->view[h];
  int head = s->l->first_head + h;
  size_t n = (size_t)view->entries;
  int32_t *place = put(s, KV_V_VIEW, head, KV_ST_I32, n, 1);
  float *logits = put(s, KV_V_LOGITS, head, KV_ST_F32, n, 1);
  if (!logits) return;
  for (int r = 0, j = 0; r < view->runs; r++)
    for (int i = 0; i < view->run[r].count; i++)
      place[j++] = view->run[r].first + i;
  put_logits(s, seen, h, head, place, logits);
  put_attention(s, seen, h, head, place, logits);
}

void kv_vectors_seen(void *self, int layer, int at, const kv_seen *seen) {
  kv_vectors *v = self;
  const kv_lane *l = seen->lane;
  step s = {.v = v, .l = l, .layer = layer, .step = at};
  if (!kv_vectors_wants(v, at) || l->fault.rc) return;
  size_t n = (size_t)l->n;
  float *k = kv_zalloc(n, (size_t)l->shape->d * sizeof *k);
  float *val = kv_zalloc(n, (size_t)l->shape->d_v * sizeof *val);
  put_entries(&s);
  put_codes(&s);
  if (!k || !val) {
    kv_vectors_no_memory(v, n * sizeof *k);
  } else if (read_rows(&s, k, val)) {
    for (int h = 0; h < seen->queries; h++) put_head(&s, seen, h);
  }
  free(k);
  free(val);
}
