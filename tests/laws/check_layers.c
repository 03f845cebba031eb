/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of a budget a layer, for every method that takes one, on the
 * backend that KV_TEST_BACKEND names:
 *   - a layer of a list gives what it gives in a cell of its budget alone:
 *     digests, measures, entries;
 *   - a list of equal numbers gives what the number gives, bytes as well;
 *   - of a model of which some layers are recorded, the model counts.
 * And what cannot be is refused with one sentence.
 */
#include "sim/replay/engine/replay.h"
#include "tests/support/rig.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "traces/trace/synth.h"
#include "traces/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL = 5, RECORDED = 3, SAME = 24 };
static const int recorded[RECORDED] = {1, 3, 4};
static const int list[MODEL] = {40, 12, 24, 33, 16};

/* Beside the registry: other observation, other lanes, state between steps. */
static const char *const further[] = {"h2o:variant=prefill:recent=0:scale=seen",
                                      "h2o:variant=masked",
                                      "snapkv:grow=no:window=4:every=9",
                                      "snapkv:group=query_head:pooling=avg",
                                      "quest:page=8:skip=0",
                                      "zsmerge:variant=code",
                                      "tova:variant=prefill"};
enum { FURTHER = sizeof further / sizeof *further };

static kv_trace *trace;

static int make_trace(void **state) {
  kv_synth s = {.like = {.name = "layers",
                         .n_layers = MODEL,
                         .n_heads = 4,
                         .n_kv_heads = 2,
                         .d = 32,
                         .theta = 10000,
                         .dtype = KV_F32},
                .n_tokens = 90,
                .prompt_len = 66,
                .seed = 3,
                .n_recorded = RECORDED,
                .layers = recorded};
  if (scratch_make(state)) return 1;
  const char *path = scratch_path("layers.safetensors");
  if (kv_synth_write(&s, kv_kernels_best(), path, &told) ||
      kv_trace_open(path, &trace, &told))
    fail_msg("%s", told.text);
  return 0;
}

static int close_trace(void **state) {
  kv_trace_close(trace);
  return scratch_remove(state);
}

/* --- replays ------------------------------------------------------------ */

static kv_spec parsed(const char *text) {
  kv_spec spec;
  if (kv_spec_parse(kv_method_at, text, &spec, &told))
    fail_msg("%s: %s", text, told.text);
  return spec;
}

/* The specification at a budget as behind -b. */
static void open_cell(const kv_spec *spec, const char *budget, kv_cell *c) {
  kv_budget b;
  works(kv_budget_parse(budget, &b, &told));
  kv_asked_cell asked = {
      .spec = spec, .budget = &b, .entries = b.layers ? -1 : b.entries};
  if (kv_cell_open(trace, 0, kv_kernels_best(), &asked, c, &told))
    fail_msg("%s at %s: %s", spec->method->name, budget, told.text);
  kv_budget_free(&b);
}

static void replay(kv_cell *cell, int n, int threads) {
  kv_cell *each[RECORDED + 1];
  bool stopped;
  for (int i = 0; i < n; i++) each[i] = &cell[i];
  kv_replay_how how = {.backend = rig_backend(),
                       .kernels = kv_kernels_best(),
                       .threads = threads,
                       .fidelity = true};
  works(kv_replay(trace, each, n, &how, &stopped, &told));
}

static void close_cells(kv_cell *cell, int n) {
  for (int i = 0; i < n; i++) kv_cell_close(&cell[i]);
}

/* The text of a list; `same`: of one number. */
static const char *listed(int same, char out[64]) {
  int n = 0;
  for (int l = 0; l < MODEL; l++)
    n += snprintf(out + n, 64 - (size_t)n, l ? "/%d" : "%d",
                  same ? same : list[l]);
  return out;
}

/* --- laws --------------------------------------------------------------- */

static void same_digest(const char *what, const char *text, const kv_digest *a,
                        const kv_digest *b) {
  if (memcmp(a, b, sizeof *a)) fail_msg("%s: the %s differs", text, what);
}

static void same_layer(const char *text, const kv_result *a, const kv_result *b,
                       int i) {
  const kv_part *p = &a->part[i], *q = &b->part[i];
  same_digest("journal", text, &a->layer[i].journal, &b->layer[i].journal);
  same_digest("state", text, &a->layer[i].state, &b->layer[i].state);
  same_digest("output", text, &a->layer[i].output, &b->layer[i].output);
  assert_int_equal(p->layer, recorded[i]);
  assert_true(p->kept == q->kept);
  for (int m = 0; m < KV_MEASURES; m++)
    if (memcmp(&p->stat[m], &q->stat[m], sizeof p->stat[m]))
      fail_msg("%s, layer %d: %s differs", text, recorded[i],
               kv_measure_table[m].name);
}

