/* SPDX-License-Identifier: Apache-2.0
 *
 * What ref/lane.h promises of the verbs beyond what each does alone: indexes
 * mean the same while entries are merged, what was merged away goes in one
 * sweep, whose time grows with the entries and not with their square, and a
 * verb that names what is gone, or a move across gaps, is stopped.
 */
#include "ref/formats/minmax.h"
#include "ref/kernels/kernels.h"
#include "ref/lane/lane.h"
#include "tests/support/compression.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { T = 12, D = 3 };

typedef struct rig {
  kv_shape shape;
  kv_needs needs;
  kv_layer_data data;
  float k[T * D], v[T * D];
  kv_lane lane;
} rig;

/* Row t of K is t, of V is -t, in every element. */
static void begin_with(rig *r, const kv_needs *needs) {
  *r = (rig){.shape = {.n_heads = 1,
                       .n_kv_heads = 1,
                       .d = D,
                       .d_v = D,
                       .n_tokens = T,
                       .prompt_len = T,
                       .dtype = KV_F32},
             .needs = *needs};
  for (int i = 0; i < T * D; i++) {
    r->k[i] = (float)(i / D);
    r->v[i] = -r->k[i];
  }
  r->data = (kv_layer_data){.k = r->k, .v = r->v};
  assert_int_equal(
      kv_lane_init(&r->lane, &r->shape, &r->needs, kv_kernels_best(), 0, NULL),
      0);
  assert_int_equal(kv_lane_room_init(&r->lane.room, T, NULL), 0);
  kv_lane_begin(&r->lane, &r->needs, &r->data);
  kv_lane_append(&r->lane, 0, T);
}

static void begin(rig *r) {
  begin_with(
      r, &(kv_needs){
             .merges = true, .classes = 3, .columns = 1, .column = {KV_INT64}});
  for (int i = 0; i < T; i++) r->lane.column[0].i[i] = 100 + i;
}

static void end(rig *r) {
  kv_lane_room_release(&r->lane.room);
  kv_lane_release(&r->lane);
}

static void holds(const rig *r, int n, const uint32_t *id) {
  const kv_lane *l = &r->lane;
  assert_int_equal(l->n, n);
  assert_int_equal(l->marked, 0);
  for (int i = 0; i < n; i++) {
    assert_int_equal(l->id[i], id[i]);
    assert_true(l->weight[i] > 0);
  }
}

/* True if it is stopped by an assertion. */
static bool aborts(rig *r, void (*what)(rig *)) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGABRT, SIG_DFL);
    if (!freopen("/dev/null", "w", stderr)) _exit(1);
    what(r);
    _exit(0);
  }
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* --- a sweep ------------------------------------------------------------ */

TEST(indexes_stay) {
  rig r;
  float row[D];
  begin(&r);
  kv_merge(&r.lane, 2, 5, 1, 1);
  kv_merge(&r.lane, 8, 3, 1, 1);
  kv_merge(&r.lane, 2, 6, 2, 1);
  assert_int_equal(r.lane.n, T);
  assert_false(kv_is_live(&r.lane, 3));
  kv_lane_key(&r.lane, 9, row);
  assert_true(row[0] == 9);
  kv_sweep(&r.lane);
  holds(&r, 9, (const uint32_t[]){0, 1, 2, 4, 7, 3, 9, 10, 11});
  assert_int_equal(r.lane.weight[2], 3);
  assert_int_equal(r.lane.column[0].i[4], 107);
  assert_int_equal(r.lane.column[0].i[8], 111);
  kv_lane_value(&r.lane, 2, row); /* ((2 + 5) / 2 * 2 + 6) / 3 */
  assert_true(row[0] > -4.34f && row[0] < -4.33f);
  assert_int_equal(r.lane.verbs.n, 3 * 9); /* a sweep writes no record */
  kv_sweep(&r.lane);
  assert_int_equal(r.lane.n, 9);
  end(&r);
}

/* What keep leaves out is dropped, but not what was merged away. */
TEST(keep_sweeps) {
  static const int32_t list[] = {11, 0, 4, 7};
  static const uint32_t words[] = {5, 2, 6, 8, 9, 10, 1, 11, 0, 1, 3};
  rig r;
  begin(&r);
  kv_merge(&r.lane, 4, 1, 1, 1);
  kv_merge(&r.lane, 7, 3, 1, 1);
  kv_merge(&r.lane, 7, 5, 2, 1);
  r.lane.verbs.n = 0;
  kv_keep(&r.lane, 4, list);
  holds(&r, 4, (const uint32_t[]){11, 0, 1, 3});
  assert_int_equal(r.lane.verbs.word[4], 11);
  for (int i = 0; i < 11; i++) /* 3: the name of 7 since it has taken 3 */
    assert_int_equal(r.lane.verbs.word[5 + i], words[i]);
  end(&r);
}

