/* SPDX-License-Identifier: Apache-2.0
 *
 * Every method of the list: its worked cases and its own laws. On another
 * backend than the reference, those that have a twin.
 */
#include "tests/support/rig.h"

#include <stdio.h>

#define KV_METHOD_REF_ONLY(name) KV_METHOD(name)

#define KV_METHOD(name) int kv_test_##name(void);
#include "ref/methods/list.h"
#undef KV_METHOD

static int (*const test[])(void) = {
#define KV_METHOD(name) kv_test_##name,
#include "ref/methods/list.h"
#undef KV_METHOD
    NULL};

int main(void) {
  int failed = 0;
  for (int i = 0; test[i]; i++) {
    const kv_method *m = kv_method_at(i);
    if (kv_backend_has(rig_backend(), m))
      failed += test[i]() != 0;
    else
      printf("[  SKIPPED ] %s is ref only\n", m->name);
  }
  if (failed) fprintf(stderr, "check_methods: %d methods failed\n", failed);
  return failed ? 1 : 0;
}
