/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a list of specifications and as a list of budgets: never a
 * crash, a leak or a second line in a message; what is taken writes out to a
 * text that is taken again and means the same bits.
 */
#include "sim/ask/budget.h"
#include "sim/ask/spec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int law) {
  if (!law) abort();
}

static void one(const kv_spec *a) {
  kv_spec b;
  char *text = kv_spec_text(a), *json = kv_spec_json(a);
  must(text && json);
  must(kv_spec_parse(kv_method_at, text, &b, NULL) == KV_OK);
  must(kv_spec_same(a, &b));
  kv_spec_free(&b);
  free(text);
  free(json);
}

/* KV_INPUT: a path that is no plugin. */
static void sentence(kv_rc rc, const kv_err *e) {
  if (rc == KV_OK) return;
  must((rc == KV_USAGE || rc == KV_INPUT) && e->text[0] &&
       !strchr(e->text, '\n'));
}

static void budgets(const char *text) {
  kv_budgets b = {0};
  kv_err e = {0};
  kv_rc rc = kv_budgets_add(text, &b, &e);
  sentence(rc, &e);
  must((rc == KV_OK) == (b.n > 0));
  for (int i = 0; i < b.n; i++) {
    int n = 1;
    if (kv_budget_in_bytes(&b.budget[i]) || b.budget[i].layers) continue;
    if (kv_budget_entries(&b.budget[i], 1 << 20, &n, NULL) == KV_OK) {
      must(n >= 1);
    }
  }
  kv_budgets_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kv_specs s = {0};
  kv_err e = {0};
  char *text = malloc(size + 1);
  must(text != NULL);
  if (size) memcpy(text, data, size);
  text[size] = 0;
  kv_rc rc = kv_specs_add(kv_method_at, text, &s, &e);
  sentence(rc, &e);
  must((rc == KV_OK) == (s.n > 0));
  for (int i = 0; i < s.n; i++) one(&s.spec[i]);
  kv_specs_free(&s);
  budgets(text);
  free(text);
  return 0;
}
