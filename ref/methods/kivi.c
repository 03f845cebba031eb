/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI: stores keys in a few bits per channel and values in a few bits per
 * token; the newest tokens stay uncoded.
 *
 *   after the prompt and after every step, n tokens stored, of which the last f
 *   have keys that were never coded:
 *     keys:   the first f div residual * residual of these are coded, `group`
 *             tokens sharing scale and minimum in each channel; alone on a lane
 *             that makes n div residual * residual coded keys, after a method
 *             that drops tokens (h2o+kivi) as many whenever `residual` full
 *             ones have gathered
 *     values: all but the last `residual` tokens are coded, `group`
 *             neighbouring elements of a token sharing scale and minimum (the
 *             last run is shorter if group does not divide d_v)
 *   A step attends first, so its full part is still full when it is read.
 *
 * Calls of recode go by entry ascending, keys first: one for `group` tokens,
 * then one for each token. A coded row is never coded again. Both variants'
 * arithmetic: ref/formats/rules.h. A cell fails if a scale or a minimum exceeds
 * fp16.
 *
 * Liu et al. 2024, KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV
 * Cache. Paper and authors' code agree on what is coded when: keys wait until a
 * block of `residual` is full, values go one by one. Otherwise:
 * - They choose codes differently: the paper's formula rounds once
 *   (variant=paper), the code rounds to fp16 after every operation
 *   (variant=code). `auto`, the default, follows the code on fp16 traces, where
 *   the code ran, and the formula elsewhere.
 * - Both are read in binary32 by fma(code, scale, minimum), as the authors'
 *   decode attention reads them (quant/csrc/gemv_cuda.cu at 876b4d2,
 *   bgemv2_kernel_outer_dim and bgemv4_kernel_outer_dim). Their functions
 *   unpack_and_dequant_kcache and unpack_and_dequant_vcache read in fp16, but
 *   none of their models calls them. Their kernels also sum in binary32, and
 *   round logits, probabilities and outputs to fp16; here those are arithmetic
 *   1 and 3, as for all methods.
 * - The code divides by zero in a constant group; here its codes are 0.
 * - Group 32 and residual 128 are from the authors' long-context tables. There
 *   they advise 2 bits for models with as many KV heads as query heads, and 4
 *   bits where heads share.
 * - Keys are coded after RoPE, as in the authors' code. With rope=before they
 *   are coded before RoPE, which KVQuant found better (Hooper et al. 2024,
 *   arXiv:2401.18079); the lane turns them back and forward (FORMATS.md, Before
 *   RoPE; needs the trace's frequencies).
 *
 * Family: code. Acts: every 128 tokens. Needs: rows of codes. Bound: t. Bytes:
 * t (d + d_v) bits / 8, + 4 for each `group` elements; the newest stay uncoded,
 * up to 128 R. Gather: -. Reduce: -. Sample: everything. Cost: a token is coded
 * once; coded rows are decoded by every step that reads them.
 */
#include "ref/methods/kivi.h"
#include "ref/parts/parts.h"

enum { RESIDUAL = 128 }; /* as in the authors' long-context tables */

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc check_bits(const char *name, int bits, kv_err *e) {
  if (bits == 2 || bits == 4) return KV_OK;
  return kv_fail(e, KV_USAGE, "kivi: %s=%d must be 2 or 4", name, bits);
}

static kv_rc resolve(const kv_shape *shape, params *o, kv_err *e) {
  if (o->k_bits == KV_UNSET) o->k_bits = o->bits;
  if (o->v_bits == KV_UNSET) o->v_bits = o->bits;
  if (o->residual == KV_UNSET)
    o->residual = o->group > RESIDUAL ? o->group : RESIDUAL;
  else if (o->residual % o->group != 0)
    return kv_fail(e, KV_REFUSED,
                   "kivi: residual=%d must be a multiple of group=%d",
                   o->residual, o->group);
  o->residual -= o->residual % o->group;
  if (o->variant == AUTO) o->variant = shape->dtype == KV_F16 ? CODE : PAPER;
  kv_rc rc = check_bits("bits", o->bits, e);
  if (!rc) rc = check_bits("k_bits", o->k_bits, e);
  return rc ? rc : check_bits("v_bits", o->v_bits, e);
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = resolve(shape, o, e);
  if (rc) return rc;
  bool fp16 = o->variant == CODE;
  needs->every = 1;
  needs->codings = 2;
  needs->lengths = needs->slides = true;
  o->k = (kv_minmax){o->k_bits, o->group, fp16};
  o->v = (kv_minmax){o->v_bits, o->group, fp16};
  needs->rope = o->rope == BEFORE;
  needs->coding[KEYS] =
      KV_CODING(&kv_format_channel, &o->k, needs->rope, KV_KEYS_ONLY);
  needs->coding[VALUES] =
      KV_CODING(&kv_format_token, &o->v, false, KV_VALUES_ONLY);
  needs->work = (size_t)o->group * sizeof(int32_t) + 64;
  return KV_OK;
}

/* Whole residuals of uncoded keys; after a method that drops, any number of
 * coded keys may precede them. */
static void code_keys(const kv_at *at, kv_lane *lane, const params *o,
                      int32_t *list) {
  int n = lane->n, group = o->group, first = kv_first_full(lane->k, n);
  int end = first + (n - first) / o->residual * o->residual;
  for (int i = first; i < end; i += group) {
    for (int j = 0; j < group; j++) list[j] = i + j;
    kv_recode(lane, group, list, kv_coded(at, KEYS), KV_SAME);
  }
}

static void code_values(const kv_at *at, kv_lane *lane, int end) {
  for (int32_t i = kv_first_full(lane->v, end); i < end; i++)
    kv_recode(lane, 1, &i, KV_SAME, kv_coded(at, VALUES));
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int32_t *list = KV_TAKE(at->work, int32_t, o->group);
  code_keys(at, lane, o, list);
  code_values(at, lane, lane->n - o->residual);
}

const kv_method kv_method_kivi = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "kivi",
    .title = "2 or 4 bits: keys per channel, values per token",
    .paper = "Liu et al. 2024, KIVI: A Tuning-Free Asymmetric 2bit "
             "Quantization for KV Cache, arXiv:2402.02750",
    .lossless = "residual=1048576:group=1",
    .compress_lane = compress_lane,
};