/* All in one pass, so that the prompt's observation is shared. */
static void ask_each(const kv_spec *spec, const char *text) {
  kv_cell cell[RECORDED + 1];
  char budget[64];
  open_cell(spec, listed(0, budget), &cell[RECORDED]);
  for (int i = 0; i < RECORDED; i++) {
    snprintf(budget, sizeof budget, "%d", list[recorded[i]]);
    open_cell(spec, budget, &cell[i]);
  }
  replay(cell, RECORDED + 1, 2);
  const kv_result *r = &cell[RECORDED].result;
  double kept = 0;
  for (int i = 0; i < RECORDED; i++) {
    same_layer(text, r, &cell[i].result, i);
    kept += cell[i].result.part[i].kept / RECORDED;
  }
  assert_true(kept > r->totals.kept - 1e-9 && kept < r->totals.kept + 1e-9);
  assert_int_equal(r->budget, (12 + 33 + 16) / 3);
  assert_string_equal(r->target, "layers:411d8671");
  close_cells(cell, RECORDED + 1);
}

static void ask_equal(const kv_spec *spec, const char *text) {
  kv_cell cell[2];
  char budget[64];
  open_cell(spec, listed(SAME, budget), &cell[0]);
  snprintf(budget, sizeof budget, "%d", SAME);
  open_cell(spec, budget, &cell[1]);
  replay(&cell[0], 1, 1);
  replay(&cell[1], 1, 1);
  const kv_result *a = &cell[0].result, *b = &cell[1].result;
  assert_non_null(cell[0].plan.layer);
  same_digest("journal", text, &a->journal, &b->journal);
  same_digest("state", text, &a->state, &b->state);
  same_digest("output", text, &a->output, &b->output);
  assert_memory_equal(&a->totals, &b->totals, sizeof a->totals);
  assert_memory_equal(a->stat, b->stat, sizeof a->stat);
  assert_int_equal(a->budget, SAME);
  close_cells(cell, 2);
}

static void ask(const char *text, int *asked) {
  kv_spec spec = parsed(text);
  bool takes = kv_spec_wants_budget(&spec) && !spec.method->spreads;
  if (takes && kv_backend_has(rig_backend(), spec.method)) {
    ask_each(&spec, text);
    ask_equal(&spec, text);
    ++*asked;
  }
  kv_spec_free(&spec);
}

TEST(laws) {
  int asked = 0;
  for (int m = 0; kv_method_at(m); m++)
    if (!rig_wants_file(kv_method_at(m))) ask(kv_method_at(m)->name, &asked);
  for (int i = 0; i < FURTHER; i++) ask(further[i], &asked);
  assert_true(asked > FURTHER + 8);
  print_message("%d specifications on %s\n", asked, rig_backend()->name);
}

/* What is written says every layer's values, and is read again as the same. */
TEST(written) {
  kv_spec spec = parsed("h2o:budget=40/12/24/33/16:group=mean"), again;
  kv_cell cell;
  assert_false(kv_spec_wants_budget(&spec));
  kv_asked_cell asked = {.spec = &spec, .entries = -1};
  works(kv_cell_open(trace, 0, kv_kernels_best(), &asked, &cell, &told));
  const kv_result *r = &cell.result;
  assert_string_equal(r->params, "{\"budget\": [40, 12, 24, 33, 16], "
                                 "\"recent\": [20, 6, 12, 16, 8], "
                                 "\"variant\": \"drop\", "
                                 "\"group\": \"mean\", "
                                 "\"scale\": \"none\"}");
  assert_string_equal(r->spec,
                      "h2o:budget=40/12/24/33/16:variant=drop:group=mean:"
                      "scale=none");
  assert_string_equal(r->target, "layers:411d8671");
  again = parsed(r->spec);
  assert_true(kv_spec_same(&spec, &again));
  again.layers[4]++;
  assert_false(kv_spec_same(&spec, &again));
  kv_spec_free(&again);
  kv_spec_free(&spec);
  kv_cell_close(&cell);
}

static void refused(const char *text, const char *word, const char *other) {
  kv_spec spec = parsed(text);
  kv_cell cell;
  kv_asked_cell asked = {.spec = &spec, .entries = -1};
  works(kv_cell_open(trace, 0, kv_kernels_best(), &asked, &cell, &told));
  const char *why = cell.result.reason;
  assert_int_equal(cell.result.status, KV_CELL_REFUSED);
  assert_false(cell.runs);
  if (!strstr(why, word) || !strstr(why, other))
    fail_msg("%s: \"%s\" lacks %s or %s", text, why, word, other);
  kv_spec_free(&spec);
  kv_cell_close(&cell);
}

TEST(refusals) {
  refused("window:budget=1/2/3", "3 budgets", "5 layers (3 of them");
  refused("pyramidkv:budget=9/9/9/9/9", "divides one budget", "snapkv");
  refused("snapkv:budget=40/40/8/40/40:window=9", "layer 2, budget 8",
          "window=9");
}

int main(void) {
  return tests_run("a budget a layer", make_trace, close_trace);
}
