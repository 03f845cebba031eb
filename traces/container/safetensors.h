/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reader of safetensors: one file, or a sharded set through its
 * NAME.safetensors.index.json. Files are mapped, never copied, and guarded
 * against shrinking (traces/container/guard.h); tensors and metadata are found
 * by name. Nothing is read but headers. A set behaves like one file: every
 * tensor once, in the shard the index names; metadata of all shards together,
 * which must not contradict each other.
 *
 * Ownership: everything returned belongs to the kv_st and dies with it.
 * Threads may read at once; opening and closing are for one.
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

/* KV_INPUT with a sentence that names file, tensor and reason; KV_RESOURCE
 * when memory or address space runs out. *out is NULL on failure. */
kv_rc kv_st_open(const char *path, kv_st **out, kv_err *e);
void kv_st_close(kv_st *s);

/* Tensors in bytewise name order. */
size_t kv_st_count(const kv_st *s);
const kv_st_tensor *kv_st_at(const kv_st *s, size_t i);
const kv_st_tensor *kv_st_find(const kv_st *s, const char *name);

/* Metadata in bytewise key order; kv_st_meta gives NULL for an absent key. */
size_t kv_st_meta_count(const kv_st *s);
const char *kv_st_meta_key(const kv_st *s, size_t i);
const char *kv_st_meta(const kv_st *s, const char *key);

/* Files of the set in name order: path and what stat said at opening. */
int kv_st_files(const kv_st *s);
const char *kv_st_file_path(const kv_st *s, int file);
const struct stat *kv_st_file_stat(const kv_st *s, int file);

/* KV_INPUT once a file has shrunk, become unreadable or been rewritten since
 * it was opened: data read meanwhile may be wrong. Cheap (a stat a file). */
/* SHA-256 of a file's bytes as they are mapped, whatever lies at its path now.
 * Call kv_st_damaged afterwards. */
kv_digest kv_st_digest(const kv_st *s, int file);
kv_rc kv_st_damaged(const kv_st *s, kv_err *e);

/* Gives the pages of a tensor back; they are read again when used. */
void kv_st_release(const kv_st *s, const kv_st_tensor *t);

#endif
