/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of tests/support/scratch.h.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"

static char folder[] = "/tmp/kv_check_XXXXXX";

int scratch_make(void **state) {
  (void)state;
  char cache[100];
  if (!mkdtemp(folder)) return 1;
  snprintf(cache, sizeof cache, "%s/cache", folder);
  return setenv("XDG_CACHE_HOME", cache, 1);
}

int scratch_remove(void **state) {
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

const char *scratch_folder(void) { return folder; }

const char *scratch_path(const char *name) {
  static char path[4][512];
  static int turn;
  char *p = path[turn++ % 4];
  snprintf(p, sizeof path[0], "%s/%s", folder, name);
  return p;
}

int scratch_entries(void) {
  int n = 0;
  DIR *d = opendir(folder);
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

void scratch_write(const char *path, size_t n, const void *data) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}
