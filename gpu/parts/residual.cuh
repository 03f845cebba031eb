/* SPDX-License-Identifier: Apache-2.0
 *
 * A compression that codes tokens as residual latents, as in
 * ref/parts/residual.h, by these kernels in order:
 *
 *   plan     one block: which tokens are references, which are coded, and where
 *   keep     a block a lane: what stays, in 4 bits (kept=int4)
 *   rows     blocks that take a few references at a time: their vectors, norms
 *   nearest  a block for each tile of tokens: the search
 *   code     blocks that take a few tokens at a time: mean, latent vector, what
 *            it decodes to
 *   in_order one block: search, code and verbs of one batch after another
 *   commit   a block a lane: the verbs, then done
 *
 * If decoded tokens are references of later ones (refs=recon), in_order does
 * the work of nearest, code and commit, which then only calls done; otherwise
 * it does nothing. Blocks with no work return at once.
 *
 * A method starts them in place of its hook:
 *
 *   struct x_rule { static __device__ functions of the method x:
 *     const kv_residual &how(at)
 *     int from(at), end(at): entries from..end-1 are compressed now
 *     bool whole(at): none of them is, as the layer keeps everything
 *     int host(at): coded entries become of this class (kv_gpu_retier); -1:
 *       they keep theirs
 *     void done(at, lane, end): the lane is compressed; called by all threads
 *     float *kept(at, lane): [most][d + d_v] of the lane's state, where the
 *       references are kept as they came though they are coded (self=yes) };
 *   KV_GPU_METHOD(x, .compress_layer = kv_gpu_start_residual<x_rule>);
 *
 * Functions are called by all threads of a block together with the same
 * arguments and end with a barrier, unless said otherwise. o: how(at); a: the
 * plan.
 */
#ifndef KV_GPU_RESIDUAL_CUH
#define KV_GPU_RESIDUAL_CUH

#include "gpu/parts/latents.cuh"

/* --- plan and references -------------------------------------------------- */

/* The kernels plan and rows (Rule: see the head): which tokens are references
 * and which are coded, where their blocks will be, and the references' vectors
 * and squared lengths. Functions without a value are called by all threads of a
 * block together, with the same arguments; the others by any thread. */

/* References of which a block of kv_run_rows makes the vectors at a time. */
enum { KV_REFERENCE_ROWS = 16 };

/* True if tokens are coded against references at all. */
KV_DEVICE bool kv_gpu_refers(const kv_residual &o) {
  return o.references != KV_REFERENCES_NONE;
}

/* True if references are what was decoded, so that tokens are coded in order.
 */
KV_DEVICE bool kv_gpu_in_order(const kv_residual &o) {
  return kv_gpu_refers(o) && o.refs == KV_REFS_RECON;
}

/* The format of entry i, coded by a compression from entry `from` on:
 * references have their own. */
KV_DEVICE int kv_gpu_coded_as(const kv_gpu_at &at, const kv_residual &o, int i,
                              int from) {
  bool reference = kv_is_reference(&o, i, from);
  return kv_gpu_coded(at, reference ? KV_CODED_REFERENCE : KV_CODED_LATENT);
}

/* --- plan ---------------------------------------------------------------- */

/* flag[i] = 1 for the references below end that are known before coding: of
 * entries below from, compressed before, those that are unchanged or were coded
 * as one; of the later ones none if tokens are coded in order. */
KV_DEVICE void kv_gpu_flag_references(const kv_gpu_at &at, const kv_residual &o,
                                      int from, int end, uint8_t *flag) {
  const kv_gpu_lane *lane = at.layer->lane;
  int coded = kv_gpu_coded(at, KV_CODED_REFERENCE);
  bool later = !kv_gpu_in_order(o);
  for (int i = kv_thread(); i < end; i += KV_BLOCK) {
    int f = lane->k[i].format;
    flag[i] =
        kv_gpu_refers(o) && (i < from ? f == KV_RAW || f == coded
                                      : later && kv_is_reference(&o, i, from));
  }
  __syncthreads();
}

/* a.format and a.block of the n entries a.entry, as their slabs will take them.
 */
