/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a cell's method reads (ref/lane/asset.h): found, read and put
 * into the parameters before the method is opened. Whoever made the trace says
 * what reads them (kv_trace.reads).
 */
#include "sim/engine/cell.h"

#include "sim/spec/code.h"
#include <string.h>
#include <unistd.h>

/* KV_REFUSED unless the trace has somebody who reads files. */
static kv_rc expect_reader(const kv_cell *c, int i, kv_err *e) {
  const kv_trace_reads *reads = c->trace->reads;
  if (reads && reads->asset_open && reads->asset_beside) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s reads a file, and nothing reads files for trace %s: set "
                 "its reads, or give the cell the file as it was read",
                 kv_spec_reader(&c->spec, i)->name, c->trace->name);
}

/* Looks for the i-th file at its default place, beside the trace. */
static kv_rc look_beside(const kv_cell *c, int i, kv_file *f, kv_err *e) {
  const kv_param *p = kv_method_file(c->spec.method, i);
  const char *name = kv_spec_reader(&c->spec, i)->name;
  char show[KV_TEXT_MAX];
  if (!p->fallback)
    return kv_fail(e, KV_USAGE, "%s reads a file: write %s:%s=NAME.safetensors",
                   name, name, p->name);
  kv_rc rc =
      c->trace->reads->asset_beside(c->trace, name, sizeof f->path, f->path, e);
  if (rc) {
    *f->path = 0;
    return rc;
  }
  f->beside = true;
  if (access(f->path, F_OK) == 0) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "no file of %s for this model: there is no %s, none in the "
                 "folders of KVREPLAY_ASSETS, and %s:%s= names none",
                 name, kv_plain(f->path, 300, show), name, p->name);
}

static kv_rc read_one(kv_cell *c, int i, kv_err *e) {
  const kv_param *p = kv_method_file(c->spec.method, i);
  kv_file *f = kv_spec_file(&c->spec, i);
  kv_rc rc = KV_OK;
  f->asset = NULL;
  if (kv_file_optional(p) && strcmp(f->path, KV_FILE_OPTIONAL) == 0)
    *f->path = 0;
  if (kv_file_is_none(p, f)) return KV_OK;
  rc = expect_reader(c, i, e);
  if (rc) return rc;
  if (!*f->path || f->beside) rc = look_beside(c, i, f, e);
  if (!rc)
    rc = c->trace->reads->asset_open(f->path, p->reads, c->trace,
                                     c->shape.prompt_len, &c->file[i], e);
  f->asset = c->file[i];
  return rc;
}

/* The i-th file is `file`, which somebody else has read. */
static kv_rc share(kv_cell *c, int i, kv_asset *file) {
  c->file[i] = kv_asset_share(file);
  kv_spec_file(&c->spec, i)->asset = file;
  return KV_OK;
}

kv_rc kv_cell_lend(kv_cell *c, kv_asset *const *files, kv_err *e) {
  const kv_asset_kind *kind[KV_SPEC_FILES];
  const kv_param *p;
  kv_rc rc = KV_OK;
  int n = 0;
  for (; !rc && (p = kv_method_file(c->spec.method, n)); n++) {
    kind[n] = p->reads;
    rc = files && files[n] ? share(c, n, files[n]) : read_one(c, n, e);
  }
  if (!rc) rc = kv_assets_join(n, kind, c->file, &c->asset, e);
  c->plan.asset = c->asset;
  return rc;
}

void kv_cell_code(const kv_cell *c, char out[65]) {
  kv_digest file[KV_SPEC_FILES];
  int n = 0;
  for (int i = 0; i < KV_SPEC_FILES; i++)
    if (c->file[i]) file[n++] = c->file[i]->digest;
  kv_code(c->spec.method, n, file, out);
}
