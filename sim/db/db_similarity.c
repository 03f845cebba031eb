/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike the tokens of a trace are belongs to the trace, not to a run: rows
 * by layer, space, residual and class. What is there stays; spectra are added
 * where a kvreplay without LAPACK left none.
 */
#include "sim/db/db_private.h"

#include <math.h>

typedef struct place {
  kv_db *db;
  const kv_digest *identity;
  int64_t layer;
  const char *space, *kind;
} place;

kv_rc kv_db_has_similarities(kv_db *db, const kv_digest *identity, int layers,
                             bool *has, kv_err *e) {
  sqlite3_stmt *s;
  *has = false;
  kv_rc rc = kv_db_bind(
      db, &s, e,
      "SELECT count(DISTINCT layer), count(d.direction) FROM similarity LEFT "
      "JOIN"
      " (SELECT * FROM spectrum WHERE direction = 1) d USING (identity, layer)"
      " WHERE identity = ?",
      "h", identity);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *has = sqlite3_column_int64(s, 0) == layers &&
         (sqlite3_column_int64(s, 1) > 0 || !kv_spectrum_can());
  return kv_db_done(db, s, e);
}

static kv_rc put_classes(const place *p, const char *what, int first, int n,
                         const int64_t *items, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int c = 0; c < n && !rc; c++)
    if (items[c])
      rc = kv_db_do(p->db, e,
                    "INSERT OR IGNORE INTO similarity_class"
                    " VALUES (?,?,?,?,?,?,?)",
                    "hisssii", p->identity, p->layer, p->space, p->kind, what,
                    (int64_t)(first + c), items[c]);
  return rc;
}

static kv_rc put_spectrum(const place *p, const kv_spectrum *x, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < x->n && !rc; i++)
    rc = kv_db_do(p->db, e,
                  "INSERT OR IGNORE INTO spectrum VALUES (?,?,?,?,?,?,?)",
                  "hissirr", p->identity, p->layer, p->space, p->kind,
                  (int64_t)x->direction[i], x->share[i], x->sum[i]);
  return rc;
}

static kv_rc put_residual(const place *p, const kv_residual_stats *x,
                          kv_err *e) {
  kv_rc rc = kv_db_do(p->db, e,
                      "INSERT OR IGNORE INTO residual"
                      " VALUES (?,?,?,?,?,?,?,?,?)",
                      "hissidd", p->identity, p->layer, p->space, p->kind,
                      x->tokens, x->norm, x->share);
  if (!rc) rc = put_classes(p, "norm", KV_NORM_FIRST, KV_NORMS, x->norms, e);
  if (!rc)
    rc = put_classes(p, "value", KV_VALUE_FIRST, KV_VALUES, x->values, e);
  return rc ? rc : put_spectrum(p, &x->spectrum, e);
}

static kv_rc put_missed(const place *p, int stride, int k, int octave,
                        double share, kv_err *e) {
  return kv_db_do(p->db, e,
                  "INSERT OR IGNORE INTO missed VALUES (?,?,?,?,?,?,?)",
                  "hiiiid", p->identity, p->layer, (int64_t)stride, (int64_t)k,
                  (int64_t)octave, share);
}

static kv_rc put_errors(const place *p, const kv_similarity *x, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < KV_NEAREST_LISTS * KV_ERROR_KS && !rc; i++)
    rc = put_missed(p, kv_nearest_stride[i / KV_ERROR_KS],
                    kv_error_k[i % KV_ERROR_KS], -1,
                    x->error[i / KV_ERROR_KS][i % KV_ERROR_KS], e);
  for (int c = 0; c < KV_DISTANCES && !rc; c++)
    if (isfinite(x->by_position[c]))
      rc = put_missed(p, kv_nearest_stride[KV_RESIDUAL_LIST], KV_RESIDUAL_K, c,
                      x->by_position[c], e);
  return rc;
}

