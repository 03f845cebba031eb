/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme copy: the ceilings of the others. A copy from device to device by the
 * driver, bytes read and bytes written counted, and a plain kernel that reads,
 * over data of at least 1 GiB and 8 times the L2. Always measured.
 */
#ifndef KV_TESTS_BENCH_DEVICE_COPY_CUH
#define KV_TESTS_BENCH_DEVICE_COPY_CUH

#include "tests/bench/gpu/device_table.cuh"

enum { READ_WORDS = 4, READ_AHEAD = 8 };

typedef struct alignas(16) read_item {
  uint32_t word[READ_WORDS];
} read_item;

typedef struct copying {
  bench *b;
  size_t n; /* items */
  read_item *from, *to;
  uint32_t *sum;
} copying;

/* Adds the words of all items to *sum; READ_AHEAD loads are under way in each
 * thread. n is a multiple of what all threads take at once. */
static __global__ void read_all(const read_item *from, size_t n,
                                uint32_t *sum) {
  size_t step = (size_t)gridDim.x * KV_BLOCK;
  uint32_t x = 0;
  for (size_t i = (size_t)blockIdx.x * KV_BLOCK + threadIdx.x; i < n;
       i += READ_AHEAD * step) {
    read_item r[READ_AHEAD];
    for (int j = 0; j < READ_AHEAD; j++) r[j] = from[i + (size_t)j * step];
    for (int j = 0; j < READ_AHEAD; j++)
      x += r[j].word[0] + r[j].word[1] + r[j].word[2] + r[j].word[3];
  }
  atomicAdd(sum, x);
}

/* n items, rounded up to what read_all takes. */
static unsigned copy_open(bench *b, size_t n, copying *c) {
  size_t each = (size_t)KV_BLOCK * READ_AHEAD, blocks = (n + each - 1) / each;
  if (blocks > 4096) blocks = 4096;
  n = (n + blocks * each - 1) / (blocks * each) * (blocks * each);
  *c = {b, n, bench_take<read_item>(b, n), bench_take<read_item>(b, n),
        bench_take<uint32_t>(b, 1)};
  KV_LAUNCH(b->dev->stream(), noise_f32, bench_grid(n * READ_WORDS), KV_BLOCK,
            (float *)c->from, n * READ_WORDS, 7u);
  return (unsigned)blocks;
}

static void read_run(void *self, void *stream) {
  const copying *c = (const copying *)self;
  size_t blocks = c->n / ((size_t)KV_BLOCK * READ_AHEAD);
  KV_LAUNCH(stream, read_all, (unsigned)(blocks < 4096 ? blocks : 4096),
            KV_BLOCK, c->from, c->n, c->sum);
}

/* Copies from to `to`: device_clock.cuh */
static void copy_run(void *self, void *stream);

static void copy_check(bench *b) {
  copying c;
  copy_open(b, 5000, &c);
  read_run(&c, b->dev->stream());
  copy_run(&c, b->dev->stream());
  read_item *x = bench_get(b, c.from, c.n), *y = bench_get(b, c.to, c.n);
  uint32_t *got = bench_get(b, c.sum, 1), want = 0;
  for (size_t i = 0; i < c.n; i++)
    for (int j = 0; j < READ_WORDS; j++) {
      want += x[i].word[j];
      if (x[i].word[j] != kv_bits(bench_noise(7, i * READ_WORDS + (size_t)j)))
        bench_fail("item %zu is not what was written", i);
    }
  bench_same("what was read", got, &want, sizeof want);
  bench_same("the copy", y, x, c.n * sizeof *x);
  free(got);
  free(y);
  free(x);
  bench_give(b);
}

static void copy_time(bench *b) {
  copying c;
  size_t bytes = (size_t)1 << 30;
  if (8 * b->l2 > bytes) bytes = 8 * b->l2;
  copy_open(b, bytes / sizeof(read_item), &c);
  lap copy = {copy_run, copy_run, &c, false};
  lap read = {read_run, read_run, &c, false};
  double size = (double)(c.n * sizeof(read_item)) / 1e9;
  b->copy = 2 * size / bench_seconds(b, &copy);
  b->read = size / bench_seconds(b, &read);
  table_theme("memory of the device", "");
  table_line(b, {"copy, read and written bytes", "GB/s", b->copy, 0, 0, 0});
  table_line(b, {"read", "GB/s", b->read, 0, 0, 0});
  bench_give(b);
}

#endif
