/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer of alike lanes in device memory, filled with noise: the arrays that
 * gpu/shared/lane.h names, sized as gpu/host/store.c sizes them. All query
 * heads of a lane share its KV head.
 */
#ifndef KV_TESTS_BENCH_DEVICE_LANES_CUH
#define KV_TESTS_BENCH_DEVICE_LANES_CUH

#include "tests/bench/gpu/device.cuh"

constexpr int LANES_D = 128, LANES_VERBS = 1 << 12;

typedef struct lanes_case {
  int lanes, group, tokens;
  bool observation; /* room for probabilities, sums, masks, a column, and what
                       verbs and hooks need */
} lanes_case;

typedef struct lanes {
  bench *b;
  kv_gpu_layer layer;
  kv_gpu_clock *clock; /* the layer's, on the device */
  kv_gpu_lane *lane;   /* [lanes] what the host put there, for free() */
} lanes;

/* A pool with room for every token. */
static void lanes_take_pool(bench *b, size_t t, kv_gpu_raw *pool) {
  size_t pages = kv_gpu_pages(t);
  pool->size = LANES_D * sizeof(uint16_t);
  pool->free = bench_take<int32_t>(b, t);
  pool->page = bench_take<char *>(b, pages);
  char *rows = bench_take<char>(b, pages * KV_GPU_PAGE * pool->size);
  char **page = bench_room<char *>(pages);
  for (size_t p = 0; p < pages; p++)
    page[p] = rows + p * KV_GPU_PAGE * pool->size;
  b->dev->put(pool->page, page, pages * sizeof *page);
  free(page);
}

static void lanes_take_lane(lanes *w, int i, const lanes_case *c) {
  size_t t = (size_t)c->tokens;
  kv_gpu_lane *l = &w->lane[i];
  bench *b = w->b;
  memset(l, 0, sizeof *l);
  l->lane = l->kv_head = i;
  l->first_head = i * c->group;
  l->queries = c->group;
  l->id = bench_take<uint32_t>(b, t);
  l->weight = bench_take<uint32_t>(b, t);
  l->k = bench_take<kv_cell_ref>(b, t);
  l->v = bench_take<kv_cell_ref>(b, t);
  lanes_take_pool(b, t, &l->k_raw);
  lanes_take_pool(b, t, &l->v_raw);
  if (!c->observation) return;
  l->column[0].i = bench_take<int64_t>(b, t);
  l->cap_verbs = LANES_VERBS;
  l->verbs = bench_take<uint32_t>(b, LANES_VERBS);
  l->list = bench_take<int32_t>(b, t);
  l->spare = bench_take<uint64_t>(b, t);
  l->work_size = KV_WORK(t);
  l->work = bench_take<char>(b, l->work_size);
}

static void lanes_take_observation(lanes *w) {
  kv_gpu_layer *l = &w->layer;
  size_t places = (size_t)l->shape.n_heads * (size_t)l->stride;
  l->p = bench_take<float>(w->b, places);
  l->sum = bench_take<int64_t>(w->b, places);
  l->mask = bench_take<uint8_t>(w->b, places);
}

/* A layer of fp16 rows, its queries of noise and what attention leaves. */
static void lanes_shape(bench *b, int lanes, int group, int tokens,
                        kv_gpu_layer *l) {
  l->shape.n_layers = 1;
  l->shape.n_heads = lanes * group;
  l->shape.n_kv_heads = lanes;
  l->shape.d = l->shape.d_v = LANES_D;
  l->shape.n_tokens = tokens;
  l->shape.dtype = KV_F16;
  l->shape.scale = 0.08838835f; /* RN(1 / sqrt(128)) */
  l->lanes = lanes;
  l->chunks = (tokens + KV_GPU_CHUNK - 1) / KV_GPU_CHUNK;
  size_t heads = (size_t)l->shape.n_heads, chunks = heads * (size_t)l->chunks;
  l->q = bench_take<float>(b, heads * LANES_D);
  KV_LAUNCH(b->dev->stream(), noise_f32, bench_grid(heads * LANES_D), KV_BLOCK,
            l->q, heads * LANES_D, 3u);
  l->entries = bench_take<int32_t>(b, heads);
  l->top = bench_take<float>(b, chunks);
  l->mass = bench_take<float>(b, chunks);
  l->part = bench_take<float>(b, chunks * LANES_D);
  l->out = bench_take<float>(b, heads * (LANES_D + 1));
  l->bad = bench_take<uint64_t>(b, (size_t)lanes);
}

