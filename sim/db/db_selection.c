/* SPDX-License-Identifier: Apache-2.0
 *
 * What a share of the probability selects: figures by layer, KV head and token,
 * and a map a layer, row, adapter and share.
 */
#include "sim/db/db_private.h"

#include "sim/inspect/selection.h"

kv_rc kv_db_has_selections(kv_db *db, const kv_digest *identity, int layers,
                           bool *has, kv_err *e) {
  return kv_db_has_figure(db, identity, "selection.lse", NULL, layers, has, e);
}

static void put_row(kv_db_figure *f, int token, const kv_choices_row *r) {
  f->series = "";
  kv_db_figure_real(f, "selection.lse", token, 0, (double)r->lse);
  for (int a = 0; a < KV_CHOICES_ADAPTERS; a++)
    for (int s = 0; s < KV_CHOICES_SHARES; s++) {
      const kv_selected *x = &r->of[a][s];
      int y = kv_choices_percent[s];
      f->series = kv_choices_adapter[a];
      kv_db_figure_whole(f, "selection.before", token, y, x->before);
      kv_db_figure_whole(f, "selection.after", token, y, x->after);
      kv_db_figure_real(f, "selection.temperature", token, y,
                        (double)x->temperature);
    }
}

static void put_maps(kv_db_figure *f, int row, const kv_choices *x) {
  f->head = -1;
  for (int a = 0; a < KV_CHOICES_ADAPTERS; a++) {
    f->series = kv_choices_adapter[a];
    for (int s = 0; s < KV_CHOICES_SHARES; s++)
      kv_db_figure_map(f, "selection.map", x->token[row], kv_choices_percent[s],
                       KV_CHOICES_BINS, x->map[row][a][s]);
  }
}

static void put_layer(kv_db_figure *f, const kv_choices *x, int heads) {
  for (int r = 0; r < x->rows; r++) {
    for (f->head = 0; f->head < heads; f->head++)
      put_row(f, x->token[r], &x->head[f->head].row[r]);
    put_maps(f, r, x);
  }
}

kv_rc kv_db_put_selections(kv_db *db, const kv_digest *identity, int layers,
                           const int *layer, int heads, const void *found,
                           kv_err *e) {
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  kv_db_figure f = {db, identity, 0, 0, "", "", KV_OK, e};
  for (int i = 0; i < layers; i++) {
    const char *at = (const char *)found + (size_t)i * kv_choices_size(heads);
    f.layer = layer[i];
    put_layer(&f, (const kv_choices *)(const void *)at, heads);
  }
  return kv_db_end(db, f.rc, e);
}
