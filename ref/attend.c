/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention by chunks, evidence by rows: arithmetic 3 and 4.
 */
#include "ref/attend.h"
#include "ref/arith.h"
#include <stdlib.h>
#include <string.h>

kv_rc kv_attend_scratch_init(kv_attend_scratch *x, int d, int d_v, int heads,
                             int entries, kv_err *e) {
  size_t chunks = ((size_t)entries + KV_CHUNK - 1) / KV_CHUNK + 1;
  size_t m = (size_t)heads, wide = (size_t)(d > d_v ? d : d_v);
  *x = (kv_attend_scratch){
      .p = kv_zalloc(m * KV_CHUNK, sizeof(float)),
      .sum = kv_zalloc(m * chunks, sizeof(float)),
      .top = kv_zalloc(m * chunks, sizeof(float)),
      .part = kv_zalloc(m * chunks * (size_t)d_v, sizeof(float)),
      .pack = kv_zalloc((size_t)KV_PACK * (size_t)d, sizeof(float)),
      .rows = kv_zalloc(KV_CHUNK * wide, sizeof(float)),
      .sc = kv_zalloc((size_t)d, sizeof(float))};
  if (x->p && x->sum && x->top && x->part && x->pack && x->rows && x->sc)
    return KV_OK;
  return kv_no_memory(e, "attention", m * chunks * (size_t)d_v * 4);
}

void kv_attend_scratch_release(kv_attend_scratch *x) {
  free(x->p);
  free(x->sum);
  free(x->top);
  free(x->part);
  free(x->pack);
  free(x->rows);
  free(x->sc);
}

/* One chunk: m_c, l_c and a_c of m heads. */
static void chunk(const kv_kernels *kernel, int m, int first, int count,
                  int d_v, const float *s, size_t lds, kv_value_rows value,
                  void *ctx, kv_attend_scratch *x, float *top, float *sum,
                  float *part) {
  for (int i = 0; i < m; i++) {
    const float *row = s + (size_t)i * lds + first;
    top[i] = kernel->max(row, count);
    sum[i] = kv_unfix(
        kernel->exp_sum(row, top[i], count, x->p + (size_t)i * KV_CHUNK));
  }
  memset(part, 0, (size_t)m * (size_t)d_v * sizeof *part);
  for (int j = 0; j < count;) {
    kv_dtype type;
    int n = value(ctx, first + j, count - j, x, &type);
    kernel->weigh(m, n, d_v, x->p + j, KV_CHUNK, x->row, type, part);
    j += n;
  }
}

/* Chunks in order: M, then the chains L and O; O is a weighing of rows a_c,
 * KV_CHUNK of them at a time. */
static void combine(const kv_kernels *kernel, int m, int chunks, int head,
                    int d_v, kv_attend_scratch *x, float *out, float *lse) {
  float top = x->top[head], l = 0;
  for (int c = 1; c < chunks; c++) top = kv_max(top, x->top[c * m + head]);
  memset(out, 0, (size_t)d_v * sizeof *out);
  for (int c = 0, n = 0; c < chunks; c++) {
    x->p[n] = kv_expm(x->top[c * m + head] - top);
    l = kv_fma(x->p[n], x->sum[c * m + head], l);
    x->row[n++] = x->part + (size_t)(c * m + head) * (size_t)d_v;
    if (n < KV_CHUNK && c + 1 < chunks) continue;
    kernel->weigh(1, n, d_v, x->p, KV_CHUNK, x->row, KV_F32, out);
    n = 0;
  }
  for (int i = 0; i < d_v; i++) out[i] = out[i] / l;
  *lse = top + kv_log(l);
}

void kv_attend_rows(const kv_kernels *kernel, int m, int n, int d_v,
                    const float *s, size_t lds, kv_value_rows value, void *ctx,
                    kv_attend_scratch *x, float *out, float *lse) {
  int chunks = 0;
  for (int first = 0; first < n; first += KV_CHUNK, chunks++) {
    int count = n - first < KV_CHUNK ? n - first : KV_CHUNK;
    size_t at = (size_t)(chunks * m);
    chunk(kernel, m, first, count, d_v, s, lds, value, ctx, x, x->top + at,
          x->sum + at, x->part + at * (size_t)d_v);
  }
  for (int i = 0; i < m; i++)
    combine(kernel, m, chunks, i, d_v, x, out + (size_t)i * (size_t)d_v,
            lse + i);
}

int64_t kv_evidence_row(const kv_kernels *kernel, int n, const float *s,
                        float *p) {
  int64_t mass = kernel->exp_sum(s, kernel->max(s, n), n, p);
  kernel->scale(1.0f / kv_unfix(mass), n, p);
  return mass;
}

bool kv_all_finite(const float *x, int n) {
  uint32_t carry = 0; /* into the sign, out of an exponent of all ones */
  for (int i = 0; i < n; i++)
    carry |= (kv_bits(x[i]) & 0x7f800000u) + 0x00800000u;
  return carry < 0x80000000u;
}
