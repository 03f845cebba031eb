/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a method's twin (gpu/methods/x.cu): its hooks as device
 * functions, and a table of functions that start them. Hooks have the meaning
 * of ref/lane/method.h.
 *
 *   static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane);
 *   KV_GPU_METHOD(window, .compress_lane = kv_on_compress_lane<compress_lane>);
 *
 * lists the hooks that the method has, the same as its table in ref/methods, in
 * the order of ref/lane/hooks.h.
 *
 * A hook is run by one block for each lane (compress_layer and publish: one for
 * all lanes; view, chunk and observe may have several, if started so), unless
 * the table names a starter that runs its own kernels, as in
 * gpu/parts/residual.cuh. All threads of the block call a hook with the same
 * arguments; no thread may diverge around a verb or a function that has a
 * barrier, and none may return before the others reach it. Other threads read
 * what a thread wrote after __syncthreads. Hooks change what is stored by
 * gpu/lane/verbs.cuh only - in compress_lane and compress_layer, as in ref -
 * and find shared algorithms in gpu/parts.
 */
#ifndef KV_GPU_METHOD_CUH
#define KV_GPU_METHOD_CUH

#include "gpu/block/block.cuh"
#include "gpu/lane/verbs.cuh"
#include "gpu/shared/device.h"
#include "gpu/shared/lane.h"
#include "ref/ground/arith.h"

#include <assert.h>

/* The hooks. lane: the lane, of compress_layer and publish [lanes].
 *   arrive   entries first.. have entered; it may fill their columns
 *   view     mask [n]: which entries the query head attends to, a flag each
 *   room     bytes of the workspace that view or chunk takes for a head
 *   chunk    *m, *l, a [d_v]: maximum, sum and weighted values of a chunk that
 *            the method adds to attention; all threads write the same m and l,
 *            and share a. False: none. The cell fails if one is not finite, or
 *            *l is not from 2^-64 to 2^64
 *   observe  looks at query rows
 *   compress, together   compress_lane, compress_layer: may call verbs
 *   publish  fills in the zeroed message [needs.message]; false: there is none
 */
typedef void kv_gpu_arrive(kv_gpu_at &at, kv_gpu_lane *lane, int first);
typedef void kv_gpu_view(kv_gpu_at &at, const kv_gpu_lane *lane,
                         const kv_gpu_query &query, uint8_t *mask);
typedef size_t kv_gpu_view_room(const kv_gpu_at &at, const kv_gpu_lane *lane);
typedef bool kv_gpu_own_chunk(kv_gpu_at &at, const kv_gpu_lane *lane,
                              const kv_gpu_query &query, float *m, float *l,
                              float *a);
typedef void kv_gpu_observe(kv_gpu_at &at, kv_gpu_lane *lane,
                            const kv_gpu_rows &rows);
typedef void kv_gpu_compress(kv_gpu_at &at, kv_gpu_lane *lane);
typedef bool kv_gpu_publish(kv_gpu_at &at, const kv_gpu_lane *lane, int lanes,
                            void *message);
typedef void kv_gpu_together(kv_gpu_at &at, kv_gpu_lane *lane, int lanes);

/* --- what hooks call ------------------------------------------------------ */

/* The first argument of a lane's hook, made by the kernels that run hooks. */
KV_DEVICE kv_gpu_at kv_at_lane(const kv_gpu_layer &l, const kv_gpu_lane *lane) {
  kv_gpu_at at = {
      &l,         l.params,        l.asset, l.clock->first + l.clock->count,
      lane->work, lane->work_size, 0,       nullptr,
      -1};
  return at;
}

/* What belongs to a hook's method, by any thread: its needs.lane_state bytes,
 * zeroed when a layer begins; its column c [n], of the type that its needs say;
 * its coding i as kv_gpu_recode names formats. */
KV_DEVICE void *kv_gpu_own(const kv_gpu_at &at, const kv_gpu_lane *lane) {
  return (char *)lane->own + at.layer->state;
}
KV_DEVICE int64_t *kv_gpu_column_int64(const kv_gpu_at &at,
                                       const kv_gpu_lane *lane, int c) {
  return lane->column[at.layer->column + c].i;
}
KV_DEVICE float *kv_gpu_column_float(const kv_gpu_at &at,
                                     const kv_gpu_lane *lane, int c) {
  return lane->column[at.layer->column + c].f;
}
KV_DEVICE int kv_gpu_coded(const kv_gpu_at &at, int i) {
  return (int)KV_CODED + at.layer->coding + i;
}

