/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact attention by tiles: sim/replay/measure/tile.h. Logits straight from the
 * trace's rows, output by chunks.
 */
#include "sim/replay/measure/tile.h"

#include <assert.h>
#include <stdlib.h>

/* Queries that share a pass: with more, arithmetic takes longer than memory
 * (measured: bench, `kernels`). */
enum { QUERIES = 64, FEWEST = 16 };

void kv_tile_close(kv_tile *x) {
  if (!x) return;
  free(x->t);
  free(x->rows);
  free(x->q);
  free(x->s);
  free(x->out);
  free(x->lse);
  free(x->finite);
  free(x);
}

static size_t stride_of(const kv_shape *s) {
  return ((size_t)s->n_tokens + 15) / 16 * 16;
}

int kv_tile_steps(const kv_shape *shape, int rows, int asked) {
  int group = kv_group(shape);
  size_t step = (size_t)shape->n_heads * stride_of(shape) * sizeof(float);
  size_t room = KV_TILE_BYTES / step;
  int steps = QUERIES / group < FEWEST ? FEWEST : QUERIES / group;
  if (asked) steps = asked;
  if (steps > rows) steps = rows;
  if ((size_t)steps > room) steps = (int)room;
  return steps < 1 ? 1 : steps;
}

kv_rc kv_tile_open(const kv_shape *shape, const kv_kernels *kernels, int heads,
                   int steps, kv_tile **out, kv_err *e) {
  kv_tile *x = kv_zalloc(1, sizeof *x);
  size_t group = (size_t)kv_group(shape);
  size_t n = (size_t)heads * (size_t)steps;
  *out = NULL;
  if (!x) return kv_no_memory(e, "a tile of rows", sizeof *x);
  *x = (kv_tile){.shape = shape,
                 .kernels = kernels,
                 .steps = steps,
                 .heads = heads,
                 .stride = stride_of(shape)};
  x->t = kv_zalloc((size_t)heads, sizeof *x->t);
  x->rows = kv_zalloc((size_t)heads, sizeof *x->rows);
  x->q = kv_zalloc(n * group * (size_t)shape->d, sizeof *x->q);
  x->s = kv_zalloc(n * group * x->stride, sizeof *x->s);
  x->out = kv_zalloc(n * group * (size_t)shape->d_v, sizeof *x->out);
  x->lse = kv_zalloc(n * group, sizeof *x->lse);
  x->finite = kv_zalloc(n, sizeof *x->finite);
  if (!x->t || !x->rows || !x->q || !x->s || !x->out || !x->lse || !x->finite) {
    kv_tile_close(x);
    return kv_no_memory(e, "a tile of rows",
                        n * group * stride_of(shape) * sizeof(float));
  }
  *out = x;
  return KV_OK;
}

bool kv_tile_has(const kv_tile *x, int head, int t) {
  return t >= x->t[head] && t < x->t[head] + x->rows[head];
}

kv_tile_row kv_tile_at(const kv_tile *x, int head, int t) {
  const kv_shape *s = x->shape;
  size_t step = (size_t)head * (size_t)x->steps + (size_t)(t - x->t[head]);
  size_t row = step * (size_t)kv_group(s);
  assert(kv_tile_has(x, head, t) && "the row was filled");
  return (kv_tile_row){.q = x->q + row * (size_t)s->d,
                       .s = x->s + row * x->stride,
                       .out = x->out + row * (size_t)s->d_v,
                       .lse = x->lse + row,
                       .finite = x->finite[step]};
}

bool kv_tile_sound(const kv_tile *x, int head) {
  bool sound = true;
  for (int r = 0; r < x->rows[head]; r++)
    sound = sound && kv_tile_at(x, head, x->t[head] + r).finite;
  return sound;
}

/* K or V of one KV head. */
typedef struct side {
  const char *row; /* of token 0 */
  size_t size;     /* bytes a row */
  kv_dtype type;
} side;

static side side_of(const void *data, int g, int n_tokens, int width,
                    kv_dtype type) {
  size_t size = (size_t)width * kv_dtype_size(type);
  size_t skip = (size_t)g * (size_t)n_tokens * size;
  return (side){(const char *)data + skip, size, type};
}

