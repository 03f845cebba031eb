/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a run of codes (vrun, v_run, v_number of ref/kernels/vec.h) for
 * sets that have no table of 16 numbers in a register. Included by a vector
 * header, behind its words.
 */
#ifndef KV_REF_KERNELS_VEC_RUN_H
#define KV_REF_KERNELS_VEC_RUN_H

typedef struct vrun {
  vec scale, min;
} vrun;

INLINE vrun v_run(int bits, vec scale, vec min) {
  (void)bits;
  return (vrun){scale, min};
}

INLINE vec v_number(int bits, vrun run, vint a, int at) {
  vec code = bits == 8 ? v_from_int(a) : v_code(a, at, bits);
  return v_fma(code, run.scale, run.min);
}

#endif