/* The message of a layer above [needs.message], and which layer published it;
 * nullptr, and -1: none did. */
KV_DEVICE const void *kv_gpu_above(const kv_gpu_at &at, int *layer) {
  const kv_gpu_message *above = at.layer->above;
  *layer = above ? above->layer : -1;
  return *layer < 0 ? nullptr : above + 1;
}

/* From now on scores of selections are recorded, if requested, at index `whose`
 * of l.shown (a lane, or l.lanes for the layer), for query head `head` of the
 * layer or for a compression (-1). */
KV_DEVICE void kv_gpu_watch(const kv_gpu_layer &l, int whose, int head,
                            kv_gpu_at &at) {
  at.shown = l.shown ? &l.shown[whose] : nullptr;
  at.head = head;
}

/* n bytes of the hook's workspace, 64-byte aligned, in global memory; all
 * threads call it and get the same ones, whose contents are undefined. Freed
 * when the hook returns, or by resetting at.used to its earlier value. Asserts
 * that the workspace (at.work_size) suffices. KV_GPU_TAKE: n elements of a
 * type. */
KV_DEVICE void *kv_gpu_take(kv_gpu_at &at, size_t n) {
  void *p = at.work + at.used;
  at.used += (n + 63) / 64 * 64;
  assert(at.used <= at.work_size && "a method takes what its needs said");
  return p;
}
#define KV_GPU_TAKE(at, type, n)                                               \
  ((type *)kv_gpu_take((at), (size_t)(n) * sizeof(type)))

/* --- kernels that run hooks ----------------------------------------------- */

/* Each is the kernel of the starters kv_on_x below, by the hook that it runs.
 * __grid_constant__: the layer stays where the launch put it; a private copy,
 * whose address the hooks take, would be in local memory. */
template <kv_gpu_arrive hook>
__global__ void kv_run_arrive(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, lane);
  hook(at, lane, lane->n - l.clock->count);
}

/* The `room` of a view that takes all of the workspace, so that heads run in
 * sequence; and of one that takes nothing. */
KV_DEVICE size_t kv_gpu_whole_room(const kv_gpu_at &at, const kv_gpu_lane *) {
  return at.work_size;
}
KV_DEVICE size_t kv_gpu_no_room(const kv_gpu_at &, const kv_gpu_lane *) {
  return 0;
}

/* kv_at_lane for head h of the lane, with `room` bytes of the workspace after
 * those of the heads before it; 0: with all of it. */
KV_DEVICE kv_gpu_at kv_at_head(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                               int h, size_t room) {
  kv_gpu_at at = kv_at_lane(l, lane);
  at.work += (size_t)h * room;
  if (room) at.work_size = room;
  return at;
}

/* The query of head h of the lane; within: kv_gpu_query.within. */
KV_DEVICE kv_gpu_query kv_query_of(const kv_gpu_layer &l,
                                   const kv_gpu_lane *lane, int h,
                                   const uint8_t *within) {
  size_t head = (size_t)(lane->first_head + h), d = (size_t)l.shape.d;
  const float *group = l.q + (size_t)lane->first_head * d;
  const float *logits =
      l.needs.view_logits ? l.s + head * (size_t)l.stride : nullptr;
  return {h, lane->queries, l.q + head * d, group, logits, within};
}

/* Calls each(h, room) for the heads h of the lane that the block has: block
 * (lane, y) of gridDim.y has heads y, y + gridDim.y, .. If the workspace is too
 * small for `room` bytes a head, block (lane, 0) has all heads, and each is
 * called with room 0. */
template <class Each>
KV_DEVICE void kv_each_head(const kv_gpu_lane *lane, size_t room, Each each) {
  room = (room + 63) / 64 * 64;
  bool apart = room * (size_t)lane->queries <= lane->work_size;
  int blocks = apart ? (int)gridDim.y : 1;
  if ((int)blockIdx.y >= blocks) return;
  for (int h = (int)blockIdx.y; h < lane->queries; h += blocks)
    each(h, apart ? room : 0);
}

