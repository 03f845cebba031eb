/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of the ledger, which no digest knows: where two backends count them
 * differently, sim/run/compare/compare.h names the step, layer and lane, or the
 * total where a second look does not show it.
 */
#include "tests/support/backend/tamper.h"
#include "tests/support/test.h"

#include <string.h>

/* A row index, a merged row's codes. */
static void indexed(kv_lane *l) { l->holes = true; }
static void heavier(kv_lane *l) { l->k_slab[KV_MERGED].bytes.codes += 1; }
static void relieved(kv_lane *l) { l->holes = false; }
static void indexed_early(kv_store *s, kv_scratch *x) {
  (void)x;
  indexed(&s->lane[LANE]);
}
static const tamper_fault faults[] = {
    {"dense", -1, indexed, NULL, 80, "metadata", -1, -1,
     "ledger, metadata: 0x0000000000000000 in ref, 0x0000000000000140 in odd"},
    {"dense", -1, indexed, NULL, 64, "metadata", -1, -1,
     "step 64, layer 1, lane 1: ledger, metadata: 0x"},
    {"dense", -1, relieved, indexed_early, 96, "metadata", -1, -1,
     "ledger, metadata before compression: 0x0000000000000000 in ref, 0x"},
    {ZSMERGE, 16, heavier, NULL, 80, "payload", -1, -1,
     "step 80, layer 1, lane 1: ledger, payload: 0x"}};

TEST(test_named) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    must_name(&faults[i]);
}

/* The totals alone show it, from the next step on: dense never compresses. */
TEST(test_chance_of_bytes) {
  kv_difference d;
  set_odd();
  only_then = true;
  on_lane = indexed;
  compare("dense", -1, &d);
  assert_true(d.found && d.ledger);
  assert_string_equal(d.what, "bytes");
  assert_int_equal(d.step, 81);
  assert_int_equal(d.layer, -1);
  assert_int_equal(d.lane, -1);
  if (strncmp(d.sentence, "step 81, all layers: ledger, bytes: 0x", 38))
    fail_msg("%s", d.sentence);
}

/* A total that no step shows. */
TEST(test_totals) {
  static const struct {
    size_t at;
    const char *what;
  } all[] = {{offsetof(kv_totals, end.side), "side"},
             {offsetof(kv_totals, peak), "bytes.peak"},
             {offsetof(kv_totals, codes_peak), "bytes.codes_only.peak"},
             {offsetof(kv_totals, moved), "bytes.moved"},
             {offsetof(kv_totals, verbs), "verbs"},
             {offsetof(kv_totals, kept_min), "kept_min"},
             {offsetof(kv_totals, kept_max), "kept_max"},
             {offsetof(kv_totals, kept), "kept"},
             {offsetof(kv_totals, attended), "attended"}};
  kv_cell a = {0}, b = {0};
  kv_difference d;
  kv_err e = {0};
  bool stopped;
  set_odd();
  if (replay("window", 30, &kv_backend_ref, &a, &e) ||
      replay("window", 30, &kv_backend_ref, &b, &e))
    fail_msg("%s", e.text);
  kv_compared x = {&a, &kv_backend_ref}, y = {&b, &odd};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    unsigned char *byte = (unsigned char *)&b.result.totals + all[i].at;
    byte[0] ^= 1;
    assert_int_equal(kv_compare_cells(&x, &y, NULL, &stopped, &d, &e), KV_OK);
    byte[0] ^= 1;
    if (!d.found || !d.ledger || strcmp(d.what, all[i].what) || d.layer != -1 ||
        d.step != -1 || strncmp(d.sentence, "all layers: ledger, ", 20))
      fail_msg("%s: %s", all[i].what, d.sentence);
  }
  b.result.step[3].read ^= 1;
  assert_int_equal(kv_compare_cells(&x, &y, NULL, &stopped, &d, &e), KV_OK);
  assert_string_equal(d.what, "read");
  assert_int_equal(d.step, PROMPT + 3);
  kv_cell_close(&a);
  kv_cell_close(&b);
}

int main(void) { return tests_run("ledgers", open_trace, close_trace); }
