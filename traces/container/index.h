/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads NAME.safetensors.index.json, the index of a set of safetensors files
 * ("shards"), which says which file has which tensor. Programs open a set
 * through safetensors.h of this folder, which also compares the index with the
 * shards. File names must be in the index's own folder; keys of the JSON other
 * than weight_map are ignored. Cost: linear in the index, of at most 100 MB.
 */
#ifndef KV_TRACES_INDEX_H
#define KV_TRACES_INDEX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "ref/ground/err.h"

typedef struct kv_st_place {
  const char *name; /* of a tensor */
  int file;         /* its shard: an index into kv_st_index.file */
} kv_st_place;

typedef struct kv_st_index {
  const char *path;   /* as given to kv_st_index_read; the caller's */
  json_t *root;       /* owns all names below */
  kv_st_place *entry; /* [n], in the order of the JSON */
  size_t n;           /* tensors */
  const char **file;  /* [n_files] names without folder, sorted bytewise */
  int n_files;        /* shards, 1 to 1000 */
} kv_st_index;

/* Does path have the name of an index? It then ends in .index.json. */
bool kv_st_is_index(const char *path);

/* Reads a file of JSON, of at most 100 MB; free *out, any JSON value, with
 * json_decref. what: the file's name in messages, as "index". KV_INPUT: it
 * cannot be read or is malformed. KV_RESOURCE: memory. *out is NULL then. */
kv_rc kv_st_json_file(const char *path, const char *what, json_t **out,
                      kv_err *e);

/* Reads the index at path, which must outlive *out. KV_INPUT: it cannot be
 * read, is malformed or names a file elsewhere; KV_RESOURCE: memory. *out then
 * owns nothing. */
kv_rc kv_st_index_read(const char *path, kv_st_index *out, kv_err *e);
/* Frees what was read; an empty index and NULL are accepted. */
void kv_st_index_free(kv_st_index *x);

/* Path of the shard file[i], in the index's folder, for free(); or NULL. */
char *kv_st_index_path(const kv_st_index *x, int i);

#endif
