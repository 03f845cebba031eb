/* SPDX-License-Identifier: Apache-2.0
 *
 * The method of tests/made/counts.h.
 */
#include "tests/made/counts.h"

#include "ref/lane/lane.h"
#include "ref/parts/parts.h"

static const kv_tensor_ask tensors[] = {
    {.name = "layers.*.keep",
     .type = KV_T_I32,
     .rank = 1,
     .dim = {KV_DIM_KV_HEADS}},
    {.name = "share",
     .type = KV_T_F32,
     .rank = 2,
     .dim = {KV_DIM_LAYERS, KV_DIM_KV_HEADS}},
    {.name = "layers.*.more", .type = KV_T_I64, .rank = 1, .optional = true},
    {.name = NULL}};
static const kv_asset_kind kind = {"kvcounts", tensors};

static const kv_param table[] = {KV_FILE_PARAM("file", counts_params, file,
                                               KV_FILE_BESIDE, &kind,
                                               "entries to keep, by KV head"),
                                 {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *params, kv_needs *needs,
                  kv_err *e) {
  const counts_params *o = params;
  const kv_asset *a = o->file.asset;
  for (int l = 0; l < a->layers; l++) {
    const kv_tensor *t = kv_asset_layer(a, a->layer[l]);
    const int32_t *keep = t[COUNTS_KEEP].data;
    for (int h = 0; h < shape->n_kv_heads; h++)
      if (keep[h] < 1)
        return kv_fail(e, KV_REFUSED, "%s: KV head %d of layer %d keeps %d",
                       a->path, h, a->layer[l], keep[h]);
  }
  needs->every = 1;
  return KV_OK;
}

/* A half and more of `share` is one entry more, and so is each of `more`. */
static void compress_lane(const kv_at *at, kv_lane *lane) {
  const kv_tensor *t = at->asset;
  const int32_t *keep = t[COUNTS_KEEP].data;
  const float *share = t[COUNTS_SHARE].data;
  int place = at->layer * at->shape->n_kv_heads + lane->kv_head;
  int n = keep[lane->kv_head] + (share[place] >= 0.5f);
  if (t[COUNTS_MORE].data) n += (int)t[COUNTS_MORE].count;
  kv_keep_ends(lane, 0, n);
}

const kv_method counts_method = {.abi = KV_METHOD_ABI,
                                 .revision = 1,
                                 .name = "counts",
                                 .title = "newest entries by KV head",
                                 .paper = "none: a test",
                                 .params = table,
                                 .params_size = sizeof(counts_params),
                                 .lossless = "",
                                 .open = open,
                                 .compress_lane = compress_lane};