KV_DEVICE void kv_gpu_number_blocks(const kv_gpu_at &at, const kv_residual &o,
                                    const kv_gpu_latents &a, int n, int from) {
  const kv_gpu_slab *slab = at.layer->lane[0].k_slab;
  int latent = kv_gpu_coded(at, KV_CODED_LATENT), before = 0, some;
  int reference = kv_gpu_coded(at, KV_CODED_REFERENCE);
  for (int base = 0; base < n; base += KV_BLOCK) {
    int j = base + kv_thread(), i = j < n ? a.entry[j] : 0;
    int f = j < n ? kv_gpu_coded_as(at, o, i, from) : latent;
    int rank = before + kv_block_rank(f == reference, &some);
    if (j < n) {
      a.format[j] = f;
      a.block[j] = slab[f].used + (f == reference ? rank : j - rank);
    }
    before += some;
  }
}

/* Kernel, one block: fills in the plan, except norm and row. */
template <class Rule>
__global__ void kv_run_plan(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  const kv_residual &o = Rule::how(at);
  kv_gpu_latents a = kv_gpu_take_latents(at, o);
  int from = Rule::from(at), end = Rule::end(at), n = 0, references = 0;
  bool whole = Rule::whole(at);
  if (!kv_gpu_compresses(l) || end <= from || (whole && !o.kept))
    from = end = 0;
  kv_gpu_flag_references(at, o, from, end, a.flag);
  if (end > 0 && !whole)
    references = kv_gpu_indexes(0, end, a.flag, true, a.id);
  bool all = o.self || kv_gpu_in_order(o);
  int alone = kv_gpu_in_order(o) && references == 0; /* the first of all */
  for (int i = kv_thread(); i < end; i += KV_BLOCK)
    a.flag[i] =
        !whole && i >= from + alone && (all || !kv_is_reference(&o, i, from));
  __syncthreads();
  if (end > from) n = kv_gpu_indexes(from, end, a.flag, true, a.entry);
  kv_gpu_number_blocks(at, o, a, n, from);
  if (kv_thread() == 0) *a.now = {from, end, references, n, ~0ull};
}

/* --- what is kept -------------------------------------------------------- */

/* Kernel, a block a lane: kv_residual_keep, by the plan. */
template <class Rule>
__global__ void kv_run_keep(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]), own = kv_at_lane(l, lane);
  const kv_residual &o = Rule::how(at);
  kv_gpu_latents a = kv_gpu_take_latents(at, o);
  int from = a.now->from, end = a.now->end;
  int format = kv_gpu_coded(at, KV_CODED_KEPT);
  if (!o.kept) return;
  own.used = at.used;
  for (int i = from == o.sink ? 0 : from; i < end; i++) {
    if (!Rule::whole(at) && !kv_is_reference(&o, i, from)) continue;
    kv_gpu_recode(own, lane, kv_gpu_entries{1, i, nullptr}, 1, format, format);
  }
}

/* --- references ---------------------------------------------------------- */

/* row [w]: the vector of reference number j, entry i; with self=yes also kept
 * unchanged in the lanes' states. No barrier. */
template <class Rule>
static __device__ void kv_gpu_reference_row(kv_gpu_at &at, const kv_residual &o,
                                            int i, int j, float *row) {
  const kv_gpu_layer &l = *at.layer;
  int w = kv_gpu_vector_width(l.shape), d = l.shape.d, d_v = l.shape.d_v;
  bool raw = l.lane[0].k[i].format == KV_RAW, recon = o.refs == KV_REFS_RECON;
  for (int x = kv_thread(); x < w; x += KV_BLOCK) {
    kv_gpu_part p = kv_gpu_part_of(l.shape, x);
    size_t place = (size_t)j * (size_t)(d + d_v) + (p.key ? p.x : d + p.x);
    float *kept = o.self ? Rule::kept(at, &l.lane[p.lane]) + place : nullptr;
    if (raw || o.kept) /* in 4 bits: as it is read */
      row[x] = kv_gpu_vector_raw(l, i, x);
    else
      row[x] = recon ? kv_gpu_vector_stored(l, i, x) : *kept;
    if (raw && kept) *kept = row[x];
  }
}

