/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay lengths`: what a replay of lengths says a request holds and reads
 * is what a run on a synthetic trace of the same shape does, to the byte, for
 * every method whose bytes lengths decide; layers multiply; layers that one of
 * their kind decodes for hold what they would themselves. With KV_ALL the trace
 * has 8,192 + 64 tokens.
 */
#include "sim/cli/capacity/lengths.h"
#include "tests/laws/cells.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "traces/trace/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDED = 2 };
static const int recorded[RECORDED] = {0, 41};
static const char *const further[] = {"h2o:variant=prefill:recent=8",
                                      "snapkv:every=4", "quant:v=e4m3",
                                      "window+int4"};
enum { FURTHER = sizeof further / sizeof *further };

static int prompt, decoded;
static kv_trace *trace;

static void served(const char *name, kv_served *m) {
  works(kv_served_open(name, m, &told));
}

static int make_trace(void **state) {
  kv_synth s = {.like = *kv_geometry_find("llama-3.1-70b"),
                .n_recorded = RECORDED,
                .layers = recorded};
  bool all = getenv("KV_ALL") && *getenv("KV_ALL");
  prompt = all ? 8192 : 200;
  decoded = all ? 64 : 12;
  s.n_tokens = prompt + decoded;
  s.prompt_len = prompt;
  if (scratch_make(state)) return 1;
  const char *path = scratch_path("shape.safetensors");
  if (kv_synth_write(&s, kv_kernels_best(), path, &told) ||
      kv_trace_open(path, &trace, &told))
    fail_msg("%s", told.text);
  return 0;
}

static int close_trace(void **state) {
  kv_trace_close(trace);
  return scratch_remove(state);
}

/* The i-th specification to ask about; NULL past the last. */
static const char *method(int i) {
  int n = 0;
  while (kv_method_at(n)) n++;
  if (i < n) return kv_method_at(i)->name;
  return i < n + FURTHER ? further[i - n] : NULL;
}

/* False: lengths do not decide. */
static bool lengths(const kv_served *m, int context, int output,
                    const char *text, int tp, bool each, kv_stored *out) {
  kv_spec spec = {0};
  kv_budget budget = {0};
  if (kv_spec_parse(kv_method_at, text, &spec, &told) ||
      kv_budget_parse("20%", &budget, &told))
    fail_msg("%s: %s", text, told.text);
  const kv_lengths ask = {.model = m,
                          .context = context,
                          .output = output,
                          .spec = &spec,
                          .budget = &budget,
                          .tp = tp,
                          .threads = 1,
                          .each = each};
  kv_rc rc = kv_lengths_replay(&ask, out, &told);
  if (rc && rc != KV_REFUSED) fail_msg("%s: %s", text, told.text);
  kv_spec_free(&spec);
  return !rc;
}

/* --- bytes -------------------------------------------------------------- */

static void ran(const char *text, kv_cell *cell) {
  cells_must(kv_method_at, trace, 0, text, prompt / 5, cell);
  cells_replay(trace, 1, &cell, cells_plain);
}

static void same_as_run(const char *text, const kv_stored *x) {
  kv_cell cell;
  int64_t bytes = 0, codes = 0;
  ran(text, &cell);
  const kv_result *r = &cell.result;
  for (int i = 1; i < r->n_steps; i++) {
    if (r->step[i].bytes > bytes) bytes = r->step[i].bytes;
    if (r->step[i].codes > codes) codes = r->step[i].codes;
  }
  if (x->all.steady != bytes || x->all.peak != r->totals.peak ||
      x->codes.steady != codes || x->codes.peak != r->totals.codes_peak)
    fail_msg("%s: a run holds %lld bytes, at most %lld, lengths %lld, %lld",
             text, (long long)bytes, (long long)r->totals.peak,
             (long long)x->all.steady, (long long)x->all.peak);
  if (!isnan(x->read) && x->read != r->totals.read + r->totals.scanned)
    fail_msg("%s: a run reads %g bytes a step, lengths %g", text,
             r->totals.read + r->totals.scanned, x->read);
  kv_cell_close(&cell);
}

TEST(bytes_are_those_of_a_run) {
  kv_served m;
  kv_stored x;
  int n = 0;
  served("llama-3.1-70b", &m);
  m.n_layers = RECORDED;
  memcpy(m.layer, recorded, sizeof recorded);
  for (int i = 0; method(i); i++) {
    if (!lengths(&m, prompt, decoded, method(i), 1, false, &x)) continue;
    same_as_run(method(i), &x);
    n++;
  }
  assert_true(n >= 14);
  kv_served_close(&m);
}

TEST(layers_multiply) {
  kv_served all, two;
  kv_stored a, b;
  served("llama-3.1-70b", &all);
  served("llama-3.1-70b", &two);
  two.n_layers = RECORDED;
  memcpy(two.layer, recorded, sizeof recorded);
  for (int i = 0; i < 2; i++) {
    const char *text = i ? "streamingllm" : "dense";
    assert_true(lengths(&all, prompt, decoded, text, 8, false, &a));
    assert_true(lengths(&two, prompt, decoded, text, 8, false, &b));
    assert_int_equal(a.all.steady, 40 * b.all.steady);
    assert_true(a.read == 40 * b.read && a.fullest * 8 == a.of);
  }
  /* what one layer drops, and it alone, is there twice */
  assert_int_equal(a.all.peak - 40 * b.all.peak,
                   -39 * (b.all.peak - b.all.steady));
  kv_served_close(&all);
  kv_served_close(&two);
}

TEST(kinds_stand_for_layers) {
  kv_served m;
  kv_stored one, each;
  served("tiny", &m);
  m.window[1] = m.window[3] = 64;
  for (int i = 0; method(i); i++) {
    if (!lengths(&m, 200, 20, method(i), 2, false, &one)) continue;
    assert_true(lengths(&m, 200, 20, method(i), 2, true, &each));
    if (memcmp(&one, &each, sizeof one)) fail_msg("%s", method(i));
  }
  kv_served_close(&m);
}

/* --- a model's file ------------------------------------------------------ */

static kv_rc open_file(const char *const part[4], kv_served *out) {
  const char *path = scratch_path("shape.json");
  char text[256];
  int n = snprintf(text, sizeof text,
                   "{\"layers\": 4, \"heads\": 4, \"kv_heads\": %s, \"d\": %s, "
                   "\"d_v\": 8, \"type\": \"%s\", \"layer\": %s, "
                   "\"window\": [0, 16]}",
                   part[0], part[1], part[2], part[3]);
  scratch_write(path, (size_t)n, text);
  return kv_served_open(path, out, &told);
}

TEST(models_of_a_file) {
  static const char *const good[] = {"2", "4", "BF16", "[0, 2]"};
  static const char *const bad[][4] = {{"3", "4", "BF16", "[0, 2]"},
                                       {"2", "0", "BF16", "[0, 2]"},
                                       {"2", "4", "F8", "[0, 2]"},
                                       {"2", "4", "BF16", "[0, 4]"},
                                       {"2", "4", "BF16", "[0, 1, 2]"}};
  kv_served m;
  kv_stored x;
  assert_int_equal(open_file(good, &m), KV_OK);
  assert_true(lengths(&m, 40, 4, "dense", 2, false, &x));
  assert_int_equal(x.all.steady, (44 + 15) * 2 * (4 + 8) * 2);
  assert_int_equal(kv_served_dense(&m, 44), x.all.steady);
  kv_served_close(&m);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(open_file(bad[i], &m), KV_INPUT);
    kv_served_close(&m);
  }
}

int main(void) { return tests_run("lengths", make_trace, close_trace); }
