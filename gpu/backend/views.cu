/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the entries of each head's view, in order, and their runs: from the
 * mask that the method's hook left, or all of the lane.
 *
 * A block has PART entries of one head. It finds where its list and runs begin
 * by counting the mask before them, so blocks need nothing from each other;
 * only a byte an entry is read twice, from the cache. Lists are gathered in
 * shared memory first, so that neighbours are stored together.
 */
#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/shared/device.h"

/* Entries of a mask that one thread reads: one load of 16 bytes. A row of a
 * mask is a multiple of that long. */
constexpr int LOOK = 16;
constexpr int TILE = (int)KV_BLOCK * LOOK;
constexpr int TILES = 4;           /* of a block; loaded together */
constexpr int PART = TILE * TILES; /* entries of a block */

/* A view up to some entry: the entries in it, the first and last entries of
 * runs, and the first entry of the run that is open there, or of the last. */
typedef struct upto {
  int seen, begun, ended, open;
} upto;

/* A tile's list and runs, as distances from the tile's first entry. */
typedef struct found {
  uint16_t seen[TILE], first[TILE / 2], past[TILE / 2];
} found;

/* Three counts of up to TILE packed into one word, in the order of upto. */
static __device__ int count_of(uint64_t counts, int which) {
  return (int)(counts >> 20 * which & 0xfffff);
}

/* --- reading a mask ------------------------------------------------------ */

/* Bit i: is byte i of the word other than 0? First the top bit of each byte
 * says it, then a product brings the four together. */
static __device__ uint32_t bits_of(uint32_t word) {
  uint32_t top = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
  return (top >> 7) * 0x10204080u >> 28;
}

static __device__ uint32_t bits_of(const kv_piece &p) {
  return bits_of(p.word[0]) | bits_of(p.word[1]) << 4 |
         bits_of(p.word[2]) << 8 | bits_of(p.word[3]) << 12;
}

/* What a look at LOOK entries reads: them, the one before, the one after. */
typedef struct glance {
  kv_piece in;
  uint8_t before, after;
} glance;

/* Loads whatever n is, from the row's first bytes if need be, so that the loads
 * of several looks go together. */
static __device__ glance glance_at(const uint8_t *mask, int n, int first) {
  int left = n - first, at = left > 0 ? first : 0;
  return glance{*(const kv_piece *)(mask + at), mask[at > 0 ? at - 1 : 0],
                mask[left > LOOK ? first + LOOK : 0]};
}

/* Bits: which of LOOK entries from `first` on are in view. Bit 0 is the entry
 * before them, the last bit the one after. */
static __device__ uint32_t look(const glance &g, int n, int first) {
  int left = n - first;
  uint32_t in = bits_of(g.in), before = first > 0 && left > 0 && g.before;
  uint32_t after = left > LOOK && g.after;
  if (left < LOOK) in &= left > 0 ? (1u << left) - 1 : 0;
  return before | in << 1 | after << (LOOK + 1);
}

/* Looks at TILES tiles from `first` on. */
static __device__ void look_at_part(const uint8_t *mask, int n, int first,
                                    uint32_t *all) {
  glance g[TILES];
  first += kv_thread() * LOOK;
  KV_UNROLL
  for (int u = 0; u < TILES; u++) g[u] = glance_at(mask, n, first + u * TILE);
  KV_UNROLL
  for (int u = 0; u < TILES; u++) all[u] = look(g[u], n, first + u * TILE);
}

static __device__ uint32_t begins_of(uint32_t all) {
  return all >> 1 & ~all & ((1u << LOOK) - 1);
}

static __device__ uint32_t ends_of(uint32_t all) {
  return all >> 1 & ~(all >> 2) & ((1u << LOOK) - 1);
}

/* The view before entry `first`, a multiple of PART that is below n. */
static __device__ upto view_before(const uint8_t *mask, int n, int first) {
  int64_t counts = 0; /* entries seen, and runs begun << 32 */
  uint32_t open = 0;  /* + 1, so that none is the least */
  if (first == 0) return upto{0, 0, 0, 0};
  for (int base = 0; base < first; base += PART) {
    uint32_t all[TILES];
    look_at_part(mask, n, base, all);
    KV_UNROLL
    for (int u = 0; u < TILES; u++) {
      uint32_t begins = begins_of(all[u]);
      int at = base + u * TILE + kv_thread() * LOOK;
      counts += __popc(all[u] >> 1 & ((1u << LOOK) - 1));
      counts += (int64_t)__popc(begins) << 32;
      if (begins) open = (uint32_t)(at + 32 - __clz((int)begins));
    }
  }
  counts = kv_block_sum(counts);
  int runs = (int)(counts >> 32), latest = (int)kv_block_max(open) - 1;
  int across = mask[first - 1] && mask[first];
  return upto{(int)(counts & 0x7fffffff), runs, runs - across, latest};
}