static int name_rows(void *ctx, int first, int count, kv_attend_scratch *x,
                     kv_row_kind *kind) {
  const side *v = ctx;
  int n = count < KV_CHUNK ? count : KV_CHUNK;
  kind->type = v->type;
  for (int i = 0; i < n; i++)
    x->row[i] = v->row + (size_t)(first + i) * v->size;
  return n;
}

/* Widens the query rows of token t to fp32. Recorded query rows have no gap
 * from a tile's first row to the end of the trace. */
static void widen_queries(const kv_tile *x, const kv_layer_data *data, int g,
                          int t, float *q) {
  const kv_shape *s = x->shape;
  int group = kv_group(s), at = data->n_rows - (s->n_tokens - t);
  assert(at >= 0 && (!data->rows || data->rows[at] == t) &&
         "every row that attends is recorded");
  size_t size = (size_t)s->d * kv_dtype_size(data->q_dtype);
  for (int h = 0; h < group; h++) {
    size_t row = (size_t)(g * group + h) * (size_t)data->n_rows + (size_t)at;
    x->kernels->widen(data->q_dtype, (const char *)data->q + row * size,
                      (size_t)s->d, q + (size_t)h * (size_t)s->d);
  }
}

/* Logits of m queries against keys first..n-1. */
static void fill_logits(const kv_tile *x, side k, int m, int first, int n,
                        const float *q, float *logit,
                        kv_attend_scratch *attend) {
  const kv_shape *s = x->shape;
  while (first < n) {
    kv_row_kind kind;
    int count = name_rows(&k, first, n - first, attend, &kind);
    x->kernels->logits(m, count, s->d, q, (size_t)s->d, attend->row, kind.type,
                       s->scale, logit + first, x->stride, attend->pack);
    x->kernels->softcap(s->softcap, m, count, logit + first, x->stride);
    first += count;
  }
}

/* Are the logits of tokens first..t of a row finite? */
static bool finite_row(const kv_tile *x, const float *logit, int first, int t) {
  bool finite = true;
  for (int h = 0; h < kv_group(x->shape); h++)
    finite = finite && kv_all_finite(logit + (size_t)h * x->stride + first,
                                     t + 1 - first);
  return finite;
}

/* Outputs of `rows` steps of the tile from `step` on, all of which see tokens
 * from `first` on. */
static void attend_rows(const kv_tile *x, size_t step, int rows, int first,
                        int t, side v, kv_attend_scratch *attend) {
  int group = kv_group(x->shape), d_v = x->shape->d_v;
  size_t row = step * (size_t)group;
  v.row += (size_t)first * v.size;
  kv_attend_tile(x->kernels, rows, group, t + 1 - first, d_v,
                 x->s + row * x->stride + first, x->stride, name_rows, &v,
                 attend, x->out + row * (size_t)d_v, x->lse + row);
}

void kv_tile_fill(kv_tile *x, int head, const kv_layer_data *data, int g, int t,
                  int rows, kv_attend_scratch *attend) {
  const kv_shape *s = x->shape;
  int group = kv_group(s);
  size_t step = (size_t)head * (size_t)x->steps, row = step * (size_t)group;
  side k = side_of(data->k, g, s->n_tokens, s->d, s->dtype);
  side v = side_of(data->v, g, s->n_tokens, s->d_v, s->dtype);
  float *q = x->q + row * (size_t)s->d, *logit = x->s + row * x->stride;
  assert(rows <= x->steps && t >= 0 && t + rows <= s->n_tokens);
  x->t[head] = t;
  x->rows[head] = rows;
  attend->sink = kv_layer_sink(data, g * group);
  for (int r = 0; r < rows; r++)
    widen_queries(x, data, g, t + r, q + (size_t)(r * group * s->d));
  fill_logits(x, k, rows * group, kv_layer_first(data, t), t + rows, q, logit,
              attend);
  bool all = kv_layer_first(data, t + rows - 1) == 0; /* one pass for all */
  for (int r = 0; r < rows; r++) {
    const float *of = logit + (size_t)(r * group) * x->stride;
    x->finite[step + (size_t)r] =
        finite_row(x, of, kv_layer_first(data, t + r), t + r);
    all = all && x->finite[step + (size_t)r];
  }
  if (all) attend_rows(x, step, rows, 0, t, v, attend);
  for (int r = 0; r < rows && !all; r++)
    if (x->finite[step + (size_t)r])
      attend_rows(x, step + (size_t)r, 1, kv_layer_first(data, t + r), t + r, v,
                  attend);
  attend->sink = NULL;
}
