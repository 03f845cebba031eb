/* SPDX-License-Identifier: Apache-2.0
 *
 * What a share of the probability selects belongs to the trace, not to a run:
 * rows by layer, KV head and token, and a map a layer, row, adapter and share.
 */
#include "sim/db/db_private.h"

#include "sim/inspect/selection.h"

kv_rc kv_db_has_selections(kv_db *db, const kv_digest *identity, int layers,
                           bool *has, kv_err *e) {
  sqlite3_stmt *s;
  *has = false;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT count(DISTINCT layer) FROM selection_row"
                        " WHERE identity = ?",
                        "h", identity);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *has = sqlite3_column_int64(s, 0) == layers;
  return kv_db_done(db, s, e);
}

typedef struct place {
  kv_db *db;
  const kv_digest *identity;
  int64_t layer, token;
} place;

static kv_rc put_row(const place *p, int64_t head, const kv_choices_row *r,
                     kv_err *e) {
  kv_rc rc = kv_db_do(
      p->db, e, "INSERT OR IGNORE INTO selection_row VALUES (?,?,?,?,?,?)",
      "hiiid", p->identity, p->layer, head, p->token, (double)r->lse);
  for (int a = 0; a < KV_CHOICES_ADAPTERS; a++)
    for (int s = 0; s < KV_CHOICES_SHARES && !rc; s++) {
      const kv_selected *x = &r->of[a][s];
      rc = kv_db_do(p->db, e,
                    "INSERT OR IGNORE INTO selection"
                    " VALUES (?,?,?,?,?,?,?,?,?,?)",
                    "hiiisiiid", p->identity, p->layer, head, p->token,
                    kv_choices_adapter[a], (int64_t)kv_choices_percent[s],
                    (int64_t)x->before, (int64_t)x->after,
                    (double)x->temperature);
    }
  return rc;
}

/* Little-endian, whatever this machine is. */
static kv_rc put_map(const place *p, int adapter, int share, const int32_t *map,
                     kv_err *e) {
  unsigned char bytes[4 * KV_CHOICES_BINS];
  kv_db_blob blob = {sizeof bytes, bytes};
  for (int i = 0; i < 4 * KV_CHOICES_BINS; i++)
    bytes[i] = (unsigned char)((uint32_t)map[i / 4] >> i % 4 * 8);
  return kv_db_do(
      p->db, e, "INSERT OR IGNORE INTO selection_map VALUES (?,?,?,?,?,?)",
      "hiisib", p->identity, p->layer, p->token, kv_choices_adapter[adapter],
      (int64_t)kv_choices_percent[share], &blob);
}

static kv_rc put_layer(place *p, const kv_choices *x, int heads, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int r = 0; r < x->rows && !rc; r++) {
    p->token = x->token[r];
    for (int g = 0; g < heads && !rc; g++)
      rc = put_row(p, g, &x->head[g].row[r], e);
    for (int a = 0; a < KV_CHOICES_ADAPTERS; a++)
      for (int s = 0; s < KV_CHOICES_SHARES && !rc; s++)
        rc = put_map(p, a, s, x->map[r][a][s], e);
  }
  return rc;
}

kv_rc kv_db_put_selections(kv_db *db, const kv_digest *identity, int layers,
                           const int *layer, int heads, const void *found,
                           kv_err *e) {
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  for (int i = 0; i < layers && !rc; i++) {
    place p = {.db = db, .identity = identity, .layer = layer[i]};
    const char *at = (const char *)found + (size_t)i * kv_choices_size(heads);
    rc = put_layer(&p, (const kv_choices *)(const void *)at, heads, e);
  }
  return kv_db_end(db, rc, e);
}
