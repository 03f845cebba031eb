/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel minmax (ref/kernels/kernels.h): rows of codes to the numbers they
 * stand for. Plain loops over neighbouring elements, of which the compiler
 * makes vectors of the set's width; an element has the same bits in any of
 * them. Part of ref/kernels/kernels.c.
 */
#ifndef KV_REF_KERNELS_CODES_H
#define KV_REF_KERNELS_CODES_H

/* out[i] = the code in byte i of row, `shift` bits up, as wide as `ones`. */
INLINE void plane_of(int n, int shift, int ones, bytes *row,
                     float *restrict out) {
  for (int i = 0; i < n; i++) out[i] = (float)(row[i] >> shift & ones);
}

/* out[0..width) = the codes of a row, plane by plane: element i of plane h
 * stands in byte i, h * bits up. */
INLINE void read_codes(int bits, int width, bytes *row, float *out) {
  int plane = (width * bits + 7) / 8, ones = (1 << bits) - 1, shift = 0;
  for (int from = 0; from < width; from += plane, shift += bits)
    plane_of(width - from < plane ? width - from : plane, shift, ones, row,
             out + from);
}

/* Number i of a row of finite fp16. */
INLINE float half_at(bytes *at, int i) {
  return kv_half_at(at + 2 * (size_t)i);
}

/* A code times a scale is exact in binary32, so product and sum are the fused
 * operation. */
INLINE float placed(float code, float scale, float min) {
  return kv_add(kv_mul(code, scale), min);
}

/* x[i] = placed(x[i]), i < n, each with a scale of its own; with one for all.
 */
INLINE void place_each(int n, bytes *scale, bytes *min, float *restrict x) {
  for (int i = 0; i < n; i++)
    x[i] = placed(x[i], half_at(scale, i), half_at(min, i));
}

INLINE void place_run(int n, float scale, float min, float *x) {
  for (int i = 0; i < n; i++) x[i] = placed(x[i], scale, min);
}

/* A whole row: out[0..width) holds codes and becomes numbers. */
INLINE void place(int width, int run, bytes *scale, bytes *min, float *out) {
  if (run == 1) {
    place_each(width, scale, min, out);
    return;
  }
  for (int g = 0, i = 0; i < width; g++, i += run)
    place_run(width - i < run ? width - i : run, half_at(scale, g),
              half_at(min, g), out + i);
}

static void minmax(int bits, int width, int run, const void *codes,
                   const void *scale, const void *min, float *out) {
  if (bits == 2)
    read_codes(2, width, codes, out);
  else
    read_codes(bits, width, codes, out);
  place(width, run, scale, min, out);
}

#endif
