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
 * raw_layers leaves whole layers uncoded, and the file of formats= gives layers
 * formats of their own (ref/parts/by_layer.h). All layers together have at most
 * 8 codings, one for each side and format.
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
 * rotate=hadamard multiplies rows by a Hadamard matrix before coding, as
 * llama.cpp does in its cache (ggml-org/llama.cpp, pull request 21038).
 * key_bias subtracts a fixed vector from keys. Models with a large key bias,
 * such as Qwen2.5, spend most of a token's range on it. subtract takes the
 * model's bias, at no byte. mean takes the prompt's mean key before RoPE. No
 * engine was found that does either. scale=head takes the scale of vLLM's
 * formats from the prompt. scale=tensor takes one for all KV heads of the
 * layer, as engines do. To the bit: ref/FORMATS.md, Prepared rows, and a scale
 * from the prompt.
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

static bool has_scale(const kv_named_format *f) {
  return f->format == &kv_format_block && kv_block_scaled(&f->block);
}

/* KV_REFUSED if a scale of all rows is given, but no layer has such a format.
 */
static kv_rc check_scale(const params *o, const kv_by_layer *by, int side,
                         int n_layers, kv_err *e) {
  const kv_named_format *f = kv_named_format_at(o->named[side]);
  if (o->scale[side] == 1) return KV_OK;
  for (int l = 0; l < n_layers && l <= KV_BY_LAYER; l++)
    if (has_scale(kv_named_format_at(by->name[side][l]))) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "quant: %s has no scale of all rows; leave out %s, or choose "
                 "fp8_e4m3, fp8_e5m2, nvfp4 or nvfp4_4over6",
                 f->name, side == KEYS ? "k_scale" : "v_scale");
}

/* Resolves the settings of coding `at`, of a side's rows of `width` elements.
 */
static kv_rc settle(params *o, int side, int width, int at,
                    const kv_named_format *f, kv_err *e) {
  int groups = o->side_groups[side];
  o->how[at] = (kv_minmax){f->bits, width / groups, f->rule};
  o->block[at] = f->block;
  if (has_scale(f)) o->block[at].whole = o->scale[side];
  o->calibrated[at] = o->scaling != GIVEN && has_scale(f);
  if (o->scaling != GIVEN && o->scale[side] != 1)
    return kv_fail(e, KV_REFUSED,
                   "quant: scale=%s takes the scale from the prompt; leave out "
                   "%s, or scale",
                   o->scaling == HEAD ? "head" : "tensor",
                   side == KEYS ? "k_scale" : "v_scale");
  if (f->format == &kv_format_block && groups > 1)
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

/* Adds the coding of a side, of rows of `width` elements, in a format. */
static kv_rc add(params *o, int side, int width, int name, kv_needs *needs,
                 kv_err *e) {
  static const kv_coded_sides sides[] = {KV_KEYS_ONLY, KV_VALUES_ONLY};
  const kv_named_format *f = kv_named_format_at(name);
  int at = needs->codings;
  if (at == KV_MAX_CODINGS)
    return kv_fail(e, KV_REFUSED,
                   "quant: keys and values have more than %d formats together; "
                   "use fewer in formats=",
                   (int)KV_MAX_CODINGS);
  kv_rc rc = settle(o, side, width, at, f, e);
  const void *settings = &o->how[at];
  if (f->format == &kv_format_block) settings = &o->block[at];
  needs->coding[needs->codings++] = (kv_coding){
      .format = f->format,
      .settings = settings,
      .pre_rope = side == KEYS && o->rope == BEFORE,
      .sides = sides[side],
      .rotate = o->rotate == HADAMARD ||
                o->rotate == (side == KEYS ? ONLY_KEYS : ONLY_VALUES),
      .shifted = side == KEYS && o->key_bias != KEEP,
      .shift = side == KEYS && o->key_bias != KEEP ? sizeof(kv_quant_own) : 0,
      .own_settings = o->calibrated[at],
      .own_at = o->calibrated[at] ? offsetof(kv_quant_own, block) +
                                        (size_t)side * sizeof(kv_blocked)
                                  : 0};
  return rc;
}

/* Adds the codings of a side's formats, one for all layers of a format. */
static kv_rc add_side(params *o, const kv_by_layer *by, int side, int width,
                      int n_layers, kv_needs *needs, kv_err *e) {
  const uint8_t *name = by->name[side];
  kv_rc rc = check_scale(o, by, side, n_layers, e);
  if (o->side_groups[side] == KV_UNSET) o->side_groups[side] = o->groups;
  for (int l = 0; !rc && l <= KV_BY_LAYER && l < n_layers; l++) {
    int before = 0;
    while (name[before] != name[l]) before++;
    int at = before < l ? o->coding[side][before] : needs->codings;
    if (name[l] == RAW) at = AS_IT_CAME;
    if (before == l && name[l] != RAW)
      rc = add(o, side, width, name[l], needs, e);
    o->coding[side][l] = (int8_t)at;
  }
  return rc;
}

static bool calibrates(const params *o, const kv_needs *needs,
                       kv_coded_sides sides) {
  for (int i = 0; i < needs->codings; i++)
    if (needs->coding[i].sides == sides && o->calibrated[i]) return true;
  return false;
}

/* Declares what each layer holds of `per`, if any layer does. */
static void add_held(const uint32_t *held, int layers, kv_meta_per per,
                     kv_needs *needs) {
  kv_meta m = {.name = "mean key, scales", .per = per, .in_layer = held};
  for (int l = 0; l < layers; l++)
    if (held[l] > m.bytes) m.bytes = held[l];
  if (m.bytes) needs->meta[needs->metas++] = m;
}

/* What a lane's own numbers need. keys: does any layer code keys? */
static void add_own(params *o, const kv_shape *shape, bool keys,
                    kv_needs *needs) {
  size_t u = keys && o->key_bias != KEEP ? (size_t)shape->d * sizeof(float) : 0;
  int layers = kv_by_layer_at(shape->n_layers - 1) + 1;
  uint32_t *scale = o->held[o->scaling == TENSOR];
  for (int l = 0; l < layers; l++) {
    if (o->coding[KEYS][l] != AS_IT_CAME && o->key_bias == MEAN)
      o->held[0][l] += (uint32_t)u;
    for (int side = 0; side < SIDES; side++)
      if (o->coding[side][l] != AS_IT_CAME && o->calibrated[o->coding[side][l]])
        scale[l] += sizeof(float);
  }
  if (!u && !calibrates(o, needs, KV_KEYS_ONLY) &&
      !calibrates(o, needs, KV_VALUES_ONLY))
    return;
  needs->rope |= u > 0;
  needs->key_bias = u && o->key_bias == SUBTRACT;
  needs->lane_state = sizeof(kv_quant_own) + u;
  add_held(o->held[0], layers, KV_PER_LANE, needs);
  add_held(o->held[1], layers, KV_PER_LAYER, needs);
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_by_layer by;
  int n = shape->n_layers;
  kv_rc rc =
      kv_by_layer_open("quant", "raw_layers", shape, o->formats.asset,
                       o->raw_layers, o->named[KEYS], o->named[VALUES], &by, e);
  if (!rc) rc = add_side(o, &by, KEYS, shape->d, n, needs, e);
  bool keys = needs->codings > 0;
  needs->rope = keys && o->rope == BEFORE;
  if (!rc) rc = add_side(o, &by, VALUES, shape->d_v, n, needs, e);
  if (rc) return rc;
  needs->every = 1;
  needs->lengths = o->residual == 0;
  needs->lanes_apart = o->scaling != TENSOR;
  needs->slides = needs->chunks = needs->arrive_in_prompt = true;
  memset(o->held, 0, sizeof o->held); /* open may run again */
  add_own(o, shape, keys, needs);
  if (o->scaling == GIVEN || calibrates(o, needs, KV_KEYS_ONLY) ||
      calibrates(o, needs, KV_VALUES_ONLY))
    return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "quant: neither format has a scale of all rows; leave out "
                 "scale, or choose fp8_e4m3, fp8_e5m2, nvfp4 or nvfp4_4over6");
}

