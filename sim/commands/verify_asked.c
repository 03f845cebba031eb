/* SPDX-License-Identifier: Apache-2.0
 *
 * What a row has beside its measures: sim/commands/verify.h.
 */
#include "sim/commands/verify.h"

#include <stdlib.h>

static kv_rc ask_layouts(kv_db *db, kv_verify_row *const *v, kv_batch *b,
                         kv_layout_list *asked, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < b->cells; i++) {
    rc = kv_db_layouts_of(db, v[i]->key, &asked[i], e);
    if (!rc && b->cell[i].runs) rc = kv_cell_lay_out(&b->cell[i], &asked[i], e);
  }
  return rc;
}

static kv_rc ask_tokens(kv_db *db, const kv_batch *b, kv_survive **out,
                        kv_err *e) {
  bool *wants = kv_zalloc((size_t)b->cells + 1, sizeof *wants);
  kv_rc rc = wants ? KV_OK : kv_no_memory(e, "cells", (size_t)b->cells);
  for (int i = 0; !rc && i < b->cells; i++)
    rc = kv_db_has_survivals(db, &b->cell[i].result, &wants[i], e);
  if (!rc) rc = kv_survive_open(b, wants, out, e);
  free(wants);
  return rc;
}

static kv_rc ask_caches(kv_db *db, kv_verify_row *const *v, const kv_batch *b,
                        kv_cache_list *asked, kv_device_caches **out,
                        kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < b->cells; i++)
    rc = kv_db_device_caches_of(db, v[i]->key, &asked[i], e);
  return rc ? rc : kv_device_caches_open(b, asked, true, out, e);
}

kv_rc kv_verify_ask(kv_db *db, kv_verify_row *const *v, kv_batch *b,
                    kv_verify_asked *x, kv_err *e) {
  size_t n = (size_t)b->cells + 1;
  *x = (kv_verify_asked){.cells = b->cells};
  x->layout = kv_zalloc(n, sizeof *x->layout);
  x->cache = kv_zalloc(n, sizeof *x->cache);
  if (!x->layout || !x->cache)
    return kv_no_memory(e, "cells", n * (sizeof *x->layout + sizeof *x->cache));
  kv_rc rc = ask_layouts(db, v, b, x->layout, e);
  if (!rc) rc = ask_tokens(db, b, &x->tokens, e);
  if (!rc) rc = ask_caches(db, v, b, x->cache, &x->caches, e);
  if (!rc)
    x->watch =
        kv_device_caches_watch(x->caches, kv_survive_watch(x->tokens, NULL));
  return rc;
}

kv_rc kv_verify_take(const kv_verify_asked *x, kv_err *e) {
  if (x->tokens) kv_survive_take(x->tokens);
  return kv_device_caches_take(x->caches, e);
}

void kv_verify_asked_close(kv_verify_asked *x) {
  for (int i = 0; x->layout && i < x->cells; i++)
    kv_layout_list_free(&x->layout[i]);
  kv_survive_close(x->tokens);
  kv_device_caches_close(x->caches);
  free(x->layout);
  free(x->cache);
  *x = (kv_verify_asked){0};
}
