/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of traces/container/newfile.h.
 */
#define _GNU_SOURCE 1
#include "traces/container/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ref/ground/text.h"
#include "traces/container/apart.h"
#include "traces/container/leftover.h"

static kv_rc complain(const kv_newfile *f, const char *what, kv_err *e) {
  char a[KV_SHOW];
  int why = errno;
  return kv_fail(e, KV_RESOURCE, "cannot %s %s: %s; nothing was written", what,
                 kv_show(f->path, a), strerror(why));
}

/* Where the file's name begins within path. */
static size_t folder(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash + 1 - path) : 0;
}

/* The folder's name as open takes it; NULL: no memory. */
static char *folder_name(const char *path) {
  size_t at = folder(path);
  return at ? kv_text_copy(at, path) : kv_text_copy(1, ".");
}

/* A file system of no blocks (perhaps on a network) does not say. */
kv_rc kv_newfile_room(const char *path, uint64_t bytes, kv_err *e) {
  struct statvfs disk;
  char a[KV_SHOW], *name = folder_name(path);
  bool says = name && statvfs(name, &disk) == 0 && disk.f_blocks > 0;
  free(name);
  if (!says) return KV_OK;
  double unit = (double)disk.f_frsize, there = unit * (double)disk.f_bavail;
  if ((double)bytes <= there) return KV_OK;
  return kv_fail(e, KV_RESOURCE,
                 "%s: needs %.4g GB but its disk has %.4g GB free; free space "
                 "or use another disk; nothing was written",
                 kv_show(path, a), 1e-9 * (double)bytes, 1e-9 * there);
}

/* FOLDER/.NAME.PID-i: hidden, and different for every writer. */
static char *temporary_name(const char *path, int i) {
  size_t at = folder(path), room = strlen(path) + 40;
  char *name = malloc(room);
  if (name) {
    snprintf(name, room, "%.*s.%.200s.%ld-%d", (int)at, path, path + at,
             (long)getpid(), i);
  }
  return name;
}

static kv_rc create(kv_newfile *f, kv_err *e) {
  for (int i = 0; i < 1000; i++) {
    f->temporary = temporary_name(f->path, i);
    if (!f->temporary) return kv_no_memory(e, "a file name", 0);
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd >= 0) {
      kv_leftover_add(f->temporary);
      return KV_OK;
    }
    free(f->temporary);
    f->temporary = NULL;
    if (errno != EEXIST) break;
  }
  return complain(f, "create", e);
}

kv_rc kv_newfile_may(const char *path, kv_err *e) {
  struct stat there;
  char a[KV_SHOW];
  if (strcmp(path, "-") == 0)
    return kv_fail(e, KV_USAGE,
                   "-: the result is a file and cannot go to standard output; "
                   "name a file (./- for a file called -)");
  if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
    return kv_fail(e, KV_USAGE, "%s: is not a regular file; name another",
                   kv_show(path, a));
  if (kv_is_sqlite(path))
    return kv_fail(e, KV_USAGE,
                   "%s: is an SQLite database, which is not overwritten; name "
                   "another file",
                   kv_show(path, a));
  return KV_OK;
}

/* Follows a link: its target is replaced, not the link (which may be
 * /dev/stdout). NULL: no memory. */
static char *resolve(const char *path) {
  struct stat s;
  bool link = lstat(path, &s) == 0 && S_ISLNK(s.st_mode);
  char *target = link ? realpath(path, NULL) : NULL;
  return target ? target : kv_text_copy(strlen(path), path);
}

kv_rc kv_newfile_open(const char *path, kv_newfile *out, kv_err *e) {
  *out = (kv_newfile){.fd = -1};
  kv_rc rc = kv_newfile_may(path, e);
  if (rc) return rc;
  out->path = resolve(path);
  if (!out->path) return kv_no_memory(e, "a file name", 0);
  return create(out, e);
}

kv_rc kv_newfile_write(kv_newfile *f, uint64_t bytes, const void *data,
                       kv_err *e) {
  const char *from = data;
  while (bytes > 0) {
    size_t n = bytes < (uint64_t)1 << 30 ? (size_t)bytes : (size_t)1 << 30;
    ssize_t wrote = write(f->fd, from, n);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return complain(f, "write", e);
    from += wrote;
    bytes -= (uint64_t)wrote;
  }
  return KV_OK;
}

kv_rc kv_newfile_flush(kv_newfile *f, kv_err *e) {
  int bad = fsync(f->fd) != 0;
  int kept = errno;
  bad |= close(f->fd) != 0 && !bad ? (kept = errno, 1) : 0;
  f->fd = -1;
  errno = kept;
  return bad ? complain(f, "flush", e) : KV_OK;
}

/* Flushes the folder, so that the rename itself reaches the disk. Some file
 * systems cannot flush a folder and need not. */
static void flush_folder(const char *path) {
  char *name = folder_name(path);
  int fd = name ? open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(name);
}

kv_rc kv_newfile_publish(int n, kv_newfile *f, kv_err *e) {
  for (int i = 0; i < n; i++) {
    if (rename(f[i].temporary, f[i].path) != 0) {
      kv_rc rc = complain(&f[i], "rename", e);
      while (i-- > 0) unlink(f[i].path);
      return rc;
    }
    kv_leftover_drop(f[i].temporary);
    free(f[i].temporary);
    f[i].temporary = NULL;
  }
  if (n > 0) flush_folder(f[0].path);
  return KV_OK;
}

void kv_newfile_discard(kv_newfile *f) {
  if (!f || !f->path) return;
  if (f->fd >= 0) close(f->fd);
  if (f->temporary) {
    unlink(f->temporary);
    kv_leftover_drop(f->temporary);
  }
  free(f->temporary);
  free(f->path);
  *f = (kv_newfile){.fd = -1};
}
