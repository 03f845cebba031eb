/* SPDX-License-Identifier: Apache-2.0
 *
 * A row's cell: what it is asked for again, and how the two compare:
 * sim/commands/verify.h.
 */
#include "sim/commands/verify.h"

#include <stdlib.h>
#include <string.h>

/* --- what a row has beside its measures ----------------------------------- */

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

/* --- comparing ------------------------------------------------------------ */

/* Takes the row's parameters if its specification equals the cell's: older rows
 * have the whole path of a method's file in their parameters. */
static kv_rc take_params(const kv_result *r, kv_cell *c, kv_err *e) {
  if (!kv_spec_file(&c->spec, 0) || strcmp(c->result.spec, r->spec) != 0)
    return KV_OK;
  char *own = strdup(r->params);
  if (!own) return kv_no_memory(e, "a row", strlen(r->params));
  free(c->result.params);
  c->result.params = own;
  return KV_OK;
}

kv_rc kv_verify_set_up(const kv_verify_row *v, kv_cell *c, kv_err *e) {
  const kv_result *r = &v->row;
  char key[65];
  kv_rc rc = take_params(r, c, e);
  if (rc) return rc;
  kv_cell_answer(c, r);
  kv_db_key(&c->result, key);
  if (c->runs && !strcmp(key, v->key)) return KV_OK;
  return kv_fail(
      e, KV_DIFFERENT, "%s on %s cannot be set up again as it was: %s", r->spec,
      r->trace,
      c->runs ? "its parameters resolve differently" : c->result.reason);
}

/* Finds the first digest of a layer that differs from the stored one. */
static void name_digest(const kv_layer_result *a, const kv_layer_result *b,
                        bool scores, kv_difference *d) {
  static const char *const name[] = {"journal", "state", "output", "scores"};
  const kv_digest *x[] = {&a->journal, &a->state, &a->output, &a->scores};
  const kv_digest *y[] = {&b->journal, &b->state, &b->output, &b->scores};
  for (int i = 0; !d->found && i < 3 + scores; i++) {
    if (!memcmp(x[i], y[i], sizeof *x[i])) continue;
    d->found = true;
    d->what = name[i];
    d->layer = a->layer;
    memcpy(d->a, "0x", 2);
    memcpy(d->b, "0x", 2);
    kv_digest_hex(x[i], d->a + 2);
    kv_digest_hex(y[i], d->b + 2);
  }
}

kv_rc kv_verify_name(kv_db *db, const kv_verify_row *v, const kv_result *now,
                     kv_difference *d, kv_err *e) {
  kv_result before = v->row;
  bool found = false;
  before.backend = NULL;
  d->what = "values"; /* or a digest, see below */
  kv_rc rc = kv_db_find(db, &before, &found, e);
  bool scores = before.has_scores && now->has_scores;
  for (int i = 0; found && i < before.n_layers && i < now->n_layers; i++)
    name_digest(&before.layer[i], &now->layer[i], scores, d);
  kv_result_forget(&before);
  return rc;
}
