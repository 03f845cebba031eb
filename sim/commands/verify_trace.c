/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a row's trace: sim/commands/verify.h.
 */
#include "sim/commands/verify.h"

#include <stdio.h>
#include <string.h>

/* *same: the file is the trace. A bad file counts as another one; lack of
 * memory is an error. */
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
             "%.200s is not where it was: name its folder with --traces",
             v->row.trace);
  }
}
