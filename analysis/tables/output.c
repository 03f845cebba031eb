/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/tables/output.h"
#include "analysis/database/say.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool kv_output_is_stdout(const char *path) {
  return !path || !strcmp(path, "-");
}

/* Is it the file to which standard output already goes (/dev/stdout)? */
static bool goes_there(const struct stat *s) {
  struct stat out;
  return !fstat(STDOUT_FILENO, &out) && S_ISREG(out.st_mode) &&
         out.st_dev == s->st_dev && out.st_ino == s->st_ino;
}

/* The file to which a path leads, through links, and the temporary file next to
 * it. False if the path is written directly and never removed: a device, a
 * pipe, standard output by another name, and a link to a missing file. */
static bool beside(const char *path, char file[PATH_MAX], char part[PATH_MAX]) {
  struct stat st;
  bool there = !stat(path, &st);
  if (there && (!S_ISREG(st.st_mode) || goes_there(&st))) return false;
  if (!there && !lstat(path, &st)) return false;
  if (!there || !realpath(path, file)) snprintf(file, PATH_MAX, "%s", path);
  snprintf(part, PATH_MAX, "%.*s.%ld.part", PATH_MAX - 32, file,
           (long)getpid());
  return true;
}

FILE *kv_output_open(const char *path) {
  char file[PATH_MAX], part[PATH_MAX];
  FILE *f;
  if (kv_output_is_stdout(path)) return stdout;
  bool whole = beside(path, file, part);
  f = whole ? fopen(part, "w") : fopen(path, "a");
  if (!f)
    kv_tell(KV_EXIT_RESOURCE, "cannot write %s: %s", path, strerror(errno));
  return f;
}

static int close_file(FILE *f, const char *path) {
  char file[PATH_MAX], part[PATH_MAX];
  bool whole = beside(path, file, part) && !access(part, F_OK);
  int bad = ferror(f) || fflush(f) || (whole && fsync(fileno(f)));
  bad |= fclose(f);
  if (!whole) return bad;
  if (!bad && !kv_said()) bad = rename(part, file);
  if (bad || kv_said()) unlink(part);
  return bad;
}

int kv_output_close(FILE *f, const char *path) {
  bool whole = !kv_output_is_stdout(path);
  int bad = whole ? close_file(f, path) : fflush(f) || ferror(f);
  if (!bad) return kv_said();
  return kv_tell(KV_EXIT_RESOURCE, "cannot write all of %s: %s",
                 whole ? path : "stdout", strerror(errno));
}
