/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a cascade: temperatures, prefixes, pairs that are merged, and
 * tiers that join.
 *
 * The worked calibration: twelve logits, p = .9, pooling over three. Of the
 * logits themselves the first four by rank {0 7 3 11} hold .911195. Of the
 * pooled row they hold that at T = .411268 (at T = 1 only .695289, and a share
 * of .9 would take seven); the target .9 would give T = .435532; the shipped
 * search, of the first four by place, stops at .313187. Of logits to which .8
 * is added at odd places and from which .2 is taken at even ones, T = 1.031524.
 *
 * The worked pairs, logits (2, -1), (1, 1), (5, -5): the merged logit is
 * 1.857722, 1, 4.999546, and .190865, .693147, .000499 below the log of their
 * summed exponentials: the entropy of the pair.
 */
#include "ref/backend/attend.h"
#include "ref/parts/cascade.h"
#include "ref/parts/votes.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t drawn = 1;
/* -1 to 1, of full mantissas. */
static float draw(void) {
  drawn = drawn * 1664525u + 1013904223u;
  return (float)(int32_t)drawn * 0x1p-31f;
}

/* --- temperatures --------------------------------------------------------- */

enum { TWELVE = 12, P90 = 943718 /* .9 * 2^20 */ };
static const float twelve[TWELVE] = {4,   .5f,  .2f, 2.5f, .1f, -.3f,
                                     .4f, 3.2f, 0,   -.5f, .3f, 1};

static kv_at at_best(void) { return (kv_at){.kernels = kv_kernels_best()}; }

/* Sorts x, less its largest, into out, of which the first k are looked at;
 * order may be NULL. */
static kv_scores_less sorted(const float *x, int n, int k, float *out,
                             int32_t *order) {
  int32_t list[64], spare[64];
  for (int i = 0; i < n; i++) list[i] = i;
  kv_order(x, n, list, spare);
  for (int i = 0; i < n; i++) out[i] = x[list[i]] - x[list[0]];
  if (order) memcpy(order, list, (size_t)n * sizeof *order);
  return (kv_scores_less){n, k, out, out};
}

static float share(const kv_at *at, kv_scores_less row, float t) {
  float e[64];
  double all = (double)at->kernels->exp_over(row.less, t, row.n, e), sum = 0;
  for (int i = 0; i < row.k; i++) sum += (double)kv_fix(e[i]);
  return (float)(sum / all);
}

/* How many are in the least prefix of mass p. */
static int prefix(const kv_at *at, kv_scores_less row, float t, double p) {
  row.k = 1;
  while (row.k < row.n && share(at, row, t) < p) row.k++;
  return row.k;
}

static void near(float got, double want, double within) {
  if (!(fabs((double)got - want) <= within))
    fail_msg("got %.7f, want %.7f", (double)got, want);
}

static float temperature(const kv_at *at, kv_scores_less row, float want,
                         int rule, bool *met) {
  kv_search s = kv_calibrate(at, row, want, rule);
  *met = s.met;
  return s.t;
}

TEST(calibration) {
  kv_at at = at_best();
  float less[TWELVE], pooled[TWELVE], moved[TWELVE];
  int32_t order[TWELVE];
  bool met;
  kv_scores_less row = sorted(twelve, TWELVE, 4, less, order);
  assert_int_equal(prefix(&at, row, 1, .9), 4);
  assert_memory_equal(order, ((int32_t[]){0, 7, 3, 11}), 16);
  float want = share(&at, row, 1);
  near(want, .911195, 1e-6);

  kv_pool_max(twelve, TWELVE, 3, pooled);
  row = sorted(pooled, TWELVE, 4, less, order);
  near(share(&at, row, 1), .695289, 1e-6);
  float t = temperature(&at, row, want, KV_CALIBRATE_BISECT, &met);
  near(t, .411268, 2e-6);
  assert_true(met);
  assert_int_equal(prefix(&at, row, t, .9), 4);
  assert_memory_equal(order, ((int32_t[]){0, 1, 6, 7}), 16);
  near(temperature(&at, row, .9f, KV_CALIBRATE_BISECT, &met), .435532, 2e-6);
  /* From .5 on the slope leads to where a hundredth is left. */
  t = temperature(&at, row, want, KV_CALIBRATE_GRADIENT, &met);
  assert_true(met && t < .5f && t > .4f);
  near(share(&at, row, t), .911195, .01);

  for (int i = 0; i < TWELVE; i++) moved[i] = twelve[i] + (i % 2 ? .8f : -.2f);
  row = sorted(moved, TWELVE, 4, less, NULL);
  near(temperature(&at, row, want, KV_CALIBRATE_BISECT, &met), 1.031524, 4e-6);

  /* As shipped: four by place, the target .9, halves of [.001, 1]. */
  for (int i = 0; i < TWELVE; i++) less[i] = pooled[i] - 4;
  row = (kv_scores_less){TWELVE, 4, less, less};
  near(temperature(&at, row, .9f, KV_CALIBRATE_SHIPPED, &met), .313187, 1e-6);
  assert_true(met);
}

