/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole or not at all: written under a temporary name in
 * the folder of the result, flushed to the disk, renamed, and the folder
 * flushed too. A link is followed, and an SQLite database never replaced.
 * A zeroed kv_newfile is one that was never opened.
 */
#ifndef KV_TRACES_NEWFILE_H
#define KV_TRACES_NEWFILE_H

#include <stdint.h>

#include "ref/ground/err.h"

typedef struct kv_newfile {
  char *path, *temporary; /* temporary NULL: nothing to remove */
  int fd;                 /* -1 once flushed */
} kv_newfile;

/* KV_USAGE where path is -, or there and no regular file or a database. */
kv_rc kv_newfile_may(const char *path, kv_err *e);
/* KV_RESOURCE where the disk of path has fewer bytes free; KV_OK also where
 * it does not say how many. */
kv_rc kv_newfile_room(const char *path, uint64_t bytes, kv_err *e);

/* As kv_newfile_may; else KV_RESOURCE. */
kv_rc kv_newfile_open(const char *path, kv_newfile *out, kv_err *e);
kv_rc kv_newfile_write(kv_newfile *f, uint64_t bytes, const void *data,
                       kv_err *e);

/* To the disk; nothing may be written after it. */
kv_rc kv_newfile_flush(kv_newfile *f, kv_err *e);

/* Renames flushed files in order; when one fails, those renamed before it
 * are removed again (what they replaced is lost). */
kv_rc kv_newfile_publish(int n, kv_newfile *f, kv_err *e);

/* Removes what was not published, frees. Legal on any kv_newfile. */
void kv_newfile_discard(kv_newfile *f);

#endif
