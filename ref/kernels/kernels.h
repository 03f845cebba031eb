/* SPDX-License-Identifier: Apache-2.0
 *
 * The row kernels of the reference: one source (ref/kernels/kernels.c),
 * compiled once per instruction set and chosen at run time. Every set gives the
 * same bits: ref/ground/arith.h fixes what each entry computes; sets differ
 * only in how many elements a register holds.
 *
 * Rows are named by pointers, so they can be anywhere: a mapped trace, a
 * rewritten row, a decoded tile. A row holds `d` elements of `type`, unaligned.
 * Matrices are row-major. No kernel allocates, fails, keeps a pointer or reads
 * past the named elements. Get a set from kv_kernels_best or, in programs, from
 * kv_kernels_named.
 */
#ifndef KV_REF_KERNELS_H
#define KV_REF_KERNELS_H

#include "ref/ground/err.h"
#include "ref/ground/float.h"
#include "ref/ground/shape.h"

#include <stdbool.h>

enum {
  KV_PACK = 64
}; /* rows that a kernel packs at once; `pack` holds KV_PACK * d floats, 64-byte
      aligned */

/* How rows of the format block are stored: scales, then codes, of 4 bits by
 * blocks as ref/formats/block.h says, or signed bytes. A code is read as
 * RN(RN(number * scale) * whole). The width is a multiple of 32, at least 64.
 */
typedef enum kv_block_scales {
  KV_BLOCK_F16,
  KV_BLOCK_E8M0,
  KV_BLOCK_E4M3 /* above 0 */
} kv_block_scales;
typedef struct kv_block_rows {
  int bits, log; /* of a code; 2^log elements share a scale: 4 or 5 */
  kv_block_scales scale;
  float whole, number[16]; /* number: what codes of 4 bits mean */
} kv_block_rows;

/* What rows hold: elements of a type or, if bits is not 0, codes of so many
 * bits: of the format block if that is set; else `run` neighbours share scale
 * and minimum. */
typedef struct kv_row_kind {
  kv_dtype type; /* of elements, if bits is 0 */
  int bits, run; /* bits of a code; elements that share scale and minimum */
  const kv_block_rows *block;
} kv_row_kind;

