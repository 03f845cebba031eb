/* SPDX-License-Identifier: Apache-2.0
 *
 * What the heads of a trace attend to belongs to the trace, not to a run: a row
 * a layer and KV head, and one for each class of tokens in it.
 */
#include "sim/db/db_private.h"

kv_rc kv_db_has_attention(kv_db *db, const kv_digest *identity, int rows,
                          bool *has, kv_err *e) {
  sqlite3_stmt *s;
  *has = false;
  kv_rc rc =
      kv_db_bind(db, &s, e, "SELECT count(*) FROM attention WHERE identity = ?",
                 "h", identity);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *has = sqlite3_column_int64(s, 0) == rows;
  return kv_db_done(db, s, e);
}

static kv_rc put_classes(kv_db *db, const kv_digest *identity, int layer,
                         int head, const kv_sparsity *x, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int a = 0; a < KV_SPARSITY_SCORES && !rc; a++)
    for (int b = 0; b < KV_SPARSITY_NORMS && !rc; b++)
      if (x->count[a][b])
        rc =
            kv_db_do(db, e, "INSERT OR IGNORE INTO spread VALUES (?,?,?,?,?,?)",
                     "hiiiii", identity, (int64_t)layer, (int64_t)head,
                     (int64_t)(a + KV_SPARSITY_SCORE),
                     (int64_t)(b + KV_SPARSITY_NORM), (int64_t)x->count[a][b]);
  return rc;
}

static kv_rc put_head(kv_db *db, const kv_digest *identity, int layer, int head,
                      const kv_sparsity *x, kv_err *e) {
  kv_rc rc =
      kv_db_do(db, e, "INSERT OR IGNORE INTO attention VALUES (?,?,?,?,?,?,?)",
               "hiiiiii", identity, (int64_t)layer, (int64_t)head, x->rows,
               x->critical, x->seen, x->tokens);
  return rc ? rc : put_classes(db, identity, layer, head, x, e);
}

kv_rc kv_db_put_attention(kv_db *db, const kv_digest *identity, int layers,
                          const int *layer, int heads, const kv_sparsity *of,
                          kv_err *e) {
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  for (int i = 0; i < layers * heads && !rc; i++)
    rc = put_head(db, identity, layer[i / heads], i % heads, &of[i], e);
  return kv_db_end(db, rc, e);
}