/* The squared length of row [w]: one chain. */
KV_DEVICE float kv_gpu_reference_norm(const float *row, int w) {
  float sum = 0;
  for (int x = 0; x < w; x++) sum = kv_fma(row[x], row[x], sum);
  return kv_add(sum, 0.0f);
}

/* Kernel: the grid's blocks take turns with KV_REFERENCE_ROWS references each.
 */
template <class Rule>
__global__ void kv_run_rows(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  const kv_residual &o = Rule::how(at);
  kv_gpu_latents a = kv_gpu_take_latents(at, o);
  size_t w = (size_t)kv_gpu_vector_width(l.shape);
  int n = a.now->references, all = (int)gridDim.x * KV_REFERENCE_ROWS;
  for (int first = (int)blockIdx.x * KV_REFERENCE_ROWS; first < n;
       first += all) {
    int some = n - first < KV_REFERENCE_ROWS ? n - first : KV_REFERENCE_ROWS;
    for (int j = first; j < first + some; j++)
      kv_gpu_reference_row<Rule>(at, o, a.id[j], j, a.row + (size_t)j * w);
    __syncthreads();
    int j = first + kv_thread();
    if (kv_thread() < some)
      a.norm[j] = kv_gpu_reference_norm(a.row + (size_t)j * w, (int)w);
  }
}

/* --- search -------------------------------------------------------------- */

/* Writes the ids of their nearest references into the blocks of coded tokens
 * first .. first + m - 1; n: references there are; room: shared memory. */
KV_DEVICE void kv_gpu_name_nearest(const kv_gpu_at &at, const kv_residual &o,
                                   const kv_gpu_latents &a, int first, int m,
                                   int n, kv_gpu_search_room *room) {
  const kv_gpu_layer &l = *at.layer;
  auto token = [&](int j, int x) {
    return kv_gpu_vector_raw(l, a.entry[first + j], x);
  };
  auto seen = [&](int j) {
    return kv_gpu_references_to(a, n, a.entry[first + j]);
  };
  int most = seen(m - 1);
  kv_gpu_search(
      kv_gpu_vector_width(l.shape), m, token, a.row, a.norm, most, o.nearest,
      seen, room, [&](int j, int found, const int32_t *which) {
        int f = a.format[first + j], block = a.block[first + j];
        for (int g = 0; g < l.lanes; g++) {
          int32_t *to = kv_gpu_token_named(l.lane[g].k_slab[f], block);
          for (int i = 0; i < o.nearest; i++)
            to[i] = i < found ? a.id[which[i * KV_SIDE]] : KV_NO_TOKEN;
        }
      });
}

/* Kernel: block b has coded tokens from b * KV_LATENT_TILE on. */
template <class Rule>
__global__ void kv_run_nearest(const __grid_constant__ kv_gpu_layer l) {
  KV_SHARED(kv_gpu_search_room, room, 1);
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  const kv_residual &o = Rule::how(at);
  kv_gpu_latents a = kv_gpu_take_latents(at, o);
  int first = (int)blockIdx.x * KV_LATENT_TILE, left = a.now->coded - first;
  if (left <= 0 || !kv_gpu_refers(o) || kv_gpu_in_order(o)) return;
  kv_gpu_name_nearest(at, o, a, first,
                      left < KV_LATENT_TILE ? left : KV_LATENT_TILE,
                      a.now->references, room);
}

/* --- coding -------------------------------------------------------------- */

/* A tile's tokens: coded tokens first .. first + m - 1, from `place` on in
 * their batch, which has at most KV_LATENT_TILE. */
typedef struct kv_gpu_tile {
  int batch, place, first, m;
} kv_gpu_tile;

/* Records that the tile's token i cannot be coded, if it is the first such: its
 * latent vector is not finite, or (decoded 1) what that decodes to. No barrier.
 */
KV_DEVICE void kv_gpu_cannot(const kv_gpu_latents &a, const kv_gpu_tile &t,
                             int i, int decoded) {
  unsigned long long at = (unsigned long long)t.batch << 32 |
                          (unsigned)decoded << 16 | (unsigned)(t.place + i);
  if (kv_thread() == 0) atomicMin(&a.now->bad, at);
}

