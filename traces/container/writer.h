/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes safetensors as a stream. First declare all tensors and metadata; then
 * append their bytes in the order of declaration, in pieces of any size. So the
 * data need never be in memory at once.
 *
 *   kv_st_writer_open, declare and meta..., append..., finish, close
 *
 * The result appears whole or not at all: temporary files in its folder are
 * flushed to the disk, and finish renames them. Tensors are put into shards of
 * at most shard_bytes of data; a larger tensor gets a shard of its own. With
 * more than one shard the result is NAME-00001-of-0000N.safetensors and so on,
 * and NAME.safetensors.index.json. Every shard contains all metadata; data
 * begins at a multiple of 64 bytes. After any failure only close may be called;
 * it leaves nothing behind. One thread at a time.
 */
#ifndef KV_TRACES_WRITER_H
#define KV_TRACES_WRITER_H

#include <stdint.h>

#include "ref/ground/err.h"
#include "traces/container/dtype.h"

typedef struct kv_st_writer kv_st_writer;

#define KV_ST_SHARD ((uint64_t)4 << 30) /* bytes of data in a shard */

/* path: NAME.safetensors, copied. shard_bytes: 0 means KV_ST_SHARD. Creates no
 * file. KV_RESOURCE: memory; *out is NULL then. */
kv_rc kv_st_writer_open(const char *path, uint64_t shard_bytes,
                        kv_st_writer **out, kv_err *e);

/* Declares the next tensor, row-major shape[rank]. Everything is copied.
 * KV_USAGE: the name was declared already or is not UTF-8, or the shape
 * overflows or ends within a byte; KV_RESOURCE: memory. Asserts that nothing
 * was appended yet. */
kv_rc kv_st_writer_declare(kv_st_writer *w, const char *name, kv_st_dtype dtype,
                           int rank, const uint64_t *shape, kv_err *e);

/* Sets a metadata value; a second one replaces the first. KV_USAGE: not UTF-8;
 * KV_RESOURCE: memory. Asserts that nothing was appended yet. */
kv_rc kv_st_writer_meta(kv_st_writer *w, const char *key, const char *value,
                        kv_err *e);

/* Appends `bytes` bytes, which may end within a tensor or span several. The
 * first call fixes the shards and creates the first file. KV_RESOURCE: memory,
 * too little space on the disk for all tensors (checked before a file is
 * created), or a failed write. KV_USAGE: the path must not be written
 * (newfile.h of this folder). More bytes than declared assert. */
kv_rc kv_st_writer_append(kv_st_writer *w, uint64_t bytes, const void *data,
                          kv_err *e);

/* Flushes and renames. *result (result may be NULL): the path to open, of the
 * file or of the set's index; valid as long as w. Errors as for append. Fewer
 * bytes than declared assert. */
kv_rc kv_st_writer_finish(kv_st_writer *w, const char **result, kv_err *e);

/* Frees w, and deletes what was begun unless finish succeeded. Accepts NULL. */
void kv_st_writer_close(kv_st_writer *w);

#endif
