/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows can be run again: sim/cli/verify.h.
 */
#include "sim/cli/verify.h"

#include "ref/ground/arith.h"
#include "ref/ground/filehash.h"
#include "sim/ask/door.h"
#include "sim/ask/spec.h"
#include "traces/trace/trace.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* *same: the file is the trace. A bad file is not; no memory is an error. */
static kv_rc is_it(const char *path, const kv_digest *identity, bool *same,
                   kv_err *e) {
  kv_trace *t = NULL;
  kv_digest found;
  kv_err why = {0};
  kv_rc rc = kv_trace_open(path, &t, &why);
  if (!rc) rc = kv_trace_identity(t, &found, &why);
  *same = !rc && !memcmp(&found, identity, sizeof found);
  kv_trace_close(t);
  return rc == KV_RESOURCE ? kv_fail(e, rc, "%s", why.text) : KV_OK;
}

kv_rc kv_verify_trace(kv_db *db, const kv_list *folders, const kv_verify_row *v,
                      size_t size, char *path, kv_err *e) {
  const kv_result *r = &v->row;
  bool same = false;
  for (int i = 0;; i++) {
    kv_rc rc = kv_db_path(db, &r->identity, i, size, path, e);
    if (rc) return rc;
    if (!*path) break;
    rc = is_it(path, &r->identity, &same, e);
    if (rc || same) return rc;
  }
  for (int i = 0; i < folders->n; i++) {
    snprintf(path, size, "%s/%s.safetensors", folders->item[i], r->trace);
    kv_rc rc = is_it(path, &r->identity, &same, e);
    if (rc || same) return rc;
  }
  *path = 0;
  return KV_OK;
}

void kv_verify_no_trace(kv_verify_rows *rows, const kv_result *of) {
  for (int i = 0; i < rows->n; i++) {
    kv_verify_row *v = &rows->row[i];
    if (v->can != KV_VERIFY_RUNS ||
        memcmp(&v->row.identity, &of->identity, sizeof of->identity))
      continue;
    v->can = KV_VERIFY_NO_TRACE;
    snprintf(v->why, sizeof v->why,
             "%.200s has moved; name its folder with --traces", v->row.trace);
  }
}

/* --- what a row has besides its measures -------------------------------- */

static kv_rc lay_out(const char *name, void *asked, kv_err *e) {
  return kv_layouts_parse(name, asked, e);
}

static kv_rc add_cache(const char *name, void *asked, kv_err *e) {
  return kv_cache_parse(name, asked, e);
}

