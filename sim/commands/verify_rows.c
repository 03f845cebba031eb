/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows can be run again: sim/commands/verify.h.
 */
#include "sim/commands/verify.h"

#include "ref/ground/arith.h"
#include "sim/spec/code.h"
#include "sim/spec/door.h"
#include "sim/spec/spec.h"
#include "traces/container/filehash.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Compares the row's code with this program's and of the n files that the
 * method reads, the last one at `path`; if it differs, says how. */
static kv_verifiable compare_code(kv_verify_row *v, const kv_method *m, int n,
                                  const kv_digest *file, const char *path) {
  const kv_result *r = &v->row;
  const char *plugin = kv_door_code(m);
  char code[65];
  kv_code(m, n, file, code);
  if (!r->code && !*code) {
    if (m->revision == r->revision) return KV_VERIFY_RUNS;
    return no(v, KV_VERIFY_OTHER_CODE, "of revision %d, this program has %d",
              r->revision, m->revision);
  }
  if (r->code && !strcmp(r->code, code)) return KV_VERIFY_RUNS;
  if (path)
    return no(v, KV_VERIFY_OTHER_CODE, "%.60s%s, or %s%.120s, is another here",
              r->method, plugin ? ", a plugin" : "",
              n > 1 ? "one of its files, the last of which is " : "", path);
  return no(v, KV_VERIFY_OTHER_CODE, "%.60s is another %s here", r->method,
            plugin ? "plugin" : "method, a built-in one");
}

/* Does this file lie beside the trace, where nobody named it? */
static bool lies_beside(const kv_param *p, const kv_file *f) {
  return f->beside || (!*f->path && !kv_file_is_none(p, f));
}

/* The same of the files that the specification names. */
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
                "no file %.120s is here, which %.60s reads: put it back, or "
                "verify where that path leads to it",
                path, v->row.method);
  }
  return compare_code(v, m, n, bytes, path);
}

/* For a method that this program has: is its code the same? Files that the
 * specification names are read here; where one lies beside a trace, all are
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

/* A plugin is looked for in the folders of KVREPLAY_PLUGINS and must be the
 * same file; paths in a database are ignored. */
static kv_verifiable judge(kv_verify_row *v) {
  const kv_result *r = &v->row;
  const kv_method *m;
  kv_spec plain;
  if (r->arithmetic != KV_ARITHMETIC)
    return no(v, KV_VERIFY_OTHER_CODE, "of arithmetic %d, this program has %d",
              r->arithmetic, KV_ARITHMETIC);
  if (kv_door_is_path(r->method) || kv_door_names_path(r->method) ||
      kv_door_is_path(r->spec))
    return no(v, KV_VERIFY_OTHER_CODE,
              "names a file as its method, which a database may not");
  if (!kv_spec_parse(kv_method_at, r->method, &plain, NULL)) {
    m = plain.method;
    kv_spec_free(&plain);
    return same_code(v, m);
  }
  if (r->code)
    return no(v, KV_VERIFY_NO_PLUGIN,
              "no plugin %.60s is here: set KVREPLAY_PLUGINS to the folder "
              "of its .so",
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