template <kv_gpu_view hook>
KV_DEVICE void kv_view_head(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                            int h, size_t room) {
  kv_gpu_at at = kv_at_head(l, lane, h, room);
  size_t head = (size_t)(lane->first_head + h);
  uint8_t *mask = l.mask + head * (size_t)l.stride;
  kv_gpu_watch(l, lane->lane, (int)head, at);
  hook(at, lane, kv_query_of(l, lane, h, l.within ? mask : nullptr), mask);
  __syncthreads();
}

template <kv_gpu_view hook, kv_gpu_view_room needs, int REGISTERS>
__global__ void KV_REGISTERS(REGISTERS)
    kv_run_view(const __grid_constant__ kv_gpu_layer l) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_each_head(lane, needs(kv_at_lane(l, lane), lane), [&](int h, size_t room) {
    kv_view_head<hook>(l, lane, h, room);
  });
}

/* Runs `chunk` for one head, and records in l.bad a result that is not finite.
 */
template <kv_gpu_own_chunk hook>
KV_DEVICE void kv_chunk_head(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                             int h, size_t room) {
  kv_gpu_at at = kv_at_head(l, lane, h, room);
  size_t head = (size_t)(lane->first_head + h);
  float m = 0, sum = 0, *a = l.more_a + head * (size_t)l.shape.d_v;
  kv_gpu_query q = kv_query_of(l, lane, h, nullptr);
  bool there = hook(at, lane, q, &m, &sum, a);
  __syncthreads();
  int bad = !kv_finite(m) || !(sum >= 0x1p-64f && sum <= 0x1p64f);
  for (int x = kv_thread(); there && x < l.shape.d_v; x += KV_BLOCK)
    bad = bad || !kv_finite(a[x]);
  bad = there && kv_block_any(bad);
  if (kv_thread() == 0) {
    unsigned long long at_head = (unsigned long long)h << 32 | 0xffffffffu;
    if (bad) atomicMin((unsigned long long *)&l.bad[lane->lane], at_head);
    l.more[2 * head] = m;
    l.more[2 * head + 1] = there && !bad ? sum : 0;
  }
  __syncthreads();
}

template <kv_gpu_own_chunk hook, kv_gpu_view_room needs>
__global__ void kv_run_chunk(const __grid_constant__ kv_gpu_layer l) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_each_head(lane, needs(kv_at_lane(l, lane), lane), [&](int h, size_t room) {
    kv_chunk_head<hook>(l, lane, h, room);
  });
}

/* The thread's first entry, and the step to its next one, in an observation
 * that several blocks share (kv_on_observe_entries). */
KV_DEVICE int kv_gpu_first_entry(void) {
  return (int)blockIdx.y * KV_BLOCK + kv_thread();
}
KV_DEVICE int kv_gpu_next_entry(void) { return (int)gridDim.y * KV_BLOCK; }

template <kv_gpu_observe hook>
__global__ void kv_run_observe(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, lane);
  size_t head = (size_t)lane->first_head, stride = (size_t)l.stride;
  int behind = l.clock->first + l.clock->count - l.clock->row - l.clock->rows;
  unsigned want = l.needs.want;
  kv_gpu_rows rows = {l.clock->row,
                      l.clock->rows,
                      lane->queries,
                      lane->n - behind,
                      l.shape.n_heads,
                      stride,
                      want & KV_Q ? l.q + head * (size_t)l.shape.d : nullptr,
                      want & KV_S ? l.s + head * stride : nullptr,
                      want & KV_P ? l.p + head * stride : nullptr,
                      want & KV_SUM ? l.sum + head * stride : nullptr};
  hook(at, lane, rows);
}

/* True if a compression is due for this method, by its own needs: if two
 * methods share the lanes, it may be due only for the other. By any thread. */
KV_DEVICE bool kv_gpu_compresses(const kv_gpu_layer &l) {
  int decoded = l.clock->first + l.clock->count - l.shape.prompt_len;
  if (!l.one_of_two || decoded == 0) return true;
  if (decoded < 0) return l.needs.block != 0;
  return l.needs.every != 0 && (decoded - l.needs.phase) % l.needs.every == 0;
}

template <kv_gpu_compress hook>
__global__ void kv_run_compress(const __grid_constant__ kv_gpu_layer l) {
  if (!kv_gpu_compresses(l)) return;
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, lane);
  kv_gpu_watch(l, lane->lane, -1, at);
  hook(at, lane);
  __syncthreads();
  kv_gpu_sweep(at, lane);
}

