/* SPDX-License-Identifier: Apache-2.0
 *
 * Quant: stores every token's key in one format and its value in another.
 * Nothing is dropped. Alone it codes the whole cache; after a method that
 * selects (snapkv+int4) it codes what that method keeps.
 *
 *   after the prompt and after every step:
 *     code every entry with an uncoded key or value, except the last
 *     `residual`, in one call each from the oldest on: its key in the format k,
 *     its value in v
 *   A step attends first, so the newest token is read uncoded.
 *
 * `raw` leaves keys or values uncoded. A coded row is never coded again.
 * FORMATS.md, Formats by name, has the formats, their arithmetic, their laws
 * and the short forms: int4 is quant:k=int4:v=int4, k8v4 is
 * quant:k=int8:v=int4, e4m3-int4 is quant:k=e4m3:v=int4.
 *
 * int8 .. int1 are LeanKV's equation 2 (Zhang et al. 2024, Unifying KV Cache
 * Compression for Large Language Models with LeanKV), for keys and values
 * separately. LeanKV's K8V4 is k=int8:v=int4, the default, in one group per
 * token and KV head as in the paper. The paper stores a zero point -min, the
 * authors' code the minimum; both give the same numbers, and the minimum is
 * stored here. The code's saturation at 255 never happens. As in the code
 * (uint4 in csrc/quantization/kv_cache_quant/uint4_quant.cuh, and so on), codes
 * are chosen by the fp32 scale and read by the fp16 one, in fp32. The code's
 * divisions are approximate; here they are exact. A constant group has codes 0
 * in both: in the code 0 times 1 / 0 is a NaN, which converts to 0. leankv is
 * LeanKV's choice of a format for each token.
 *
 * sym8 and sym4 are QServe's symmetric KV8 and KV4 (Lin et al. 2024, QServe,
 * arXiv:2405.04532), e4m3 and e5m2 8-bit floats with a scale per token, qserve8
 * and qserve4 QServe's formats with a zero point. atom4 is Atom's (Zhao et al.
 * 2024, arXiv:2310.19102), which codes keys before RoPE (rope=before). The
 * arithmetic of these: ref/formats/rules.h.
 *
 * q8_0, q5_1, q5_0, q4_1, q4_0 and iq4_nl are ggml's, mxfp4 is OCP's, fp4_e2m1
 * SGLang's. nvfp4, nvfp4_4over6, fp8_e4m3 and fp8_e5m2 are vLLM's, with a scale
 * of all keys and one of all values (k_scale, v_scale). The arithmetic of these
 * names: ref/formats/block.h.
 *
 * rotate=hadamard multiplies rows by a Hadamard matrix before they are coded,
 * as llama.cpp does for its cache (ggml-org/llama.cpp, pull request 21038), and
 * key_bias subtracts a fixed vector from keys. Models whose keys have a large
 * bias, such as Qwen2.5, waste most of a token's range on it. subtract takes
 * the model's own bias, at no byte, mean the prompt's mean key before RoPE.
 * Both are this project's. scale=head takes the scale of vLLM's formats from
 * the prompt. To the bit: ref/FORMATS.md, Prepared rows, and a scale from the
 * prompt.
 *
 * Family: code. Acts: every step. Needs: rows of codes. Bound: t. Bytes: t (d k
 * + d_v v) / 8 for k and v bits, + 4 for each group of elements. Gather: -.
 * Reduce: -. Sample: everything. Cost: a token is coded once; coded rows are
 * decoded by every step that reads them.
 */
#include "ref/methods/quant.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