/* --- naming -------------------------------------------------------------- */

/* Gathers what the thread has seen behind the `before` of the tile. */
static __device__ void gather(uint32_t all, uint64_t before, found *to) {
  uint32_t in = all >> 1, begins = begins_of(all), ends = ends_of(all);
  int first = kv_thread() * LOOK;
  uint16_t *seen = to->seen + count_of(before, 0);
  uint16_t *open = to->first + count_of(before, 1);
  uint16_t *shut = to->past + count_of(before, 2);
  KV_UNROLL
  for (int i = 0; i < LOOK; i++) {
    if (in >> i & 1) *seen++ = (uint16_t)(first + i);
    if (begins >> i & 1) *open++ = (uint16_t)(first + i);
    if (ends >> i & 1) *shut++ = (uint16_t)(first + i + 1);
  }
}

/* Stores the tile that begins at entry `base`; total: its counts. The first
 * run that ends in it may have begun before it. */
static __device__ void store(const found *from, int base, uint64_t total,
                             const upto &at, int32_t *place, kv_run *run) {
  for (int i = kv_thread(); i < count_of(total, 0); i += KV_BLOCK)
    place[at.seen + i] = base + from->seen[i];
  for (int i = kv_thread(); i < count_of(total, 1); i += KV_BLOCK)
    run[at.begun + i].first = base + from->first[i];
  for (int i = kv_thread(); i < count_of(total, 2); i += KV_BLOCK) {
    int own = at.ended + i - at.begun;
    int first = own < 0 ? at.open : base + from->first[own];
    run[at.ended + i].count = base + from->past[i] - first;
  }
}

/* Lists the part's entries of a mask, and its runs; returns the view up to its
 * end. */
static __device__ upto name_masked(const uint8_t *mask, int n, int from,
                                   int32_t *place, kv_run *run) {
  KV_SHARED(found, room, 1);
  upto at = view_before(mask, n, from);
  uint32_t all[TILES];
  look_at_part(mask, n, from, all);
  KV_UNROLL
  for (int u = 0; u < TILES; u++) {
    int base = from + u * TILE;
    if (base >= n) break;
    uint64_t counts = (uint64_t)__popc(all[u] >> 1 & ((1u << LOOK) - 1)) |
                      (uint64_t)__popc(begins_of(all[u])) << 20 |
                      (uint64_t)__popc(ends_of(all[u])) << 40;
    uint64_t total, before = kv_block_before(counts, &total);
    gather(all[u], before, room);
    __syncthreads();
    store(room, base, total, at, place, run);
    int begun = count_of(total, 1);
    if (begun) at.open = base + room->first[begun - 1];
    at.seen += count_of(total, 0);
    at.begun += begun;
    at.ended += count_of(total, 2);
  }
  return at;
}

/* Place i is entry i: it is written for the report's list of logits alone. */
static __device__ upto name_all(int n, int from, int32_t *place, kv_run *run) {
  int end = n - from < PART ? n : from + PART;
  for (int i = from + kv_thread(); place && i < end; i += KV_BLOCK)
    place[i] = i;
  if (kv_thread() == 0 && from == 0) run[0].first = 0, run[0].count = n;
  return upto{n, 1, 1, 0};
}

static __global__ void name_views(const __grid_constant__ kv_gpu_layer l,
                                  bool masked) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.x];
  size_t head = (size_t)lane->first_head + blockIdx.y;
  size_t stride = (size_t)l.stride;
  int n = lane->n, from = (int)blockIdx.z * PART;
  if (from >= n && from > 0) return;
  kv_run *run = l.run + head * (stride / 2 + 1);
  int32_t *place = l.place + head * stride;
  upto end = masked ? name_masked(l.mask + head * stride, n, from, place, run)
                    : name_all(n, from, l.logits ? place : nullptr, run);
  if (kv_thread() == 0 && from + PART >= n) {
    l.runs[head] = end.ended;
    l.entries[head] = end.seen;
  }
}

extern "C" void kv_gpu_start_name_views(void *stream, const kv_gpu_layer *l,
                                        int masked) {
  int heads = l->shape.n_heads / l->lanes, parts = (l->stride - 1) / PART + 1;
  dim3 grid((unsigned)l->lanes, (unsigned)heads, (unsigned)parts);
  KV_LAUNCH(stream, name_views, grid, KV_BLOCK, *l, masked != 0);
}
