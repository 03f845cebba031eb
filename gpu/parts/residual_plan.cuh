/* SPDX-License-Identifier: Apache-2.0
 *
 * The first two kernels of a compression that codes tokens as residual latents
 * (gpu/parts/residual.cuh, which says what Rule is): which tokens are
 * references and which are coded, where their blocks will be, and the
 * references' vectors and squared lengths. Functions without a value are called
 * by all threads of a block together, with the same arguments; the others are
 * any thread's.
 */
#ifndef KV_GPU_RESIDUAL_PLAN_CUH
#define KV_GPU_RESIDUAL_PLAN_CUH

#include "gpu/parts/latents.cuh"

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
 * entries below from, compressed before, those that are as they came or were
 * coded as one; of the later ones none where tokens are coded in order. */
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

/* Kernel, one block: fills in the plan, but norm and row. */
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

/* Kernel, a block a lane: kv_residual_keep, by what the plan says. */
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
  int32_t *list = KV_GPU_TAKE(own, int32_t, 1);
  for (int i = from == o.sink ? 0 : from; i < end; i++) {
    if (!Rule::whole(at) && !kv_is_reference(&o, i, from)) continue;
    if (kv_thread() == 0) list[0] = i; /* not &i: registers have no address */
    __syncthreads();
    kv_gpu_recode(own, lane, 1, list, format, format);
  }
}

/* --- references ---------------------------------------------------------- */

/* row [w]: the vector of reference number j, entry i; with self=yes also kept
 * as it came in the lanes' states. No barrier. */
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

#endif
