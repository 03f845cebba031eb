/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a trace: traces/trace/convert.h. A first pass over q, k and v finds
 * numbers that do not fit the type and whether any number changes, which
 * decides what is declared. A second pass writes.
 */
#include "traces/trace/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/text.h"
#include "traces/container/safetensors.h"
#include "traces/trace/colsum.h"
#include "traces/trace/rewrite.h"

enum { PIECE = 1 << 16 }; /* elements at once */

static const kv_st_dtype stored[] = {KV_ST_F16, KV_ST_BF16, KV_ST_F32};

/* What a tensor of the trace becomes. */
typedef enum fate { CARRY, ROUND, SUMS, LEAVE } fate;

typedef struct job {
  kv_convert *c;
  const kv_kernels *kernel;
  const kv_st *files;
  kv_st_writer *out;
  float *wide;    /* [PIECE] */
  uint16_t *half; /* [PIECE] */
} job;

/* --- which tensor is which ---------------------------------------------- */

static fate fate_of(const job *w, const kv_st_tensor *x, int *layer) {
  const char *part;
  *layer = kv_trace_part(w->c->from, x->name, &part);
  if (*layer < 0) return CARRY;
  if (strchr("qkv", part[0]) && !part[1]) return ROUND;
  if (w->c->changed == 0 || !strcmp(part, "rows") || !strcmp(part, "sinks") ||
      !strcmp(part, "k_bias"))
    return CARRY;
  if (strcmp(part, "o") == 0) return LEAVE;
  return kv_colsum_can(w->c->from, *layer) ? SUMS : LEAVE;
}

static kv_dtype type_of(const kv_st_tensor *x) {
  return x->dtype == KV_ST_F16    ? KV_F16
         : x->dtype == KV_ST_BF16 ? KV_BF16
                                  : KV_F32;
}

static size_t elements(const kv_st_tensor *x) {
  return (size_t)x->bytes / kv_dtype_size(type_of(x));
}

/* --- rounding ----------------------------------------------------------- */

static uint16_t narrow(kv_dtype type, float x) {
  return type == KV_F16 ? kv_to_f16(x) : kv_to_bf16(x);
}

static float widened(kv_dtype type, uint16_t x) {
  return type == KV_F16 ? kv_from_f16(x) : kv_from_bf16(x);
}

/* Reads elements at..at+n of a tensor, widened into w->wide and, for a type of
 * two bytes, rounded into w->half. */
static void read_piece(const job *w, const kv_st_tensor *x, size_t at,
                       size_t n) {
  kv_dtype from = type_of(x), to = w->c->dtype;
  const char *data = x->data;
  w->kernel->widen(from, data + at * kv_dtype_size(from), n, w->wide);
  for (size_t i = 0; to != KV_F32 && i < n; i++)
    w->half[i] = narrow(to, w->wide[i]);
}

static void done(const job *w, const kv_st_tensor *x, size_t n) {
  int64_t bytes = (int64_t)(n * kv_dtype_size(type_of(x)));
  if (w->c->tick) w->c->tick(w->c->self, bytes);
}

static kv_rc beyond(const job *w, const kv_st_tensor *x, size_t at, float value,
                    kv_err *e) {
  size_t d = (size_t)x->shape[2], rows = (size_t)x->shape[1];
  char a[KV_SHOW];
  return kv_fail(e, KV_INPUT,
                 "%s: tensor %s holds %g at [%zu, %zu, %zu], outside the range "
                 "of %s; choose a wider type",
                 kv_show(w->c->from->path, a), x->name, (double)value,
                 at / d / rows, at / d % rows, at % d,
                 kv_st_dtype_name(stored[w->c->dtype]));
}

/* Counts the numbers that change. */
static kv_rc survey_tensor(const job *w, const kv_st_tensor *x, kv_err *e) {
  size_t n = elements(x);
  if (w->c->dtype == KV_F32 || w->c->dtype == type_of(x)) return KV_OK;
  for (size_t at = 0; at < n; at += PIECE) {
    size_t m = n - at < PIECE ? n - at : PIECE;
    read_piece(w, x, at, m);
    for (size_t i = 0; i < m; i++) {
      float back = widened(w->c->dtype, w->half[i]);
      if (!kv_finite(back)) return beyond(w, x, at + i, w->wide[i], e);
      w->c->changed += back != w->wide[i];
    }
    done(w, x, m);
    kv_rc rc = kv_rewrite_go_on(w->c->stop, e);
    if (rc) return rc;
  }
  return KV_OK;
}