/* All of a row, equal rows, and masses that no T gives. */
TEST(edges) {
  static const float equal[3] = {2, 2, 2}, tied[4] = {3, 3, 3, 0};
  kv_at at = at_best();
  float less[4];
  bool met;
  for (int rule = KV_CALIBRATE_BISECT; rule <= KV_CALIBRATE_GRADIENT; rule++) {
    kv_scores_less row = sorted(equal, 3, 2, less, NULL);
    assert_true(temperature(&at, row, .5f, rule, &met) == 1 && met);
    row = sorted(tied, 4, 4, less, NULL);
    assert_true(temperature(&at, row, .5f, rule, &met) == 1 && met);
    /* Two of three that are tied hold two thirds at most. */
    row.k = 2;
    float t = temperature(&at, row, .9f, rule, &met);
    assert_false(met);
    assert_true(t >= .001f && t < (rule == KV_CALIBRATE_BISECT ? .0011f : .5f));
  }
}

/* --- prefixes ------------------------------------------------------------- */

enum { LONG = 900 };
typedef struct row {
  int n;
  float x[LONG], e[LONG], near[LONG];
  int64_t weight[LONG];
  int32_t place[LONG], order[LONG], spare[LONG];
} row;

/* The first k by a whole ranking are those that were found. */
static void same_prefix(row *r, int k, int found) {
  bool in[LONG] = {false};
  assert_int_equal(found, k);
  for (int i = 0; i < k; i++) in[r->order[i]] = true;
  for (int i = 0; i < found; i++) {
    assert_true(in[r->place[i]]);
    assert_true(i == 0 || r->place[i] > r->place[i - 1]);
  }
}

/* Of rows with many ties, whatever the guess is. */
TEST(prefixes) {
  static row r;
  kv_at at = at_best();
  kv_prefixes f = {&at, r.near, r.weight, r.place, 0};
  for (int round = 0; round < 200; round++) {
    r.n = 1 + (int)(fabsf(draw()) * (LONG - 1));
    float most = -1e30f, steps = round % 3 ? 4.0f : 1e6f;
    for (int i = 0; i < r.n; i++) {
      r.x[i] = rintf(draw() * steps) * (20 / steps);
      most = fmaxf(most, r.x[i]);
      r.order[i] = i;
    }
    for (int i = 0; i < r.n; i++) r.near[i] = r.x[i] - most;
    int64_t all = at.kernels->exp_over(r.near, 1.5f, r.n, r.e), sum = 0, mass;
    int32_t p20 = 1 + (int32_t)(fabsf(draw()) * ((1 << 20) - 1));
    int k = 0;
    kv_order(r.x, r.n, r.order, r.spare);
    while (k == 0 || sum < kv_share_of(all, p20))
      sum += kv_fix(r.e[r.order[k++]]);
    int found =
        kv_prefix_by_mass(&f, r.x, r.e, r.n, most, all, p20, false, &mass);
    assert_true(mass == sum && sum >= kv_share_of(all, p20));
    same_prefix(&r, k, found);
    kv_prefix_by_count(&f, r.x, r.n, most, k);
    same_prefix(&r, k, k);
    while (k < r.n && r.x[r.order[k]] == r.x[r.order[k - 1]]) k++;
    found = kv_prefix_by_mass(&f, r.x, r.e, r.n, most, all, p20, true, &mass);
    same_prefix(&r, k, found);
  }
}