TEST(keep_of_all) {
  bool all[T];
  rig r;
  begin(&r);
  for (int i = 0; i < T; i++) all[i] = true;
  kv_merge(&r.lane, 4, 1, 1, 1);
  r.lane.verbs.n = 0;
  kv_keep_mask(&r.lane, all);
  assert_int_equal(r.lane.verbs.n, 0);
  holds(&r, 11, (const uint32_t[]){0, 2, 3, 1, 5, 6, 7, 8, 9, 10, 11});
  end(&r);
}

/* Rows leave their order when one goes from between others, and not when the
 * last ones go, one after another. */
TEST(holes) {
  rig r;
  begin(&r);
  kv_merge(&r.lane, 1, 11, 1, 1);
  kv_merge(&r.lane, 1, 10, 1, 1);
  assert_false(r.lane.holes);
  kv_sweep(&r.lane);
  kv_merge(&r.lane, 1, 9, 1, 1);
  assert_false(r.lane.holes);
  kv_merge(&r.lane, 1, 7, 1, 1);
  assert_true(r.lane.holes);
  kv_sweep(&r.lane);
  holds(&r, 8, (const uint32_t[]){0, 1, 2, 3, 4, 5, 6, 8});
  end(&r);
}

/* --- classes ------------------------------------------------------------ */

/* A class goes where its entry goes; it is of the state, and of its bytes,
 * where there are classes, and of 0 everywhere it changes nothing. */
TEST(classes) {
  kv_bytes with = {0}, without = {0};
  rig r, plain;
  begin(&r);
  begin(&plain);
  plain.needs.classes = 0;
  kv_digest same = kv_lane_state(&plain.lane), now = kv_lane_state(&r.lane);
  assert_memory_equal(&now, &same, sizeof now);
  kv_lane_bytes(&r.lane, &with);
  kv_lane_bytes(&plain.lane, &without);
  assert_int_equal(with.metadata, without.metadata + T);
  kv_retier(&r.lane, 3, (const int32_t[]){9, 4, 2}, 2);
  assert_memory_equal(r.lane.verbs.word + 5, ((uint32_t[]){2, 9, 4, 2}), 16);
  assert_int_equal(r.lane.verbs.word[0], 5);
  now = kv_lane_state(&r.lane);
  assert_memory_not_equal(&now, &same, sizeof now);
  kv_merge(&r.lane, 4, 5, 1, 1);
  kv_merge(&r.lane, 6, 2, 1, 1);
  kv_sweep(&r.lane); /* 0 1 3 4+ 2+ 7 8 9 10 11 */
  kv_move(&r.lane, 7, 0);
  kv_keep(&r.lane, 3, (const int32_t[]){4, 5, 0});
  holds(&r, 3, (const uint32_t[]){4, 2, 9});
  assert_int_equal(kv_class_of(&r.lane, 0), 2);
  assert_int_equal(kv_class_of(&r.lane, 1), 0);
  assert_int_equal(kv_class_of(&r.lane, 2), 2);
  kv_retier(&r.lane, 2, (const int32_t[]){0, 2}, 0);
  kv_lane_append(&r.lane, T, 0);
  assert_int_equal(kv_class_of(&r.lane, 0), 0);
  end(&r);
  end(&plain);
}

/* --- codes -------------------------------------------------------------- */

/* Codes all entries, `rows` at a time, and then each group once more in the
 * format that it has: a slab that holds them all has room for that, too. */
static void coded_again(const kv_coding *coding, int rows) {
  rig r;
  float key[D], again[D];
  int32_t list[T];
  begin_with(&r, &(kv_needs){.codings = 1, .coding = {*coding}});
  for (int i = 0; i < T; i++) list[i] = i;
  kv_recode(&r.lane, 0, list, KV_CODED, KV_CODED);
  assert_int_equal(r.lane.verbs.n, 0);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < T; i += rows) {
      int n = T - i < rows ? T - i : rows;
      r.lane.verbs.n = 0;
      if (round) kv_lane_key(&r.lane, i, key);
      kv_recode(&r.lane, n, list + i, KV_CODED, KV_CODED);
      kv_lane_key(&r.lane, i, again);
      if (round) assert_memory_equal(again, key, sizeof key);
    }
    assert_int_equal(r.lane.k_slab[KV_CODED].held, T);
    assert_int_equal(r.lane.rewritten, T);
  }
  end(&r);
}

TEST(full_slabs) {
  static const kv_minmax row = {2, D, 0}, rows = {2, 5, 0};
  coded_again(&KV_CODING(&kv_format_token, &row, false, KV_BOTH_SIDES), 1);
  coded_again(&KV_CODING(&kv_format_channel, &rows, false, KV_BOTH_SIDES), 5);
}

static void of_key_to_value_side(rig *r) {
  kv_recode(&r->lane, 1, (int32_t[]){0}, KV_SAME, KV_CODED);
}

/* A side that a coding is not for has no memory, and the other is coded as if
 * it had. */
