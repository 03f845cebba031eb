/* SPDX-License-Identifier: Apache-2.0
 *
 * Dot products of KV_SIDE rows with KV_SIDE columns by all threads of a block.
 * Rows and columns pass through shared memory KV_DEEP elements at a time; each
 * product is one chain of fma in one thread, over the elements ascending, so
 * its bits do not depend on the tile. All threads call kv_tile_products (or
 * kv_tile_chains) together with the same arguments, except acc.
 */
#ifndef KV_GPU_TILE_CUH
#define KV_GPU_TILE_CUH

#include "gpu/block/block.cuh"

/* A thread has the products of KV_DOWN_ROWS neighbouring rows with KV_ACROSS
 * neighbouring columns of the tile. */
enum {
  KV_SIDE = 64, /* rows, and columns, of a tile */
  KV_DEEP = 16, /* elements of each row in shared memory */
  KV_PAD = 4,   /* so that rows written together are in different banks */
  KV_ACROSS = 4,
  KV_SPAN = (int)KV_SIDE / KV_ACROSS, /* threads that share rows */
  KV_DOWN_ROWS = (int)KV_SIDE * KV_SPAN / KV_BLOCK,
  KV_TILE_ROOM = (int)KV_DEEP * (KV_SIDE + KV_PAD) /* floats of a stage */
};

/* The first of the calling thread's rows, and of its columns. */
KV_DEVICE int kv_tile_row(void) { return kv_thread() / KV_SPAN * KV_DOWN_ROWS; }
KV_DEVICE int kv_tile_column(void) { return kv_thread() % KV_SPAN * KV_ACROSS; }

/* Fills a stage in shared memory: out[x][r] = of(r, from + x) for rows r < n
 * and elements below d, else 0; x < KV_DEEP, and out has KV_TILE_ROOM floats.
 * All threads; no barrier. */
template <class Of>
static __device__ void kv_tile_load(int d, int n, int from, const Of &of,
                                    float *out) {
  for (int i = kv_thread(); i < KV_SIDE * KV_DEEP; i += KV_BLOCK) {
    int r = i / KV_DEEP, x = i % KV_DEEP;
    bool there = r < n && from + x < d;
    out[x * (KV_SIDE + KV_PAD) + r] = there ? of(r, from + x) : 0.0f;
  }
}

/* acc becomes the products of the thread's rows and columns, of d elements
 * each. left(x) and right(x), called by all threads, fill the stages a and b in
 * shared memory with elements x .. x + KV_DEEP - 1 of the tile's rows and
 * columns, as kv_tile_load does. Two barriers for each KV_DEEP elements, and
 * none after the last use of a and b. */
template <class Left, class Right>
static __device__ void
kv_tile_chains(int d, const Left &left, const Right &right, const float *a,
               const float *b, float acc[KV_DOWN_ROWS][KV_ACROSS]) {
  int r = kv_tile_row(), c = kv_tile_column();
  KV_UNROLL
  for (int i = 0; i < KV_DOWN_ROWS; i++) {
    KV_UNROLL
    for (int j = 0; j < KV_ACROSS; j++) acc[i][j] = 0;
  }
  for (int from = 0; from < d; from += KV_DEEP) {
    int deep = d - from < KV_DEEP ? d - from : (int)KV_DEEP;
    __syncthreads();
    left(from);
    right(from);
    __syncthreads();
    for (int x = 0; x < deep; x++) {
      const float *down = a + x * (KV_SIDE + KV_PAD) + r;
      const float *across = b + x * (KV_SIDE + KV_PAD) + c;
      KV_UNROLL
      for (int i = 0; i < KV_DOWN_ROWS; i++) {
        KV_UNROLL
        for (int j = 0; j < KV_ACROSS; j++)
          acc[i][j] = kv_fma(down[i], across[j], acc[i][j]);
      }
    }
  }
}

/* The same; element x of row i < rows is row(i, x), and that of column j <
 * columns is column(j, x). */
template <class Row, class Column>
static __device__ void kv_tile_products(int d, int rows, const Row &row,
                                        int columns, const Column &column,
                                        float *a, float *b,
                                        float acc[KV_DOWN_ROWS][KV_ACROSS]) {
  kv_tile_chains(
      d, [&](int from) { kv_tile_load(d, rows, from, row, a); },
      [&](int from) { kv_tile_load(d, columns, from, column, b); }, a, b, acc);
}

#endif
