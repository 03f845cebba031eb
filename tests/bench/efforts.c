/* SPDX-License-Identifier: Apache-2.0
 *
 * What sim/sweep/effort.h counts, for efforts.py, which measures and fits the
 * prices. One line a count: of a trace, of a cell for itself, and of what
 * it shares with others that want it.
 *
 * usage: efforts METHODS BUDGETS TRACE...
 * prints what,trace,spec,NAME,... with the names of the kinds
 */
#include "sim/sweep/batch.h"
#include "sim/sweep/effort.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print(const char *what, const char *trace, const char *spec,
                  const kv_effort *x) {
  printf("%s,%s,\"%s\"", what, trace, spec);
  for (int i = 0; i < KV_EFFORTS; i++) printf(",%" PRId64, x->n[i]);
  putchar('\n');
}

/* Budgets in bytes are not searched for here: the fit is of replays alone. */
static kv_rc print_cell(const kv_trace *t, const kv_spec *spec,
                        const kv_budget *b, kv_err *e) {
  kv_asked_cell asked = {.spec = spec, .budget = b, .entries = -1};
  kv_cell c = {0};
  kv_effort x;
  kv_rc rc = KV_OK;
  if (b) rc = kv_budget_entries(b, t->shape.prompt_len, &asked.entries, e);
  if (!rc) rc = kv_cell_open(t, 0, kv_kernels_best(), &asked, &c, e);
  if (!rc && c.runs) {
    kv_effort_cell(&c, &x);
    print("own", t->path, c.result.spec, &x);
    kv_effort_shared(&c, &x);
    print("shared", t->path, c.result.spec, &x);
  }
  kv_cell_close(&c);
  return rc;
}

static kv_rc print_trace(const char *path, const kv_specs *specs,
                         const kv_budgets *budgets, kv_err *e) {
  kv_trace *t = NULL;
  kv_effort x;
  kv_rc rc = kv_trace_open(path, &t, e);
  if (rc) return rc;
  kv_effort_trace(t, 0, &x);
  print("trace", path, "", &x);
  for (int i = 0; !rc && i < specs->n * budgets->n; i++) {
    const kv_spec *spec = &specs->spec[i / budgets->n];
    const kv_budget *b;
    if (kv_batch_asks(spec, budgets, i % budgets->n, &b))
      rc = print_cell(t, spec, b, e);
  }
  kv_trace_close(t);
  return rc;
}

int main(int argc, char **argv) {
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_err e = {0};
  if (argc < 4) {
    fputs("usage: efforts METHODS BUDGETS TRACE...\n", stderr);
    return KV_USAGE;
  }
  kv_rc rc = kv_specs_add(kv_method_at, argv[1], &specs, &e);
  if (!rc) rc = kv_budgets_add(argv[2], &budgets, &e);
  fputs("what,trace,spec", stdout);
  for (int i = 0; i < KV_EFFORTS; i++) printf(",%s", kv_effort_names[i]);
  putchar('\n');
  for (int i = 3; !rc && i < argc; i++)
    rc = print_trace(argv[i], &specs, &budgets, &e);
  if (rc) fprintf(stderr, "efforts: %s\n", e.text);
  kv_specs_free(&specs);
  kv_budgets_free(&budgets);
  return (int)rc;
}
