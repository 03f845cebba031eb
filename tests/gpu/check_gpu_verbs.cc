/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs on a device lane through the executor leave what the reference's
 * verbs leave: random sequences on both, with several merges before what was
 * merged away is swept, threads in both orders, and after each verb the same
 * scalars, arrays, member lists, records, slabs to the byte, log of rewritten
 * rows (by the digest that is made of it), and every element of K and V as
 * attention reads it. All dtypes, both widths of a code, both rules, groups
 * that divide nothing. A full journal stops a verb on both; a full log and a
 * scale that leaves fp16 are faults, the first one stays.
 */
#include "tests/support/backend/gpulane.h"

extern "C" {
#include "ref/kernels/kernels.h"
}
#include "gpu/block/launch.h"
#include "ref/ground/arith.h"
#include "tests/support/test.h"

/* --- random sequences ---------------------------------------------------- */

static int live_of(const gpulane *w) { return w->host.n - w->host.marked; }

static int some_live(const gpulane *w) {
  int i = gpulane_below(w->host.n);
  while (!kv_is_live(&w->host, i)) i = gpulane_below(w->host.n);
  return i;
}

/* list: the live entries in random order. */
static void shuffle(gpulane *w) {
  int n = 0;
  for (int i = 0; i < w->host.n; i++)
    if (kv_is_live(&w->host, i)) w->list[n++] = i;
  for (int i = n - 1; i > 0; i--) {
    int j = gpulane_below(i + 1), t = w->list[i];
    w->list[i] = w->list[j];
    w->list[j] = t;
  }
}

static gpulane_verb random_keep(gpulane *w) {
  int n = w->host.n, some = 1 + gpulane_below(n < 20 ? n : 20),
      hole = gpulane_below(n);
  bool by_mask = gpulane_below(2) == 0,
       reorder = !by_mask && gpulane_below(3) == 0;
  gpulane_verb v = {
      by_mask ? gpulane_verb::MASK : gpulane_verb::KEEP, 0, 0, 0, 0, 0, 0, 0};
  if (reorder) {
    shuffle(w);
    n = live_of(w);
    v.n = gpulane_below(2) || some > n ? n : n - some;
    return v;
  }
  for (int i = 0; i < n; i++) {
    w->keep[i] = i < hole || i >= hole + some || gpulane_below(4) == 0;
    if (hole % 5 == 0) w->keep[i] = 1;            /* changes nothing */
    if (hole % 5 == 1) w->keep[i] = i < n - some; /* a prefix */
    if (w->keep[i] && kv_is_live(&w->host, i)) w->list[v.n++] = i;
  }
  return v;
}

static bool has_room(const kv_slab *s) { return s->n_free || s->used < s->cap; }

/* -1: the side stays as it is, or its slab is full. */
static int random_format(const kv_slab *slab, int most) {
  int f = KV_CODED + gpulane_below(2);
  return gpulane_below(4) && has_room(&slab[f]) && (f == KV_CODED || most == 1)
             ? f
             : (int)KV_SAME;
}

static gpulane_verb random_recode(gpulane *w) {
  int group = w->settings.group, most = 1 + gpulane_below(group);
  if (most > live_of(w) || gpulane_below(3) == 0) most = 1;
  gpulane_verb v = {gpulane_verb::RECODE, most, 0, 0, 0, 0, 0, 0};
  v.k_format = random_format(w->host.k_slab, most);
  v.v_format = random_format(w->host.v_slab, most);
  shuffle(w);
  return v;
}

static gpulane_verb random_verb(gpulane *w) {
  int kind = gpulane_below(8);
  gpulane_verb v = {
      gpulane_verb::MOVE, 0, some_live(w), some_live(w), 0, 0, 0, 0};
  if (gpulane_below(8) == 0) v.other = v.one; /* a move to itself */
  if (kind < 2) return random_keep(w);
  if (kind < 5 && w->needs.codings) return random_recode(w);
  if (kind < 6 && w->needs.merges && v.one != v.other) {
    v.kind = gpulane_verb::MERGE;
    v.a = (float)w->host.weight[v.one];
    v.b = (float)w->host.weight[v.other] * (1 + gpulane_number() / 4);
  } else if (kind == 7) {
    shuffle(w);
    v.kind = gpulane_verb::RETIER;
    v.n = gpulane_below(live_of(w) < 9 ? live_of(w) : 9);
    v.other = gpulane_below(GPULANE_CLASSES);
  } else if (w->host.marked) {
    v.kind = gpulane_verb::SWEEP;
  }
  return v;
}

