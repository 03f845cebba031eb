/* SPDX-License-Identifier: Apache-2.0
 *
 * The peer of theme top: CUB's segmented radix sort of scores with their
 * indexes, largest first. Empty if the toolkit has no CUB.
 */
#ifndef KV_TESTS_BENCH_DEVICE_SORT_CUH
#define KV_TESTS_BENCH_DEVICE_SORT_CUH

#include "tests/bench/gpu/device_top.cuh"

#ifdef __CUDACC__
#  if __has_include(<cub/device/device_segmented_radix_sort.cuh>)
#    include <cub/device/device_segmented_radix_sort.cuh>
#    define KV_BENCH_CUB
#  endif
#endif

#ifdef KV_BENCH_CUB

typedef struct sorter {
  const tops *t;
  int *index, *index_out, *first; /* first: [lanes + 1] */
  float *out;
  char *room;
  size_t size;
  cudaError_t rc;
} sorter;

static void sort_run(void *self, void *stream) {
  sorter *s = (sorter *)self;
  const tops *t = s->t;
  cudaError_t rc = cub::DeviceSegmentedRadixSort::SortPairsDescending(
      s->room, s->size, t->score, s->out, s->index, s->index_out,
      t->lanes * t->n, t->lanes, s->first, s->first + 1, 0, 32,
      (cudaStream_t)stream);
  if (rc != cudaSuccess) s->rc = rc;
}

static __global__ void sort_number(int *index, size_t all, int n) {
  size_t step = (size_t)gridDim.x * KV_BLOCK;
  for (size_t i = (size_t)blockIdx.x * KV_BLOCK + threadIdx.x; i < all;
       i += step)
    index[i] = (int)(i % (size_t)n);
}

/* Its first k of lane 0 are those that kv_gpu_top has flagged there, if the
 * last of them has no equal after it. */
static void sort_check(const sorter *s) {
  const tops *t = s->t;
  int *order = bench_get(t->b, s->index_out, (size_t)t->n);
  float *score = bench_get(t->b, t->score, (size_t)t->n);
  uint8_t *keep = bench_get(t->b, t->keep, (size_t)t->n);
  for (int i = 0; i < t->k; i++)
    if (!keep[order[i]] && score[order[i]] != score[order[t->k]])
      bench_fail("the sort and top differ at rank %d", i);
  free(keep);
  free(score);
  free(order);
}

static double sort_seconds(const tops *t) {
  size_t all = (size_t)t->lanes * (size_t)t->n;
  sorter s = {t,
              bench_take<int>(t->b, all),
              bench_take<int>(t->b, all),
              bench_take<int>(t->b, (size_t)t->lanes + 1),
              bench_take<float>(t->b, all),
              nullptr,
              0,
              cudaSuccess};
  void *stream = t->b->dev->stream();
  int *first = bench_room<int>((size_t)t->lanes + 1);
  for (int l = 0; l <= t->lanes; l++) first[l] = l * t->n;
  t->b->dev->put(s.first, first, ((size_t)t->lanes + 1) * sizeof *first);
  KV_LAUNCH(stream, sort_number, bench_grid(all), KV_BLOCK, s.index, all, t->n);
  sort_run(&s, stream); /* without room: asks how much */
  s.room = bench_take<char>(t->b, s.size);
  lap what = {sort_run, sort_run, &s, true};
  double seconds = bench_seconds(t->b, &what);
  if (s.rc != cudaSuccess) bench_fail("CUB: %s", cudaGetErrorString(s.rc));
  sort_check(&s);
  free(first);
  return seconds;
}

#else
static double sort_seconds(const tops *) { return 0; }
#endif

#endif
