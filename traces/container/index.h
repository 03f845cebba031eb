/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a sharded set: which file holds which tensor. It is believed
 * only as far as the shards agree. File names must be plain names in the
 * index's own folder; other keys beside weight_map are left alone.
 */
#ifndef KV_TRACES_INDEX_H
#define KV_TRACES_INDEX_H

#include <jansson.h>
#include <stddef.h>

#include "ref/ground/err.h"

typedef struct kv_st_place {
  const char *name;
  int file;
} kv_st_place;

typedef struct kv_st_index {
  const char *path;   /* borrowed from the caller */
  json_t *root;       /* owns names and file names */
  kv_st_place *entry; /* [n] */
  size_t n;
  const char **file; /* [n_files], bytewise order, each once */
  int n_files;
} kv_st_index;

kv_rc kv_st_index_read(const char *path, kv_st_index *out, kv_err *e);
void kv_st_index_free(kv_st_index *x);

/* Path of a shard, beside the index; to be freed; NULL without memory. */
char *kv_st_index_path(const kv_st_index *x, int file);

#endif
