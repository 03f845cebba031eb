/* SPDX-License-Identifier: Apache-2.0
 *
 * What the vector headers share. A vector header (vec_portable.h, vec_avx2.h,
 * vec_avx512.h) defines the names below for one instruction set. The kernels
 * are written in these names; ref/kernels/kernels.c includes one header first.
 * Functions take and return registers, lane by lane; pointers are to LANES
 * elements, unaligned. A column is one place of all rows: an element, or 4
 * bytes.
 *
 *   LANES, vec, vint          how many floats, or int32, are in one register
 *   SET_NAME, SET_TABLE       the set's kv_kernels.name, and its table's
 *   v_one v_load v_store      one number in all lanes; load and store
 *   v_load_part v_store_part  the first n lanes only, the rest `fill`
 *   v_fma v_mul v_add v_sub v_div   IEEE, one rounding each
 *   v_max                     if the sign of zero does not matter
 *   v_top                     the largest lane
 *   v_from_f16 v_from_bf16    LANES 16-bit elements, exact; any alignment
 *   v_bits v_float vi_*       the integer view, for exp and log
 *   v_from_int                exact for small integers
 *   v_nearest                 the nearest integers, ties to even; |x| < 2^31
 *   v_above                   bit i: lane i is larger than that
 *   v_keep_sum                the float of the integers a + b where x >= least,
 *                             else +0 (also for NaN)
 *   v_spoil v_is_zero         z + 0 * x: NaN once an x is not finite;
 *                             are all lanes zero?
 *   vi_load vi_store          LANES integers of 32 bits, unaligned
 *   vi_keep                   a loaded register that is used several times:
 *                             sets with many registers do not load it again
 *   vi_of_bytes               LANES bytes, each to an integer
 *   vi_words                  the 4 bytes at one offset of LANES rows
 *   v_of_half                 the low half of each lane, fp16, exact
 *   vi_down                   shifted down by so many bits, zeros shifted in
 *   vi_and                    bit by bit
 *   vtable v_table v_entry    16 numbers, selected by a lane's lowest 4 bits
 *   vi_of_signed vi_xor       of signed bytes; bit by bit
 *   vi_nibbles                8 bytes, then they shifted down by 4 bits, if
 *                             there are 16 lanes
 *   v_half                    one fp16 number in all lanes
 *   TABLE_BITS v_look         codes of at most so many bits are looked up:
 *                             v_look takes the number that a lane's lowest
 *                             bits select
 *   vrun v_run v_number       what codes of one scale and minimum stand for:
 *                             fma(code, scale, min), of lanes < 256
 *   vi_total                  the sum of all lanes modulo 2^32
 *   vi_widen_add              acc[i] += high[i] * 2^bits + low[i], in int64
 *   v_fix_add                 adds RN(p * 2^40) to int64 in memory
 *   vi_shl16 vi_high16        the low half moved up; the high half
 *   v_pick                    lanes >= least, packed, and their places from
 *                             `at` on; returns how many. LANES are written
 *   pack_16 pack_words        transposes: see each header
 *   pack_step                 one of PACK_STEPS steps to COLUMNS_MANY words
 *   CODE_CARRIES              are there registers for them during a tile?
 *   LOGIT_ROWS, WEIGH_ROWS    most queries of a block of registers
 *   LOGIT_TILES, WEIGH_TILES  X(type, queries, registers of keys or columns)
 *                             for each block, by queries from 1 on
 *   CODE_VECTORS .._ONE       registers of keys of a block over codes, for
 *                             several queries and for one (coded.h)
 *   CODE_HEADS                most heads of a block over coded values
 *   CODE_COLUMNS_FEW          its registers of columns for one or two heads
 *
 * Everything is always_inline: a tile's accumulators are arrays of constant
 * size whose loops must vanish, or the compiler keeps them on the stack.
 */
#ifndef KV_REF_KERNELS_VEC_H
#define KV_REF_KERNELS_VEC_H

#include "ref/ground/activation.h"
#include "ref/ground/softcap.h"
#include "ref/kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

#ifdef __clang__
#  define UNROLL _Pragma("clang loop unroll(full)")
#else
#  define UNROLL _Pragma("GCC unroll 32")
#endif

enum {
  COLUMNS_16 = 16, /* 16-bit columns that one pack_16 transposes */
  COLUMNS_32 = 4,  /* 32-bit columns that one pack_words transposes */
  PACK_STEPS = 4   /* pack_step calls for COLUMNS_MANY of them */
};

typedef const unsigned char bytes; /* a row: any type, any alignment */

/* A word with bits at .. at + bits - 1 set, those of a code. */
INLINE uint32_t code_mask(int at, int bits) {
  return ((1u << bits) - 1u) << at;
}

/* v_pick of the first `lanes` numbers, one by one. */
INLINE int pick_each(int lanes, const float *lane, float least, int at,
                     float *value, int32_t *place) {
  int m = 0;
  for (int i = 0; i < lanes; i++) {
    value[m] = lane[i];
    place[m] = at + i;
    m += lane[i] >= least;
  }
  return m;
}

/* Into the second-level cache: a prefetch to the first one waits for a fill
 * buffer and delays the loads in use (measured: half the bandwidth). */
INLINE void fetch(const void *line) { __builtin_prefetch(line, 0, 2); }

/* Into the first-level cache, where too few loads are in use to wait. */
INLINE void fetch_near(const void *line) { __builtin_prefetch(line, 0, 3); }

/* Where row j probably is, to fetch it early. After the n known rows the last
 * stride is assumed to continue: the next call mostly starts there, and a
 * prefetch of an unmapped address does nothing. */
INLINE const char *row_ahead(const void *const *row, int n, int j) {
  if (j < n) return row[j];
  uintptr_t last = (uintptr_t)row[n - 1];
  uintptr_t step = last - (uintptr_t)row[n > 1 ? n - 2 : 0];
  return (const char *)(last + step * (uintptr_t)(j - n + 1));
}

#endif
