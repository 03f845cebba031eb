/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reader of safetensors: of one file, or of a set of files ("shards")
 * through its NAME.safetensors.index.json. A set behaves like one file: every
 * tensor is in exactly one shard, the one that the index names, and the
 * metadata of all shards form one table without contradictions.
 *
 * Files are mapped, not copied; open reads only their headers. A file that is
 * shortened later reads as zeros instead of killing the program (guard.h of
 * this folder): call kv_st_damaged before you trust a result. Everything
 * returned belongs to the kv_st and ends with it. One thread opens and closes;
 * any number may read in between.
 */
#ifndef KV_TRACES_SAFETENSORS_H
#define KV_TRACES_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "ref/ground/err.h"
#include "ref/ground/sha256.h"
#include "traces/container/header.h"

typedef struct kv_st kv_st;

/* Opens the file at path, or the set if path ends in .index.json. KV_INPUT: it
 * cannot be opened or is malformed; the sentence names file, tensor and reason.
 * KV_RESOURCE: memory, address space or descriptors. *out is NULL then. */
kv_rc kv_st_open(const char *path, kv_st **out, kv_err *e);
void kv_st_close(kv_st *s); /* accepts NULL */

/* The number of tensors; the i-th, 0 <= i < count, in bytewise order of names;
 * the tensor of that name, or NULL. */
size_t kv_st_count(const kv_st *s);
const kv_st_tensor *kv_st_at(const kv_st *s, size_t i);
const kv_st_tensor *kv_st_find(const kv_st *s, const char *name);

/* The number of metadata keys; the i-th in bytewise order; the value of a key,
 * or NULL. */
size_t kv_st_meta_count(const kv_st *s);
const char *kv_st_meta_key(const kv_st *s, size_t i);
const char *kv_st_meta(const kv_st *s, const char *key);

/* The number of files, 1 without an index; the fstat of the i-th, in bytewise
 * order of paths, at opening. */
int kv_st_files(const kv_st *s);
const struct stat *kv_st_file_stat(const kv_st *s, int i);

/* SHA-256 of the bytes of the i-th file as it is mapped, whatever its path
 * names now. Reads all of it; call kv_st_damaged afterwards. */
kv_digest kv_st_digest(const kv_st *s, int i);

/* KV_INPUT once a file was shortened or rewritten after it was opened (size or
 * time of change): data read since may be wrong. Costs an fstat a file. */
kv_rc kv_st_damaged(const kv_st *s, kv_err *e);

/* Lets the system reclaim the memory of t's pages; they are read from the disk
 * again when used. */
void kv_st_release(const kv_st *s, const kv_st_tensor *t);

#endif
