/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of decisions to be judged: traces/decisions/decisions.h.
 */
#include "traces/decisions/decisions.h"

#include <stdlib.h>

void kv_decisions_close(kv_decisions_file *f) {
  if (!f) return;
  kv_asset_close(f->asset);
  free(f);
}

kv_rc kv_decisions_open(const char *path, const kv_trace *t, int prompt_len,
                        kv_decisions_file **out, kv_err *e) {
  kv_decisions_file *f = kv_zalloc(1, sizeof *f);
  kv_shape shape = t->shape;
  if (!f) return kv_no_memory(e, "decisions", sizeof *f);
  shape.prompt_len = prompt_len;
  kv_rc rc =
      kv_asset_open(path, &kv_decisions_kind, t, prompt_len, &f->asset, e);
  if (!rc) rc = kv_decisions_read(f->asset, &shape, &f->form, e);
  if (!rc) rc = kv_decisions_fit(f->asset, &shape, false, &f->form, e);
  if (rc) {
    kv_decisions_close(f);
    return rc;
  }
  f->path = f->asset->path;
  f->name = kv_asset_meta(f->asset, "name");
  *out = f;
  return KV_OK;
}

kv_lists kv_decisions_stored(const kv_decisions_file *f, int layer) {
  return kv_lists_stored(&f->form, kv_asset_layer(f->asset, layer));
}

kv_lists kv_decisions_view(const kv_decisions_file *f, int layer) {
  return kv_lists_view(&f->form, kv_asset_layer(f->asset, layer));
}
