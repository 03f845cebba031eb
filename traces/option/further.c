/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and runs programs PROGRAM-NAME: traces/option/further.h.
 */
#include "config.h"

#include "ref/ground/text.h"
#include "traces/option/further.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char own[] = ""; /* our own folder, which precedes PATH */

/* Writes the next folder: the program's own if *at is `own`, then those of
 * PATH, a list FOLDER:FOLDER through which *at moves. False at its end. An
 * empty folder is the current one, as for execvp. */
static bool next(const char **at, char folder[PATH_MAX]) {
  if (!*at) return false;
  if (*at == own) {
    ssize_t end = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    while (end > 0 && folder[end - 1] != '/') end--;
    folder[end > 1 ? end - 1 : 0] = 0;
    *at = getenv("PATH");
    return true;
  }
  int n = (int)strcspn(*at, ":");
  snprintf(folder, PATH_MAX, "%.*s", n ? n : 1, n ? *at : ".");
  *at = (*at)[n] ? *at + n + 1 : NULL;
  return true;
}

static bool is_program(const char *path) {
  struct stat is;
  return !stat(path, &is) && S_ISREG(is.st_mode) && !access(path, X_OK);
}

kv_rc kv_further_run(const char *file, char *called, char **argv, kv_err *e) {
  const char *at = own;
  char folder[PATH_MAX], path[2 * PATH_MAX], *name = argv[0];
  if (strchr(file, '/')) return KV_OK;
  while (next(&at, folder)) {
    int n = snprintf(path, sizeof path, "%s/%s", folder, file);
    if (n >= (int)sizeof path || !is_program(path)) continue;
    argv[0] = called ? called : path;
    execv(path, argv);
    argv[0] = name;
    return kv_cannot(e, KV_RESOURCE, "start", path);
  }
  return KV_OK;
}
