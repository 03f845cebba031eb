/* SPDX-License-Identifier: Apache-2.0
 *
 * Ownership of assets in memory (ref/lane/asset.h), and a method's files joined
 * into one list of tensors.
 */
#ifndef KV_REF_ASSETS_H
#define KV_REF_ASSETS_H

#ifdef __cplusplus
#  include <atomic>
using std::atomic_int;
#else
#  include <stdatomic.h>
#endif

#include "ref/ground/err.h"
#include "ref/lane/asset.h"

/* An asset together with what its owners must free; allocated zeroed. `asset`
 * must be the first member: kv_asset_close converts a pointer to it back. */
typedef struct kv_asset_own {
  kv_asset asset;
  char *block; /* for free(): the elements of all tensors, one allocation */
  kv_tensor_ask *ask; /* for free(): the table of a joined asset */
  atomic_int more;    /* owners besides the first (kv_asset_share) */
} kv_asset_own;

/* Joins a method's n files: in every layer the tensors of file[0], in the order
 * of kind[0], then those of file[1], and so on. Tensors of a NULL file, which
 * was not read, are zeroed. *out points into the files, which must outlive it;
 * it has no path, metadata or digest. It is NULL if every file is NULL, or
 * after a failure (KV_RESOURCE). */
kv_rc kv_assets_join(int n, const kv_asset_kind *const *kind,
                     kv_asset *const *file, kv_asset **out, kv_err *e);
/* Adds an owner, from any thread, and returns a. Each owner must close it. */
kv_asset *kv_asset_share(kv_asset *a);
/* Called by each owner; the last call frees it. Accepts NULL. */
void kv_asset_close(kv_asset *a);

#endif
