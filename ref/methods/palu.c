/* SPDX-License-Identifier: Apache-2.0
 *
 * Palu: stores each token's keys and values, for a group of KV heads at once,
 * as coordinates along a few directions.
 *
 *   vector of a token in a layer: K of all KV heads before their rotation, V
 *     of all of them; a part is K or V of a group of `heads` neighbouring KV
 *     heads, of w_p numbers: K of each group, then V of each
 *   B: the orthonormal directions of a part in which vectors of other texts
 *     have most of their squares; the first r of them
 *   at the end of a step, and of the prompt, every token that came is coded
 *   stored: z = B x of each part, z^ as format delta stores it; read: x^ = B^T
 *     z^, keys rotated to the token's position (ref/parts/lowrank.h, to the
 *     bit)
 *   r of a part; U = unit, s = share, a multiple of 2^-20, R_p rows in the
 *   file:
 *     allocation=uniform: r_p = min(w_p, U max(1, n)), n = the whole number
 *       nearest to s w_p / U, halves to even
 *     allocation=energy: r_p = U for each; then, until they sum to uniform's
 *       total, U more to the part whose next U rows have the largest sum of
 *       energies (binary32, in their order; ties: the first) among the parts
 *       with U rows left
 *     fewer rows than that in the file, or with energy a U that does not divide
 *     R_p, is refused
 *
 * `latent`=int4: `group` neighbours, which divides every r_p, share scale and
 * minimum; no references, no positions. `bases` is a file of format
 * kvreplay-palu. Each layer has key.basis [groups, R, w_K], value.basis
 * [groups, R', w_V], key.energy [groups, R] and value.energy. If its metadata
 * have `turn` above 1, U is a multiple of it. All requests share these weights,
 * so they are in `asset` only. With all w rows of an orthonormal basis and
 * fp32, |x^ - x| <= 2 (w + 1) sqrt(w) 2^-24 |x| of each part.
 *
 * Chang et al. 2024, Palu: Compressing KV-Cache with Low-Rank Projection;
 * authors' code: shadowpa0327/Palu, commit bb22666. Differences:
 * - The authors factor the weights W of a projection. An SVD gives U, Sigma, V
 *   of a group's rows of W times S, S the Cholesky factor of sum h h^T over
 *   calibration inputs h. The cache then holds Sigma^-1/2 U^T W h. A trace has
 *   no weights, so here U comes from sum x x^T over keys and values x. If x = W
 *   h it is the same U, because W S (W S)^T = sum x x^T, and both read U U^T x.
 *   Only the scale of a latent number differs. It differs if a norm is between
 *   projection and cache (Qwen3): the authors store the vector before the norm,
 *   a trace the one after.
 * - Groups are 4 KV heads, as in their code, if a model has that many; the file
 *   decides (`kvreplay train palu:heads=..`).
 * - Their ranks follow the Fisher information of the weights over all layers
 *   and are alike in a layer's groups. They are rounded to multiples of 32 at
 *   the end, which changes the total. No trace holds a gradient: here ranks are
 *   uniform, or by energy within each layer; totals are alike in all layers.
 * - 4 bits: a scale and a minimum for `group` neighbours, both fp16, codes
 *   chosen for these as stored. Theirs are of a group's whole latent vector (or
 *   so many numbers), asymmetric with a whole zero point. They simulate 4 bits
 *   in the model's fp16 and store no codes; here codes are read in binary32.
 *   They turn latents by a Hadamard matrix that is part of the weights. The
 *   file's directions can have that, too, within each 32 (`train
 *   palu:turn=32`).
 * - Here a token is coded at the end of its step. At that step, and in the
 *   prompt, attention reads it uncoded. Theirs reads what is stored.
 *
 * Family: latent. Acts: every step. Needs: directions from recorded traces (a
 * file); RoPE. Bound: t. Bytes: r numbers replace a token's H (d + d_v). So t e
 * r / H; with int4 t (ceil(r / 2) + 4 r / group) / H. Gather: -. Reduce: -.
 * Sample: everything. Cost: 2 w r a token, once. A store makes rows anew at
 * every step: a replay keeps them, and they are in `peak` alone, as deltakv's.
 */
#include "ref/methods/palu.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  needs->every = 1;
  needs->lane_state = sizeof(int32_t);
  return kv_open_lowrank(shape, "palu", &o->by, needs, e);
}

/* How many entries of a lane are coded. */
static int32_t *end_of(const kv_at *at, const kv_lane *l) {
  return kv_own(at, l);
}

static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  const params *o = at->params;
  kv_lowrank_code(at, lane, lanes, &o->by, *end_of(at, lane[0]), at->step);
  for (int g = 0; g < lanes; g++) *end_of(at, lane[g]) = at->step;
}

const kv_method kv_method_palu = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "palu",
    .title = "keys and values of a group of heads along few directions",
    .paper = "Chang et al. 2024, Palu: Compressing KV-Cache with Low-Rank "
             "Projection, arXiv:2407.21118",
    .compress_layer = compress_layer,
};
