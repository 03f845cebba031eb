/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the scores that selections are shown, for `kvreplay check`, where the
 * plan asks for it (at.shown), as ref/parts/parts.c does: the selections of
 * gpu/parts call kv_gpu_show before they select and kv_gpu_show_one when they
 * have. By all threads of the block together with the same arguments; where it
 * is not asked for, each of these two is a branch without a barrier. Cost: one
 * read and one write of the scores.
 */
#ifndef KV_GPU_PARTS_SHOW_CUH
#define KV_GPU_PARTS_SHOW_CUH

#include "gpu/lane/method.cuh"
#include "ref/ground/choice.h"

/* Appends list number `list` of `lists` of one selection: its n scores, of
 * which those with in[i] 0 were not to be chosen (in null: all were). chose:
 * what kind of selection. What does not fit is counted in shown->lost. at.shown
 * is not NULL. Begins and ends with a barrier. */
KV_DEVICE void kv_gpu_show_list(const kv_gpu_at &at, kv_chose chose, int list,
                                int lists, const float *score, int n,
                                const uint8_t *in) {
  kv_gpu_shown *shown = at.shown;
  __syncthreads();
  int from = shown->n;
  bool fits = n <= shown->cap - from - KV_GPU_SHOWN_HEAD;
  uint32_t *to = shown->word + from;
  __syncthreads();
  if (kv_thread() == 0 && fits) {
    to[0] = (uint32_t)chose;
    to[1] = (uint32_t)at.head;
    to[2] = (uint32_t)list;
    to[3] = (uint32_t)lists;
    to[4] = (uint32_t)n;
    shown->n = from + KV_GPU_SHOWN_HEAD + n;
  } else if (kv_thread() == 0) {
    shown->lost++;
  }
  for (int i = kv_thread(); fits && i < n; i += KV_BLOCK)
    to[KV_GPU_SHOWN_HEAD + i] = in && !in[i] ? KV_SHOWN_OUT : kv_bits(score[i]);
  __syncthreads();
}

/* A selection over `lists` lists score[l] [n[l]]. */
KV_DEVICE void kv_gpu_show(const kv_gpu_at &at, kv_chose chose,
                           const float *const *score, const int *n, int lists) {
  for (int l = 0; at.shown && l < lists; l++)
    kv_gpu_show_list(at, chose, l, lists, score[l], n[l], nullptr);
}

/* The choice of `one` among the n entries with in[i] (in null: all); -1: there
 * was none, and nothing is recorded. */
KV_DEVICE void kv_gpu_show_one(const kv_gpu_at &at, const float *score, int n,
                               const uint8_t *in, int one) {
  if (at.shown && one >= 0)
    kv_gpu_show_list(at, KV_CHOSE_ONE, 0, 1, score, n, in);
}

#endif
