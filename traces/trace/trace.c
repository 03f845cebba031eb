/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a trace: metadata first, then every tensor, compared with the shape
 * that the metadata and layers.L.k and .v of the first recorded layer give.
 */
#define _GNU_SOURCE 1
#include "traces/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/text.h"
#include "traces/container/safetensors.h"
#include "traces/trace/meta.h"
#include "traces/trace/own.h"
#include "traces/trace/variant.h"

/* Far above any model; a product of two stays below 2^63. */
enum { LAYERS_MOST = 100000, HEADS_MOST = 1 << 20, DIM_MOST = 1 << 16 };

enum { TOKENS_MOST = 1 << 30 };

kv_rc kv_trace_tell(const kv_trace *t, const char *tensor, const char *reason,
                    kv_err *e) {
  char a[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: tensor %s %s", kv_show(t->path, a), tensor,
                 reason);
}

static const kv_st_tensor *find(const kv_trace *t, int l, const char *what,
                                char name[KV_TENSOR_NAME]) {
  snprintf(name, KV_TENSOR_NAME, "layers.%d.%s", l, what);
  return kv_st_find(t->own->files, name);
}

static kv_rc require(const kv_trace *t, const kv_st_tensor *x, const char *name,
                     kv_err *e) {
  return x ? KV_OK : kv_trace_tell(t, name, "is missing", e);
}

/* Compares a shape with the wanted one; the sentence shows both. */
static kv_rc expect(const kv_trace *t, const kv_st_tensor *x, int rank,
                    const uint64_t *want, kv_err *e) {
  char have[64] = "", need[64] = "", a[KV_SHOW];
  int same = x->rank == rank;
  for (int i = 0; same && i < rank; i++) same = x->shape[i] == want[i];
  if (same) return KV_OK;
  for (int i = 0; i < x->rank && strlen(have) < 40; i++) {
    snprintf(have + strlen(have), 23, "%s%llu", i ? ", " : "",
             (unsigned long long)x->shape[i]);
  }
  for (int i = 0; i < rank && strlen(need) < 40; i++) {
    snprintf(need + strlen(need), 23, "%s%llu", i ? ", " : "",
             (unsigned long long)want[i]);
  }
  return kv_fail(e, KV_INPUT, "%s: tensor %s has shape [%s], not [%s]",
                 kv_show(t->path, a), x->name, have, need);
}

static int number_type(const kv_st_tensor *x, kv_dtype *out) {
  *out = x->dtype == KV_ST_F16    ? KV_F16
         : x->dtype == KV_ST_BF16 ? KV_BF16
                                  : KV_F32;
  return x->dtype == KV_ST_F16 || x->dtype == KV_ST_BF16 ||
         x->dtype == KV_ST_F32;
}

/* Checks the type and that it equals *same, if not NULL. */
static kv_rc float_tensor(const kv_trace *t, const kv_st_tensor *x,
                          const kv_dtype *same, kv_dtype *out, kv_err *e) {
  if (!number_type(x, out)) {
    return kv_trace_tell(t, x->name, "must be F16, BF16 or F32", e);
  }
  if (same && *same != *out) {
    return kv_trace_tell(t, x->name,
                         "must have the dtype of the first layer's k", e);
  }
  return KV_OK;
}

/* An aligned copy, on the heap, of a small I32 or F32 tensor. */
kv_rc kv_trace_copy(const kv_trace *t, const kv_st_tensor *x, kv_st_dtype type,
                    uint64_t n, void **out, kv_err *e) {
  if (x->dtype != type) {
    return kv_trace_tell(t, x->name,
                         type == KV_ST_I32 ? "must be I32" : "must be F32", e);
  }
  kv_rc rc = expect(t, x, 1, &n, e);
  if (rc) return rc;
  *out = malloc((size_t)x->bytes + 1);
  if (!*out) return kv_no_memory(e, x->name, (size_t)x->bytes);
  memcpy(*out, x->data, (size_t)x->bytes);
  return KV_OK;
}

