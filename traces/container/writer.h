/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer of safetensors that streams. All tensors and metadata are declared
 * first; then their bytes are appended in the order of declaration, in pieces
 * of any size; so what is written need never be in memory at once.
 *
 *   kv_st_writer_open, declare..., meta..., append..., finish
 *
 * Everything goes to temporary files in the folder of the result, is flushed
 * to the disk and renamed by finish: the result is there whole or not at all,
 * and a reader that has an old file mapped keeps it. Tensors are spread over
 * shards of at most shard_bytes of data (a larger tensor has its own); more
 * than one shard gets NAME-00001-of-0000N.safetensors and an index. Data
 * begins on a multiple of 64 bytes. The metadata stands in every shard.
 *
 * More than the disk has free is KV_RESOURCE before a file is begun, and so is
 * a failed write; after any failure only close is legal, and
 * it leaves nothing behind. One thread at a time.
 */
#ifndef KV_TRACES_WRITER_H
#define KV_TRACES_WRITER_H

#include <stdint.h>

#include "ref/ground/err.h"
#include "traces/container/dtype.h"

typedef struct kv_st_writer kv_st_writer;

#define KV_ST_SHARD ((uint64_t)4 << 30) /* bytes of data in a shard */

/* path: NAME.safetensors. shard_bytes 0 = KV_ST_SHARD. Touches no file. */
kv_rc kv_st_writer_open(const char *path, uint64_t shard_bytes,
                        kv_st_writer **out, kv_err *e);

/* KV_USAGE for a name declared twice, a shape that overflows or text that is
 * not UTF-8. */
kv_rc kv_st_writer_declare(kv_st_writer *w, const char *name, kv_st_dtype dtype,
                           int rank, const uint64_t *shape, kv_err *e);
kv_rc kv_st_writer_meta(kv_st_writer *w, const char *key, const char *value,
                        kv_err *e);

/* More bytes than declared: an assertion. */
kv_rc kv_st_writer_append(kv_st_writer *w, uint64_t bytes, const void *data,
                          kv_err *e);

/* Fewer bytes than declared: an assertion. *result, if asked for, is the
 * path to open: the file, or the index of the set; it lives as long as w. */
kv_rc kv_st_writer_finish(kv_st_writer *w, const char **result, kv_err *e);

/* Frees; without a successful finish also removes what was begun. */
void kv_st_writer_close(kv_st_writer *w);

#endif