/* One set. */
typedef struct kv_kernels {
  const char *name; /* portable, avx2, avx512 */

  /* out[i] = in[i], exact, i < n. */
  void (*widen)(kv_dtype type, const void *in, size_t n, float *out);

  /* s[i * lds + j] = dot(q_i, key_j) * scale + 0 for i < m, j < n (arithmetic
   * 1, without bias); q_i: d floats at q + i * ldq; key[n]: rows of d. */
  void (*logits)(int m, int n, int d, const float *q, size_t ldq,
                 const void *const *key, kv_dtype type, float scale, float *s,
                 size_t lds, float *pack);

  /* Largest of s[0..n) by rule 2 for values without -0; n >= 1. */
  float (*max)(const float *s, int n);

  /* The same, and whether all of s[0..n) are finite. */
  float (*max_finite)(const float *s, int n, bool *finite);

  /* e[j] = expm(s[j] - m); returns the sum of RN(e[j] * 2^40). No s[j] is above
   * m, so no e[j] is above 1. e may be s. */
  int64_t (*exp_sum)(const float *s, float m, int n, float *e);

  /* e[j] = expm(less[j] / t), t > 0, no less[j] above 0; returns the same sum.
   * e may be less. */
  int64_t (*exp_over)(const float *less, float t, int n, float *e);

  /* The same sum, without storing e. If `fallen` is not NULL, *fallen is the
   * sum of RN(RN(e[j] * u) * 2^40), u = -RN(less[j] / t), 0 where e[j] is 0. */
  int64_t (*exp_mass)(const float *less, float t, int n, int64_t *fallen);

  /* Writes the s[j] >= least, j ascending, to value and their j to place;
   * returns how many. Both have n elements, and value may be s; elements after
   * the returned ones are undefined. */
  int (*at_least)(const float *s, int n, float least, float *value,
                  int32_t *place);

  /* p[j] = p[j] * r, j < n. */
  void (*scale)(float r, int n, float *p);

  /* acc[j] += RN(p[j] * 2^40), j < n. */
  void (*fix_add)(const float *p, int n, int64_t *acc);

  /* acc[j] += the sum over i < m of RN(p * 2^40), where p = RN(e[i * lde + j] *
   * r[i]) is 0 to 1: sums of probabilities of m rows in one pass. */
  void (*fix_rows)(int m, int n, const float *e, size_t lde, const float *r,
                   int64_t *acc);

  /* a[i * d_v + x] = fma(p[i * ldp + j], value_j[x], a[i * d_v + x]) for j =
   * 0..n-1 in order, i < m: continues the chains in a[m][d_v]. value[n]: rows
   * of d_v. */
  void (*weigh)(int m, int n, int d_v, const float *p, size_t ldp,
                const void *const *value, kv_dtype type, float *a);

  /* Quest's bound (arithmetic 5) of n boxes; a box is a page of keys by the
   * smallest and largest of each element. u[t] = the sum over x, in index order
   * from +0, with rounded additions, of max(RN(q[x] * lo), RN(q[x] * hi)) by
   * rule 2. lo and hi are in tiles of 16: element x of box t is at [(t/16*d +
   * x)*16 + t%16]. n is rounded up to 16; u and the tiles must have that size.
   */
  void (*box_bound)(int n, int d, const float *q, const void *lo,
                    const void *hi, kv_dtype type, float *u);

  /* out[x] = fma(code x, scale[x / run], min[x / run]) for a row of `width`
   * codes (1 to 8 bits, in the planes of ref/formats/minmax.h); scale and min
   * are fp16, unaligned. */
  void (*minmax)(int bits, int width, int run, const void *codes,
                 const void *scale, const void *min, float *out);

  /* y[j] = log(x[j]) of arithmetic 6 for positive normals; y may be x. */
  void (*log)(const float *x, int n, float *y);

  /* y[j] = SiLU(x[j]) * by[j], or GELU(x[j]), of arithmetic 6; y may be x. */
  void (*silu_times)(const float *x, const float *by, int n, float *y);
  void (*gelu)(const float *x, int n, float *y);

  /* Caps s[i * lds + j], i < m, j < n, by c (kv_softcap of
   * ref/ground/softcap.h); c 0: does nothing. For the results of `logits` or
   * `code_logits`, before any bias. */
  void (*softcap)(float c, int m, int n, float *s, size_t lds);

  /* Cosines of rows of unit length, unit[.. * d], one block of columns a call:
   * columns first..first + n - 1, n <= KV_PACK, against all rows i < first + n,
   * each pair {i, j} once. S = dot(unit_i, unit_j) (arithmetic 5):
   *   sum[i] += RN(S * 2^24), sum[j] += the same; |S| < 2
   *   S > least: last[i] is raised to j, and last[j] to i
   * Call it for columns 0, KV_PACK, 2 * KV_PACK .. in that order, with sum
   * zeroed and last all -1 before. least >= 0; pack as for logits. */
  void (*similar)(int first, int n, int d, const float *unit, float least,
                  int64_t *sum, int32_t *last, float *pack);

  /* For each of n <= KV_PACK tokens, rows of d at `token`: finds the k nearest
   * of the rows i < seen[j] among `rows` rows of d at `row`. Nearest means
   * least v = fma(-2, dot(token_j, row_i), norm[i]), norm[i] = dot(row_i,
   * row_i); of equals the lower i. Writes how many to found[j], their indexes
   * in that order to which[j * k], and their v to value[j * k]. A v that is NaN
   * or +infinity is not found. pack as for logits. */
  void (*nearest)(int n, int d, const float *token, int rows, const float *row,
                  const float *norm, const int32_t *seen, int k, int32_t *which,
                  int32_t *found, float *value, float *pack);

  /* `logits` and `weigh` over rows of codes as they are stored. Each pointer
   * names a block of the format token (ref/formats/minmax.h): scales, minima,
   * codes of `bits` bits; `run` elements share scale and minimum. The bits
   * equal those for rows that `minmax` has decoded. Only for rows that suit;
   * pack as for logits. */
  bool (*codes_suit)(int bits, int run, int width); /* can they be used? */
  void (*code_logits)(int m, int n, int d, const float *q, size_t ldq,
                      const void *const *key, int bits, int run, float scale,
                      float *s, size_t lds, float *pack);
  void (*code_weigh)(int m, int n, int d_v, const float *p, size_t ldp,
                     const void *const *value, int bits, int run, float *a);

  /* The same over rows of the format block, with the bits of rows that it
   * decodes. */
  void (*block_logits)(int m, int n, int d, const float *q, size_t ldq,
                       const void *const *key, const kv_block_rows *of,
                       float scale, float *s, size_t lds, float *pack);
  void (*block_weigh)(int m, int n, int d_v, const float *p, size_t ldp,
                      const void *const *value, const kv_block_rows *of,
                      float *a);
} kv_kernels;

/* The best set that this processor can run. */
const kv_kernels *kv_kernels_best(void);
/* Sets *out to the set of that name; programs pass the environment variable
 * KVREPLAY_ISA, if set. KV_USAGE: no such name. If this processor cannot run
 * the set, or this build lacks it, *out is the next lower one that runs and
 * note[128], if not NULL, says so; else note is empty. */
kv_rc kv_kernels_named(const char *name, const kv_kernels **out, char *note,
                       kv_err *e);

#endif
