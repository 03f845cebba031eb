/* SPDX-License-Identifier: Apache-2.0
 *
 * Every method of the list: its worked cases and its own laws.
 */
#include "ref/method.h"
#include <stdio.h>

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
  for (int i = 0; test[i]; i++) failed += test[i]() != 0;
  if (failed) fprintf(stderr, "check_methods: %d methods failed\n", failed);
  return failed ? 1 : 0;
}