/* which: the rows of a.row that coded token i's block names, in shared memory;
 * returns how many. n: references there are. */
KV_DEVICE int kv_gpu_named_rows(const kv_gpu_layer &l, const kv_residual &o,
                                const kv_gpu_latents &a, int i, int n,
                                int32_t *which) {
  const kv_gpu_slab &s = l.lane[0].k_slab[a.format[i]];
  const int32_t *named = kv_gpu_token_named(s, a.block[i]);
  int found = 0;
  while (found < o.nearest && named[found] != KV_NO_TOKEN) found++;
  __syncthreads();
  for (int j = kv_thread(); j < found; j += KV_BLOCK)
    which[j] = kv_gpu_references_to(a, n, named[j]) - 1;
  __syncthreads();
  return found;
}

/* Writes the stored latent vector at `from` into `block` of both sides of all
 * lanes, each its part. */
KV_DEVICE void kv_gpu_put_bytes(const kv_gpu_layer &l, const kv_delta &how,
                                int format, int32_t block, const char *from) {
  kv_gpu_coded_size size = kv_gpu_format_delta::latent(how);
  int64_t all = size.codes + size.metadata;
  for (int p = 0; p < 2 * l.lanes; p++) {
    const kv_gpu_lane &lane = l.lane[p / 2];
    const kv_gpu_slab &s = p % 2 ? lane.v_slab[format] : lane.k_slab[format];
    int64_t begin = kv_gpu_part_begin(all, s.part, s.parts);
    int64_t end = kv_gpu_part_begin(all, s.part + 1, s.parts);
    char *to = kv_gpu_token_part(s, block, how.nearest);
    for (int64_t x = begin + kv_thread(); x < end; x += KV_BLOCK)
      to[x - begin] = from[x];
  }
  __syncthreads();
}

/* s.z: the latent vectors of the tile's tokens, as stored; writes them to the
 * lanes' blocks. */
KV_DEVICE void kv_gpu_code_latents(const kv_gpu_at &at, const kv_residual &o,
                                   const kv_gpu_latents &a,
                                   const kv_gpu_slot &s, const kv_gpu_tile &t) {
  int n = o.by.latent;
  kv_gpu_delta_code(o.by, at.asset, t.m, s.x, s.hidden, s.z);
  if (kv_gpu_refers(o)) {
    kv_gpu_delta_code(o.by, at.asset, t.m, s.mean, s.hidden, s.of_mean);
    for (int x = kv_thread(); x < t.m * n; x += KV_BLOCK)
      s.z[x] = kv_sub(s.z[x], s.of_mean[x]);
    __syncthreads();
  }
  for (int i = 0; i < t.m; i++) {
    int j = t.first + i, f = a.format[j];
    const kv_delta &how = o.how[f - kv_gpu_coded(at, 0)];
    if (!kv_gpu_format_delta::put(how, s.z + i * n, s.bytes))
      kv_gpu_cannot(a, t, i, 0);
    kv_gpu_put_bytes(*at.layer, how, f, a.block[j], s.bytes);
  }
}

/* Writes row [w], what the tile's token i stands for, into the lanes' blocks.
 */
KV_DEVICE void kv_gpu_put_row(const kv_gpu_layer &l, const kv_gpu_latents &a,
                              const kv_gpu_tile &t, int i, const float *row) {
  int j = t.first + i, f = a.format[j], w = kv_gpu_vector_width(l.shape);
  bool wrong = false;
  for (int x = kv_thread(); x < w; x += KV_BLOCK) {
    kv_gpu_part p = kv_gpu_part_of(l.shape, x);
    const kv_gpu_lane &lane = l.lane[p.lane];
    const kv_gpu_slab &s = p.key ? lane.k_slab[f] : lane.v_slab[f];
    ((float *)kv_gpu_token_block(s, a.block[j]))[p.x] = row[x];
    wrong |= !kv_finite(row[x]);
  }
  if (kv_block_any(wrong)) kv_gpu_cannot(a, t, i, 1);
}