/* Reads the numbers of the metadata. */
static kv_rc read_shape(kv_trace *t, kv_err *e) {
  const kv_st *s = t->own->files;
  const char *f = t->path;
  kv_shape *p = &t->shape;
  static const float one = 1.0f;
  kv_digest request;
  kv_rc rc = kv_variant_version(f, s, e);
  if (!rc) rc = kv_trace_stated(t, &request, e);
  if (!rc) {
    rc = kv_meta_count(f, s, "n_layers", 1, LAYERS_MOST, &p->n_layers, e);
  }
  if (!rc) rc = kv_meta_count(f, s, "n_heads", 1, HEADS_MOST, &p->n_heads, e);
  if (!rc) {
    rc = kv_meta_count(f, s, "n_kv_heads", 1, HEADS_MOST, &p->n_kv_heads, e);
  }
  if (!rc) rc = kv_meta_count(f, s, "head_dim", 1, DIM_MOST, &p->d, e);
  if (!rc) rc = kv_meta_float(f, s, "attn.scale", NULL, &p->scale, e);
  if (!rc) rc = kv_meta_float(f, s, "rope.scale", &one, &t->rope_scale, e);
  if (rc) return rc;
  char a[KV_SHOW];
  if (p->n_heads % p->n_kv_heads) {
    return kv_fail(e, KV_INPUT,
                   "%s: %d query heads do not divide by %d KV heads",
                   kv_show(f, a), p->n_heads, p->n_kv_heads);
  }
  if (p->scale > 0 && t->rope_scale > 0) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: metadata attn.scale and rope.scale must be above 0",
                 kv_show(f, a));
}

/* Reads T, d_v and the type of k and v from the first recorded layer. */
static kv_rc read_extent(kv_trace *t, int l, kv_err *e) {
  char name[KV_TENSOR_NAME];
  const kv_st_tensor *k = find(t, l, "k", name);
  kv_rc rc = require(t, k, name, e);
  if (rc) return rc;
  const kv_st_tensor *v = find(t, l, "v", name);
  rc = require(t, v, name, e);
  if (rc) return rc;
  if (k->rank != 3 || v->rank != 3) {
    return kv_trace_tell(t, k->rank != 3 ? k->name : v->name,
                         "must be [n_kv_heads, tokens, dimension]", e);
  }
  if (k->shape[1] < 1 || k->shape[1] > TOKENS_MOST) {
    return kv_trace_tell(t, k->name,
                         "holds no tokens, or more than a thousand million", e);
  }
  if (v->shape[2] < 1 || v->shape[2] > DIM_MOST) {
    return kv_trace_tell(t, v->name, "has an impossible dimension", e);
  }
  t->shape.n_tokens = (int)k->shape[1];
  t->shape.d_v = (int)v->shape[2];
  return float_tensor(t, k, NULL, &t->shape.dtype, e);
}

static kv_rc read_kv(kv_trace *t, kv_layer_data *x, kv_err *e) {
  const kv_shape *p = &t->shape;
  const uint64_t heads = (uint64_t)p->n_kv_heads, n = (uint64_t)p->n_tokens;
  char name[KV_TENSOR_NAME];
  kv_dtype type;
  for (int i = 0; i < 2; i++) {
    const uint64_t want[3] = {heads, n, (uint64_t)(i ? p->d_v : p->d)};
    const kv_st_tensor *y = find(t, x->layer, i ? "v" : "k", name);
    kv_rc rc = require(t, y, name, e);
    if (!rc) rc = expect(t, y, 3, want, e);
    if (!rc) rc = float_tensor(t, y, &p->dtype, &type, e);
    if (rc) return rc;
    *(i ? &x->v : &x->k) = y->data;
  }
  return KV_OK;
}

static kv_rc check_rows(const kv_trace *t, const char *name, int n,
                        const int32_t *rows, kv_err *e) {
  for (int i = 0; i < n; i++) {
    if (rows[i] < 0 || rows[i] >= t->shape.n_tokens) {
      return kv_trace_tell(t, name, "names a row outside the tokens", e);
    }
    if (i > 0 && rows[i] <= rows[i - 1]) {
      return kv_trace_tell(t, name, "must ascend", e);
    }
  }
  return KV_OK;
}

/* The first row of the unbroken run that reaches the last token. */
static int run_start(int n_tokens, int n, const int32_t *rows) {
  int first = n_tokens;
  if (!rows) return 0;
  while (n > 0 && rows[n - 1] == first - 1) {
    first--;
    n--;
  }
  return first;
}

static kv_rc read_rows(kv_trace *t, int i, kv_err *e) {
  kv_layer_data *x = &t->layer[i].data;
  char name[KV_TENSOR_NAME], a[KV_SHOW];
  const kv_st_tensor *y = find(t, x->layer, "rows", name);
  if (!y) return KV_OK;
  kv_rc rc = kv_trace_copy(t, y, KV_ST_I32, (uint64_t)x->n_rows,
                           (void **)&t->own->rows[i], e);
  if (rc) return rc;
  x->rows = t->own->rows[i];
  rc = check_rows(t, name, x->n_rows, x->rows, e);
  if (rc) return rc;
  int first = run_start(t->shape.n_tokens, x->n_rows, x->rows);
  if (first > t->first_decode) t->first_decode = first;
  if (t->shape.prompt_len >= first) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: tensor %s must have every decode row, but row %d is "
                 "missing (prompt_len is %d)",
                 kv_show(t->path, a), name, first - 1, t->shape.prompt_len);
}

