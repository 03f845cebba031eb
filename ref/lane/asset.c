/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-up in an asset: ref/lane/asset.h.
 */
#include "ref/lane/asset.h"

#include <string.h>

size_t kv_tensor_size(kv_tensor_type type) { return type == KV_T_I64 ? 8 : 4; }

bool kv_tensor_layered(const kv_tensor_ask *ask) {
  return strchr(ask->name, '*') != NULL;
}

int kv_tensors_asked(const kv_tensor_ask *ask) {
  int n = 0;
  while (ask && ask[n].name) n++;
  return n;
}

const kv_tensor *kv_asset_layer(const kv_asset *a, int layer) {
  for (int i = 0; a && i < a->layers; i++)
    if (a->layer[i] == layer) return a->tensor + (size_t)i * (size_t)a->asked;
  return NULL;
}

const char *kv_asset_meta(const kv_asset *a, const char *key) {
  for (int i = 0; i < a->texts; i++)
    if (strcmp(a->text[i].key, key) == 0) return a->text[i].value;
  return NULL;
}
