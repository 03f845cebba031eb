/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of a step: everything that the host needs, from all lanes and
 * heads, gathered into one area, so that one copy transfers it. Each stage
 * first lists its pieces and computes where they go (one block), then all
 * blocks copy, 16 bytes a thread at a time.
 *
 * The data is a stream of `used` bytes, of which the area holds report_room at
 * a time, beginning at a multiple of that. To read further the host starts the
 * copy again. Only the lanes stage may be longer than the area: its sources do
 * not change until the next step.
 */
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"

struct alignas(16) unit {
  uint32_t word[4];
};
enum { UNIT = sizeof(unit) };

static __device__ kv_gpu_front *front_of(const kv_gpu_layer &l) {
  return (kv_gpu_front *)l.report;
}
static __device__ kv_gpu_piece *pieces_of(const kv_gpu_layer &l) {
  return (kv_gpu_piece *)(l.report + sizeof(kv_gpu_front));
}
static __device__ char *data_of(const kv_gpu_layer &l) {
  return l.report + kv_gpu_report_data(l.pieces);
}

/* --- what a piece is ------------------------------------------------------ */

static __device__ kv_gpu_piece row_of(const void *from, size_t size, int n) {
  kv_gpu_piece p = {(const char *)from,
                    nullptr,
                    nullptr,
                    (uint32_t)size,
                    from && n > 0 ? (uint32_t)n : 0,
                    0};
  return p;
}

static __device__ kv_gpu_piece list_of(const void *from, const int32_t *index,
                                       size_t size, int n) {
  kv_gpu_piece p = row_of(from, size, n);
  p.index = index;
  return p;
}

static __device__ kv_gpu_piece of_views(const kv_gpu_layer &l, int j) {
  int heads = l.shape.n_heads;
  size_t stride = (size_t)l.stride;
  if (j == 0) return row_of(l.out, (size_t)(l.shape.d_v + 1) * 4, heads);
  if (j == 1) return row_of(l.bad, sizeof *l.bad, l.lanes);
  if (j == 2) return row_of(l.runs, sizeof *l.runs, heads);
  if (j == 3) return row_of(l.entries, sizeof *l.entries, heads);
  size_t h = (size_t)(j - KV_GPU_OF_VIEWS) / KV_GPU_OF_HEAD;
  if ((j - KV_GPU_OF_VIEWS) % KV_GPU_OF_HEAD == 0)
    return row_of(l.run + h * (stride / 2 + 1), sizeof *l.run, l.runs[h]);
  return list_of(l.s + h * stride, l.place + h * stride, sizeof *l.s,
                 l.logits ? l.entries[h] : 0);
}

static __device__ kv_gpu_piece of_column(const kv_gpu_layer &l,
                                         const kv_gpu_lane *lane, int c) {
  size_t size = l.needs.column[c] == KV_INT64 ? 8 : 4;
  return row_of(lane->column[c].i, size, c < l.needs.columns ? lane->n : 0);
}

static __device__ kv_gpu_piece of_slab(const kv_gpu_slab &s, int what) {
  bool all = s.n_fresh >= s.used || s.n_fresh > s.cap;
  const int32_t *index = all ? nullptr : s.fresh;
  int n = s.n_fresh == 0 ? 0 : all ? s.used : s.n_fresh;
  if (what == 0) return row_of(s.fresh, sizeof *s.fresh, all ? 0 : n);
  if (what == 1) return list_of(s.members, index, sizeof *s.members, n);
  if (s.in.pages) return {nullptr, index, &s, (uint32_t)s.size, (uint32_t)n, 0};
  return list_of(s.data, index, s.size, n);
}

static __device__ kv_gpu_piece of_rewriting(const kv_gpu_layer &l,
                                            const kv_gpu_lane *lane, int j) {
  size_t wide = (size_t)(l.shape.d + l.shape.d_v);
  int n = lane->n, slabs = (int)KV_GPU_SLABS(&l.needs);
  if (j == KV_GPU_SAY_K) return row_of(lane->k, sizeof *lane->k, n);
  if (j == KV_GPU_SAY_V) return row_of(lane->v, sizeof *lane->v, n);
  if (j == KV_GPU_SAY_LOG_ID) return row_of(lane->log_id, 4, lane->n_log);
  if (j == KV_GPU_SAY_LOG) return row_of(lane->log, wide * 4, lane->n_log);
  if (j == KV_GPU_SAY_LAST) return row_of(lane->last, 4, n);
  if (j == KV_GPU_SAY_JOINED) return row_of(lane->joined, 4, lane->n_joined);
  if (j == KV_GPU_SAY_NEXT)
    return list_of(lane->next, (const int32_t *)lane->joined, 4,
                   lane->n_joined);
  int f = (j - KV_GPU_SAY_SLABS) / 3, what = (j - KV_GPU_SAY_SLABS) % 3;
  return of_slab(f < slabs ? lane->k_slab[KV_MERGED + f]
                           : lane->v_slab[KV_MERGED + f - slabs],
                 what);
}

