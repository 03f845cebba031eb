/* SPDX-License-Identifier: Apache-2.0
 *
 * The bundled traces: tests/support/bundled.h.
 */
#include "tests/support/bundled.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *bundled_path(const char *name) {
  const char *top = getenv("top_srcdir");
  size_t room = strlen(top ? top : ".") + strlen(name) + 16;
  char *path = malloc(room);
  assert_non_null(path);
  snprintf(path, room, "%s/traces/tiny/%s", top ? top : ".", name);
  return path;
}

kv_trace *bundled_open(const char *name) {
  char *path = bundled_path(name);
  kv_trace *t = NULL;
  kv_err e = {0};
  kv_rc rc = kv_trace_open(path, &t, &e);
  free(path);
  if (rc) fail_msg("%s", e.text);
  return t;
}

int bundled_setup(void **state) {
  *state = bundled_open(BUNDLED_SMALL);
  return 0;
}

int bundled_teardown(void **state) {
  kv_trace_close(*state);
  return 0;
}