/* Entries of one unit of mass, far below the first: wanted to the last. */
TEST(last_units) {
  static row r = {.n = 12, .x = {40}, .e = {1}};
  int64_t all = ((int64_t)1 << 40) + r.n - 1, mass;
  kv_at at = at_best();
  for (int i = 1; i < r.n; i++) r.e[i] = 0x1p-40f;
  for (int units = 0; units < r.n; units++) {
    kv_prefixes f = {&at, r.near, r.weight, r.place, 0};
    assert_int_equal(kv_prefix_by_mass(&f, r.x, r.e, r.n, 40, all - units,
                                       1 << 20, false, &mass),
                     r.n - units);
  }
}

/* --- pairs ---------------------------------------------------------------- */

enum { ENTRIES = 6 };
typedef struct lane_of {
  kv_shape shape;
  kv_needs needs;
  kv_layer_data data;
  kv_lane lane;
  float a[ENTRIES];
} lane_of;

/* Entries of one element; q is 1, so keys are logits, and values their
 * negatives; a their exponentials. */
static void begin(lane_of *l, int n, const float *key, const float *value) {
  *l = (lane_of){.shape = {.n_heads = 1,
                           .n_kv_heads = 1,
                           .d = 1,
                           .d_v = 1,
                           .n_tokens = n,
                           .prompt_len = n,
                           .dtype = KV_F32},
                 .needs = {.merges = true},
                 .data = {.k = key, .v = value}};
  assert_int_equal(
      kv_lane_init(&l->lane, &l->shape, &l->needs, kv_kernels_best(), 0, NULL),
      0);
  assert_int_equal(kv_lane_room_init(&l->lane.room, n, NULL), 0);
  kv_lane_begin(&l->lane, &l->needs, &l->data);
  kv_lane_append(&l->lane, 0, n);
  for (int i = 0; i < n; i++) l->a[i] = expf(key[i]);
}

static void end(lane_of *l) {
  kv_lane_room_release(&l->lane.room);
  kv_lane_release(&l->lane);
}

/* Theorem G.1; and what dropping the smaller one would lose is never more. */
static void pair_loses(const float *key, double merged, double deficit) {
  float value[2] = {-key[0], -key[1]}, k, v;
  int32_t stays[1] = {0}, goes[1] = {1}, spare[2];
  lane_of l;
  begin(&l, 2, key, value);
  assert_int_equal(kv_condense(&l.lane, 1, stays, 1, goes, l.a, spare), 1);
  kv_lane_key(&l.lane, 0, &k);
  kv_lane_value(&l.lane, 0, &v);
  double a = exp(key[0]), b = exp(key[1]), p = a / (a + b), lse = log(a + b);
  double entropy = -p * log(p) - (1 - p) * log(1 - p), lost = lse - (double)k;
  near(k, merged, 2e-6);
  assert_true(v == -k);
  near((float)lost, deficit, 3e-6);
  near((float)lost, entropy, 3e-6);
  assert_true(lost > -1e-6);
  assert_true(lost >= lse - fmax(key[0], key[1]) - 1e-6);
  assert_true(l.lane.weight[0] == 2 && l.lane.rewritten == 1);
  kv_bytes held = {0};
  kv_sweep(&l.lane);
  kv_lane_bytes(&l.lane, &held); /* one fp32 row of each side; place, weight */
  assert_true(held.payload == 8 && held.metadata == 12 - 4 * !l.lane.holes);
  end(&l);
}

TEST(pairs) {
  pair_loses((float[]){2, -1}, 1.857722, .190865);
  pair_loses((float[]){1, 1}, 1, .693147);
  pair_loses((float[]){5, -5}, 4.999546, .000499);
  for (int i = 0; i < 100; i++) {
    float key[2] = {6 * draw(), 6 * draw()};
    double a = exp(key[0]), b = exp(key[1]), p = a / (a + b);
    double mean = p * key[0] + (1 - p) * key[1];
    pair_loses(key, mean, log(a + b) - mean);
  }
}