template <kv_gpu_together hook>
__global__ void kv_run_layer(const __grid_constant__ kv_gpu_layer l) {
  if (!kv_gpu_compresses(l)) return;
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  kv_gpu_watch(l, l.lanes, -1, at);
  hook(at, l.lane, l.lanes);
  __syncthreads();
  for (int i = 0; i < l.lanes; i++) kv_gpu_sweep(at, &l.lane[i]);
}

template <kv_gpu_publish hook>
__global__ void kv_run_publish(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  char *bytes = (char *)(l.message + 1);
  for (size_t i = (size_t)kv_thread(); i < l.needs.message; i += KV_BLOCK)
    bytes[i] = 0;
  __syncthreads();
  bool there = hook(at, l.lane, l.lanes, bytes);
  if (kv_thread() == 0) l.message->layer = there ? l.layer : -1;
}

/* --- starters for a method's table ----------------------------------------
 * One block a lane unless said otherwise; s: the stream. */
template <kv_gpu_arrive hook>
void kv_on_arrive(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_arrive<hook>, l->lanes, KV_BLOCK, *l);
}
template <kv_gpu_view hook> void kv_on_view(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, (kv_run_view<hook, kv_gpu_whole_room, 255>), l->lanes, KV_BLOCK,
            *l);
}
/* A block for each head, for a view that is independent of the other heads' and
 * takes at most `room` bytes of the workspace, every piece rounded up to 64. If
 * scores are shown, heads show theirs in order: one block a lane. REGISTERS: of
 * a thread, at most (KV_REGISTERS). */
template <kv_gpu_view hook, kv_gpu_view_room room, int REGISTERS = 128>
void kv_on_view_apart(void *s, const kv_gpu_layer *l) {
  unsigned heads = (unsigned)(l->shape.n_heads / l->lanes);
  dim3 grid((unsigned)l->lanes, l->shown ? 1 : heads);
  KV_LAUNCH(s, (kv_run_view<hook, room, REGISTERS>), grid, KV_BLOCK, *l);
}
/* A block for each head, as kv_on_view_apart. */
template <kv_gpu_own_chunk hook, kv_gpu_view_room room>
void kv_on_chunk(void *s, const kv_gpu_layer *l) {
  dim3 grid((unsigned)l->lanes, (unsigned)(l->shape.n_heads / l->lanes));
  KV_LAUNCH(s, (kv_run_chunk<hook, room>), grid, KV_BLOCK, *l);
}
template <kv_gpu_observe hook>
void kv_on_observe(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_observe<hook>, l->lanes, KV_BLOCK, *l);
}
/* Several blocks a lane, for an observation in which a thread does entries of
 * its own and nothing else: kv_gpu_first_entry, then on by kv_gpu_next_entry.
 * Two lanes of 64 blocks are about as many as an H100 has processors (132). */
template <kv_gpu_observe hook>
void kv_on_observe_entries(void *s, const kv_gpu_layer *l) {
  constexpr int EACH = 4, MOST = 64; /* entries a thread; blocks a lane */
  int blocks = (l->stride - 1) / (EACH * KV_BLOCK) + 1;
  if (blocks > MOST) blocks = MOST;
  dim3 grid((unsigned)l->lanes, (unsigned)blocks);
  KV_LAUNCH(s, kv_run_observe<hook>, grid, KV_BLOCK, *l);
}
template <kv_gpu_compress hook>
void kv_on_compress_lane(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_compress<hook>, l->lanes, KV_BLOCK, *l);
}
template <kv_gpu_together hook>
void kv_on_compress_layer(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_layer<hook>, 1, KV_BLOCK, *l);
}
template <kv_gpu_publish hook>
void kv_on_publish(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_publish<hook>, 1, KV_BLOCK, *l);
}

/* Defines the table of method `name`, which gpu/module/kernels.cc finds by that
 * name: the size of its parameter struct, then .hook = starter for each hook.
 */
#define KV_GPU_HOOKS(name, size, ...)                                          \
  extern "C" const kv_gpu_hooks kv_gpu_##name = {.params_size = (size),        \
                                                 __VA_ARGS__}
/* The same for the struct `params` of ref/methods/NAME.h, included before. */
#define KV_GPU_METHOD(name, ...) KV_GPU_HOOKS(name, sizeof(params), __VA_ARGS__)

#endif