static void sequence(const gpulane_case *m) {
  gpulane *w = gpulane_open(m);
  gpulane_append(w, m->n_tokens * 3 / 4);
  for (int i = 0; i < m->verbs; i++) {
    if (live_of(w) < 30 || gpulane_below(8) == 0) {
      gpulane_both(w, {gpulane_verb::SWEEP, 0, 0, 0, 0, 0, 0, 0});
      gpulane_append(w, 1 + gpulane_below(9));
    }
    if (live_of(w) < 30) break;
    if (w->host.verbs.n > w->host.verbs.cap / 2 ||
        w->lane->n_log > w->lane->cap_log / 2)
      gpulane_end_step(w);
    gpulane_both(w, random_verb(w));
    gpulane_same(w);
    assert_int_equal(w->host.fault.rc, 0);
    assert_int_equal(w->lane->fault, KV_GPU_FINE);
  }
  gpulane_close(w);
}

static const gpulane_case cases[] = {
    {KV_F32, 2, 3, 10, 7, 200, 400, false, true, true},
    {KV_F16, 2, 7, 13, 8, 200, 120, true, false, true},
    {KV_F16, 4, 5, 9, 16, 200, 120, false, false, true},
    {KV_BF16, 4, 7, 12, 11, 200, 120, true, true, true},
    {KV_BF16, 2, 6, 33, 5, 120, 80, false, true, true},
    {KV_F32, 4, 4, 6, 21, 120, 80, true, true, true},
    {KV_F32, 2, 1, 8, 6, 700, 60, false, true, false},
    {KV_F16, 2, 1, 4, 3, 1500, 40, false, false, false}};

/* Merged rows in the trace's type, and of 16 bits once more as fp32. */
static void runs(int order) {
  kv_emu_order(order);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    gpulane_case wide = cases[i];
    gpulane_seed(77u + (uint32_t)i);
    sequence(&cases[i]);
    wide.merged = KV_MEANS_FP32;
    if (wide.merges && wide.dtype != KV_F32) sequence(&wide);
  }
  kv_emu_order(0);
}

TEST(forward) { runs(0); }
TEST(reverse) { runs(1); }

/* --- faults -------------------------------------------------------------- */

static const gpulane_case small = {KV_F32, 2, 3,     6,    5,
                                   20,     0, false, true, true};

/* The journal has room for one retier (7 words) and no more. */
TEST(journal) {
  gpulane *w = gpulane_open(&small);
  gpulane_append(w, 20);
  w->host.verbs.cap = 12;
  w->lane->cap_verbs = 12;
  for (int i = 0; i < 20; i++) w->list[i] = w->keep[i] = i != 4;
  const gpulane_verb verbs[] = {
      {gpulane_verb::RETIER, 1, 0, 2, 0, 0, 0, 0},
      {gpulane_verb::MASK, 0, 0, 0, 0, 0, 0, 0},
      {gpulane_verb::MERGE, 0, 1, 2, 0, 0, 1, 1},
      {gpulane_verb::RECODE, 2, 0, 0, KV_CODED, KV_SAME, 0, 0},
      {gpulane_verb::MOVE, 0, 1, 2, 0, 0, 0, 0},
      {gpulane_verb::RETIER, 1, 0, 2, 0, 0, 0, 0}};
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
    gpulane_both(w, verbs[i]);
    gpulane_same(w);
    assert_int_equal(w->host.fault.rc, i ? KV_INTERNAL : 0);
    assert_int_equal(w->lane->fault, i ? KV_GPU_JOURNAL : KV_GPU_FINE);
  }
  assert_int_equal(w->lane->n_verbs, 7);
  gpulane_close(w);
}

