/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin with a file (tests/check_reads.sh): each lane keeps as many of its
 * newest entries as its KV head's number in `keep` says. write=yes: it also
 * writes into what it was lent, which lawcheck must name.
 */
#include "ref/parts/parts.h"

static const kv_tensor_ask tensors[] = {
    {.name = "keep", .type = KV_T_I32, .rank = 1, .dim = {KV_DIM_ANY}},
    {.name = NULL}};
static const kv_asset_kind kind = {"kvreads", tensors};

typedef struct params {
  kv_file file;
  int write;
} params;

static const kv_param table[] = {
    KV_FILE_PARAM("file", params, file, KV_FILE_BESIDE, &kind,
                  "entries to keep, by KV head"),
    KV_CHOICE_PARAM("write", params, write, "no", "no|yes",
                    "whether it breaks its contract"),
    {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  const kv_tensor *keep = o->file.asset->tensor;
  needs->every = 1;
  needs->lengths = true;
  if (keep->count >= shape->n_kv_heads) return KV_OK;
  return kv_fail(e, KV_REFUSED, "%s: keep has %d numbers for %d KV heads",
                 o->file.asset->path, (int)keep->count, shape->n_kv_heads);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int32_t *keep = (int32_t *)at->asset->data;
  kv_keep_ends(lane, 0, keep[lane->kv_head]);
  if (o->write) keep[lane->kv_head] ^= 1;
}

const kv_method kv_plugin = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "reads",
    .title = "newest entries, as many as a file says",
    .paper = "none: a test",
    .params = table,
    .params_size = sizeof(params),
    .open = open,
    .compress_lane = compress_lane,
};