/* The largest with the smallest, round and round; who weighs nothing goes. */
TEST(rings) {
  static const float key[ENTRIES] = {1, 3, -2, 2, -1, 0};
  int32_t stays[2] = {1, 3}, goes[4] = {0, 2, 4, 5}, spare[ENTRIES];
  float k;
  lane_of l;
  begin(&l, ENTRIES, key, key);
  l.a[4] = 0;
  assert_int_equal(kv_condense(&l.lane, 2, stays, 4, goes, l.a, spare), 3);
  /* Rising: 4 (nothing), -2 to 2 (entry 3), 0 to 3 (entry 1), 1 to entry 3. */
  double b = exp(2), c = exp(-2), d = exp(1);
  kv_lane_key(&l.lane, 3, &k);
  near(k, (2 * b - 2 * c + d) / (b + c + d), 3e-6);
  kv_lane_key(&l.lane, 1, &k);
  near(k, 3 * exp(3) / (exp(3) + 1), 3e-6);
  assert_true(kv_is_live(&l.lane, 4));
  kv_sweep(&l.lane);
  assert_int_equal(l.lane.n, 3);
  end(&l);
  begin(&l, ENTRIES, key, key);
  assert_int_equal(kv_condense(&l.lane, 0, stays, 4, goes, l.a, spare), 0);
  end(&l);
}

/* --- tiers ---------------------------------------------------------------- */

enum { TOKENS = 4 * KV_CHUNK + 9, WIDE = 5 };
typedef struct tiers {
  float s[TOKENS], v[TOKENS * WIDE];
  int first;
  kv_attend_scratch x;
} tiers;

/* (o, LSE). */
typedef struct part {
  float o[WIDE], lse;
} part;

static int name_values(void *ctx, int first, int count, kv_attend_scratch *x,
                       kv_row_kind *kind) {
  const tiers *t = ctx;
  for (int i = 0; i < count; i++)
    x->row[i] = t->v + (size_t)(t->first + first + i) * WIDE;
  *kind = (kv_row_kind){.type = KV_F32};
  return count;
}

static part attend(tiers *t, int first, int end) {
  part p;
  t->first = first;
  kv_attend_rows(kv_kernels_best(), 1, end - first, WIDE, t->s + first, TOKENS,
                 name_values, t, &t->x, p.o, &p.lse);
  return p;
}

static part join(part a, part b) {
  part c;
  float m = a.lse > b.lse ? a.lse : b.lse;
  float x = kv_expm(a.lse - m), y = kv_expm(b.lse - m), sum = x + y;
  for (int i = 0; i < WIDE; i++) c.o[i] = kv_fma(a.o[i], x, b.o[i] * y) / sum;
  c.lse = m + kv_log(sum);
  return c;
}

static void alike(part a, part b, double within) {
  double most = 0;
  for (int i = 0; i < WIDE; i++) most = fmax(most, fabs((double)a.o[i]));
  for (int i = 0; i < WIDE; i++) near(a.o[i], b.o[i], within * most);
  near(a.lse, b.lse, within * fmax(1, fabs((double)a.lse)));
}

/* Three tiers by themselves, joined in any order and any pairs, are one
 * attention to 1e-6; as chunks of the lane's own order, to the bit. */
TEST(tiers_join) {
  static tiers t;
  assert_int_equal(kv_attend_scratch_init(&t.x, WIDE, WIDE, 1, TOKENS, NULL),
                   0);
  for (int round = 0; round < 20; round++) {
    float best = -1e30f, first = -1e30f, l, o[WIDE];
    int i = 1 + (int)(fabsf(draw()) * 200),
        j = i + 1 + (int)(fabsf(draw()) * 99);
    for (int n = 0; n < TOKENS; n++) {
      t.s[n] = 9 * draw();
      best = fmaxf(best, t.s[n]);
      if (n < 2 * KV_CHUNK) first = best;
    }
    for (int n = 0; n < TOKENS * WIDE; n++) t.v[n] = draw() + .5f;
    part all = attend(&t, 0, TOKENS), a = attend(&t, 0, i);
    part b = attend(&t, i, j), c = attend(&t, j, TOKENS);
    alike(all, join(join(a, b), c), 1e-6);
    alike(join(join(a, b), c), join(a, join(b, c)), 1e-6);
    part ab = join(a, b), ba = join(b, a);
    alike(ab, ba, 3e-7);

    t.first = 0;
    kv_attend_begin(kv_kernels_best(), 1, 2 * KV_CHUNK, WIDE, t.s, TOKENS,
                    name_values, &t, &t.x, &best, &l, o);
    kv_begun begun = {2 * KV_CHUNK, &first, &best, &l, o};
    t.x.begun = &begun;
    part chunks = attend(&t, 0, TOKENS);
    t.x.begun = NULL;
    assert_memory_equal(&chunks, &all, sizeof all);
  }
  kv_attend_scratch_release(&t.x);
}

int main(void) { return tests_run("cascade", NULL, NULL); }
