/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of the device benchmark (tests/bench/gpu/device_predict.h): each
 * pipe binds where it should, every loop that the model reckons with was
 * counted, and what is left when only memory, or only instructions, cost
 * anything.
 */
#include "tests/bench/gpu/device_predict.h"
#include "tests/support/test.h"

#include <string.h>

static int near(double x, double y) {
  return x - y < 1e-6 * y && y - x < 1e-6 * y;
}

static void binds(predict_turn t, double clocks, const char *what) {
  const char *bound;
  assert_true(near(predict_clocks(&t, &bound), clocks));
  assert_string_equal(bound, what);
}

TEST(a_pipe_binds) {
  binds((predict_turn){.all = 16, .fma = 16}, 4, "issue slots");
  binds((predict_turn){.all = 16, .fma = 4, .imad = 10}, 5, "IMAD");
  binds((predict_turn){.all = 16, .alu = 10}, 5, "ALU pipe");
  binds((predict_turn){.all = 16, .slow = 3}, 6, "slow pipe");
  binds((predict_turn){.all = 16, .lds = 2, .lds2 = 2, .sts = 1}, 7,
        "shared memory");
}

/* No turn twice, none without elements; every theme can be reckoned. */
TEST(themes_are_shares) {
  static const int group[] = {1, 4, 8};
  assert_null(predict_turn_of("nobody"));
  for (int i = 0; i < 2; i++) {
    const predict_device *d = &predict_devices[i];
    for (int g = 0; g < 3; g++) {
      predicted p = predict_attend(d, group[g], 64, 32768, NULL);
      assert_true(p.value > 0.05 && p.value <= d->read / d->copy);
      assert_true(p.k > group[g] && p.v > group[g]);
      double most;
      p = predict_kivi(d, group[g], 64, 32768, &most);
      assert_true(p.value > 0.05 && p.value <= most && p.value <= 1);
      assert_true(p.k > group[g] + 1 && p.v > group[g] + 1);
      for (int low = 0; low < 2; low++) {
        predict_pages x = predict_paged(d, low, group[g], 64, 32768);
        assert_true(x.faster.value > 0.05 && x.faster.value <= 1);
        assert_true(x.reached.value > 0.05 && x.reached.value <= 1);
        assert_true(x.faster.k > group[g] + 1 && x.faster.v > group[g] + 1);
        assert_true(near(x.bytes, low ? 104 : 200));
      }
    }
    double one, many;
    predict_compact(d, 1, &one);
    predict_compact(d, 64, &many);
    assert_true(one > 22 * d->trip && near(one, many));
    predict_compact(d, 128, &many);
    assert_true(many > one);
    predict_indices x = predict_regular(d, 20480);
    assert_true(x.share > 0.1 && x.share < 0.5 && x.paid > 0 && x.paid < 5);
    assert_true(near(predict_break_even(2, 4, 2), 1));
    assert_true(predict_break_even(1, 1, 3) < 0);
    predict_delta r = predict_rebuilt(d, 5736);
    assert_true(r.seconds > r.peak && r.seconds < 10 * r.peak);
    assert_true(near(r.peak, 45 * 128 * 2048 * 512.0 / 128 / 132 / d->clock));
    assert_true(predict_top(d, 256, 131072).value > 0.01);
    assert_true(predict_top(d, 256, 131072).value <= 1);
    double each = predict_compress(d, 256, 4096, 1).value;
    assert_true(each > 0);
    const predict_turn *compress = predict_turn_of("compress_one");
    assert_true(compress->trips > 0 && compress->trips < compress->elements);
    compress = predict_turn_of("compress_many");
    assert_true(compress->trips > 0 && compress->trips < compress->elements);
    assert_true(128 * predict_compress(d, 256, 4096, 128).value > each);
  }
}

/* Memory alone: a token's K and V are 512 bytes, and a head's logits, places
 * and parts 24 at most. Instructions alone: twice the clock, half the time. */
TEST(what_is_free_costs_nothing) {
  double slow, fast;
  predict_device d = predict_device_of("no work", 132, 1e18, 3e12, 3e12);
  d.start = 0;
  predicted p = predict_attend(&d, 4, 64, 32768, NULL);
  assert_string_equal(p.bound, "memory");
  assert_true(p.value <= 1 && p.value >= 512.0 / (512 + 4 * 24));
  d = predict_device_of("no memory", 132, 1e9, 1e24, 1e24);
  d.trip = d.start = 0;
  predict_attend(&d, 4, 64, 32768, &slow);
  d.clock *= 2;
  p = predict_attend(&d, 4, 64, 32768, &fast);
  assert_true(strcmp(p.bound, "memory") != 0);
  assert_true(near(slow / fast, 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pipe_binds),
      cmocka_unit_test(themes_are_shares),
      cmocka_unit_test(what_is_free_costs_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
