/* SPDX-License-Identifier: Apache-2.0
 *
 * What the heads of a trace attend to: figures of each layer and KV head, and
 * of each class of tokens in it.
 */
#include "sim/db/db_private.h"

kv_rc kv_db_has_attention(kv_db *db, const kv_digest *identity, int layers,
                          bool *has, kv_err *e) {
  return kv_db_has_figure(db, identity, "attention.rows", NULL, layers, has, e);
}

static void put_head(kv_db_figure *f, const kv_sparsity *x) {
  kv_db_figure_whole(f, "attention.rows", 0, 0, x->rows);
  kv_db_figure_whole(f, "attention.critical", 0, 0, x->critical);
  kv_db_figure_whole(f, "attention.seen", 0, 0, x->seen);
  kv_db_figure_whole(f, "attention.tokens", 0, 0, x->tokens);
  for (int a = 0; a < KV_SPARSITY_SCORES; a++)
    for (int b = 0; b < KV_SPARSITY_NORMS; b++)
      if (x->count[a][b])
        kv_db_figure_whole(f, "attention.class", a + KV_SPARSITY_SCORE,
                           b + KV_SPARSITY_NORM, x->count[a][b]);
}

kv_rc kv_db_put_attention(kv_db *db, const kv_digest *identity, int layers,
                          const int *layer, int heads, const kv_sparsity *of,
                          kv_err *e) {
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  kv_db_figure f = {db, identity, 0, 0, "", "", KV_OK, e};
  for (int i = 0; i < layers * heads; i++) {
    f.layer = layer[i / heads];
    f.head = i % heads;
    put_head(&f, &of[i]);
  }
  return kv_db_end(db, f.rc, e);
}
