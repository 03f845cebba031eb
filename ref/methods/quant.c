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
 * Family: code. Acts: every step. Needs: rows of codes. Bound: t. Bytes: t (d k
 * + d_v v) / 8 for k and v bits, + 4 for each group of elements. Gather: -.
 * Reduce: -. Sample: everything. Cost: a token is coded once; coded rows are
 * decoded by every step that reads them.
 */
#include "ref/methods/quant.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

/* Resolves a side's settings, for rows of `width` elements. */
static kv_rc settle(params *o, int side, int width, const kv_named_format *f,
                    kv_err *e) {
  int groups = o->side_groups[side];
  bool is_block = f->format == &kv_format_block;
  o->how[side] = (kv_minmax){f->bits, width / groups, f->rule};
  o->block[side] = f->block;
  if (o->scale[side] != 1 && !(is_block && kv_block_scaled(&f->block)))
    return kv_fail(
        e, KV_REFUSED,
        "quant: %s has no scale of all rows; leave out %s, or choose "
        "fp8_e4m3, fp8_e5m2, nvfp4 or nvfp4_4over6",
        f->name, side == KEYS ? "k_scale" : "v_scale");
  o->block[side].whole = o->scale[side];
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
      f->format, settings, side == KEYS && o->rope == BEFORE, sides[side]};
  return KV_OK;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = add(o, KEYS, shape->d, needs, e);
  if (!rc) rc = add(o, VALUES, shape->d_v, needs, e);
  if (rc) return rc;
  needs->every = 1;
  needs->rope = o->coding[KEYS] != AS_IT_CAME && o->rope == BEFORE;
  needs->lengths = o->residual == 0;
  needs->slides = needs->chunks = true;
  return KV_OK;
}

static int coding_of(const kv_at *at, const params *o, int side) {
  int i = o->coding[side];
  return i == AS_IT_CAME ? KV_SAME : kv_coded(at, i);
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
    .compress_lane = compress_lane,
};
