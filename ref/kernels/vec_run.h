/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a run of codes (vrun, v_run, v_number of ref/kernels/vec.h). For
 * codes of at most TABLE_BITS bits all numbers are computed once and kept in a
 * register, from which v_look selects by the lowest bits of a lane; if codes
 * have fewer bits than v_look uses, the numbers repeat. Included by a vector
 * header, after its words.
 */
#ifndef KV_REF_KERNELS_VEC_RUN_H
#define KV_REF_KERNELS_VEC_RUN_H

typedef struct vrun {
  vec scale, min; /* of at most TABLE_BITS bits: scale holds the numbers */
} vrun;

/* A run, from its scale and minimum in all lanes. */
INLINE vrun v_run(int bits, vec scale, vec min) {
  static const float code[][16] = {
      {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
  if (bits <= (int)TABLE_BITS)
    scale = v_fma(v_load(code[bits == 4]), scale, min);
  return (vrun){scale, min};
}

/* The numbers of the codes in bits at .. at + bits - 1 of each lane of a, which
 * is below 256. A code is shifted to the lowest bits, and the bits above it are
 * cleared; the topmost code of a byte has none above it. */
INLINE vec v_number(int bits, vrun run, vint a, int at) {
  if (at) a = vi_down(a, at);
  if (bits <= (int)TABLE_BITS) return v_look(run.scale, a);
  if (at + bits < 8) a = vi_and(a, vi_one(code_mask(0, bits)));
  return v_fma(v_from_int(a), run.scale, run.min);
}

#endif