/* Piece j of a lane; empty if a compression changed nothing in it. */
static __device__ kv_gpu_piece of_lane(const kv_gpu_layer &l,
                                       const kv_gpu_lane *lane, int j) {
  if (lane->n_verbs == 0 && !lane->wrote) return row_of(nullptr, 4, 0);
  if (j == KV_GPU_SAY_ID) return row_of(lane->id, 4, lane->n);
  if (j == KV_GPU_SAY_WEIGHT) return row_of(lane->weight, 4, lane->n);
  if (j == KV_GPU_SAY_TIER)
    return row_of(lane->tier, 4, lane->tier ? (lane->n + 3) / 4 : 0);
  if (j == KV_GPU_SAY_VERBS) return row_of(lane->verbs, 4, lane->n_verbs);
  if (j < KV_GPU_SAY_VERBS) return of_column(l, lane, j - KV_GPU_SAY_COLUMN);
  return of_rewriting(l, lane, j);
}

static __device__ kv_gpu_piece of_lanes(const kv_gpu_layer &l, int j) {
  if (j == 0) return row_of(l.lane, sizeof *l.lane, l.lanes);
  if (j == 1) return row_of(l.bad, sizeof *l.bad, l.lanes);
  j -= KV_GPU_OF_LANES;
  return of_lane(l, &l.lane[j / l.lane_pieces], j % l.lane_pieces);
}

static __device__ kv_gpu_piece of_scores(const kv_gpu_layer &l, int j) {
  if (j == 0) return row_of(l.shown, sizeof *l.shown, l.lanes + 1);
  const kv_gpu_shown &shown = l.shown[j - KV_GPU_OF_SCORES];
  return row_of(shown.word, sizeof *shown.word, shown.n);
}

static __device__ kv_gpu_piece piece_of(const kv_gpu_layer &l, int stage,
                                        int j) {
  if (stage == KV_GPU_SAY_VIEWS) return of_views(l, j);
  if (stage == KV_GPU_SAY_SCORES) return of_scores(l, j);
  if (stage == KV_GPU_SAY_LANES) return of_lanes(l, j);
  return of_column(l, &l.lane[j / KV_MAX_COLUMNS], j % KV_MAX_COLUMNS);
}

/* --- the layout ----------------------------------------------------------- */

static __device__ uint64_t bytes_of(const kv_gpu_piece &p) {
  return ((uint64_t)p.size * p.count + UNIT - 1) / UNIT * UNIT;
}

static __device__ int end_of(const kv_gpu_layer &l, int stage) {
  return stage + 1 < KV_GPU_STAGES ? l.stage[stage + 1] : l.pieces;
}

/* Computes the offsets of pieces; each thread does consecutive ones, behind
 * those of the threads before it. first: the report begins with this stage. */
static __global__ void lay_out(kv_gpu_layer l, int stage, bool first) {
  kv_gpu_piece *piece = pieces_of(l) + l.stage[stage];
  int n = end_of(l, stage) - l.stage[stage], thread = (int)threadIdx.x;
  int each = (n + KV_BLOCK - 1) / KV_BLOCK, low = thread * each;
  int high = low + each < n ? low + each : n;
  uint64_t mine = 0, all, at = first ? 0 : front_of(l)->used;
  for (int j = low; j < high; j++) {
    piece[j] = piece_of(l, stage, j);
    piece[j].to = mine;
    mine += bytes_of(piece[j]);
  }
  at += kv_block_before(mine, &all);
  for (int j = low; j < high; j++) piece[j].to += at;
  if (thread == KV_BLOCK - 1) front_of(l)->used = at + mine;
}

/* --- the copy ------------------------------------------------------------- */