static kv_rc survey(const job *w, kv_err *e) {
  kv_rc rc = KV_OK;
  int layer;
  for (int i = 0; !rc && i < w->c->from->n_layers; i++)
    rc = kv_trace_scan_layer(w->c->from, i, e);
  for (size_t i = 0; !rc && i < kv_st_count(w->files); i++) {
    const kv_st_tensor *x = kv_st_at(w->files, i);
    if (fate_of(w, x, &layer) != ROUND) continue;
    rc = survey_tensor(w, x, e);
    kv_st_release(w->files, x);
  }
  return rc;
}

/* --- writing ------------------------------------------------------------ */

static kv_rc append_rounded(const job *w, const kv_st_tensor *x, kv_err *e) {
  size_t n = elements(x), size = kv_dtype_size(w->c->dtype);
  kv_rc rc = KV_OK;
  for (size_t at = 0; !rc && at < n; at += PIECE) {
    size_t m = n - at < PIECE ? n - at : PIECE;
    read_piece(w, x, at, m);
    rc = kv_st_writer_append(
        w->out, m * size,
        w->c->dtype == KV_F32 ? (const void *)w->wide : w->half, e);
    done(w, x, m);
    if (!rc) rc = kv_rewrite_go_on(w->c->stop, e);
  }
  return rc;
}

/* Elements at..at+n of a tensor, rounded. */
static void round_into(const job *w, const kv_st_tensor *x, size_t at, size_t n,
                       uint16_t *out) {
  for (size_t done = 0; done < n; done += PIECE) {
    size_t m = n - done < PIECE ? n - done : PIECE;
    read_piece(w, x, at + done, m);
    memcpy(out + done, w->half, m * sizeof *out);
  }
}

static const kv_st_tensor *find(const job *w, int layer, const char *part) {
  char name[64];
  snprintf(name, sizeof name, "layers.%d.%s",
           w->c->from->layer[layer].data.layer, part);
  return kv_st_find(w->files, name);
}

/* The prompt of one KV head as it is written, and its sums. */
static kv_rc sums_of_head(const job *w, int layer, int g, uint16_t *q,
                          uint16_t *k, int64_t *out, kv_err *e) {
  kv_shape s = w->c->from->shape;
  const kv_layer_data *from = &w->c->from->layer[layer].data;
  size_t d = (size_t)s.d, p = (size_t)s.prompt_len, rows = (size_t)from->n_rows;
  kv_layer_data data = {.layer = from->layer,
                        .q = q,
                        .k = k,
                        .q_dtype = w->c->dtype,
                        .n_rows = s.prompt_len,
                        .window = from->window,
                        .sinks = kv_layer_sink(from, g * kv_group(&s))};
  int group = kv_group(&s);
  for (int h = 0; h < group; h++)
    round_into(w, find(w, layer, "q"), (size_t)(g * group + h) * rows * d,
               p * d, q + (size_t)h * p * d);
  round_into(w, find(w, layer, "k"), (size_t)g * (size_t)s.n_tokens * d, p * d,
             k);
  s.dtype = w->c->dtype;
  s.n_heads = group;
  s.n_kv_heads = 1;
  s.n_tokens = s.prompt_len;
  return kv_colsum_head(&s, &data, 0, w->kernel, w->c->stop, out, e);
}

static kv_rc append_sums(const job *w, int layer, kv_err *e) {
  const kv_shape *s = &w->c->from->shape;
  size_t group = (size_t)kv_group(s), p = (size_t)s->prompt_len;
  size_t row = p * (size_t)s->d;
  uint16_t *q = kv_zalloc(group * row, sizeof *q);
  uint16_t *k = kv_zalloc(row, sizeof *k);
  int64_t *out = kv_zalloc(group * p, sizeof *out);
  kv_rc rc = KV_OK;
  if (!q || !k || !out) rc = kv_no_memory(e, "column sums", group * row * 2);
  for (int g = 0; !rc && g < s->n_kv_heads; g++) {
    rc = sums_of_head(w, layer, g, q, k, out, e);
    if (!rc) rc = kv_st_writer_append(w->out, group * p * sizeof *out, out, e);
  }
  free(q);
  free(k);
  free(out);
  return rc;
}