TEST(full_log) {
  gpulane *w = gpulane_open(&small);
  gpulane_append(w, 20);
  w->lane->cap_log = 1;
  w->list[0] = 7;
  w->list[1] = 3;
  gpulane_both(w, {gpulane_verb::RECODE, 0, 0, 0, KV_CODED, KV_SAME, 0, 0});
  assert_int_equal(w->lane->n_verbs, 0);
  gpulane_both(w, {gpulane_verb::RECODE, 1, 0, 0, KV_CODED, KV_SAME, 0, 0});
  gpulane_same(w);
  assert_int_equal(w->lane->fault, KV_GPU_FINE);
  gpulane_both(w, {gpulane_verb::RECODE, 2, 0, 0, KV_CODED, KV_SAME, 0, 0});
  assert_int_equal(w->lane->fault, KV_GPU_JOURNAL);
  assert_int_equal(w->lane->n_log, 1);
  gpulane_close(w);
}

/* All entries coded, each by itself, and then again in the format they have: a
 * full slab has room for the block that is taken before the old one is left. */
TEST(full_slab) {
  gpulane_case m = small;
  m.n_tokens = 20;
  gpulane *w = gpulane_open(&m);
  gpulane_append(w, m.n_tokens);
  for (int i = 0; i < 2 * m.n_tokens; i++) {
    w->list[0] = i % m.n_tokens;
    gpulane_both(
        w, {gpulane_verb::RECODE, 1, 0, 0, KV_CODED + 1, KV_CODED + 1, 0, 0});
    gpulane_same(w);
    if (w->lane->n_log > w->lane->cap_log / 2) gpulane_end_step(w);
  }
  assert_int_equal(w->host.v_slab[KV_CODED + 1].held, m.n_tokens);
  assert_int_equal(w->lane->fault, KV_GPU_FINE);
  gpulane_close(w);
}

/* The last element of K of tokens 5 and 9 is made x; then a group that begins
 * with each is coded. The first fault stays. */
static void scale_case(bool fp16_ops, int format, float x, bool fits) {
  gpulane_case m = small;
  m.fp16_ops = fp16_ops;
  gpulane *w = gpulane_open(&m);
  for (int i = 5; i < 10; i += 4) {
    int row = w->host.kv_head * m.n_tokens + i;
    ((float *)w->data.k)[row * m.d + m.d - 1] = x;
  }
  gpulane_append(w, 20);
  for (int i = 5; i < 10; i += 4) {
    w->list[0] = i;
    w->list[1] = i + 1;
    int n = format == KV_CODED ? 2 : 1;
    gpulane_both(w, {gpulane_verb::RECODE, n, 0, 0, format, KV_SAME, 0, 0});
    assert_int_equal(w->host.fault.rc, fits ? 0 : KV_REFUSED);
    assert_int_equal(w->lane->fault, fits ? KV_GPU_FINE : KV_GPU_SCALE);
    if (fits) gpulane_same(w);
    if (!fits) assert_int_equal(w->lane->fault_at, 5);
  }
  gpulane_close(w);
}

/* 3 * h(65504 / 3) is more than fp16 holds, and is read in binary32. */
TEST(scales) {
  for (int fp16 = 0; fp16 < 2; fp16++)
    for (int format = KV_CODED; format < KV_CODED + 2; format++) {
      scale_case(fp16, format, 60000, true);
      scale_case(fp16, format, 65504, true);
      scale_case(fp16, format, 70000, !fp16);
      scale_case(fp16, format, -70000, false);
      scale_case(fp16, format, 300000, false);
    }
}

/* Tokens 5 and 9 begin with x in K, or in V, and are merged with weights a and
 * b; then two that may be merged. The first fault stays. */
static void mean_case(kv_dtype dtype, kv_means merged, bool key, float x,
                      float a, float b, bool fits) {
  gpulane_case m = small;
  m.dtype = dtype;
  m.merged = merged;
  gpulane *w = gpulane_open(&m);
  int width = key ? m.d : m.d_v;
  for (int i = 5; i < 10; i += 4) {
    size_t at = (size_t)((w->host.kv_head * m.n_tokens + i) * width);
    char *rows = (char *)(key ? w->data.k : w->data.v);
    if (dtype == KV_F32)
      ((float *)rows)[at] = x;
    else
      ((uint16_t *)rows)[at] = dtype == KV_F16 ? kv_to_f16(x) : kv_to_bf16(x);
  }
  gpulane_append(w, 20);
  gpulane_both(w, {gpulane_verb::MERGE, 0, 9, 5, 0, 0, a, b});
  gpulane_both(w, {gpulane_verb::MERGE, 0, 2, 3, 0, 0, 1, 1});
  assert_int_equal(w->host.fault.rc, fits ? 0 : KV_REFUSED);
  assert_int_equal(w->lane->fault, fits ? KV_GPU_FINE : KV_GPU_MEAN);
  if (!fits) {
    assert_int_equal(w->lane->fault_at, 9);
    assert_non_null(strstr(w->host.fault.text, "merging into token 9"));
  }
  gpulane_same(w);
  gpulane_close(w);
}