static kv_rc put_space(place *p, int space, const kv_similarity *x, kv_err *e) {
  p->space = kv_space_name[space];
  p->kind = kv_residual_name[KV_LESS_NEAREST];
  kv_rc rc = kv_db_do(
      p->db, e, "INSERT OR IGNORE INTO similarity VALUES (?,?,?,?,?,?,?,?)",
      "hisiiid", p->identity, p->layer, p->space, x->tokens, x->far, x->close,
      x->chance);
  if (!rc) rc = put_classes(p, "distance", 0, KV_DISTANCES, x->distances, e);
  if (!rc)
    rc = put_classes(p, "cosine", KV_COSINE_FIRST, KV_COSINES, x->cosines, e);
  for (int kind = 0; kind < KV_RESIDUALS && !rc; kind++) {
    p->kind = kv_residual_name[kind];
    if (x->residual[kind].tokens) rc = put_residual(p, &x->residual[kind], e);
  }
  return rc || space != KV_SPACE_KV ? rc : put_errors(p, x, e);
}

static kv_rc put_entropy(const place *p, int part, int coding,
                         const kv_entropy *x, kv_err *e) {
  return kv_db_do(p->db, e,
                  "INSERT OR IGNORE INTO entropy"
                  " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                  "hissiidrrd", p->identity, p->layer, kv_entropy_part[part],
                  kv_coding_name[coding], (int64_t)x->bins, x->elements,
                  x->bits, x->scales, x->tables, x->error);
}

/* Octave -1: tokens of all positions. */
static kv_rc put_missed_by(const place *p, const kv_rebuilt *x, int way,
                           int octave, double share, kv_err *e) {
  return kv_db_do(p->db, e,
                  "INSERT OR IGNORE INTO rebuilt VALUES (?,?,?,?,?,?,?)",
                  "hihsid", p->identity, p->layer, &x->digest,
                  kv_rebuilt_way[way], (int64_t)octave, share);
}

static kv_rc put_rebuilt(const place *p, const kv_rebuilt *x, kv_err *e) {
  kv_rc rc = kv_db_do(
      p->db, e,
      "INSERT INTO compressor VALUES (?,?,?,?,?,?,nullif(?, 0),?,?)"
      " ON CONFLICT DO UPDATE SET code = excluded.code,"
      " learned = excluded.learned",
      "hssiiiiss", &x->digest, x->file, x->of.gated ? "swiglu" : "gelu",
      (int64_t)x->of.width, (int64_t)x->of.latent, (int64_t)x->of.hidden,
      (int64_t)x->length, x->code, kv_rebuilt_way[x->alone]);
  for (int way = 0; way < KV_REBUILT_WAYS; way++) {
    if (!rc) rc = put_missed_by(p, x, way, -1, x->share[way], e);
    for (int c = 0; c < KV_REBUILT_OCTAVES && !rc; c++)
      if (isfinite(x->by_position[way][c]))
        rc = put_missed_by(p, x, way, c, x->by_position[way][c], e);
  }
  return rc;
}

kv_rc kv_db_has_rebuilt(kv_db *db, const kv_digest *identity,
                        const kv_digest *file, int layers, bool *has,
                        kv_err *e) {
  sqlite3_stmt *s;
  *has = false;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT count(DISTINCT layer) FROM rebuilt"
                        " WHERE identity = ? AND digest = ?",
                        "hh", identity, file);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *has = sqlite3_column_int64(s, 0) == layers;
  return kv_db_done(db, s, e);
}

static kv_rc put_layer(place *p, const kv_similarities *x, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int space = 0; space < KV_SPACES && !rc; space++)
    rc = put_space(p, space, &x->space[space], e);
  for (int i = 0; i < KV_ENTROPY_PARTS * KV_CODINGS && !rc; i++)
    rc = put_entropy(p, i / KV_CODINGS, i % KV_CODINGS,
                     &x->entropy[i / KV_CODINGS][i % KV_CODINGS], e);
  for (int i = 0; i < KV_REBUILT_FILES && !rc; i++)
    if (x->rebuilt[i].there) rc = put_rebuilt(p, &x->rebuilt[i], e);
  return rc;
}

kv_rc kv_db_put_similarities(kv_db *db, const kv_digest *identity, int layers,
                             const int *layer, const kv_similarities *of,
                             kv_err *e) {
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  for (int i = 0; i < layers && !rc; i++) {
    place p = {db, identity, layer[i], NULL, NULL};
    rc = put_layer(&p, &of[i], e);
  }
  return kv_db_end(db, rc, e);
}