/* Resolves a side's settings, for rows of `width` elements. */
static kv_rc settle(params *o, int side, int width, const kv_named_format *f,
                    kv_err *e) {
  int groups = o->side_groups[side];
  bool is_block = f->format == &kv_format_block;
  o->how[side] = (kv_minmax){f->bits, width / groups, f->rule};
  o->block[side] = f->block;
  bool scaled = is_block && kv_block_scaled(&f->block);
  if (o->scale[side] != 1 && !scaled)
    return kv_fail(
        e, KV_REFUSED,
        "quant: %s has no scale of all rows; leave out %s, or choose "
        "fp8_e4m3, fp8_e5m2, nvfp4 or nvfp4_4over6",
        f->name, side == KEYS ? "k_scale" : "v_scale");
  o->block[side].whole = o->scale[side];
  o->calibrated[side] = o->scaling == HEAD && is_block && scaled;
  if (o->scaling == HEAD && o->scale[side] != 1)
    return kv_fail(e, KV_REFUSED,
                   "quant: scale=head takes the scale from the prompt; leave "
                   "out %s, or scale",
                   side == KEYS ? "k_scale" : "v_scale");
  if (is_block && groups > 1)
    return kv_fail(e, KV_REFUSED,
                   "quant: %s has blocks of %d elements, so it takes no %d "
                   "groups; leave out groups and %s",
                   f->name, kv_block_size(&f->block), groups,
                   side == KEYS ? "k_groups" : "v_groups");
  if (width % groups != 0)
    return kv_fail(e, KV_REFUSED,
                   "quant: %d groups do not divide the %d elements of a %s; "
                   "choose a divisor for %s",
                   groups, width, side == KEYS ? "key" : "value",
                   side == KEYS ? "k_groups" : "v_groups");
  return KV_OK;
}

/* Adds the coding of a side, of rows of `width` elements. */
static kv_rc add(params *o, int side, int width, kv_needs *needs, kv_err *e) {
  static const kv_coded_sides sides[] = {KV_KEYS_ONLY, KV_VALUES_ONLY};
  const kv_named_format *f = kv_named_format_at(o->named[side]);
  if (o->side_groups[side] == KV_UNSET) o->side_groups[side] = o->groups;
  o->coding[side] = AS_IT_CAME;
  if (o->named[side] == RAW) return KV_OK;
  kv_rc rc = settle(o, side, width, f, e);
  if (rc) return rc;
  const void *settings = &o->how[side];
  if (f->format == &kv_format_block) settings = &o->block[side];
  o->coding[side] = needs->codings;
  needs->coding[needs->codings++] = (kv_coding){
      .format = f->format,
      .settings = settings,
      .pre_rope = side == KEYS && o->rope == BEFORE,
      .sides = sides[side],
      .rotate = o->rotate == HADAMARD ||
                o->rotate == (side == KEYS ? ONLY_KEYS : ONLY_VALUES),
      .shifted = side == KEYS && o->key_bias != KEEP,
      .shift = side == KEYS && o->key_bias != KEEP ? sizeof(kv_quant_own) : 0,
      .own_settings = o->calibrated[side],
      .own_at = o->calibrated[side] ? offsetof(kv_quant_own, block) +
                                          (size_t)side * sizeof(kv_blocked)
                                    : 0};
  return KV_OK;
}

static bool shifts(const params *o) {
  return o->coding[KEYS] != AS_IT_CAME && o->key_bias != KEEP;
}

/* What a lane's own numbers need. */
static void add_own(const params *o, int d, kv_needs *needs) {
  int sides = o->calibrated[KEYS] + o->calibrated[VALUES];
  size_t u = shifts(o) ? (size_t)d * sizeof(float) : 0;
  size_t held = (size_t)sides * sizeof(float) + (o->key_bias == MEAN ? u : 0);
  if (!u && !sides) return;
  needs->rope |= u > 0;
  needs->key_bias = u && o->key_bias == SUBTRACT;
  needs->lane_state = sizeof(kv_quant_own) + u;
  if (held)
    needs->meta[needs->metas++] = (kv_meta){
        .name = "mean key, scales", .per = KV_PER_LANE, .bytes = held};
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = add(o, KEYS, shape->d, needs, e);
  if (!rc) rc = add(o, VALUES, shape->d_v, needs, e);
  if (rc) return rc;
  needs->every = 1;
  needs->rope = o->coding[KEYS] != AS_IT_CAME && o->rope == BEFORE;
  needs->lengths = o->residual == 0;
  needs->slides = needs->chunks = needs->arrive_in_prompt = true;
  add_own(o, shape->d, needs);
  if (o->scaling == GIVEN || o->calibrated[KEYS] || o->calibrated[VALUES])
    return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "quant: neither format has a scale of all rows; leave out "
                 "scale, or choose fp8_e4m3, fp8_e5m2, nvfp4 or nvfp4_4over6");
}

