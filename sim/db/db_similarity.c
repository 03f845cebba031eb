/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike the tokens of a trace are: figures by layer, space, residual and
 * class. Spectra are added where a kvreplay without LAPACK left none.
 */
#include "sim/db/db_private.h"

#include <math.h>
#include <stdio.h>

kv_rc kv_db_has_similarities(kv_db *db, const kv_digest *identity, int layers,
                             bool *has, kv_err *e) {
  kv_rc rc =
      kv_db_has_figure(db, identity, "nearest.tokens", NULL, layers, has, e);
  if (rc || !*has || !kv_spectrum_can()) return rc;
  return kv_db_has_figure(db, identity, "spectrum.share", NULL, layers, has, e);
}

kv_rc kv_db_has_rebuilt(kv_db *db, const kv_digest *identity,
                        const kv_digest *file, int layers, bool *has,
                        kv_err *e) {
  char hex[65];
  kv_digest_hex(file, hex);
  return kv_db_has_figure(db, identity, "rebuilt", hex, layers, has, e);
}

static void put_classes(kv_db_figure *f, const char *name, int first, int n,
                        const int64_t *items) {
  for (int c = 0; c < n; c++)
    if (items[c]) kv_db_figure_whole(f, name, first + c, 0, items[c]);
}

static void put_residual(kv_db_figure *f, const kv_residual_stats *x) {
  const kv_spectrum *s = &x->spectrum;
  kv_db_figure_whole(f, "residual.tokens", 0, 0, x->tokens);
  kv_db_figure_real(f, "residual.norm", 0, 0, x->norm);
  kv_db_figure_real(f, "residual.share", 0, 0, x->share);
  put_classes(f, "class.norm", KV_NORM_FIRST, KV_NORMS, x->norms);
  put_classes(f, "class.value", KV_VALUE_FIRST, KV_VALUES, x->values);
  for (int i = 0; i < s->n; i++) {
    kv_db_figure_real(f, "spectrum.share", s->direction[i], 0, s->share[i]);
    kv_db_figure_real(f, "spectrum.total", s->direction[i], 0, s->sum[i]);
  }
}

static void put_missed(kv_db_figure *f, int stride, int k, int octave,
                       double share) {
  char series[16], part[16];
  snprintf(series, sizeof series, "%d", stride);
  snprintf(part, sizeof part, "%d", k);
  f->series = series;
  f->part = part;
  kv_db_figure_real(f, "missed", octave, 0, share);
  f->series = f->part = "";
}

static void put_errors(kv_db_figure *f, const kv_similarity *x) {
  for (int i = 0; i < KV_NEAREST_LISTS * KV_ERROR_KS; i++)
    put_missed(f, kv_nearest_stride[i / KV_ERROR_KS],
               kv_error_k[i % KV_ERROR_KS], -1,
               x->error[i / KV_ERROR_KS][i % KV_ERROR_KS]);
  for (int c = 0; c < KV_DISTANCES; c++)
    if (isfinite(x->by_position[c]))
      put_missed(f, kv_nearest_stride[KV_RESIDUAL_LIST], KV_RESIDUAL_K, c,
                 x->by_position[c]);
}

static void put_space(kv_db_figure *f, int space, const kv_similarity *x) {
  f->series = kv_space_name[space];
  f->part = "";
  kv_db_figure_whole(f, "nearest.tokens", 0, 0, x->tokens);
  kv_db_figure_whole(f, "nearest.far", 0, 0, x->far);
  kv_db_figure_whole(f, "nearest.close", 0, 0, x->close);
  kv_db_figure_real(f, "nearest.chance", 0, 0, x->chance);
  f->part = kv_residual_name[KV_LESS_NEAREST];
  put_classes(f, "class.distance", 0, KV_DISTANCES, x->distances);
  put_classes(f, "class.cosine", KV_COSINE_FIRST, KV_COSINES, x->cosines);
  for (int kind = 0; kind < KV_RESIDUALS; kind++) {
    f->part = kv_residual_name[kind];
    if (x->residual[kind].tokens) put_residual(f, &x->residual[kind]);
  }
  f->part = kv_residual_name[KV_LATENT_VECTOR];
  for (int r = 0; r < x->sizes.ranges; r++)
    kv_db_figure_map(f, "latent.size", x->sizes.first[r], 0, x->sizes.parts,
                     x->sizes.size[r]);
  if (space == KV_SPACE_KV) put_errors(f, x);
}

static void put_entropy(kv_db_figure *f, int part, int coding,
                        const kv_entropy *x) {
  f->series = kv_entropy_part[part];
  f->part = kv_coding_name[coding];
  kv_db_figure_whole(f, "entropy.bins", 0, 0, x->bins);
  kv_db_figure_whole(f, "entropy.elements", 0, 0, x->elements);
  kv_db_figure_real(f, "entropy.bits", 0, 0, x->bits);
  kv_db_figure_real(f, "entropy.scales", 0, 0, x->scales);
  kv_db_figure_real(f, "entropy.tables", 0, 0, x->tables);
  kv_db_figure_real(f, "entropy.error", 0, 0, x->error);
}

static void put_rebuilt(kv_db_figure *f, const kv_rebuilt *x) {
  char hex[65];
  kv_digest_hex(&x->digest, hex);
  f->series = hex;
  if (!f->rc)
    f->rc = kv_db_do(
        f->db, f->e,
        "INSERT INTO compressor VALUES (?,?,?,?,?,?,nullif(?, 0),?,?)"
        " ON CONFLICT DO UPDATE SET code = excluded.code,"
        " learned = excluded.learned",
        "hssiiiiss", &x->digest, x->file, x->of.gated ? "swiglu" : "gelu",
        (int64_t)x->of.width, (int64_t)x->of.latent, (int64_t)x->of.hidden,
        (int64_t)x->length, x->code, kv_rebuilt_way[x->alone]);
  for (int way = 0; way < KV_REBUILT_WAYS; way++) {
    f->part = kv_rebuilt_way[way];
    kv_db_figure_real(f, "rebuilt", -1, 0, x->share[way]);
    for (int c = 0; c < KV_REBUILT_OCTAVES; c++)
      if (isfinite(x->by_position[way][c]))
        kv_db_figure_real(f, "rebuilt", c, 0, x->by_position[way][c]);
  }
  f->series = f->part = "";
}

static void put_layer(kv_db_figure *f, const kv_similarities *x) {
  for (int space = 0; space < KV_SPACES; space++)
    put_space(f, space, &x->space[space]);
  for (int i = 0; i < KV_ENTROPY_PARTS * KV_CODINGS; i++)
    put_entropy(f, i / KV_CODINGS, i % KV_CODINGS,
                &x->entropy[i / KV_CODINGS][i % KV_CODINGS]);
  for (int i = 0; i < KV_REBUILT_FILES; i++)
    if (x->rebuilt[i].there) put_rebuilt(f, &x->rebuilt[i]);
}

kv_rc kv_db_put_similarities(kv_db *db, const kv_digest *identity, int layers,
                             const int *layer, const kv_similarities *of,
                             kv_err *e) {
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  kv_db_figure f = {db, identity, 0, -1, "", "", KV_OK, e};
  for (int i = 0; i < layers; i++) {
    f.layer = layer[i];
    put_layer(&f, &of[i]);
  }
  return kv_db_end(db, f.rc, e);
}
