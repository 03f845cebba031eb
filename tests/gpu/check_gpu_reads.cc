/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a decode step reads K and V, counted in copies of 16 bytes:
 * - K once for up to 8 heads of a lane, of entries in view only where views
 *   are known; V once for up to 8 heads that see the same of a chunk, and for
 *   each head where they do not;
 * - what a chunk left is read once for each head, to be joined;
 * - heads and views change nothing else: the sums of a head are the same
 *   whether it shares its pass or not;
 * - a mask's entries and runs are what a plain loop finds.
 */
#include "gpu/emu/emu.h"
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"

#include "tests/support/test.h"

#include "tests/gpu/gpupool.h"
#include "tests/gpu/gpuroom.h"

enum { CHUNK = KV_GPU_CHUNK };

static uint32_t state = 1;
static uint32_t next(void) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

struct world : gpuroom {
  kv_gpu_layer l;
};

static char *take_halves(world *w, int n) {
  uint16_t *h = take<uint16_t>(w, n);
  for (int i = 0; i < n; i++) h[i] = (uint16_t)(0x3000 + next() % 0x0c00);
  return (char *)h;
}

static void take_results(world *w, int heads) {
  kv_gpu_layer *l = &w->l;
  int places = heads * l->stride;
  l->mask = take<uint8_t>(w, places);
  l->place = take<int32_t>(w, places);
  l->run = take<kv_run>(w, heads * (l->stride / 2 + 1));
  l->runs = take<int32_t>(w, heads);
}

/* n entries have the rows of a pool of one side, in order. */
static kv_cell_ref *fill_pool(world *w, int n, int width, kv_gpu_raw *pool) {
  int pages = kv_gpu_pages(n);
  pool->size = (size_t)width * sizeof(uint16_t);
  pool->page = take<char *>(w, pages);
  char *rows = take_halves(w, pages * KV_GPU_PAGE * width);
  for (int p = 0; p < pages; p++)
    pool->page[p] = rows + (size_t)p * KV_GPU_PAGE * pool->size;
  return gpupool_fill(n, take<kv_cell_ref>(w, n), take<int32_t>(w, n), pool);
}

/* n entries of fp16 in every lane. */
static void open_world(int lanes, int group, int d, int d_v, int n, world *w) {
  int heads = lanes * group;
  *w = {};
  kv_gpu_layer *l = &w->l;
  l->shape = {1, heads,  lanes,  d, d_v, n,      n - 1,
              0, KV_F16, 0.125f, 0, 0,   nullptr};
  l->lanes = lanes;
  take_attention(w, l);
  kv_gpu_clock *clock = take<kv_gpu_clock>(w, 1);
  *clock = {0, n, n - 1, 1, 0};
  l->clock = clock;
  l->lane = take<kv_gpu_lane>(w, lanes);
  for (int i = 0; i < lanes; i++) {
    l->lane[i] = {};
    l->lane[i].kv_head = i;
    l->lane[i].first_head = i * group;
    l->lane[i].queries = group;
    l->lane[i].n = n;
    l->lane[i].id = take<uint32_t>(w, n);
    for (int e = 0; e < n; e++) l->lane[i].id[e] = (uint32_t)e;
    l->lane[i].k = fill_pool(w, n, d, &l->lane[i].k_raw);
    l->lane[i].v = fill_pool(w, n, d_v, &l->lane[i].v_raw);
  }
  for (int i = 0; i < heads * d; i++)
    l->q[i] = (float)(next() % 4096) * 0x1p-11f - 1;
  take_results(w, heads);
}

/* Copies that the start makes. */
template <class Start> static int copies(Start *start, world *w, int masked) {
  uint64_t before = kv_emu_copied();
  start(nullptr, &w->l, masked);
  return (int)(kv_emu_copied() - before);
}

static void all_logits(void *stream, const kv_gpu_layer *l, int masked) {
  kv_gpu_start_logits(stream, l, 1, masked);
}

static int passes(int group) { return (group + 7) / 8; }

/* Copies of queries: those of a pass once a block of two chunks, a last pass
 * as long as the others. */
static int of_queries(const world *w, int group) {
  int each = (group + passes(group) - 1) / passes(group);
  int blocks = (w->l.chunks + 1) / 2 * w->l.lanes;
  return blocks * passes(group) * each * w->l.shape.d / 4;
}

/* Copies of the chunks of all heads, each with n entries in view. */
static int of_chunks(const world *w, int n) {
  return w->l.shape.n_heads * ((n + CHUNK - 1) / CHUNK) * w->l.shape.d_v / 4;
}

TEST(rows_are_read_once) {
  static const int groups[] = {1, 2, 4, 5, 7, 8, 9, 11, 13, 16};
  for (int group : groups) {
    const int lanes = 2, n = 300, d = 64, d_v = 128;
    world w;
    open_world(lanes, group, d, d_v, n, &w);
    int rows = lanes * passes(group) * n;
    assert_int_equal(copies(all_logits, &w, 0),
                     rows * d / 8 + of_queries(&w, group));
    assert_int_equal(copies(kv_gpu_start_name_views, &w, 0), 0);
    assert_int_equal(copies(kv_gpu_start_attend, &w, 0),
                     rows * d_v / 8 + of_chunks(&w, n));
    give_all(&w);
  }
}

