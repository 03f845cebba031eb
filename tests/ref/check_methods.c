/* SPDX-License-Identifier: Apache-2.0
 *
 * Every method of methods.mk: its worked cases and its own laws. On another
 * backend than the reference, those that have a twin. Here is the one law that
 * is the same for all: a budget that nobody named is asked for by its name.
 */
#include "tests/support/rig.h"

#include <stdio.h>

#define KV_METHOD_REF_ONLY(name) KV_METHOD(name)
#define KV_METHOD_OF_FILE(name) KV_METHOD(name)

#define KV_METHOD(name)                                                        \
  extern const kv_method kv_method_##name;                                     \
  int kv_test_##name(void);
#include "ref/methods/list.h"
#undef KV_METHOD

static const struct {
  const kv_method *method;
  int (*run)(void);
} test[] = {
#define KV_METHOD(name) {&kv_method_##name, kv_test_##name},
#include "ref/methods/list.h"
#undef KV_METHOD
    {NULL, NULL}};

/* A row that -b sets and that has no default. */
static const kv_param *budget_of(const kv_method *m) {
  for (const kv_param *p = m->params; p->name; p++)
    if (p->knob == KV_KNOB_ENTRIES) return p;
  return NULL;
}

TEST(budgets) {
  rig_case c = RIG_SHAPE(2, 1, 4, 4, 8, 6);
  int asked = 0;
  for (int i = 0; kv_method_at(i); i++) {
    const kv_method *m = kv_method_at(i);
    const kv_param *p = budget_of(m);
    if (!p || rig_wants_file(m)) continue;
    rig_law_refused(&c, m->name, KV_USAGE, m->name, p->name);
    asked++;
  }
  assert_true(asked > 15);
}

int main(void) {
  const struct CMUnitTest all[] = {cmocka_unit_test(budgets)};
  int failed = cmocka_run_group_tests_name("all methods", all, NULL, NULL) != 0;
  for (int i = 0; test[i].method; i++) {
    const kv_method *m = test[i].method;
    if (kv_backend_has(rig_backend(), m))
      failed += test[i].run() != 0;
    else
      printf("[  SKIPPED ] %s is ref only\n", m->name);
  }
  if (failed) fprintf(stderr, "check_methods: %d groups failed\n", failed);
  return failed ? 1 : 0;
}