static kv_rc ask_layouts(kv_db *db, kv_verify_row *const *v, kv_batch *b,
                         kv_layout_list *asked, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < b->cells; i++) {
    rc = kv_db_names_of(db, KV_DB_LAYOUTS, v[i]->key, lay_out, &asked[i], e);
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
    rc = kv_db_names_of(db, KV_DB_CACHES, v[i]->key, add_cache, &asked[i], e);
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

/* --- comparing ----------------------------------------------------------- */

/* Takes the row's parameters if its specification equals the cell's, because
 * older rows store the whole path of a method's file in their parameters. */
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
  return kv_fail(e, KV_DIFFERENT, "%s on %s cannot be set up as it was: %s",
                 r->spec, r->trace,
                 c->runs ? "its parameters resolve differently"
                         : c->result.reason);
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

/* --- why not ------------------------------------------------------------ */

static kv_verifiable no(kv_verify_row *v, kv_verifiable can, const char *format,
                        ...) __attribute__((format(printf, 3, 4)));
static kv_verifiable no(kv_verify_row *v, kv_verifiable can, const char *format,
                        ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(v->why, sizeof v->why, format, args);
  va_end(args);
  return can;
}

/* Compares the row's code with the code of this program and of the n files that
 * the method reads, the last one at `path`. If it differs, says how. */
static kv_verifiable compare_code(kv_verify_row *v, const kv_method *m, int n,
                                  const kv_digest *file, const char *path) {
  const kv_result *r = &v->row;
  const char *plugin = kv_door_code(m);
  char code[65];
  kv_code(m, n, file, code);
  if (!r->code && !*code) {
    if (m->revision == r->revision) return KV_VERIFY_RUNS;
    return no(v, KV_VERIFY_OTHER_CODE, "of revision %d; this program has %d",
              r->revision, m->revision);
  }
  if (r->code && !strcmp(r->code, code)) return KV_VERIFY_RUNS;
  if (path)
    return no(v, KV_VERIFY_OTHER_CODE, "%.60s%s, or %s%.120s, has changed",
              r->method, plugin ? ", a plugin" : "",
              n > 1 ? "one of its files, the last being " : "", path);
  return no(v, KV_VERIFY_OTHER_CODE, "%.60s is a different %s in this program",
            r->method, plugin ? "plugin" : "built-in method");
}

/* Is the file, which nobody named, to be found for the trace? */
static bool lies_beside(const kv_param *p, const kv_file *f) {
  return f->beside || (!*f->path && !kv_file_is_none(p, f));
}

/* The same with the files that the specification names. */
static kv_verifiable compare_files(kv_verify_row *v, const kv_method *m,
                                   const kv_spec *spec) {
  kv_digest bytes[KV_SPEC_FILES];
  const kv_param *p;
  const char *path = NULL;
  int n = 0;
  for (int i = 0; (p = kv_method_file(m, i)); i++) {
    const kv_file *f = kv_spec_file(spec, i);
    if (kv_file_is_none(p, f)) continue;
    if (lies_beside(p, f)) return KV_VERIFY_RUNS;
    path = f->path;
    if (kv_file_digest(path, &bytes[n++], NULL))
      return no(v, KV_VERIFY_NO_FILE,
                "there is no file %.120s, which %.60s reads; put it back, or "
                "verify where that path leads to it",
                path, v->row.method);
  }
  return compare_code(v, m, n, bytes, path);
}

/* For a method that this program has: is its code the same? Reads the files
 * that the specification names. If one is to be found for the trace, all are
 * compared once the trace is found (kv_verify_beside). */
static kv_verifiable same_code(kv_verify_row *v, const kv_method *m) {
  kv_spec spec = {0};
  kv_err why = {0};
  if (!kv_method_file(m, 0)) return compare_code(v, m, 0, NULL, NULL);
  if (kv_spec_parse(kv_method_at, v->row.spec, &spec, &why))
    return no(v, KV_VERIFY_OTHER_CODE, "%.250s", why.text);
  kv_verifiable can = compare_files(v, m, &spec);
  kv_spec_free(&spec);
  return can;
}

bool kv_verify_beside(kv_verify_row *v, const kv_cell *c) {
  const kv_method *m = c->spec.method;
  kv_digest bytes[KV_SPEC_FILES];
  const kv_param *p;
  const char *path = NULL;
  bool lacks = false;
  int n = 0;
  for (int i = 0; (p = kv_method_file(m, i)); i++) {
    const kv_file *f = kv_spec_file(&c->spec, i);
    if (c->file[i]) bytes[n++] = c->file[i]->digest;
    if (!lies_beside(p, f)) continue;
    path = f->path;
    lacks |= !c->file[i];
  }
  if (!path) return true;
  v->can = lacks ? no(v, KV_VERIFY_NO_FILE, "%.300s", c->result.reason)
                 : compare_code(v, m, n, bytes, path);
  return v->can == KV_VERIFY_RUNS;
}

/* A plugin is searched for in the folders of KVREPLAY_PLUGINS and must be the
 * same file; paths in a database are ignored. */
static kv_verifiable judge(kv_verify_row *v) {
  const kv_result *r = &v->row;
  const kv_method *m;
  kv_spec plain;
  if (r->arithmetic != KV_ARITHMETIC)
    return no(v, KV_VERIFY_OTHER_CODE, "of arithmetic %d; this program has %d",
              r->arithmetic, KV_ARITHMETIC);
  if (kv_door_is_path(r->method) || kv_door_names_path(r->method) ||
      kv_door_is_path(r->spec))
    return no(v, KV_VERIFY_OTHER_CODE,
              "names a file as its method, which a database must not do");
  if (!kv_spec_parse(kv_method_at, r->method, &plain, NULL)) {
    m = plain.method;
    kv_spec_free(&plain);
    return same_code(v, m);
  }
  if (r->code)
    return no(v, KV_VERIFY_NO_PLUGIN,
              "there is no plugin %.60s; set KVREPLAY_PLUGINS to the folder of "
              "its .so",
              r->method);
  return no(v, KV_VERIFY_OTHER_CODE, "this program has no method %.60s",
            r->method);
}

/* --- the list ----------------------------------------------------------- */

static kv_verify_row *grow(kv_verify_rows *rows, kv_err *e) {
  if (rows->n == rows->room) {
    int room = rows->room ? 2 * rows->room : 64;
    size_t bytes = (size_t)room * sizeof *rows->row;
    kv_verify_row *more = realloc(rows->row, bytes);
    if (!more) {
      kv_no_memory(e, "rows", bytes);
      return NULL;
    }
    rows->row = more;
    rows->room = room;
  }
  kv_verify_row *v = &rows->row[rows->n];
  *v = (kv_verify_row){.can = KV_VERIFY_RUNS};
  return v;
}

static int by_trace(const void *a, const void *b) {
  const kv_verify_row *x = a, *y = b;
  const kv_result *p = &x->row, *q = &y->row;
  int order = memcmp(&p->identity, &q->identity, sizeof p->identity);
  if (!order) order = p->prompt_len - q->prompt_len;
  if (!order) order = (int)p->observe - (int)q->observe;
  return order ? order : strcmp(x->key, y->key);
}

kv_rc kv_verify_rows_read(kv_db *db, kv_verify_rows *rows, kv_err *e) {
  char key[65] = "";
  bool more = true;
  kv_rc rc = KV_OK;
  *rows = (kv_verify_rows){0};
  while (!rc) {
    kv_verify_row *v = grow(rows, e);
    if (!v) return KV_RESOURCE;
    rc = kv_db_next(db, key, &v->row, &more, e);
    if (rc || !more) break;
    kv_result_forget(&v->row); /* it is in the database */
    if (!kv_result_ran(&v->row)) {
      kv_result_free(&v->row);
      continue;
    }
    memcpy(v->key, key, sizeof v->key);
    v->can = judge(v);
    rows->n++;
  }
  if (rows->n) qsort(rows->row, (size_t)rows->n, sizeof *rows->row, by_trace);
  return rc;
}

void kv_verify_rows_free(kv_verify_rows *rows) {
  for (int i = 0; i < rows->n; i++) kv_result_free(&rows->row[i].row);
  free(rows->row);
  *rows = (kv_verify_rows){0};
}

bool kv_verify_first_of(const kv_verify_rows *rows, int i, int *cells) {
  const kv_verify_row *v = &rows->row[i];
  *cells = 0;
  for (int j = 0; j < rows->n; j++) {
    const kv_verify_row *x = &rows->row[j];
    if (x->can != v->can || strcmp(x->why, v->why)) continue;
    if (j < i) return false;
    (*cells)++;
  }
  return true;
}
