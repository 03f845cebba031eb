/* SPDX-License-Identifier: Apache-2.0
 *
 * Assets in memory (ref/lane/asset.h): who owns one, and the several files of a
 * method as one list of tensors.
 */
#ifndef KV_REF_ASSETS_H
#define KV_REF_ASSETS_H

#include <stdatomic.h>

#include "ref/ground/err.h"
#include "ref/lane/asset.h"

/* An asset as whoever made it allocated it, zeroed. kv_asset_close gets a
 * pointer to `asset` and converts it back, so that it must be the first
 * member. */
typedef struct kv_asset_own {
  kv_asset asset;
  char *block; /* for free(): the elements of all its tensors, in one piece */
  kv_tensor_ask *ask; /* for free(): the table of one that was joined */
  atomic_int more;    /* owners beside the first (kv_asset_share) */
} kv_asset_own;

/* Joins the n files of a method: the tensors that kind[0] asks of file[0], then
 * those of kind[1], and so on, in every layer; those of a file that is NULL,
 * not read, are zeroed. *out points into the files, which must outlive it;
 * path, metadata and digest it has none. NULL where every file is, or after a
 * failure (KV_RESOURCE). */
kv_rc kv_assets_join(int n, const kv_asset_kind *const *kind,
                     kv_asset *const *file, kv_asset **out, kv_err *e);
/* One more owner of an asset, from any thread; each owner closes it. Returns a.
 * Cannot fail. */
kv_asset *kv_asset_share(kv_asset *a);
/* By an owner: the last one's call frees it; accepts NULL. */
void kv_asset_close(kv_asset *a);

#endif