/* The index of a side's coding in this layer, or AS_IT_CAME. */
static int index_of(const kv_at *at, int side) {
  const params *o = at->params;
  return o->coding[side][kv_by_layer_at(at->layer)];
}

static int coding_of(const kv_at *at, int side) {
  int i = index_of(at, side);
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
  const kv_coding *c = &lane->needs->coding[coding_of(at, side) - KV_CODED];
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
  own->known = ARRIVED;
  bool shifts = index_of(at, KEYS) != AS_IT_CAME && o->key_bias != KEEP;
  if (shifts && o->key_bias == MEAN)
    mean_key(at, lane, u);
  else if (shifts && lane->data->k_bias)
    memcpy(u, lane->data->k_bias + (size_t)lane->kv_head * d, d * sizeof *u);
  for (int side = 0; side < SIDES; side++) {
    int i = index_of(at, side);
    if (i == AS_IT_CAME || !o->calibrated[i]) continue;
    own->most[side] = largest(at, lane, side);
    own->block[side] = o->block[i];
    own->block[side].whole = kv_quant_scale(&o->block[i], own->most[side]);
  }
}

/* scale=tensor: gives all lanes of the layer the scale of the largest of their
 * magnitudes. */
static void share_scale(const kv_at *at, kv_lane *const *lane, int lanes,
                        int side) {
  uint32_t most = 0;
  for (int j = 0; j < lanes; j++) {
    const kv_quant_own *own = kv_own(at, lane[j]);
    if (own->most[side] > most) most = own->most[side];
  }
  for (int j = 0; j < lanes; j++) {
    kv_blocked *block = &((kv_quant_own *)kv_own(at, lane[j]))->block[side];
    block->whole = kv_quant_scale(block, most);
  }
}

static void code(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int k = coding_of(at, KEYS), v = coding_of(at, VALUES);
  int end = lane->n - o->residual;
  if (k == KV_SAME && v == KV_SAME) return;
  const kv_cell_ref *side = k == KV_SAME ? lane->v : lane->k;
  for (int32_t i = kv_first_full(side, end); i < end; i++)
    kv_recode(lane, 1, &i, k, v);
}

/* Does the lane wait for a scale from all lanes of its layer? */
static bool waits(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  if (o->scaling != TENSOR) return false;
  return ((const kv_quant_own *)kv_own(at, lane))->known != SCALED;
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  if (!waits(at, lane)) code(at, lane);
}

static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  if (!waits(at, lane[0])) return;
  share_scale(at, lane, lanes, KEYS);
  share_scale(at, lane, lanes, VALUES);
  for (int j = 0; j < lanes; j++) {
    ((kv_quant_own *)kv_own(at, lane[j]))->known = SCALED;
    code(at, lane[j]);
  }
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
    .compress_layer = compress_layer,
};