TEST(one_side) {
  static const kv_minmax row = {2, D, 0};
  rig r;
  for (int sides = KV_BOTH_SIDES; sides <= KV_VALUES_ONLY; sides++) {
    kv_coding c =
        KV_CODING(&kv_format_token, &row, false, (kv_coded_sides)sides);
    begin_with(&r, &(kv_needs){.codings = 1, .coding = {c}});
    const kv_slab *k = &r.lane.k_slab[KV_CODED];
    const kv_slab *v = &r.lane.v_slab[KV_CODED];
    bool keys = sides != KV_VALUES_ONLY, values = sides != KV_KEYS_ONLY;
    assert_int_equal(k->cap, keys ? T + 1 : 0);
    assert_int_equal(v->cap, values ? T + 1 : 0);
    assert_true((k->data != NULL) == keys && (v->data != NULL) == values);
    kv_recode(&r.lane, 1, (int32_t[]){3}, keys ? KV_CODED : KV_SAME,
              values ? KV_CODED : KV_SAME);
    assert_int_equal(k->held, keys);
    assert_int_equal(v->held, values);
    if (sides == KV_KEYS_ONLY) assert_true(aborts(&r, of_key_to_value_side));
    end(&r);
  }
}

/* Every entry is named as often as the needs say, and then half go: there is
 * room for all of that and no fault; for twice as much there is none. */
TEST(room_for_records) {
  static const kv_minmax row = {2, D, 0};
  enum { LONG = 300 };
  static float k[LONG * D], v[LONG * D];
  static int32_t even[LONG];
  for (int changes = 0; changes < 6; changes++) {
    kv_needs needs = {
        .codings = 1,
        .coding = {{&kv_format_token, &row, false, KV_BOTH_SIDES}},
        .changes = changes};
    kv_layer_data data = {.k = k, .v = v};
    kv_lane l;
    kv_shape shape = {.n_heads = 1,
                      .n_kv_heads = 1,
                      .d = D,
                      .d_v = D,
                      .n_tokens = LONG,
                      .prompt_len = LONG,
                      .dtype = KV_F32};
    assert_int_equal(
        kv_lane_init(&l, &shape, &needs, kv_kernels_best(), 0, NULL), 0);
    assert_int_equal(kv_lane_room_init(&l.room, LONG, NULL), 0);
    kv_lane_begin(&l, &needs, &data);
    kv_lane_append(&l, 0, LONG);
    for (int i = 0; i < LONG; i++) even[i] = 2 * i;
    for (int i = 0; i < LONG * kv_needs_changes(&needs); i++)
      kv_recode(&l, 1, &(int32_t){i % LONG}, i % 2 ? KV_SAME : KV_CODED,
                KV_CODED);
    kv_keep(&l, LONG / 2, even);
    assert_int_equal(l.fault.rc, 0);
    assert_int_equal(l.n, LONG / 2);
    for (int i = 0; i < LONG && !l.fault.rc; i++)
      kv_recode(&l, 1, &(int32_t){i % l.n}, KV_CODED, KV_CODED);
    assert_int_equal(l.fault.rc, KV_INTERNAL);
    assert_non_null(strstr(l.fault.text, "needs.changes ("));
    kv_lane_room_release(&l.room);
    kv_lane_release(&l);
  }
}

/* --- what is stopped ---------------------------------------------------- */

static void twice(rig *r) { kv_merge(&r->lane, 2, 5, 1, 1); }
static void into_gone(rig *r) { kv_merge(&r->lane, 5, 2, 1, 1); }
static void move_across(rig *r) { kv_move(&r->lane, 7, 3); }
static void keep_gone(rig *r) { kv_keep(&r->lane, 2, (const int32_t[]){0, 5}); }
static void retier_gone(rig *r) { kv_retier(&r->lane, 1, (int32_t[]){5}, 1); }
static void no_such_class(rig *r) { kv_retier(&r->lane, 1, (int32_t[]){2}, 3); }
static void append_unswept(rig *r) {
  r->lane.n--;
  kv_lane_append(&r->lane, T - 1, 1);
}

static bool stops(void (*what)(rig *)) {
  rig r;
  begin(&r);
  kv_merge(&r.lane, 2, 5, 1, 1);
  bool stopped = aborts(&r, what);
  end(&r);
  return stopped;
}

TEST(gone_is_gone) {
  assert_true(stops(twice));
  assert_true(stops(into_gone));
  assert_true(stops(move_across));
  assert_true(stops(keep_gone));
  assert_true(stops(retier_gone));
  assert_true(stops(no_such_class));
  assert_true(stops(append_unswept));
}

/* --- time --------------------------------------------------------------- */

static double least(int tokens) {
  compression s;
  assert_int_equal(compression_open(&s, tokens, 8, 256, NULL), 0);
  double best = compression_run(&s);
  for (int i = 0; i < 3; i++) {
    double t = compression_run(&s);
    if (t < best) best = t;
  }
  assert_int_equal(s.lane.n, 256);
  compression_close(&s);
  return best;
}

/* Four times the tokens take some four times as long; if each merge moved
 * what stands behind it, it would be sixteen times. */
TEST(time_of_merges) {
  double few = least(16384), many = least(65536);
  assert_true(many < 8 * few);
}

int main(void) { return tests_run("verbs", NULL, NULL); }
