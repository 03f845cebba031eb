/* SPDX-License-Identifier: Apache-2.0
 *
 * Twilight: of a selector's tokens, attends the fewest that hold a share of the
 * probability, estimated from a coarse copy of the keys.
 *
 *   every token that enters, layers >= skip: its key is coded again, in `bits`
 *     bits, L = 2^bits - 1; of the key's elements (arithmetic 2), h the nearest
 *     finite fp16: s = h((max - min) / L), m = h(min);
 *     code = clamp(rint((x - m) / s), 0, L), 0 where s is 0
 *   every decode step, for every query head, layers >= skip:
 *     candidates: what the method before it on the lane chose for the head
 *     (quest+twilight), or everything (twilight)
 *     estimate[c] = logit (arithmetic 1) of the query and x^ = fma(code, s, m)
 *     attend the least prefix of the candidates, ranked by the estimate, whose
 *     mass among them reaches p (top-p of arithmetic 4), at least one: exactly,
 *     by the keys as they are
 *   below skip every candidate is attended
 *
 * Lin et al. 2025, Twilight: Adaptive Attention Sparsity with Hierarchical
 * Top-p Pruning. The authors' base is Quest with a budget of 8192 tokens in
 * pages of 16, no forced last page, and layers 0 and 1 dense:
 * quest:budget=8192:rule=twilight+twilight. Their kernel searches a threshold
 * between 0 and the probability of token 0, which it assumes to be the largest.
 * If it is not, the kernel keeps more than p needs; if token 0 is no candidate,
 * it keeps everything. Here the prefix is exact, and ties go by entry. Their
 * copy is computed in the model's type, by a scale of at least 1e-9. Here
 * scales are fp16, codes are chosen for the stored scale and read in binary32,
 * and both are charged. p is the nearest multiple of 2^-20 (see oracle-topp).
 *
 * A copy is stored with its token and goes with it: 4 + ceil(d * bits / 8)
 * bytes an entry, in every layer. From `skip` on a step reads the copies of all
 * entries. After a method that limits the entries of its views (Quest), it
 * reads that many for each query head of the lane.
 *
 * Family: read. Acts: every step. Needs: the query before attention; keys in 4
 * bits. Bound: t stored, or what the first leaves. Bytes: t (R + d / 2 + 4).
 * Gather: the token, in 4 bits. Reduce: estimated probability. Sample: top-p.
 * Cost: O(d) a token; O(d c) a query head and step, c candidates.
 */
#include "ref/methods/twilight.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  size_t bytes = (size_t)(RANGE + code_bytes(o, shape->d));
  (void)e;
  needs->lengths = needs->narrows = needs->chunks = true;
  needs->metas = 1;
  needs->meta[0] = (kv_meta){.name = "copy of the keys",
                             .per = KV_PER_ENTRY,
                             .bytes = bytes,
                             .scanned = bytes,
                             .from_layer = o->skip};
  needs->lane_state =
      (size_t)shape->n_tokens * (size_t)copy_stride(o, shape->d);
  needs->work = KV_KEY_LOGITS(shape->d);
  return KV_OK;
}

/* Copies are stored by token, so they need not move when entries do. */
static unsigned char *copy_of(const kv_at *at, const kv_lane *lane, int i) {
  const params *o = at->params;
  size_t stride = (size_t)copy_stride(o, at->shape->d);
  return (unsigned char *)kv_own(at, lane) + lane->id[i] * stride;
}

static void code(const params *o, int d, const float *key, unsigned char *to) {
  float least = key[0], most = key[0];
  int plane = code_bytes(o, d);
  for (int x = 1; x < d; x++) {
    least = kv_min(least, key[x]);
    most = kv_max(most, key[x]);
  }
  float scale = scale_of(o, least, most), min = kept_half(least);
  kv_put_half(to, scale);
  kv_put_half(to + 2, min);
  memset(to + RANGE, 0, (size_t)plane);
  for (int x = 0; x < d; x++)
    to[RANGE + x % plane] |= (unsigned char)(code_of(o, key[x], scale, min)
                                             << x / plane * bits_of(o));
}

static void arrive(const kv_at *at, kv_lane *lane, int first) {
  const params *o = at->params;
  float *key = KV_TAKE(at->work, float, at->shape->d);
  if (at->layer < o->skip) return;
  for (int i = first; i < lane->n; i++) {
    kv_lane_key(lane, i, key);
    code(o, at->shape->d, key, copy_of(at, lane, i));
  }
}

/* The entries of the candidates; returns how many. */
static int candidates(const kv_view *within, int n, int32_t *entry) {
  kv_run all = {0, n};
  int count = 0;
  for (int r = 0; r < (within ? within->runs : 1); r++) {
    const kv_run *run = within ? &within->run[r] : &all;
    for (int i = 0; i < run->count; i++) entry[count++] = run->first + i;
  }
  return count;
}

/* s[i] = the logit of entry[i]'s copy. */
static void estimate(const kv_at *at, const kv_lane *lane, const float *q,
                     int n, const int32_t *entry, float *s) {
  const params *o = at->params;
  int d = at->shape->d;
  const void **key = KV_TAKE(at->work, const void *, KV_PACK);
  float *pack = KV_TAKE(at->work, float, KV_PACK *d);
  float *rows = KV_TAKE(at->work, float, KV_PACK *d);
  for (int i = 0, some; i < n; i += some) {
    some = n - i < KV_PACK ? n - i : KV_PACK;
    for (int j = 0; j < some; j++) {
      const unsigned char *copy = copy_of(at, lane, entry[i + j]);
      key[j] = rows + (size_t)j * (size_t)d;
      at->kernels->minmax(bits_of(o), d, d, copy + RANGE, copy, copy + 2,
                          rows + (size_t)j * (size_t)d);
    }
    at->kernels->logits(1, some, d, q, (size_t)d, key, KV_F32, at->shape->scale,
                        s + i, (size_t)some, pack);
    at->kernels->softcap(at->shape->softcap, 1, some, s + i, (size_t)some);
  }
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const params *o = at->params;
  int32_t *entry = KV_TAKE(at->work, int32_t, lane->n);
  bool *in = KV_TAKE(at->work, bool, lane->n);
  int n = candidates(q->within, lane->n, entry);
  bool *keep = KV_TAKE(at->work, bool, n);
  memset(keep, true, (size_t)n);
  if (at->layer >= o->skip) {
    float *s = KV_TAKE(at->work, float, n);
    estimate(at, lane, q->q, n, entry, s);
    kv_top_p(at, s, n, o->p, keep);
  }
  memset(in, false, (size_t)lane->n);
  for (int i = 0; i < n; i++) in[entry[i]] = keep[i];
  kv_view_mask(out, lane->n, in);
}

const kv_method kv_method_twilight = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "twilight",
    .title = "a share of the probability among candidates, estimated from a "
             "coarse copy of the keys",
    .paper = "Lin et al. 2025, Twilight: Adaptive Attention Sparsity with "
             "Hierarchical Top-p Pruning, arXiv:2502.02770",
    .lossless = "p=1",
    .arrive = arrive,
    .view = view,
};
