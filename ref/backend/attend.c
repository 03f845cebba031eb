/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention by chunks, evidence by rows: arithmetic 3 and 4.
 */
#include "ref/backend/attend.h"
#include "ref/ground/arith.h"
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
      .sum = kv_zalloc(m, sizeof(float)),
      .l = kv_zalloc(m, sizeof(float)),
      .best = kv_zalloc(m, sizeof(float)),
      .top = kv_zalloc(m * chunks, sizeof(float)),
      .part = kv_zalloc(m * (size_t)d_v, sizeof(float)),
      .pack = kv_zalloc((size_t)KV_PACK * (size_t)d, sizeof(float)),
      .rows = kv_zalloc(KV_CHUNK * wide, sizeof(float)),
      .sc = kv_zalloc((size_t)d, sizeof(float))};
  if (x->p && x->mass && x->sum && x->l && x->best && x->top && x->part &&
      x->pack && x->rows && x->sc)
    return KV_OK;
  return kv_no_memory(e, "attention", m * chunks * 4);
}

void kv_attend_scratch_release(kv_attend_scratch *x) {
  free(x->p);
  free(x->mass);
  free(x->sum);
  free(x->l);
  free(x->best);
  free(x->top);
  free(x->part);
  free(x->pack);
  free(x->rows);
  free(x->sc);
}

/* m_c of all chunks of a head, and M. They are known before the first value
 * is read, so the chains L and O take each chunk as it comes and no partial
 * sum is kept. */
static float chunk_tops(const kv_kernels *kernel, int n, const float *s,
                        float *top) {
  float best = kernel->max(s, n < KV_CHUNK ? n : KV_CHUNK);
  for (int first = 0, c = 0; first < n; first += KV_CHUNK, c++) {
    int count = n - first < KV_CHUNK ? n - first : KV_CHUNK;
    top[c] = kernel->max(s + first, count);
    best = kv_max(best, top[c]);
  }
  return best;
}

/* Entries whose exponentials are computed before their values are weighed:
 * so few that memory is busy meanwhile with the rows asked for before. */
enum { SPAN = 32 };

/* The logits of the next span, back into the first-level cache. */
static void fetch_logits(int m, const float *s, size_t lds) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < SPAN; j += 16)
      __builtin_prefetch(s + (size_t)i * lds + j);
}

/* p_j and the mass of entries j..end-1 of the chunk at s, then their part of
 * a_c; row[0] is the value row of entry j. */
static void span(const kv_kernels *kernel, int m, int j, int end, int d_v,
                 const float *s, size_t lds, const float *top,
                 const void *const *row, kv_dtype type, kv_attend_scratch *x) {
  for (int i = 0; i < m; i++)
    x->mass[i] +=
        kernel->exp_sum(s + (size_t)i * lds + j, top[(size_t)i * x->chunks],
                        end - j, x->p + (size_t)i * KV_CHUNK + j);
  fetch_logits(m, s + end, lds);
  kernel->weigh(m, end - j, d_v, x->p + j, KV_CHUNK, row, type, x->part);
}

/* l_c of the chunk and a_c of m heads. */
static void chunk(const kv_kernels *kernel, int m, int first, int count,
                  int d_v, const float *s, size_t lds, kv_value_rows value,
                  void *ctx, kv_attend_scratch *x) {
  const float *top = x->top + first / KV_CHUNK;
  memset(x->mass, 0, (size_t)m * sizeof *x->mass);
  memset(x->part, 0, (size_t)m * (size_t)d_v * sizeof *x->part);
  for (int from = 0, n; from < count; from += n) {
    kv_dtype type;
    n = value(ctx, first + from, count - from, x, &type);
    for (int j = from, end; j < from + n; j = end) {
      end = j + SPAN < from + n ? j + SPAN : from + n;
      span(kernel, m, j, end, d_v, s + first, lds, top, x->row + (j - from),
           type, x);
    }
  }
  for (int i = 0; i < m; i++) x->sum[i] = kv_unfix(x->mass[i]);
}

/* The next links of a head's chains L and O. */
static void add_chunk(const kv_kernels *kernel, int head, const kv_chunk *c,
                      int d_v, kv_attend_scratch *x, float *out) {
  const void *part = c->a;
  float w = kv_expm(c->m - x->best[head]);
  x->l[head] = kv_fma(w, c->l, x->l[head]);
  kernel->weigh(1, 1, d_v, &w, 1, &part, KV_F32, out);
}

/* The n-th chunk of a head, as the scratch has it. */
static kv_chunk chunk_of(const kv_attend_scratch *x, int head, int n, int d_v) {
  return (kv_chunk){.m = x->top[(size_t)head * x->chunks + (size_t)n],
                    .l = x->sum[head],
                    .a = x->part + (size_t)head * (size_t)d_v};
}

/* The one after the last, where there is one. */
static const kv_chunk *one_more(const kv_attend_scratch *x, int head) {
  return x->more && x->more[head].l > 0 ? &x->more[head] : NULL;
}

void kv_attend_rows(const kv_kernels *kernel, int m, int n, int d_v,
                    const float *s, size_t lds, kv_value_rows value, void *ctx,
                    kv_attend_scratch *x, float *out, float *lse) {
  memset(out, 0, (size_t)m * (size_t)d_v * sizeof *out);
  for (int i = 0; i < m; i++) {
    x->l[i] = 0;
    x->best[i] = chunk_tops(kernel, n, s + (size_t)i * lds,
                            x->top + (size_t)i * x->chunks);
    if (one_more(x, i)) x->best[i] = kv_max(x->best[i], x->more[i].m);
  }
  for (int first = 0; first < n; first += KV_CHUNK) {
    int count = n - first < KV_CHUNK ? n - first : KV_CHUNK;
    chunk(kernel, m, first, count, d_v, s, lds, value, ctx, x);
    for (int i = 0; i < m; i++) {
      kv_chunk c = chunk_of(x, i, first / KV_CHUNK, d_v);
      add_chunk(kernel, i, &c, d_v, x, out + (size_t)i * (size_t)d_v);
    }
  }
  for (int i = 0; i < m; i++)
    if (one_more(x, i))
      add_chunk(kernel, i, one_more(x, i), d_v, x,
                out + (size_t)i * (size_t)d_v);
  for (int i = 0; i < m; i++) {
    float top = x->best[i], l = x->l[i];
    for (int v = 0; v < d_v; v++) out[i * d_v + v] = out[i * d_v + v] / l;
    lse[i] = top + kv_log(l);
  }
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
