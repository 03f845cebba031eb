/* SPDX-License-Identifier: Apache-2.0
 *
 * Every method of methods.mk: its worked cases and its own laws, which are in
 * tests/methods/NAME.txt; of some methods there are tests in C, too. On another
 * backend than the reference, of methods that have a twin. Here is the one law
 * that is the same for all: a budget that nobody named is asked for by its
 * name.
 */
#include "tests/support/rig.h"
#include "tests/support/rig_cases.h"

#include <stdio.h>

#define KV_METHOD_REF_ONLY(name) KV_METHOD(name)
#define KV_METHOD_OF_FILE(name) KV_METHOD(name)

#define KV_METHOD(name) extern const kv_method kv_method_##name;
#include "ref/methods/list.h"
#undef KV_METHOD

static const struct {
  const kv_method *method;
  const char *file;
} test[] = {
#define KV_METHOD(name) {&kv_method_##name, #name},
#include "ref/methods/list.h"
#undef KV_METHOD
    {NULL, NULL}};

/* What a file of cases cannot say: tests/methods/NAME.c. */
int kv_test_leankv(void), kv_test_omnikv(void), kv_test_parts(void);

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
      failed += rig_cases(test[i].file) != 0;
    else
      printf("[  SKIPPED ] %s is ref only\n", m->name);
  }
  failed += (kv_test_leankv() != 0) + (kv_test_omnikv() != 0) +
            (kv_test_parts() != 0);
  if (failed) fprintf(stderr, "check_methods: %d groups failed\n", failed);
  return failed ? 1 : 0;
}
