/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch on loads and stores (gpu/emu/emu_races.h), by kernels made up for
 * it: each race is a fault that names the kernel, who and where; kernels that
 * order what they share are left alone. In both orders of threads, as a race is
 * one whoever comes first.
 */
#include "tests/gpu/watched.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

/* --- the tests ------------------------------------------------------------ */

static char sentence[2048];
static int faults;
static void note(const char *said) {
  snprintf(sentence, sizeof sentence, "%s", said);
  faults++;
}

static memory device;

static int faults_of(const char *name, void (*kernel)(memory *)) {
  int before = faults;
  memset(&device, 0, sizeof device);
  kv_emu_start(name, BLOCKS, ALL, kernel, &device);
  return faults - before;
}

typedef struct pair {
  const char *name;
  void (*right)(memory *), (*wrong)(memory *);
  const char *says;
} pair;
#define PAIR(name, says)                                                       \
  { #name, name < true>, name < false>, says }
static const pair pairs[] = {
    PAIR(pass_on, "of shared memory"),
    PAIR(rounds, "no barrier is between"),
    PAIR(global_list, "of global memory"),
    PAIR(readers, "of shared memory"),
    PAIR(flags, "of global memory"),
    PAIR(odd_places, "of global memory"),
    PAIR(records, "132 bytes of global memory"),
    PAIR(moved_some, "bytes of global memory"),
    PAIR(stages_wait, "of shared memory"),
    PAIR(stages_leave, "of shared memory"),
    PAIR(source_changes, "of global memory"),
    PAIR(counted, "of global memory"),
    PAIR(results, "no fence is between"),
    PAIR(neighbours, "no fence is between"),
    PAIR(hands_early, "no fence is between"),
    PAIR(hands_unfenced, "no fence is between"),
    PAIR(takes_unfenced, "no fence is between"),
    PAIR(draws_late, "no fence is between"),
    PAIR(waits, "no fence is between"),
    PAIR(last_writes, "no fence is between"),
    PAIR(passes, "no fence is between"),
};

/* Where there is an order that is by chance the right one, too. */
TEST(races_are_seen) {
  for (int reverse = 0; reverse < 2; reverse++) {
    kv_emu_order(reverse);
    for (const pair &p : pairs) {
      if (faults_of(p.name, p.right)) fail_msg("%s: %s", p.name, sentence);
      if (!faults_of(p.name, p.wrong)) fail_msg("%s was not seen", p.name);
      if (!strstr(sentence, "a race: thread ") || !strstr(sentence, p.says) ||
          !strstr(sentence, p.name))
        fail_msg("%s: %s", p.name, sentence);
    }
  }
}

TEST(right_ones_are_left_alone) {
#define NAMED(kernel)                                                          \
  { #kernel, kernel }
  static const struct {
    const char *name;
    void (*kernel)(memory *);
  } right[] = {
      NAMED(within_a_warp),   NAMED(side_by_side), NAMED(shared_again),
      NAMED(own_arrays),      NAMED(all_read),     NAMED(count_all),
      NAMED(sums_of_a_block),
  };
  for (int reverse = 0; reverse < 2; reverse++) {
    kv_emu_order(reverse);
    for (const auto &r : right)
      if (faults_of(r.name, r.kernel)) fail_msg("%s: %s", r.name, sentence);
  }
}

/* One launch after the other is an order, recorded or not; a recorded race is
 * one when it is replayed. */
TEST(launches_are_ordered) {
  kv_emu_order(0);
  int before = faults;
  KV_LAUNCH(nullptr, results<true>, BLOCKS, ALL, &device);
  KV_LAUNCH(nullptr, results<true>, BLOCKS - 1, ALL, &device);
  kv_emu_record();
  KV_LAUNCH(nullptr, pass_on<true>, BLOCKS, ALL, &device);
  KV_LAUNCH(nullptr, count_all, BLOCKS, ALL, &device);
  KV_LAUNCH(nullptr, counted<true>, BLOCKS, ALL, &device);
  kv_emu_list *list = kv_emu_recorded();
  kv_emu_replay(list);
  kv_emu_replay(list);
  kv_emu_forget(list);
  assert_int_equal(faults, before);
  kv_emu_record();
  KV_LAUNCH(nullptr, pass_on<false>, BLOCKS, ALL, &device);
  list = kv_emu_recorded();
  assert_int_equal(faults, before);
  kv_emu_replay(list);
  kv_emu_forget(list);
  assert_int_equal(faults, before + 1);
}

/* Who, where, and the two lines: a call's and that of what was put into it. */
TEST(sentences_say_where) {
  kv_emu_order(0);
  setenv("KV_WATCH_LINES", "yes", 1);
  assert_int_equal(faults_of("pass_on", pass_on<false>), 1);
  const char *first = strstr(sentence, "tests/gpu/check_watch.cc:");
  assert_non_null(strstr(sentence, "block 0,0,0"));
  assert_non_null(strstr(sentence, "a race: thread 32 writes 4 bytes"));
  if (first) { /* addr2line is there */
    const char *second = strstr(first + 1, "tests/gpu/check_watch.cc:");
    assert_non_null(second);
    assert_non_null(strstr(sentence, "no barrier is between"));
  }
  assert_int_equal(faults_of("results", results<false>), 1);
  assert_non_null(strstr(sentence, "block 1,0,0: a race: thread 0 writes"));
  assert_non_null(strstr(sentence, "thread 0 of block 0,0,0 wrote them at"));
  kv_emu_order(1);
  assert_int_equal(faults_of("results", results<false>), 1);
  assert_non_null(strstr(sentence, "block 3,0,0: a race: thread 0 writes"));
  assert_non_null(strstr(sentence, "thread 0 of block 4,0,0 wrote them at"));
  setenv("KV_WATCH_LINES", "no", 1);
}

int main(void) {
  setenv("KV_WATCH_LINES", "no", 1);
  kv_emu_fault = note;
  int failed = tests_run("watch", nullptr, nullptr);
  kv_emu_release();
  return failed;
}
