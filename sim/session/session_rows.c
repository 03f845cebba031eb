/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying rows in and out of a session: strides, dtypes, and what is refused.
 */
#include "sim/session/session_part.h"

#include "ref/ground/arith.h"
#include <string.h>

static uint16_t narrow(kv_dtype type, float x) {
  return type == KV_F16 ? kv_to_f16(x) : kv_to_bf16(x);
}

static float widen(kv_dtype type, uint16_t x) {
  return type == KV_F16 ? kv_from_f16(x) : kv_from_bf16(x);
}

/* Converts one row to the side's dtype. Returns the index of the first element
 * that is not exactly representable, or -1. */
static int convert(kv_session *s, const kv_side *side, kv_dtype from,
                   const char *in, char *out) {
  size_t n = (size_t)side->width;
  float *wide = side->dtype == KV_F32 ? (float *)(void *)out : s->row;
  s->cell.plan.kernels->widen(from, in, n, wide);
  if (side->dtype == KV_F32) return -1;
  for (int i = 0; i < side->width; i++) {
    uint16_t x = narrow(side->dtype, wide[i]);
    if (kv_bits(widen(side->dtype, x)) != kv_bits(wide[i])) return i;
    memcpy(out + 2 * (size_t)i, &x, sizeof x);
  }
  return -1;
}

static kv_rc tell(const kv_side *side, int layer, int token, int head,
                  const char *what, kv_err *e) {
  return kv_fail(e, KV_USAGE, "%s of layer %d, token %d, head %d: %s",
                 side->name, layer, token, head, what);
}

/* Copies count rows that lie one after another, from `token` on. */
static kv_rc take_run(kv_session *s, const kv_side *side, int layer, int token,
                      int count, int head, kv_dtype from, const char *in,
                      kv_err *e) {
  size_t width = (size_t)side->width, row = width * kv_dtype_size(from);
  size_t size = width * kv_dtype_size(side->dtype);
  int skip = side->start > token ? side->start - token : 0;
  size_t n = (size_t)count * width, bad = kv_first_not_finite(from, n, in);
  if (bad < n)
    return tell(side, layer, token + (int)(bad / width), head,
                "holds NaN or Inf", e);
  if (skip >= count) return KV_OK;
  size_t at = (size_t)head * (size_t)side->rows;
  char *out = side->data + (at + (size_t)(token + skip - side->start)) * size;
  in += (size_t)skip * row;
  if (from == side->dtype) {
    memcpy(out, in, (size_t)(count - skip) * row);
    return KV_OK;
  }
  for (int i = skip; i < count; i++, in += row, out += size)
    if (convert(s, side, from, in, out) >= 0)
      return tell(side, layer, token + i, head,
                  "is not exact in the dtype that the session stores; round "
                  "it first, or open the session with the dtype of k and v",
                  e);
  return KV_OK;
}

static const char *element(const kv_session_in *in, int token, int head) {
  int64_t size = (int64_t)kv_dtype_size((kv_dtype)in->dtype);
  return (const char *)in->data + (head * in->head + token * in->token) * size;
}

/* Prefetches the rows of a token. They lie far apart if each head's tokens are
 * side by side, so their cache misses should overlap. */
static void fetch(const kv_side *side, const kv_session_in *in) {
  size_t row = (size_t)side->width * kv_dtype_size((kv_dtype)in->dtype);
  for (int h = 0; h < side->heads; h++)
    for (size_t at = 0; at < row; at += 64)
      __builtin_prefetch(element(in, 0, h) + at);
}

/* How many rows still are in the first-level cache when they are copied after
 * being checked. */
static int near_rows(const kv_side *side, kv_dtype from) {
  size_t row = (size_t)side->width * kv_dtype_size(from);
  return row < 8192 ? (int)(8192 / row) : 1;
}

kv_rc kv_session_take(kv_session *s, const kv_side *side, int layer, int first,
                      int n, const kv_session_in *in, kv_err *e) {
  if (!in || !in->data)
    return kv_fail(e, KV_USAGE, "layer %d: %s is missing", layer, side->name);
  if (in->dtype < KV_F16 || in->dtype > KV_F32)
    return kv_fail(e, KV_USAGE,
                   "layer %d: %s has dtype %d; F16 is %d, BF16 %d, F32 %d",
                   layer, side->name, in->dtype, KV_F16, KV_BF16, KV_F32);
  kv_dtype from = (kv_dtype)in->dtype;
  int run = in->token == side->width ? near_rows(side, from) : 1;
  if (n == 1) fetch(side, in);
  kv_rc rc = KV_OK;
  for (int h = 0; !rc && h < side->heads; h++)
    for (int j = 0; !rc && j < n; j += run)
      rc = take_run(s, side, layer, first + j, run < n - j ? run : n - j, h,
                    from, element(in, j, h), e);
  return rc;
}

void kv_session_row(const kv_session *s, const kv_session_in *in, int token,
                    int head, int width, float *out) {
  s->cell.plan.kernels->widen((kv_dtype)in->dtype, element(in, token, head),
                              (size_t)width, out);
}

void kv_session_give(const kv_session *s, const kv_session_out *out, int token,
                     int head, const float *row) {
  kv_dtype type = (kv_dtype)out->dtype;
  int64_t size = (int64_t)kv_dtype_size(type), n = s->trace.shape.d_v;
  char *to = (char *)out->data + (token * out->token + head * out->head) * size;
  if (type == KV_F32) {
    memcpy(to, row, (size_t)n * sizeof *row);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    uint16_t x = narrow(type, row[i]);
    memcpy(to + 2 * i, &x, sizeof x);
  }
}