static void lanes_take_layer(lanes *w) {
  kv_gpu_layer *l = &w->layer;
  bench *b = w->b;
  size_t heads = (size_t)l->shape.n_heads, stride = (size_t)l->stride;
  size_t places = heads * stride, row = (size_t)LANES_D;
  size_t all = (size_t)l->lanes * (size_t)l->shape.n_tokens * row;
  uint16_t *k = bench_take<uint16_t>(b, all);
  uint16_t *v = bench_take<uint16_t>(b, all);
  KV_LAUNCH(b->dev->stream(), noise_f16, bench_grid(all), KV_BLOCK, k, all, 1u);
  KV_LAUNCH(b->dev->stream(), noise_f16, bench_grid(all), KV_BLOCK, v, all, 2u);
  l->k = (const char *)k;
  l->v = (const char *)v;
  l->clock = w->clock = bench_take<kv_gpu_clock>(b, 1);
  l->lane = bench_take<kv_gpu_lane>(b, (size_t)l->lanes);
  l->s = bench_take<float>(b, places);
  l->place = bench_take<int32_t>(b, places);
  l->run = bench_take<kv_run>(b, heads * (stride / 2 + 1));
  l->runs = bench_take<int32_t>(b, heads);
}

static void lanes_open(bench *b, const lanes_case *c, lanes *w) {
  memset(w, 0, sizeof *w);
  w->b = b;
  kv_gpu_layer *l = &w->layer;
  lanes_shape(b, c->lanes, c->group, c->tokens, l);
  l->shape.prompt_len = 1;
  l->stride = (c->tokens + 15) / 16 * 16;
  w->lane = bench_room<kv_gpu_lane>((size_t)c->lanes);
  lanes_take_layer(w);
  if (c->observation) lanes_take_observation(w);
  for (int i = 0; i < c->lanes; i++) lanes_take_lane(w, i, c);
}

/* The lanes as the host has them, with the first n tokens in each. */
static void lanes_begin(lanes *w, int n) {
  const kv_gpu_layer *l = &w->layer;
  const kv_device *dev = w->b->dev;
  kv_gpu_clock clock = {0, n, n - 1, 1, 0};
  dev->put(l->lane, w->lane, (size_t)l->lanes * sizeof *w->lane);
  dev->put(w->clock, &clock, sizeof clock);
  uint64_t *bad = bench_room<uint64_t>((size_t)l->lanes);
  memset(bad, 0xff, (size_t)l->lanes * sizeof *bad);
  dev->put(l->bad, bad, (size_t)l->lanes * sizeof *bad);
  dev->append(dev->stream(), l, n);
  bench_fine(w->b);
  free(bad);
}

/* Nothing went wrong in any lane. */
static void lanes_fine(const lanes *w) {
  size_t n = (size_t)w->layer.lanes;
  kv_gpu_lane *lane = bench_get(w->b, w->layer.lane, n);
  uint64_t *bad = bench_get(w->b, w->layer.bad, n);
  for (size_t i = 0; i < n; i++)
    if (lane[i].fault || bad[i] != UINT64_MAX)
      bench_fail("lane %zu ended with fault %d", i, lane[i].fault);
  free(bad);
  free(lane);
}

static void lanes_close(lanes *w) {
  lanes_fine(w);
  bench_give(w->b);
  free(w->lane);
}

#endif
