/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a trace during a replay: the search for NaN and Inf, releasing pages,
 * and noticing damage (traces/trace/trace.h).
 *
 * A number is not finite if its exponent is all ones. Elements, at any address,
 * are tested as integers; blocks have no branch, so that loops vectorize.
 */
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/trace/colsum.h"
#include "traces/trace/own.h"
#include "traces/trace/trace.h"

enum { BLOCK = 4096 }; /* elements tested between two branches */

static int any16(size_t n, const unsigned char *data, uint16_t exponent) {
  uint16_t bad = 0; /* as wide as x: a register holds as many of both */
  for (size_t i = 0; i < n; i++) {
    uint16_t x;
    memcpy(&x, data + 2 * i, sizeof x);
    bad |= (uint16_t)((x & exponent) == exponent);
  }
  return bad != 0;
}

static int any32(size_t n, const unsigned char *data) {
  uint32_t bad = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t x;
    memcpy(&x, data + 4 * i, sizeof x);
    bad |= (x & 0x7f800000u) == 0x7f800000u;
  }
  return bad != 0;
}

static int any(kv_dtype type, size_t n, const unsigned char *data) {
  if (type == KV_F32) return any32(n, data);
  return any16(n, data, type == KV_F16 ? 0x7c00 : 0x7f80);
}

size_t kv_first_not_finite(kv_dtype type, size_t n, const void *rows) {
  const unsigned char *data = rows;
  size_t size = kv_dtype_size(type);
  for (size_t at = 0; at < n; at += BLOCK) {
    size_t m = n - at < BLOCK ? n - at : BLOCK;
    if (!any(type, m, data + at * size)) continue;
    while (!any(type, 1, data + at * size)) at++;
    return at;
  }
  return n;
}

static kv_rc scan(const kv_trace *t, int l, const char *what, kv_dtype type,
                  int heads, int rows, int d, const void *data, kv_err *e) {
  size_t n = (size_t)heads * (size_t)rows * (size_t)d;
  size_t at = kv_first_not_finite(type, n, data);
  char a[KV_SHOW];
  if (at == n) return KV_OK;
  size_t channel = at % (size_t)d, row = at / (size_t)d % (size_t)rows;
  return kv_fail(e, KV_INPUT,
                 "%s: tensor layers.%d.%s holds NaN or Inf at [%zu, %zu, %zu]",
                 kv_show(t->path, a), l, what, at / (size_t)d / (size_t)rows,
                 row, channel);
}

/* If V is a part of K, it must equal it to the bit. */
static kv_rc scan_shared(const kv_trace *t, int i, kv_err *e) {
  const kv_shape *p = &t->shape;
  const kv_layer_data *x = &t->layer[i].data;
  size_t size = kv_dtype_size(p->dtype), rows = (size_t)p->n_kv_heads;
  size_t v = (size_t)p->d_v * size, k = (size_t)p->d * size;
  char a[KV_SHOW];
  rows *= p->shared ? (size_t)p->n_tokens : 0;
  for (size_t r = 0; r < rows; r++) {
    if (memcmp((const char *)x->k + r * k, (const char *)x->v + r * v, v) == 0)
      continue;
    return kv_fail(e, KV_INPUT,
                   "%s: tensor layers.%d.v must be the first %d numbers of k "
                   "(kv.shared), but differs at [%zu, %zu]",
                   kv_show(t->path, a), x->layer, p->d_v,
                   r / (size_t)p->n_tokens, r % (size_t)p->n_tokens);
  }
  return KV_OK;
}

kv_rc kv_trace_scan_layer(const kv_trace *t, int i, kv_err *e) {
  const kv_layer_data *x = &t->layer[i].data;
  const kv_shape *p = &t->shape;
  kv_rc rc = scan(t, x->layer, "k", p->dtype, p->n_kv_heads, p->n_tokens, p->d,
                  x->k, e);
  if (!rc) {
    rc = scan(t, x->layer, "v", p->dtype, p->n_kv_heads, p->n_tokens, p->d_v,
              x->v, e);
  }
  if (!rc) {
    rc = scan(t, x->layer, "q", x->q_dtype, p->n_heads, x->n_rows, p->d, x->q,
              e);
  }
  if (!rc) rc = scan_shared(t, i, e);
  if (!rc) rc = kv_colsum_scan(t, i, e);
  return rc ? rc : kv_trace_damaged(t, e);
}

kv_rc kv_trace_scan_output(const kv_trace *t, int i, kv_err *e) {
  const kv_recorded *r = &t->layer[i];
  if (!r->o) return KV_OK;
  kv_rc rc = scan(t, r->data.layer, "o", r->o_type, t->shape.n_heads,
                  r->data.n_rows, t->shape.d_v, r->o, e);
  return rc ? rc : kv_trace_damaged(t, e);
}

void kv_trace_release_layer(const kv_trace *t, int i) {
  static const char *const tensors[] = {"q", "k", "v", "o", "colsum"};
  char name[KV_TENSOR_NAME];
  for (size_t j = 0; j < sizeof tensors / sizeof *tensors; j++) {
    snprintf(name, sizeof name, "layers.%d.%s", t->layer[i].data.layer,
             tensors[j]);
    const kv_st_tensor *x = kv_st_find(t->own->files, name);
    if (x) kv_st_release(t->own->files, x);
  }
}

kv_rc kv_trace_damaged(const kv_trace *t, kv_err *e) {
  return kv_st_damaged(t->own->files, e);
}

const char *kv_trace_meta(const kv_trace *t, const char *key) {
  return kv_st_meta(t->own->files, key);
}

const char *kv_trace_answer_by(const kv_trace *t) {
  const char *by = kv_trace_meta(t, "answer_by");
  return by && strcmp(by, "model") ? "user" : by;
}

const struct kv_st *kv_trace_files(const kv_trace *t) { return t->own->files; }
