/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes files that appear whole or not at all: under a temporary name in the
 * folder of the result, flushed to the disk, renamed, and the folder flushed
 * too. If path is a link, its target is replaced; an SQLite database is never
 * replaced. One thread at a time for each file.
 *
 *   open, write..., flush, publish, discard; after any failure only discard
 */
#ifndef KV_TRACES_NEWFILE_H
#define KV_TRACES_NEWFILE_H

#include <stdint.h>

#include "ref/ground/err.h"

/* A zeroed one was never opened; kv_newfile_discard accepts it. */
typedef struct kv_newfile {
  char *path;      /* of the result, owned */
  char *temporary; /* path while it is written, owned; NULL: nothing to remove
                    */
  int fd;          /* descriptor; -1 after the flush */
} kv_newfile;

/* May a file be written at path? KV_USAGE if it is "-", exists and is no
 * regular file, or is an SQLite database. Creates nothing. */
kv_rc kv_newfile_may(const char *path, kv_err *e);

/* Does the disk of path have `bytes` bytes free? If not, KV_RESOURCE. KV_OK
 * also if the file system does not say. Creates nothing. */
kv_rc kv_newfile_room(const char *path, uint64_t bytes, kv_err *e);

/* Creates the temporary file. KV_USAGE as kv_newfile_may; KV_RESOURCE: memory,
 * or it cannot be created. Discard *out also after a failure. */
kv_rc kv_newfile_open(const char *path, kv_newfile *out, kv_err *e);

/* Appends `bytes` bytes at data. KV_RESOURCE: the disk is full or fails. */
kv_rc kv_newfile_write(kv_newfile *f, uint64_t bytes, const void *data,
                       kv_err *e);

/* Flushes everything to the disk and closes the descriptor. Call it once, after
 * the last write. KV_RESOURCE: the disk fails. */
kv_rc kv_newfile_flush(kv_newfile *f, kv_err *e);

/* Renames the flushed files f[n], all in one folder, to their final names, in
 * order. KV_RESOURCE: a rename failed; the files renamed before are then
 * deleted, and what they replaced is lost. */
kv_rc kv_newfile_publish(int n, kv_newfile *f, kv_err *e);

/* Deletes the temporary file unless it was published, and frees. f may be NULL,
 * zeroed, failed or discarded already. */
void kv_newfile_discard(kv_newfile *f);

#endif