/* Reads q: all rows, or some of them together with `rows`. */
static kv_rc read_q(kv_trace *t, int i, kv_err *e) {
  kv_layer_data *x = &t->layer[i].data;
  const kv_shape *p = &t->shape;
  char name[KV_TENSOR_NAME], other[KV_TENSOR_NAME];
  const kv_st_tensor *y = find(t, x->layer, "q", name);
  kv_rc rc = require(t, y, name, e);
  if (rc) return rc;
  uint64_t n = (uint64_t)p->n_tokens;
  if (find(t, x->layer, "rows", other) && y->rank == 3 && y->shape[1] <= n) {
    n = y->shape[1];
  }
  const uint64_t want[3] = {(uint64_t)p->n_heads, n, (uint64_t)p->d};
  rc = expect(t, y, 3, want, e);
  if (!rc) rc = float_tensor(t, y, NULL, &x->q_dtype, e);
  if (!rc && n == 0) rc = kv_trace_tell(t, name, "holds no row", e);
  if (rc) return rc;
  x->q = y->data;
  x->n_rows = (int)n;
  return read_rows(t, i, e);
}

static kv_rc read_o(kv_trace *t, kv_recorded *r, kv_err *e) {
  const kv_shape *p = &t->shape;
  char name[KV_TENSOR_NAME];
  const kv_st_tensor *y = find(t, r->data.layer, "o", name);
  if (!y) return KV_OK;
  const uint64_t want[3] = {(uint64_t)p->n_heads, (uint64_t)r->data.n_rows,
                            (uint64_t)p->d_v};
  kv_rc rc = expect(t, y, 3, want, e);
  if (!rc) rc = float_tensor(t, y, NULL, &r->o_type, e);
  if (!rc) r->o = y->data;
  return rc;
}

static kv_rc read_colsum(kv_trace *t, kv_recorded *r, kv_err *e) {
  const kv_shape *p = &t->shape;
  char name[KV_TENSOR_NAME];
  const kv_st_tensor *y = find(t, r->data.layer, "colsum", name);
  if (!y) return KV_OK;
  const uint64_t want[2] = {(uint64_t)p->n_heads, (uint64_t)p->prompt_len};
  if (y->dtype != KV_ST_I64) return kv_trace_tell(t, name, "must be I64", e);
  kv_rc rc = expect(t, y, 2, want, e);
  if (!rc) {
    r->data.colsum = y->data;
    r->data.colsum_len = t->shape.prompt_len;
  }
  return rc;
}

static kv_rc read_k_bias(kv_trace *t, int i, kv_err *e) {
  const kv_shape *p = &t->shape;
  char name[KV_TENSOR_NAME];
  const kv_st_tensor *y = find(t, t->layer[i].data.layer, "k_bias", name);
  if (!y) return KV_OK;
  const uint64_t want[2] = {(uint64_t)p->n_kv_heads, (uint64_t)p->d};
  if (y->dtype != KV_ST_F32) return kv_trace_tell(t, name, "must be F32", e);
  kv_rc rc = expect(t, y, 2, want, e);
  float *own = rc ? NULL : malloc((size_t)y->bytes);
  if (!own) return rc ? rc : kv_no_memory(e, name, (size_t)y->bytes);
  t->own->k_bias[i] = own;
  t->layer[i].data.k_bias = own;
  memcpy(own, y->data, (size_t)y->bytes);
  for (uint64_t x = 0; x < want[0] * want[1]; x++)
    if (!kv_finite(own[x]))
      return kv_trace_tell(t, name, "holds NaN or Inf", e);
  return KV_OK;
}

