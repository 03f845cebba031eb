/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners of assets, and the files of a method as one list: ref/lane/assets.h.
 */
#include "ref/lane/assets.h"

#include <stdlib.h>
#include <string.h>

kv_asset *kv_asset_share(kv_asset *a) {
  atomic_fetch_add(&((kv_asset_own *)a)->more, 1);
  return a;
}

void kv_asset_close(kv_asset *a) {
  if (!a || atomic_fetch_sub(&((kv_asset_own *)a)->more, 1) > 0) return;
  for (int i = 0; i < a->texts; i++) {
    free((void *)a->text[i].key);
    free((void *)a->text[i].value);
  }
  free((void *)a->text);
  free((void *)a->tensor);
  free((void *)a->layer);
  free((void *)a->path);
  free(((kv_asset_own *)a)->block);
  free(((kv_asset_own *)a)->ask);
  free(a);
}

/* Memory for the tensors of n kinds in the layers of `of`. */
static kv_rc take(int n, const kv_asset_kind *const *kind, const kv_asset *of,
                  kv_asset_own *own, kv_err *e) {
  kv_asset *a = &own->asset;
  for (int i = 0; i < n; i++) a->asked += kv_tensors_asked(kind[i]->tensors);
  size_t layers = (size_t)of->layers, asked = (size_t)a->asked;
  int *layer = kv_zalloc(layers, sizeof *layer);
  own->ask = kv_zalloc(asked + 1, sizeof *own->ask);
  a->ask = own->ask;
  a->layer = layer;
  a->tensor = kv_zalloc(layers * asked + 1, sizeof *a->tensor);
  if (!layer || !own->ask || !a->tensor)
    return kv_no_memory(e, "an asset", layers * asked * sizeof *a->tensor);
  memcpy(layer, of->layer, layers * sizeof *layer);
  a->layers = of->layers;
  return KV_OK;
}

/* Appends one file's tensors, or none, to the first `at`. */
static void put(const kv_tensor_ask *ask, const kv_asset *file, int at,
                kv_asset_own *own) {
  int n = kv_tensors_asked(ask);
  kv_tensor *all = (kv_tensor *)(uintptr_t)own->asset.tensor + at;
  if (n == 0) return;
  memcpy(own->ask + at, ask, (size_t)n * sizeof *ask);
  if (!file) return;
  own->asset.bytes += file->bytes;
  for (int l = 0; l < file->layers; l++)
    memcpy(all + l * own->asset.asked, file->tensor + l * file->asked,
           (size_t)n * sizeof *all);
}

kv_rc kv_assets_join(int n, const kv_asset_kind *const *kind,
                     kv_asset *const *file, kv_asset **out, kv_err *e) {
  const kv_asset *first = NULL;
  *out = NULL;
  for (int i = 0; i < n && !first; i++) first = file[i];
  if (!first) return KV_OK;
  kv_asset_own *own = kv_zalloc(1, sizeof *own);
  if (!own) return kv_no_memory(e, "an asset", sizeof *own);
  kv_rc rc = take(n, kind, first, own, e);
  int at = 0;
  for (int i = 0; !rc && i < n; i++) {
    put(kind[i]->tensors, file[i], at, own);
    at += kv_tensors_asked(kind[i]->tensors);
  }
  if (rc)
    kv_asset_close(&own->asset);
  else
    *out = &own->asset;
  return rc;
}