/* A prompt's row reads no key of blocks that are behind it. */
TEST(rows_read_what_they_see) {
  const int lanes = 2, n = 900, d = 64, block = 2 * CHUNK;
  world w;
  open_world(lanes, 1, d, d, n, &w);
  for (int row = 0; row < n; row += 89) {
    *(kv_gpu_clock *)w.l.clock = {0, n, row, 1, 0};
    int blocks = row / block + 1;
    int entries = blocks * block < n ? blocks * block : n;
    assert_int_equal(copies(all_logits, &w, 0),
                     lanes * (entries * d / 8 + blocks * d / 4));
  }
  give_all(&w);
}

/* Every third entry; the lane's first head sees `odd` for the one before. */
static void set_masks(world *w, int odd) {
  int heads = w->l.shape.n_heads, group = heads / w->l.lanes;
  for (int h = 0; h < heads; h++)
    for (int i = 0; i < w->l.stride; i++) {
      int at =
          h % group == 0 && (i == odd || i == odd - 1) ? 2 * odd - 1 - i : i;
      w->l.mask[h * w->l.stride + i] = i < w->l.lane[0].n && at % 3 == 0;
    }
}

TEST(views_are_read_once_where_alike) {
  static const int groups[] = {1, 4, 8, 11};
  for (int group : groups) {
    const int lanes = 2, n = 900, d = 32, d_v = 64, seen = 300;
    world w;
    open_world(lanes, group, d, d_v, n, &w);
    set_masks(&w, -2);
    assert_int_equal(copies(all_logits, &w, 1),
                     lanes * passes(group) * seen * d / 8 +
                         of_queries(&w, group));
    kv_gpu_start_name_views(nullptr, &w.l, 1);
    assert_int_equal(w.l.entries[0], seen);
    assert_int_equal(copies(kv_gpu_start_attend, &w, 1),
                     lanes * passes(group) * seen * d_v / 8 +
                         of_chunks(&w, seen));
    /* The first head's last chunk alone is another. */
    set_masks(&w, 898);
    kv_gpu_start_logits(nullptr, &w.l, 1, 1);
    kv_gpu_start_name_views(nullptr, &w.l, 1);
    int each = (group + passes(group) - 1) / passes(group);
    int last = seen - 2 * CHUNK, extra = each > 1 ? last * (each - 1) : 0;
    assert_int_equal(copies(kv_gpu_start_attend, &w, 1),
                     lanes * (passes(group) * seen + extra) * d_v / 8 +
                         of_chunks(&w, seen));
    give_all(&w);
  }
}

/* Whole views as masks: alike for all heads, then for each head alone. */
TEST(sharing_changes_no_bit) {
  const int group = 11, n = 300, d = 32, d_v = 160;
  world w;
  open_world(1, group, d, d_v, n, &w);
  static float alone[11][160 + 1];
  for (int h = 0; h < group; h++) {
    for (int g = 0; g < group; g++)
      for (int i = 0; i < w.l.stride; i++)
        w.l.mask[g * w.l.stride + i] = i < n && (g == h || i % (g + 2) == 0);
    kv_gpu_start_logits(nullptr, &w.l, 1, 1);
    kv_gpu_start_name_views(nullptr, &w.l, 1);
    kv_gpu_start_attend(nullptr, &w.l, 1);
    memcpy(alone[h], w.l.out + h * (d_v + 1), sizeof alone[h]);
  }
  memset(w.l.out, 0, (size_t)group * (d_v + 1) * sizeof(float));
  kv_gpu_start_logits(nullptr, &w.l, 1, 0);
  kv_gpu_start_name_views(nullptr, &w.l, 0);
  kv_gpu_start_attend(nullptr, &w.l, 0);
  assert_memory_equal(w.l.out, alone, sizeof alone);
  give_all(&w);
}

static void plain_views(const uint8_t *mask, int n, const kv_gpu_layer *l) {
  int seen = 0, runs = 0;
  for (int i = 0; i < n; i++) {
    if (!mask[i]) continue;
    if (i == 0 || !mask[i - 1]) assert_int_equal(l->run[runs].first, i);
    assert_int_equal(l->place[seen++], i);
    if (i < n - 1 && mask[i + 1]) continue;
    assert_int_equal(l->run[runs].first + l->run[runs].count, i + 1);
    runs++;
  }
  assert_int_equal(l->entries[0], seen);
  assert_int_equal(l->runs[0], runs);
}

TEST(views_are_named) {
  static const int sizes[] = {1,    15,   16,   17,   128,  2047,
                              2048, 2049, 5000, 8191, 8193, 20000};
  for (int n : sizes)
    for (uint32_t how = 0; how < 6; how++) {
      world w;
      open_world(1, 1, 8, 8, n, &w);
      memset(w.l.mask, 0, (size_t)w.l.stride);
      for (int i = 0; i < n; i++)
        w.l.mask[i] = how == 0 || (how < 5 && next() % (1 << how) == 0) ||
                      (how == 5 && i / 16 % 2 == 0);
      kv_emu_order((int)how % 2);
      kv_gpu_start_name_views(nullptr, &w.l, 1);
      plain_views(w.l.mask, n, &w.l);
      give_all(&w);
    }
}

int main(void) {
  int failed = tests_run("gpu reads", nullptr, nullptr);
  kv_emu_release();
  return failed;
}