static kv_rc read_layers(kv_trace *t, int n, const int *list, kv_err *e) {
  t->layer = calloc((size_t)n, sizeof *t->layer);
  t->own->rows = calloc((size_t)n, sizeof *t->own->rows);
  t->own->sinks = calloc((size_t)n, sizeof *t->own->sinks);
  t->own->k_bias = calloc((size_t)n, sizeof *t->own->k_bias);
  if (!t->layer || !t->own->rows || !t->own->sinks || !t->own->k_bias)
    return kv_no_memory(e, "the layers", 0);
  t->n_layers = n;
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < n; i++) {
    t->layer[i].data.layer = list[i];
    rc = read_kv(t, &t->layer[i].data, e);
    if (!rc) rc = read_q(t, i, e);
    if (!rc) rc = read_o(t, &t->layer[i], e);
    if (!rc) rc = read_colsum(t, &t->layer[i], e);
    if (!rc) rc = kv_variant_sinks(t, i, e);
    if (!rc) rc = read_k_bias(t, i, e);
  }
  return rc;
}

/* Reads tokens and positions, [T] each, if they exist. */
static kv_rc read_lists(kv_trace *t, kv_err *e) {
  const uint64_t n = (uint64_t)t->shape.n_tokens;
  const kv_st_tensor *y = kv_st_find(t->own->files, "tokens");
  kv_rc rc = y ? kv_trace_copy(t, y, KV_ST_I32, n, (void **)&t->own->tokens, e)
               : KV_OK;
  if (rc) return rc;
  y = kv_st_find(t->own->files, "positions");
  if (y) rc = kv_trace_copy(t, y, KV_ST_I32, n, (void **)&t->own->positions, e);
  t->tokens = t->own->tokens;
  t->rope.positions = t->own->positions;
  return rc;
}

static kv_rc read_trace(kv_trace *t, kv_err *e) {
  const kv_st *s = t->own->files;
  int n, *list = NULL;
  kv_rc rc = read_shape(t, e);
  if (!rc) rc = kv_meta_layers(t->path, s, t->shape.n_layers, &n, &list, e);
  if (!rc) rc = read_extent(t, list[0], e);
  if (!rc) {
    rc = kv_meta_count(t->path, s, "prompt_len", 1, t->shape.n_tokens,
                       &t->shape.prompt_len, e);
  }
  if (!rc) rc = read_layers(t, n, list, e);
  if (!rc) rc = kv_variant_read(t, s, e);
  if (!rc) rc = read_lists(t, e);
  if (!rc) rc = kv_trace_read_rope(t, e);
  if (!rc) {
    rc = kv_meta_answers(t->path, s, t->shape.n_tokens, &t->n_answers,
                         &t->answer, e);
  }
  if (!rc) rc = kv_meta_answer_by(t->path, s, e);
  if (!rc) {
    rc = kv_meta_segments(t->path, s, t->shape.n_tokens, &t->n_segments,
                          &t->segment, e);
  }
  free(list);
  return rc ? rc : kv_trace_damaged(t, e);
}

/* "folder/x.safetensors" and "folder/x.safetensors.index.json" give x. */
char *kv_trace_stem(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *end = strstr(name, ".safetensors");
  return kv_text_copy(end ? (size_t)(end - name) : strlen(name), name);
}

kv_rc kv_trace_open(const char *path, kv_trace **out, kv_err *e) {
  kv_trace *t = *out = calloc(1, sizeof *t);
  if (!t) return kv_no_memory(e, "a trace", sizeof *t);
  kv_rc rc = KV_OK;
  t->reads = &kv_trace_file_reads;
  t->own = calloc(1, sizeof *t->own);
  if (t->own) t->own->path = kv_text_copy(strlen(path), path);
  if (t->own) t->own->name = kv_trace_stem(path);
  if (!t->own || !t->own->path || !t->own->name) {
    rc = kv_no_memory(e, "a trace", sizeof *t);
  } else {
    t->path = t->own->path;
    t->name = t->own->name;
    rc = kv_st_open(path, &t->own->files, e);
  }
  if (!rc) rc = read_trace(t, e);
  if (rc) {
    kv_trace_close(t);
    *out = NULL;
  }
  return rc;
}

void kv_trace_close(kv_trace *t) {
  if (!t) return;
  struct kv_trace_own *w = t->own;
  for (int i = 0; w && w->rows && i < t->n_layers; i++) free(w->rows[i]);
  for (int i = 0; w && w->sinks && i < t->n_layers; i++) free(w->sinks[i]);
  for (int i = 0; w && w->k_bias && i < t->n_layers; i++) free(w->k_bias[i]);
  if (w) {
    kv_st_close(w->files);
    free(w->rows);
    free(w->sinks);
    free(w->k_bias);
    free(w->tokens);
    free(w->positions);
    free(w->inv_freq);
    free(w->windowed_inv_freq);
    free(w->windowed);
    free(w->path);
    free(w->name);
  }
  free(w);
  free(t->layer);
  free(t->answer);
  free(t->segment);
  free(t);
}
