/* SPDX-License-Identifier: Apache-2.0
 *
 * Quant: every token's key and value in a format of its own, named one by one.
 * How a token is stored, as a method: alone, or behind any method that selects
 * (snapkv+int4), it says in which bits what is kept lies. Nothing is dropped.
 *
 *   after the prompt and after every step:
 *     code every entry whose key or value is full but the last `residual`,
 *     one call each from the oldest on: its key in the format k, its value in v
 *   A step attends first, so the newest token is read as it came.
 *
 * `raw` leaves a side as it came. Codes are for life. The formats, their
 * arithmetic and their laws: FORMATS.md, Formats by name, which also has the
 * short forms: int4 is quant:k=int4:v=int4, k8v4 is quant:k=int8:v=int4,
 * e4m3-int4 is quant:k=e4m3:v=int4.
 *
 * int8 .. int1 are LeanKV's equation 2 (Zhang et al. 2024, Unifying KV Cache
 * Compression for Large Language Models with LeanKV), keys and values
 * separately: their K8V4 is k=int8:v=int4, which is the default, in one group a
 * token and KV head as there. The paper keeps one zero point -min, the authors'
 * code the minimum; both give the same numbers, and the minimum is stored here.
 * The code's saturation at 255 never comes about. Codes are chosen by the scale
 * in fp32 and read in fp32 by the one stored in fp16, as in the code (uint4 in
 * csrc/quantization/kv_cache_quant/uint4_quant.cuh, and so on), whose divisions
 * are approximate where these are exact. A constant group has codes 0 in both:
 * 0 times 1 / 0 is a NaN there, which converts to 0. LeanKV's choice of a
 * format for each token is leankv.
 *
 * sym8 and sym4 are QServe's symmetric KV8 and KV4 (Lin et al. 2024, QServe,
 * arXiv:2405.04532), e4m3 and e5m2 floats of 8 bits with a scale a token,
 * qserve8 and qserve4 QServe's with a zero point. atom4 is Atom's (Zhao et al.
 * 2024, arXiv:2310.19102), whose keys are coded before their rotation
 * (rope=before). The arithmetic of all names: ref/formats/rules.h.
 *
 * Family: code. Acts: every step. Needs: rows of codes. Bound: t. Bytes: t (d k
 * + d_v v) / 8 for k and v bits, 4 a group and coded side. Gather: -. Reduce:
 * -. Sample: everything. Cost: a token is coded once; coded rows are decoded by
 * every step that reads them.
 */
#include "ref/methods/quant.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

/* Adds the coding of a side, of rows of `width` elements. */
static kv_rc add(params *o, int side, int width, kv_needs *needs, kv_err *e) {
  static const kv_coded_sides sides[] = {KV_KEYS_ONLY, KV_VALUES_ONLY};
  const kv_named_format *f = kv_named_format_at(o->named[side]);
  int groups = o->side_groups[side];
  if (groups == KV_UNSET) groups = o->side_groups[side] = o->groups;
  o->coding[side] = AS_IT_CAME;
  if (o->named[side] == RAW) return KV_OK;
  if (width % groups != 0)
    return kv_fail(e, KV_REFUSED,
                   "quant: %d groups do not divide the %d elements of a %s; "
                   "choose a divisor for %s",
                   groups, width, side == KEYS ? "key" : "value",
                   side == KEYS ? "k_groups" : "v_groups");
  o->how[side] = (kv_minmax){f->bits, width / groups, f->rule};
  o->coding[side] = needs->codings;
  needs->coding[needs->codings++] = (kv_coding){
      f->format, &o->how[side], side == KEYS && o->rope == BEFORE, sides[side]};
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
