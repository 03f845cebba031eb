/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that a cell's method reads (ref/lane/asset.h): found, read and put
 * into the parameters before the method is opened.
 */
#include "sim/engine/cell.h"

#include "traces/decisions/asset.h"
#include <string.h>
#include <unistd.h>

/* Looks for the file at its default place, beside the trace. */
static kv_rc look_beside(const kv_cell *c, kv_file *f, kv_err *e) {
  const kv_method *m = kv_spec_reader(&c->spec);
  const kv_param *p = kv_method_file(m);
  const char *name = m->name;
  char show[KV_TEXT_MAX];
  if (!p->fallback)
    return kv_fail(e, KV_USAGE, "%s reads a file: write %s:%s=NAME.safetensors",
                   name, name, p->name);
  kv_rc rc = kv_asset_beside(c->trace, name, sizeof f->path, f->path, e);
  if (rc) {
    *f->path = 0;
    return rc;
  }
  f->beside = true;
  if (access(f->path, F_OK) == 0) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "no file of %s for this model: there is no %s, and %s:%s= "
                 "names none",
                 name, kv_plain(f->path, 300, show), name, p->name);
}

kv_rc kv_cell_lend(kv_cell *c, kv_err *e) {
  const kv_param *p = kv_method_file(c->spec.method);
  kv_file *f = kv_spec_file(&c->spec);
  kv_rc rc = KV_OK;
  if (!f) return KV_OK;
  f->asset = NULL;
  if (kv_file_is_none(c->spec.method, f)) return KV_OK;
  if (kv_file_optional(c->spec.method)) {
    if (strcmp(f->path, KV_FILE_OPTIONAL) == 0) *f->path = 0;
    if (!*f->path) return KV_OK;
  }
  if (!*f->path || f->beside) rc = look_beside(c, f, e);
  if (!rc)
    rc = kv_asset_open(f->path, p->reads, c->trace, c->shape.prompt_len,
                       &c->asset, e);
  c->plan.asset = f->asset = c->asset;
  return rc;
}
