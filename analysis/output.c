/* SPDX-License-Identifier: Apache-2.0
 *
 * Where kvreport writes: the standard output, or a file that is whole or not
 * there. No output is what is read (by device and inode, so links and other
 * spellings do not matter), and none replaces a database or a trace.
 */
#include "analysis/say.h"
#include "analysis/verbs.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool kv_output_is_stdout(const char *path) {
  return !path || !strcmp(path, "-");
}

/* --- may it be written? ------------------------------------------------------
 */

static bool same(const struct stat *a, const struct stat *b) {
  return S_ISREG(a->st_mode) && a->st_dev == b->st_dev &&
         a->st_ino == b->st_ino;
}

/* The metadata of a safetensors file says that it is a trace. */
static bool is_trace(FILE *f) {
  enum { MOST = 100000000 };
  uint64_t n = 0;
  char *text = NULL;
  rewind(f);
  if (fread(&n, 8, 1, f) == 1 && n <= MOST) text = malloc((size_t)n + 1);
  bool all = text && fread(text, 1, (size_t)n, f) == n;
  json_t *head = all ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
  const char *is = json_string_value(
      json_object_get(json_object_get(head, "__metadata__"), "format"));
  bool trace = is && !strcmp(is, "kvtrace");
  json_decref(head);
  free(text);
  return trace;
}

static int spares(const char *path) {
  static const char head[] = "SQLite format 3"; /* and its zero */
  char text[sizeof head] = "";
  const char *is = NULL;
  FILE *f = fopen(path, "rb");
  if (!f) return KV_EXIT_OK;
  bool all = fread(text, 1, sizeof text, f) == sizeof text;
  if (all && !memcmp(text, head, sizeof text))
    is = "an SQLite database";
  else if (is_trace(f))
    is = "a trace";
  fclose(f);
  if (!is) return KV_EXIT_OK;
  return kv_say(KV_EXIT_USAGE,
                "%s is %s, which is not written over; name another file, or "
                "remove it first",
                path, is);
}

int kv_output_may(const kv_args *a, int first, const char *path) {
  bool standard = kv_output_is_stdout(path);
  struct stat out, in;
  if (standard ? fstat(STDOUT_FILENO, &out) : stat(path, &out))
    return KV_EXIT_OK;
  for (int i = first; i < a->n_files; i++)
    if (!stat(a->file[i], &in) && same(&in, &out))
      return kv_say(KV_EXIT_USAGE,
                    "%s would write over %s, which is read; name another file",
                    standard ? "standard output" : path, a->file[i]);
  return standard || !S_ISREG(out.st_mode) ? KV_EXIT_OK : spares(path);
}

/* --- writing -----------------------------------------------------------------
 */

/* Is it where the standard output goes already (/dev/stdout)? */
static bool goes_there(const struct stat *s) {
  struct stat out;
  return !fstat(STDOUT_FILENO, &out) && same(s, &out);
}

/* The file that a path leads to, through links, and where it is written until
 * it is whole: beside it. False for what is written to as it is and never
 * removed: a device, a pipe, the standard output by another name, and a link
 * to what is not there yet. */
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
    kv_say(KV_EXIT_RESOURCE, "cannot write %s: %s", path, strerror(errno));
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
  return kv_say(KV_EXIT_RESOURCE, "cannot write all of %s: %s",
                whole ? path : "stdout", strerror(errno));
}