/* Codes a tile in slot s, whose references are already named; n: references
 * there are. */
KV_DEVICE void kv_gpu_code_tile(const kv_gpu_at &at, const kv_residual &o,
                                const kv_gpu_latents &a, const kv_gpu_slot &s,
                                const kv_gpu_tile &t, int n) {
  KV_SHARED(int32_t, which, KV_MOST_NEAREST);
  const kv_gpu_layer &l = *at.layer;
  int w = kv_gpu_vector_width(l.shape);
  for (int i = 0; i < t.m; i++) {
    int entry = a.entry[t.first + i], found = 0;
    if (kv_gpu_refers(o))
      found = kv_gpu_named_rows(l, o, a, t.first + i, n, which);
    for (int x = kv_thread(); x < w; x += KV_BLOCK) {
      s.x[i * w + x] = kv_gpu_vector_raw(l, entry, x);
      if (kv_gpu_refers(o))
        s.mean[i * w + x] = kv_gpu_mean_of(a.row, w, found, which, x);
    }
    __syncthreads();
  }
  float *row = s.mean;
  if (o.by.there) {
    kv_gpu_code_latents(at, o, a, s, t);
    kv_gpu_delta_decode(o.by, at.asset, t.m, s.z, s.hidden, s.x);
    for (int x = kv_thread(); kv_gpu_refers(o) && x < t.m * w; x += KV_BLOCK)
      s.x[x] = kv_add(s.x[x], s.mean[x]);
    __syncthreads();
    row = s.x;
  }
  for (int i = 0; i < t.m; i++) kv_gpu_put_row(l, a, t, i, row + i * w);
}

/* Kernel: the grid's blocks take turns with the tiles; block (slot, lane) works
 * in that slot of that lane. */
template <class Rule>
__global__ void kv_run_code(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  kv_gpu_at own = kv_at_lane(l, &l.lane[blockIdx.y]);
  const kv_residual &o = Rule::how(at);
  kv_gpu_latents a = kv_gpu_take_latents(at, o);
  int blocks = (int)(gridDim.x * gridDim.y), n = a.now->coded;
  int first = (int)(blockIdx.y * gridDim.x + blockIdx.x);
  if (first * KV_CODE_TILE >= n || kv_gpu_in_order(o)) return;
  own.used = at.used;
  kv_gpu_slot s = kv_gpu_take_slot(own, o.by, (int)blockIdx.x);
  for (int i = first; i * KV_CODE_TILE < n; i += blocks) {
    int j = i * KV_CODE_TILE, m = n - j < KV_CODE_TILE ? n - j : KV_CODE_TILE;
    kv_gpu_tile t = {j / KV_LATENT_TILE, j % KV_LATENT_TILE, j, m};
    kv_gpu_code_tile(at, o, a, s, t, a.now->references);
  }
}

/* --- verbs --------------------------------------------------------------- */

/* The verbs: coded tokens first .. first + m - 1, a batch, become the lane's.
 * The first lane fails if one of them cannot be. */
template <class Rule>
static __device__ void kv_gpu_commit(kv_gpu_lane *lane, const kv_gpu_layer &l,
                                     const kv_gpu_latents &a, int batch,
                                     int first, int m) {
  kv_gpu_at at = kv_at_lane(l, lane);
  unsigned long long bad = a.now->bad;
  int host = Rule::host(at);
  if (kv_thread() == 0 && lane->lane == 0 && bad >> 32 == (unsigned)batch)
    kv_gpu_fail(lane, bad >> 16 & 1 ? KV_GPU_DECODED : KV_GPU_LATENT,
                lane->id[a.entry[first + (int)(bad & 0xffff)]]);
  kv_gpu_recode_tokens(at, lane, m, a.entry + first, a.format + first,
                       a.block + first);
  if (host >= 0) kv_gpu_retier(at, lane, m, a.entry + first, host);
}

