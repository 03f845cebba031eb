/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of tests: tests/laws/cells.h.
 */
#include "tests/laws/cells.h"

#include "tests/made/made_up.h"
#include "tests/support/test.h"

#include <string.h>

const kv_replay_how cells_plain = {.backend = &kv_backend_ref, .threads = 1};

void cells_ask(kv_registry *list, const kv_trace *t, int prompt,
               const char *text, int entries, kv_cell *cell) {
  kv_spec spec = {0};
  kv_asked_cell asked = {.spec = &spec, .entries = entries};
  kv_err e = {0};
  if (kv_spec_parse(list, text, &spec, &e) ||
      kv_cell_open(t, prompt, kv_kernels_best(), &asked, cell, &e))
    fail_msg("%s: %s", text, e.text);
  kv_spec_free(&spec);
}

void cells_must(kv_registry *list, const kv_trace *t, int prompt,
                const char *text, int entries, kv_cell *cell) {
  cells_ask(list, t, prompt, text, entries, cell);
  if (!cell->runs) fail_msg("%s: %s", text, cell->result.reason);
}

void cells_open(const kv_trace *t, const char *text, kv_cell *cell) {
  cells_ask(made_up_at, t, 0, text, -1, cell);
}

void cells_replay(const kv_trace *t, int n, kv_cell *const *cell,
                  kv_replay_how how) {
  kv_err e = {0};
  bool stopped;
  how.kernels = kv_kernels_best();
  if (kv_replay(t, cell, n, &how, &stopped, &e)) fail_msg("%s", e.text);
}

bool cells_lay_out(kv_registry *list, const kv_trace *t, const char *text,
                   int entries, const kv_layout_list *asked, kv_replay_how how,
                   kv_cell *cell) {
  kv_err e = {0};
  cells_ask(list, t, 0, text, entries, cell);
  if (kv_cell_lay_out(cell, asked, &e)) fail_msg("%s: %s", text, e.text);
  if (!cell->runs) return false;
  how.backend = &kv_backend_ref;
  if (!how.threads) how.threads = 1;
  cells_replay(t, 1, &cell, how);
  if (!kv_result_ran(&cell->result))
    fail_msg("%s: %s", text, cell->result.reason);
  return true;
}

void cells_same_layout(const kv_layout_result *a, const kv_layout_result *b) {
  kv_layout_result x = *a, y = *b;
  assert_memory_equal(x.step, y.step, (size_t)x.n_steps * sizeof *x.step);
  x.step = y.step = NULL;
  memcpy(y.name, x.name, sizeof y.name);
  assert_memory_equal(&x, &y, sizeof x);
}

void cells_same_layouts(const kv_cell *a, const kv_cell *b) {
  assert_true(a->result.n_layouts > 0);
  for (int i = 0; i < a->result.n_layouts; i++)
    cells_same_layout(&a->result.layout[i], &b->result.layout[i]);
}

void cells_run(const kv_trace *t, const char *text, kv_replay_how how,
               kv_cell *cell) {
  cells_must(made_up_at, t, 0, text, -1, cell);
  cells_replay(t, 1, &cell, how);
}