/* The last of n pieces that begins at byte x or before. */
static __device__ int piece_at(const kv_gpu_piece *piece, int n, uint64_t x) {
  int low = 0, high = n - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (piece[middle].to <= x)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Copies bytes of blocks in pages from byte o on, as many as fit a unit; what
 * pads a block is zero. */
static __device__ void by_bytes(const kv_gpu_piece &p, uint64_t o, uint64_t end,
                                unit *to) {
  uint8_t *byte = (uint8_t *)to;
  uint64_t metadata = p.slab->metadata_size;
  kv_gpu_coded_size size = kv_gpu_block_size(*p.slab, 1);
  for (uint64_t x = o; x < end && x < o + UNIT; x++) {
    uint64_t e = x / p.size, at = x % p.size;
    kv_gpu_block b =
        kv_gpu_block_at(*p.slab, p.index ? p.index[e] : (int32_t)e);
    bool codes = at >= metadata;
    const char *from = codes ? b.codes + (at - metadata) : b.metadata + at;
    bool within = at < metadata + (uint64_t)size.codes;
    *byte++ = within ? *(const uint8_t *)from : 0;
  }
}

/* Copies half-words of a piece from byte o on, as many as fit a unit. */
static __device__ void by_halves(const kv_gpu_piece &p, uint64_t o,
                                 uint64_t end, unit *to) {
  uint16_t *half = (uint16_t *)to;
  for (uint64_t x = o; x < end && x < o + UNIT; x += 2) {
    uint64_t e = x / p.size;
    const char *from = p.from + (p.index ? (uint64_t)p.index[e] : e) * p.size;
    *half++ = *(const uint16_t *)(from + x % p.size);
  }
}

static __device__ void by_words(const kv_gpu_piece &p, uint64_t o, uint64_t end,
                                unit *to) {
  uint64_t e = o / p.size, x = o % p.size;
  for (int w = 0; w < 4 && o + 4 * (uint64_t)w < end; w++) {
    const char *from = p.from + (p.index ? (uint64_t)p.index[e] : e) * p.size;
    to->word[w] = *(const uint32_t *)(from + x);
    x += 4;
    if (x == p.size) e++, x = 0;
  }
}

/* Copies the unit at byte o of a piece. */
static __device__ void copy_unit(const kv_gpu_piece &p, uint64_t o, unit *to) {
  uint64_t end = (uint64_t)p.size * p.count;
  const char *from = p.from + o;
  if (p.slab) {
    by_bytes(p, o, end, to);
    return;
  }
  if (p.size % 4) {
    by_halves(p, o, end, to);
    return;
  }
  if (p.index && p.size % UNIT == 0)
    from = p.from + (uint64_t)p.index[o / p.size] * p.size + o % p.size;
  bool whole = o + UNIT <= end && (uintptr_t)from % UNIT == 0;
  if (whole && (!p.index || p.size % UNIT == 0))
    *to = *(const unit *)from;
  else
    by_words(p, o, end, to);
}

/* Copies the part of the stage that lies in the window at byte `window`. */
static __global__ void gather(kv_gpu_layer l, int stage, uint64_t window) {
  const kv_gpu_piece *piece = pieces_of(l) + l.stage[stage];
  int n = end_of(l, stage) - l.stage[stage];
  uint64_t from = piece[0].to, to = front_of(l)->used;
  unit *out = (unit *)data_of(l);
  if (from < window) from = window;
  if (to > window + l.report_room) to = window + l.report_room;
  uint64_t first = (uint64_t)blockIdx.x * KV_BLOCK + threadIdx.x;
  uint64_t step = (uint64_t)gridDim.x * KV_BLOCK;
  for (uint64_t x = from + first * UNIT; x < to; x += step * UNIT) {
    const kv_gpu_piece &p = piece[piece_at(piece, n, x)];
    copy_unit(p, x - p.to, &out[(x - window) / UNIT]);
  }
}

/* --- starts --------------------------------------------------------------- */

/* Number of blocks for the copy; most data comes from lanes. */
static unsigned blocks_of(const kv_gpu_layer *l) {
  int blocks = l->lanes * ((l->chunks + 7) / 8);
  return (unsigned)(blocks < 1024 ? blocks : 1024);
}

extern "C" void kv_gpu_start_report(void *stream, const kv_gpu_layer *l,
                                    int stage, int first) {
  KV_LAUNCH(stream, lay_out, 1, KV_BLOCK, *l, stage, first != 0);
  KV_LAUNCH(stream, gather, blocks_of(l), KV_BLOCK, *l, stage, (uint64_t)0);
}

extern "C" void kv_gpu_start_window(void *stream, const kv_gpu_layer *l,
                                    int stage, uint64_t window) {
  KV_LAUNCH(stream, gather, blocks_of(l), KV_BLOCK, *l, stage, window);
}
