/* SPDX-License-Identifier: Apache-2.0
 *
 * The row kernels, one source for every instruction set. It is compiled once a
 * set, with KV_VEC_HEADER naming the header that gives the vectors (see
 * ref/kernels/vec.h and Makefile.am). Contract: ref/kernels/kernels.h. All bits
 * are fixed by ref/ground/arith.h; this file only decides which chains share a
 * register.
 */
#include KV_VEC_HEADER

#include "ref/kernels/elements.h"

#include "ref/kernels/coded.h"

#include "ref/kernels/blocks.h"
#include "ref/kernels/logits.h"
#include "ref/kernels/similar.h"
#include "ref/kernels/weigh.h"

extern const kv_kernels SET_TABLE;

const kv_kernels SET_TABLE = {
    .name = SET_NAME,
    .widen = widen,
    .logits = logits,
    .max = max,
    .max_finite = max_finite,
    .exp_sum = exp_sum,
    .exp_over = exp_over,
    .exp_mass = exp_mass,
    .at_least = at_least,
    .scale = scale_by,
    .fix_add = fix_add,
    .fix_rows = fix_rows,
    .weigh = weigh,
    .box_bound = box_bound,
    .minmax = minmax,
    .log = log_of,
    .silu_times = silu_times,
    .gelu = gelu,
    .softcap = softcap,
    .similar = similar,
    .nearest = nearest_of,
    .codes_suit = codes_suit,
    .code_logits = code_logits,
    .code_weigh = code_weigh,
    .block_logits = block_logits,
    .block_weigh = block_weigh,
};
