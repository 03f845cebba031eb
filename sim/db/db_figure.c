/* SPDX-License-Identifier: Apache-2.0
 *
 * What is found in a trace without a replay (table figure). It belongs to the
 * trace, not to a run: nothing but the trace and the arithmetic decides it, so
 * what is there stays. A number a row:
 *
 *   figure                        series       part        x          y
 *   attention.rows critical       ''           ''          0          0
 *     seen tokens
 *   attention.class               ''           ''          score      norm
 *   selection.lse                 ''           ''          token      0
 *   selection.before after        adapter      ''          token      share
 *     temperature map
 *   nearest.tokens far close      space        ''          0          0
 *     chance
 *   class.distance cosine         space        'nearest'   class      0
 *   class.norm value              space        residual    class      0
 *   residual.tokens norm share    space        residual    0          0
 *   latent.size map               'kv'         'z'         token      0
 *   spectrum.share total          space        residual    direction  0
 *   missed                        stride       k           octave     0
 *   entropy.bins elements bits    keys or      coding      0          0
 *     scales tables error         values
 *   rebuilt                       compressor   references  octave     0
 *
 * What each means stands where it is computed: traces/trace/sparsity.h,
 * sim/inspect/selection.h, residual.h, cachegen.h, rebuilt.h. Octave -1: tokens
 * of all positions. A figure of one layer, head, series and part is stored
 * whole, without classes that have nothing; spectrum only where LAPACK is.
 */
#include "sim/db/db_private.h"

#include <assert.h>

static const char insert[] =
    "INSERT OR IGNORE INTO figure VALUES (?,?,?,?,?,?,?,?,?)";

void kv_db_figure_whole(kv_db_figure *f, const char *name, int x, int y,
                        int64_t value) {
  if (f->rc) return;
  f->rc = kv_db_do(f->db, f->e, insert, "hsiissiii", f->identity, name,
                   (int64_t)f->layer, (int64_t)f->head, f->series, f->part,
                   (int64_t)x, (int64_t)y, value);
}

void kv_db_figure_real(kv_db_figure *f, const char *name, int x, int y,
                       double value) {
  if (f->rc) return;
  f->rc = kv_db_do(f->db, f->e, insert, "hsiissiir", f->identity, name,
                   (int64_t)f->layer, (int64_t)f->head, f->series, f->part,
                   (int64_t)x, (int64_t)y, value);
}

void kv_db_figure_map(kv_db_figure *f, const char *name, int x, int y, int n,
                      const int32_t *map) {
  unsigned char bytes[4 * KV_DB_MAP];
  kv_db_blob blob = {4 * (size_t)n, bytes};
  assert(n <= KV_DB_MAP);
  if (f->rc) return;
  kv_db_bytes(n, map, bytes);
  f->rc = kv_db_do(f->db, f->e, insert, "hsiissiib", f->identity, name,
                   (int64_t)f->layer, (int64_t)f->head, f->series, f->part,
                   (int64_t)x, (int64_t)y, &blob);
}

kv_rc kv_db_has_figure(kv_db *db, const kv_digest *identity, const char *name,
                       const char *series, int layers, bool *has, kv_err *e) {
  int64_t n = -1;
  kv_rc rc = kv_db_one(db, &n, e,
                       "SELECT count(DISTINCT layer) FROM figure WHERE"
                       " identity = ?1 AND figure = ?2 AND"
                       " series = coalesce(?3, series)",
                       "hss", identity, name, series);
  *has = n == layers;
  return rc;
}
