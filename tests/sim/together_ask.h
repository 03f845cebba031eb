/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests ask of requests that share a pool: four of them at most, their
 * numbers by value; what is refused for want of arguments fails the test.
 */
#ifndef KV_TESTS_SIM_TOGETHER_ASK_H
#define KV_TESTS_SIM_TOGETHER_ASK_H

#include "sim/replay/layout/layouts_part.h"
#include "sim/run/look/together.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

typedef struct answer {
  kv_together_result of[4];
} answer;

/* With numbers of each step, which the caller frees. */
static inline answer ask_how(kv_together how, int n,
                             const kv_layouts *const *request,
                             kv_pool_steps *steps) {
  kv_together_result *out[4];
  answer a;
  kv_err e = {0};
  memset(&a, 0xff, sizeof a);
  for (int i = 0; i < 4; i++) out[i] = &a.of[i];
  if (kv_together_run(&how, n, request, out, steps, &e)) fail_msg("%s", e.text);
  return a;
}

/* One request every so many steps, over so many pages; nobody waits. */
static inline answer ask(int64_t pages, int64_t page, int every, int threads,
                         int n, const kv_layouts *const *request) {
  const kv_together how = {.pool = pages * page,
                           .threads = threads,
                           .arrive = {.name = "every", .every = every}};
  kv_pool_steps steps = {0};
  answer a = ask_how(how, n, request, &steps);
  assert_int_equal(steps.n, a.of[0].pool.steps);
  free(steps.at);
  return a;
}

#endif