static int coding_of(const kv_at *at, const params *o, int side) {
  int i = o->coding[side];
  return i == AS_IT_CAME ? KV_SAME : kv_coded(at, i);
}

/* The mean of the lane's keys before RoPE. */
static void mean_key(const kv_at *at, const kv_lane *lane, float *u) {
  int d = at->shape->d;
  int64_t *sum = KV_TAKE(at->work, int64_t, d);
  float *key = KV_TAKE(at->work, float, d);
  memset(sum, 0, (size_t)d * sizeof *sum);
  for (int i = 0; i < lane->n; i++) {
    kv_lane_key(lane, i, key);
    kv_turn_back(lane->turns, lane->id[i], key);
    for (int x = 0; x < d; x++) sum[x] += kv_quant_fix(key[x]);
  }
  for (int x = 0; x < d; x++) u[x] = kv_quant_mean(sum[x], lane->n);
}

/* Bits of the largest magnitude of a side's prepared rows. */
static uint32_t largest(const kv_at *at, const kv_lane *lane, int side) {
  int width = side == KEYS ? at->shape->d : at->shape->d_v;
  const kv_coding *c =
      &lane->needs->coding[coding_of(at, at->params, side) - KV_CODED];
  float *row = KV_TAKE(at->work, float, width);
  uint32_t most = 0;
  for (int i = 0; i < lane->n; i++) {
    (side == KEYS ? kv_lane_key : kv_lane_value)(lane, i, row);
    kv_lane_prepare(lane, c, side == KEYS, lane->id[i], row);
    for (int x = 0; x < width; x++) {
      uint32_t a = kv_bits_of(row[x]) & 0x7fffffffu;
      if (a > most) most = a;
    }
  }
  return most;
}

/* Fills in the lane's own numbers, once. */
static void arrive(const kv_at *at, kv_lane *lane, int first) {
  const params *o = at->params;
  size_t d = (size_t)at->shape->d;
  (void)first;
  kv_quant_own *own = kv_own(at, lane);
  float *u = (float *)(void *)(own + 1);
  if (!at->needs->lane_state || own->known) return;
  own->known = 1;
  if (shifts(o) && o->key_bias == MEAN)
    mean_key(at, lane, u);
  else if (shifts(o) && lane->data->k_bias)
    memcpy(u, lane->data->k_bias + (size_t)lane->kv_head * d, d * sizeof *u);
  for (int side = 0; side < SIDES; side++) {
    own->block[side] = o->block[side];
    if (o->calibrated[side])
      own->block[side].whole =
          kv_quant_scale(&o->block[side], largest(at, lane, side));
  }
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int k = coding_of(at, o, KEYS), v = coding_of(at, o, VALUES);
  int end = lane->n - o->residual;
  if (k == KV_SAME && v == KV_SAME) return;
  const kv_cell_ref *side = k == KV_SAME ? lane->v : lane->k;
  for (int32_t i = kv_first_full(side, end); i < end; i++)
    kv_recode(lane, 1, &i, k, v);
}

const kv_method kv_method_quant = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "quant",
    .title = "every token in formats of your choice, one for keys, one for "
             "values",
    .paper = "Zhang et al. 2024, Unifying KV Cache Compression for Large "
             "Language Models with LeanKV, arXiv:2412.03131",
    .lossless = "residual=1048576",
    .arrive = arrive,
    .compress_lane = compress_lane,
};