/* Kernel, a block a lane. */
template <class Rule>
__global__ void kv_run_commit(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  const kv_residual &o = Rule::how(at);
  kv_gpu_latents a = kv_gpu_take_latents(at, o);
  int n = a.now->coded;
  if (a.now->end == 0) return;
  for (int j = 0; j < n && !kv_gpu_in_order(o); j += KV_LATENT_TILE)
    kv_gpu_commit<Rule>(lane, l, a, j / KV_LATENT_TILE, j,
                        n - j < KV_LATENT_TILE ? n - j : KV_LATENT_TILE);
  Rule::done(at, lane, a.now->end);
}

/* --- one after another --------------------------------------------------- */

/* Adds entry i to the n references; returns how many there are then. */
template <class Rule>
static __device__ int kv_gpu_add_reference(kv_gpu_at &at, const kv_residual &o,
                                           const kv_gpu_latents &a, int i,
                                           int n) {
  size_t w = (size_t)kv_gpu_vector_width(at.layer->shape);
  float *row = a.row + (size_t)n * w;
  kv_gpu_reference_row<Rule>(at, o, i, n, row);
  __syncthreads();
  if (kv_thread() == 0) {
    a.id[n] = i;
    a.norm[n] = kv_gpu_reference_norm(row, (int)w);
  }
  __syncthreads();
  return n + 1;
}

/* How many tokens the batch has that begins with coded token `first`: it ends
 * with a reference (*reference 1) or at KV_LATENT_TILE. By any thread. */
KV_DEVICE int kv_gpu_batch_of(const kv_residual &o, const kv_gpu_latents &a,
                              int first, int *reference) {
  int m = 0, n = a.now->coded, from = a.now->from;
  *reference = 0;
  while (!*reference && m < KV_LATENT_TILE && first + m < n)
    *reference = kv_is_reference(&o, a.entry[first + m++], from);
  return m;
}

/* Kernel, one block for all lanes: search, code and commit batch by batch. */
template <class Rule>
__global__ void kv_run_in_order(const __grid_constant__ kv_gpu_layer l) {
  KV_SHARED(kv_gpu_search_room, room, 1);
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  const kv_residual &o = Rule::how(at);
  kv_gpu_latents a = kv_gpu_take_latents(at, o);
  int n = a.now->references, reference, m;
  if (!kv_gpu_in_order(o) || a.now->end == 0) return;
  kv_gpu_slot s = kv_gpu_take_slot(at, o.by, 0);
  if (n == 0) n = kv_gpu_add_reference<Rule>(at, o, a, a.now->from, n);
  for (int j = 0, batch = 0; j < a.now->coded; j += m, batch++) {
    m = kv_gpu_batch_of(o, a, j, &reference);
    kv_gpu_name_nearest(at, o, a, j, m, n, room);
    for (int i = 0; i < m; i += KV_CODE_TILE) {
      kv_gpu_tile t = {batch, i, j + i,
                       m - i < KV_CODE_TILE ? m - i : (int)KV_CODE_TILE};
      kv_gpu_code_tile(at, o, a, s, t, n);
    }
    for (int g = 0; g < l.lanes; g++)
      kv_gpu_commit<Rule>(&l.lane[g], l, a, batch, j, m);
    if (reference)
      n = kv_gpu_add_reference<Rule>(at, o, a, a.entry[j + m - 1], n);
  }
}

/* --- starts -------------------------------------------------------------- */

/* On the host: starts all of them; for a method's table. */
template <class Rule>
static void kv_gpu_start_residual(void *s, const kv_gpu_layer *l) {
  constexpr int MOST = 512; /* blocks of rows: several a processor */
  unsigned lanes = (unsigned)l->lanes;
  int rows = (l->stride - 1) / KV_REFERENCE_ROWS + 1;
  unsigned tiles = (unsigned)((l->stride - 1) / KV_LATENT_TILE + 1);
  dim3 slots((unsigned)KV_CODE_SLOTS, lanes);
  KV_LAUNCH(s, kv_run_plan<Rule>, 1, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_keep<Rule>, lanes, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_rows<Rule>, rows < MOST ? rows : MOST, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_nearest<Rule>, tiles, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_code<Rule>, slots, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_in_order<Rule>, 1, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_commit<Rule>, lanes, KV_BLOCK, *l);
}

#endif