static kv_rewrite copy_of(const job *w) {
  return (kv_rewrite){w->c->from, w->out, w->c->stop};
}

static kv_rc append(const job *w, kv_err *e) {
  const kv_rewrite copy = copy_of(w);
  kv_rc rc = KV_OK;
  for (size_t i = 0; !rc && i < kv_st_count(w->files); i++) {
    const kv_st_tensor *x = kv_st_at(w->files, i);
    int layer;
    fate what = fate_of(w, x, &layer);
    if (what == CARRY) rc = kv_rewrite_bytes(&copy, x->bytes, x->data, e);
    if (what == ROUND) rc = append_rounded(w, x, e);
    if (what == SUMS) rc = append_sums(w, layer, e);
    kv_st_release(w->files, x);
  }
  return rc;
}

static kv_rc declare(const job *w, kv_err *e) {
  kv_rc rc = KV_OK;
  for (size_t i = 0; !rc && i < kv_st_count(w->files); i++) {
    const kv_st_tensor *x = kv_st_at(w->files, i);
    int layer;
    fate what = fate_of(w, x, &layer);
    bool sums = strstr(x->name, ".colsum") != NULL;
    w->c->o_left_out += what == LEAVE && !sums;
    w->c->sums_left_out += what == LEAVE && sums;
    w->c->sums_again += what == SUMS;
    if (what == LEAVE) continue;
    rc = kv_st_writer_declare(w->out, x->name,
                              what == ROUND ? stored[w->c->dtype] : x->dtype,
                              x->rank, x->shape, e);
  }
  return rc;
}

static kv_rc put_meta(const job *w, kv_err *e) {
  const kv_rewrite copy = copy_of(w);
  char text[32];
  kv_dtype from = w->c->from->shape.dtype;
  kv_rc rc = kv_rewrite_meta(&copy, e);
  snprintf(text, sizeof text, "%s to %s", kv_st_dtype_name(stored[from]),
           kv_st_dtype_name(stored[w->c->dtype]));
  if (!rc && from != w->c->dtype)
    rc = kv_st_writer_meta(w->out, "converted", text, e);
  return rc;
}

int64_t kv_convert_bytes(const kv_convert *c) {
  const kv_st *s = kv_trace_files(c->from);
  const job w = {.c = (kv_convert *)(uintptr_t)c, .files = s};
  int64_t n = 0;
  int layer;
  for (size_t i = 0; i < kv_st_count(s); i++) {
    const kv_st_tensor *x = kv_st_at(s, i);
    if (fate_of(&w, x, &layer) != ROUND) continue;
    bool twice = c->dtype != KV_F32 && c->dtype != type_of(x);
    n += (int64_t)x->bytes << twice;
  }
  return n;
}

static kv_rc write_all(job *w, const char *path, kv_err *e) {
  kv_rc rc = kv_rewrite_apart(w->c->from, "converted", path, e);
  if (!rc) rc = survey(w, e);
  if (!rc) rc = kv_st_writer_open(path, 0, &w->out, e);
  if (!rc) rc = declare(w, e);
  if (!rc) rc = put_meta(w, e);
  if (!rc) rc = append(w, e);
  if (!rc) rc = kv_trace_damaged(w->c->from, e);
  if (!rc) rc = kv_st_writer_finish(w->out, NULL, e);
  kv_st_writer_close(w->out);
  return rc;
}

kv_rc kv_convert_write(kv_convert *c, const kv_kernels *kernel,
                       const char *path, kv_err *e) {
  job w = {.c = c,
           .kernel = kernel,
           .files = kv_trace_files(c->from),
           .wide = kv_zalloc(PIECE, sizeof *w.wide),
           .half = kv_zalloc(PIECE, sizeof *w.half)};
  c->changed = 0;
  c->o_left_out = c->sums_again = c->sums_left_out = 0;
  kv_rc rc = w.wide && w.half ? write_all(&w, path, e)
                              : kv_no_memory(e, "converting", PIECE * 6);
  free(w.wide);
  free(w.half);
  return rc;
}