/* 5 x - 4 x + 3 x over 2 is more than a half has; x + x more than a float. */
TEST(means) {
  for (int key = 0; key < 2; key++) {
    mean_case(KV_F16, KV_MEANS_TRACE, key, 60000, 1, 1, true);
    mean_case(KV_F16, KV_MEANS_TRACE, key, 65504, 3, 5, true);
    mean_case(KV_F16, KV_MEANS_TRACE, key, 60000, 3, -1, true);
    mean_case(KV_F16, KV_MEANS_TRACE, key, 60000, 1, -1, false);
    mean_case(KV_F32, KV_MEANS_TRACE, key, 3e38f, 1, 1, false);
    mean_case(KV_BF16, KV_MEANS_TRACE, key, 3e38f, 1, 1, false);
    mean_case(KV_BF16, KV_MEANS_FP32, key, 3e38f, 1, 1, false);
    mean_case(KV_BF16, KV_MEANS_TRACE, key, 1e38f, 1, 1, true);
  }
}

/* The entry's key in coding `format` on both: what its elements 1 and 2 read.
 */
static void recode_key(gpulane *w, int entry, int format, float a, float b) {
  float key[8];
  w->list[0] = entry;
  gpulane_both(w, {gpulane_verb::RECODE, 1, 0, 0, format, KV_SAME, 0, 0});
  gpulane_same(w);
  kv_lane_key(&w->host, entry, key);
  assert_true(key[0] == 0 && key[1] == a && key[2] == b);
}

/* A key coded in 8 bits is coded again in 4, from its codes: by hand in
 * check_named, rounded_twice. Its neighbour goes to 4 bits at once. */
TEST(demoted) {
  static const kv_minmax high = {8, 6, KV_RULE_UNROUNDED},
                         low = {4, 6, KV_RULE_UNROUNDED};
  static const kv_coding codings[2] = {
      {&kv_format_token, &high, false, KV_BOTH_SIDES},
      {&kv_format_token, &low, false, KV_BOTH_SIDES}};
  static const float row[6] = {0, 255.11767578125f, 100, 0, 0, 0};
  gpulane_case m = small;
  m.coding = codings;
  for (int order = 0; order < 2; order++) {
    kv_emu_order(order);
    gpulane *w = gpulane_open(&m);
    for (int i = 5; i < 7; i++)
      memcpy((float *)w->data.k + (w->host.kv_head * m.n_tokens + i) * m.d, row,
             sizeof row);
    gpulane_append(w, 20);
    recode_key(w, 5, KV_CODED, 255, 100);
    recode_key(w, 5, KV_CODED + 1, 255, 102);
    recode_key(w, 6, KV_CODED + 1, 255.234375f, 102.09375f);
    assert_int_equal(w->host.k_slab[KV_CODED].held, 0);
    gpulane_close(w);
  }
  kv_emu_order(0);
}

/* --- what a lane remembers ------------------------------------------------ */

/* Rows stay in order until one goes from between others. */
TEST(holes) {
  gpulane *w = gpulane_open(&small);
  gpulane_append(w, 20);
  const gpulane_verb verbs[] = {{gpulane_verb::MERGE, 0, 2, 19, 0, 0, 1, 1},
                                {gpulane_verb::MERGE, 0, 2, 18, 0, 0, 1, 1},
                                {gpulane_verb::KEEP, 17, 0, 0, 0, 0, 0, 0},
                                {gpulane_verb::MERGE, 0, 3, 7, 0, 0, 1, 1}};
  for (int i = 0; i < 17; i++) w->list[i] = i;
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
    gpulane_both(w, verbs[i]);
    gpulane_same(w);
    assert_int_equal(w->lane->dropped, 1);
    assert_int_equal(w->lane->holes, i == 3);
  }
  gpulane_close(w);
}

int main(void) {
  kv_float_ground();
  return tests_run("gpu verbs", NULL, NULL);
}
