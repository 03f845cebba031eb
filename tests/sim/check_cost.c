/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of the ledger's totals: sums and means run from prompt_len to T
 * after compression, the peak over all blocks adds the largest excess of one
 * layer before it compresses, and the order of feeding cannot be seen. A row
 * that several heads read counts once, a coded group once whatever is read of
 * it. Expected numbers are computed here from the definition.
 */
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "sim/replay/measure/cost.h"
#include "tests/support/world.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 3, BLOCKS = 4, STEPS = 5, POINTS = BLOCKS + STEPS };

/* 4 query heads on 2 KV heads, d 8 and 4, F16: a dense token costs 2 heads *
 * 12 elements * 2 bytes a layer. */
static const kv_shape shape = {9, 4, 2, 8, 4, 20, 15, 0, KV_F16, 1, 0, 0, NULL};

static kv_bytes before[LAYERS][POINTS], compressed[LAYERS][POINTS];
static kv_cost_row row[LAYERS][POINTS][2];

static void make_numbers(void) {
  for (int l = 0; l < LAYERS; l++)
    for (int b = 0; b < POINTS; b++) {
      compressed[l][b] = (kv_bytes){.payload = world_below(5000),
                                    .metadata = world_below(90),
                                    .columns = world_below(80),
                                    .side = world_below(70),
                                    .slack = world_below(60)};
      before[l][b] = compressed[l][b];
      before[l][b].payload += world_below(3000) - (b & 1 ? 3000 : 500);
      before[l][b].metadata += world_below(40);
      for (int i = 0; i < 2; i++)
        row[l][b][i] =
            (kv_cost_row){world_below(4000), world_below(30), world_below(900),
                          world_below(700), world_below(600)};
    }
}

static void feed(kv_cost *c, int l, int b) {
  kv_cost_verbs v = {l + 1, 10 * b};
  kv_cost_held(c, l, b, &before[l][b], row[l][b][0].materialised,
               &compressed[l][b]);
  kv_cost_moved(c, l, &v);
  for (int i = 0; i < 2 && b >= BLOCKS; i++)
    kv_cost_read(c, l, b, &row[l][b][i]);
  for (int i = 0; i < 2; i++) kv_cost_kept(c, l, i, 3 * l + i);
}

/* Layers apart: each is fed twice, as if it had been begun anew, and goes into
 * the ledger of another through its bytes. */
static void through_bytes(kv_cost **c) {
  kv_cost *other;
  kv_copier size = {0};
  kv_cost_layer_copy(*c, 0, &size);
  char *room = malloc(size.size);
  assert_int_equal(kv_cost_open(&shape, LAYERS, 2, BLOCKS, true, &other, NULL),
                   KV_OK);
  for (int l = LAYERS - 1; l >= 0; l--) {
    kv_cost_layer_begin(*c, l);
    for (int b = 0; b < POINTS; b++) feed(*c, l, b);
    kv_cost_layer_copy(*c, l, &(kv_copier){.out = room});
    kv_cost_layer_copy(other, l, &(kv_copier){.from = room});
  }
  free(room);
  kv_cost_close(*c);
  *c = other;
}

/* group: of each layer, or NULL; with it layers are apart. */
static kv_result totals(bool by_layer, bool apart, const int *group) {
  kv_cost *c;
  kv_result r = {0};
  assert_int_equal(kv_cost_open(&shape, LAYERS, 2, BLOCKS, apart, &c, NULL),
                   KV_OK);
  kv_cost_take_groups(c, group);
  for (int i = 0; i < LAYERS * POINTS; i++)
    if (by_layer)
      feed(c, i / POINTS, i % POINTS);
    else
      feed(c, LAYERS - 1 - i % LAYERS, i / LAYERS);
  if (apart) through_bytes(&c);
  kv_cost_take_groups(c, group);
  assert_int_equal(kv_cost_finish(c, &r, NULL), KV_OK);
  kv_cost_close(c);
  return r;
}

static int64_t sum_at(int b, bool codes) {
  int64_t sum = 0;
  for (int l = 0; l < LAYERS; l++)
    sum += codes ? compressed[l][b].payload : kv_bytes_total(&compressed[l][b]);
  return sum;
}

/* Rows that a step made which are there while layer l is not compressed yet:
 * its own, or those of all layers of its group. */
static int64_t made_at(int l, int b, const int *group) {
  int64_t sum = 0;
  for (int i = 0; i < LAYERS; i++)
    if (group ? group[i] == group[l] : i == l) sum += row[i][b][0].materialised;
  return sum;
}

static int64_t peak(bool codes, const int *group) {
  int64_t best = 0;
  for (int b = 0; b < POINTS; b++)
    for (int l = 0; l < LAYERS; l++) { /* while layer l is not compressed yet */
      int64_t now = sum_at(b, codes);
      now += codes ? before[l][b].payload - compressed[l][b].payload
                   : kv_bytes_total(&before[l][b]) + made_at(l, b, group) -
                         kv_bytes_total(&compressed[l][b]);
      if (now > best) best = now;
    }
  return best;
}

static void check_steps(const kv_result *r) {
  int64_t mti = 0, codes = 0, read = 0, scanned = 0, seen = 0, dense = 0;
  int64_t fetched = 0;
  double kr = 0;
  for (int i = 0; i <= STEPS; i++) {
    int b = BLOCKS - 1 + i, t = 15 + i;
    int64_t step_read = 0, step_scanned = 0;
    mti += sum_at(b, false);
    codes += sum_at(b, true);
    kr += (double)sum_at(b, false) / (double)(LAYERS * 2 * 12 * 2 * t);
    for (int l = 0; l < LAYERS && i > 0; l++)
      for (int k = 0; k < 2; k++) {
        step_read += row[l][b][k].bytes;
        step_scanned += row[l][b][k].scanned;
        seen += row[l][b][k].attended;
        fetched += row[l][b][k].fetched;
      }
    dense += i ? LAYERS * 4 * t : 0;
    read += step_read;
    scanned += step_scanned;
    assert_int_equal(r->step[i].step, t);
    assert_int_equal(r->step[i].bytes, sum_at(b, false));
    assert_int_equal(r->step[i].codes, sum_at(b, true));
    assert_int_equal(r->step[i].read, step_read);
    assert_int_equal(r->step[i].scanned, step_scanned);
  }
  assert_int_equal(r->n_steps, STEPS + 1);
  assert_int_equal(r->totals.mti, mti);
  assert_true(r->totals.mean == (double)mti / 6);
  assert_true(r->totals.codes_mean == (double)codes / 6);
  assert_true(r->totals.kr == kr / 6);
  assert_true(r->totals.read == (double)read / 5);
  assert_true(r->totals.scanned == (double)scanned / 5);
  assert_int_equal(r->totals.fetched, fetched);
  assert_true(r->totals.cr == (double)seen / (double)dense);
  assert_true(r->totals.attended == (double)seen / (LAYERS * 4 * 5));
}

TEST(totals_by_definition) {
  for (int round = 0; round < 20; round++) {
    make_numbers();
    kv_result r = totals(true, round & 1, NULL);
    kv_result o = totals(false, round & 2, NULL);
    assert_memory_equal(&r.totals, &o.totals, sizeof r.totals);
    assert_int_equal(r.totals.peak, peak(false, NULL));
    assert_int_equal(r.totals.codes_peak, peak(true, NULL));
    check_steps(&r);
    kv_bytes end = {0};
    for (int l = 0; l < LAYERS; l++)
      kv_bytes_add(&end, &compressed[l][POINTS - 1]);
    assert_memory_equal(&r.totals.end, &end, sizeof end);
    assert_int_equal(r.totals.codes_end, end.payload);
    assert_int_equal(r.totals.verbs, (1 + 2 + 3) * POINTS);
    assert_int_equal(r.totals.moved, LAYERS * 10 * 36);
    assert_true(r.totals.kept == 3.5); /* 0 1 3 4 6 7 */
    assert_int_equal(r.totals.kept_min, 0);
    assert_int_equal(r.totals.kept_max, 7);
    free(r.step);
    free(o.step);
  }
}

/* All numbers are as without groups, but for the peak. */
TEST(groups_hold_rows) {
  static const int groups[][LAYERS] = {{4, 4, 4}, {4, 5, 5}, {4, 4, 6}};
  for (int round = 0; round < 30; round++) {
    const int *group = groups[round % 3];
    make_numbers();
    kv_result r = totals(true, true, group), o = totals(true, true, NULL);
    assert_int_equal(r.totals.peak, peak(false, group));
    r.totals.peak = o.totals.peak;
    assert_memory_equal(&r.totals, &o.totals, sizeof r.totals);
    free(r.step);
    free(o.step);
  }
}

/* prompt_len = T: bytes exist, nothing is read. */
TEST(nothing_decoded) {
  kv_shape all = shape;
  kv_cost *c;
  kv_result r = {0};
  kv_bytes held = {.payload = 20 * 12 * 2 * 2};
  all.prompt_len = all.n_tokens;
  assert_int_equal(kv_cost_open(&all, 1, 2, 1, false, &c, NULL), KV_OK);
  kv_cost_held(c, 0, 0, &held, 0, &held);
  assert_int_equal(kv_cost_finish(c, &r, NULL), KV_OK);
  assert_true(r.totals.kr == 1 && r.totals.mean == (double)held.payload);
  assert_int_equal(r.totals.peak, held.payload);
  assert_true(isnan(r.totals.read) && isnan(r.totals.cr) &&
              isnan(r.totals.attended));
  free(r.step);
  kv_cost_close(c);
}

TEST(parts_get_kept) {
  kv_part part[] = {{.layer = 0, .head = -1, .bin = -1},
                    {.layer = 7, .head = -1, .bin = -1},
                    {.layer = 0, .head = 0, .bin = -1},
                    {.layer = 0, .head = 1, .bin = -1},
                    {.layer = 7, .head = 0, .bin = -1},
                    {.layer = 7, .head = 1, .bin = -1},
                    {.layer = -1, .head = -1, .bin = 0, .kept = -1}};
  kv_result r = {.part = part, .n_parts = 7};
  kv_cost *c;
  kv_bytes none = {0};
  assert_int_equal(kv_cost_open(&shape, 2, 4, 1, false, &c, NULL), KV_OK);
  for (int l = 0; l < 2; l++)
    for (int i = 0; i < 4; i++) kv_cost_kept(c, l, i, 10 * l + i * i);
  for (int b = 0; b < 1 + STEPS; b++) kv_cost_held(c, 0, b, &none, 0, &none);
  assert_int_equal(kv_cost_finish(c, &r, NULL), KV_OK);
  const double want[] = {3.5, 13.5, 0.5, 6.5, 10.5, 16.5, -1};
  for (int i = 0; i < 7; i++) assert_true(part[i].kept == want[i]);
  free(r.step);
  kv_cost_close(c);
}

/* --- a lane ------------------------------------------------------------- */

static bool in_some_view(const kv_seen *seen, int entry) {
  for (int h = 0; h < seen->queries; h++)
    for (int r = 0; r < seen->view[h].runs; r++) {
      int at = entry - seen->view[h].run[r].first;
      if (at >= 0 && at < seen->view[h].run[r].count) return true;
    }
  return false;
}

/* Coded entries of the world are groups of one: 2 bits and two halves for
 * each 8 elements; D 16, DV 12. */
static int64_t entry_bytes(const kv_lane *l, int i) {
  int64_t coded = (4 + 2 * 4) + (3 + 2 * 4), full = 4 * (D + DV);
  int format = l->k ? l->k[i].format : KV_RAW;
  if (format == KV_CODED) return coded;
  bool half = l->shape->dtype == KV_F16 &&
              (format == KV_RAW || l->needs->merged == KV_MEANS_TRACE);
  return half ? full / 2 : full;
}

static void check_view(world *w, uint8_t *mark) {
  kv_seen seen = {
      .lane = &w->lane, .queries = w->lane.queries, .view = w->view};
  kv_cost_row got = kv_cost_view(&seen, mark);
  int64_t bytes = 0, attended = 0;
  for (int i = 0; i < w->lane.n; i++)
    if (in_some_view(&seen, i)) bytes += entry_bytes(&w->lane, i);
  for (int h = 0; h < seen.queries; h++)
    for (int r = 0; r < w->view[h].runs; r++)
      attended += w->view[h].run[r].count;
  assert_int_equal(got.bytes, bytes);
  assert_int_equal(got.attended, attended);
  for (size_t i = 0; i < kv_cost_mark_size(&w->shape); i++)
    assert_int_equal(mark[i], 0);
}

/* Rows of halves, of the bits that are there; merged ones fp32, or as they. */
static void halve(world *w, bool fp32) {
  w->shape.dtype = KV_F16;
  w->needs.merged = fp32 ? KV_MEANS_FP32 : KV_MEANS_TRACE;
  w->lane.k_slab[KV_MERGED].type = kv_merged_type(&w->needs, &w->shape);
  w->lane.v_slab[KV_MERGED].type = w->lane.k_slab[KV_MERGED].type;
}

TEST(rows_count_once) {
  for (int kind = 0; kind < 8; kind++) {
    world w;
    bool merges = kind & 1, codes = kind == 2 || kind == 6;
    world_open(&w, 2, 1 + kind, KV_HEAD, 1, merges);
    if (kind > 4 && merges) halve(&w, kind == 7);
    uint8_t *mark = calloc(1, kv_cost_mark_size(&w.shape));
    kv_lane_append(&w.lane, 0, T);
    for (int i = 0; i < 30; i++) {
      if (i & 1)
        world_see_all(&w);
      else
        world_see_some(&w);
      check_view(&w, mark);
      w.lane.verbs.n = 0;
      if (merges) world_merge(&w);
      if (codes) world_code(&w);
      if (i == 20) world_drop(&w);
    }
    free(mark);
    world_close(&w);
  }
}

static kv_view *one_run(kv_view *v, kv_run *r, int first, int count) {
  *r = (kv_run){first, count};
  *v = (kv_view){1, count, r};
  return v;
}

/* Keys of 4 tokens share scale and minimum per channel: one group. */
TEST(groups_count_once) {
  world w;
  kv_lane l;
  kv_view view;
  kv_run run;
  world_open(&w, 1, 1, KV_HEAD, 0, false);
  static const kv_minmax keys = {2, 4, 0}, values = {4, 12, 0};
  kv_needs needs = {
      .codings = 2,
      .coding = {{&kv_format_channel, &keys, false, KV_BOTH_SIDES},
                 {&kv_format_token, &values, false, KV_BOTH_SIDES}}};
  uint8_t *mark = calloc(1, kv_cost_mark_size(&w.shape));
  assert_int_equal(kv_lane_init(&l, &w.shape, &needs, w.kernels, 0, NULL),
                   KV_OK);
  kv_lane_begin(&l, l.needs, &w.data);
  kv_lane_append(&l, 0, 8);
  const int32_t group[] = {1, 2, 5, 6};
  kv_recode(&l, 4, group, KV_CODED, KV_SAME);
  kv_coding key = needs.coding[0], value = needs.coding[1];
  kv_coded_size k = key.format->size(&keys, 4, D);
  kv_coded_size v = value.format->size(&values, 1, DV);
  int64_t group_bytes = (int64_t)(k.codes + k.metadata);
  int64_t value_bytes = (int64_t)(v.codes + v.metadata);
  kv_cost_verbs verbs = kv_cost_lane_verbs(&l);
  assert_int_equal(verbs.records, 1);
  assert_int_equal(verbs.moved, group_bytes);
  for (int i = 0; i < 4; i++)
    kv_recode(&l, 1, &group[i], KV_SAME, KV_CODED + 1);
  verbs = kv_cost_lane_verbs(&l);
  assert_int_equal(verbs.records, 5);
  assert_int_equal(verbs.moved, group_bytes + 4 * value_bytes);
  kv_seen seen = {.lane = &l, .queries = 1, .view = one_run(&view, &run, 0, 8)};
  int64_t raw = 4 * (D + DV);
  assert_int_equal(kv_cost_view(&seen, mark).bytes,
                   4 * raw + group_bytes + 4 * value_bytes);
  one_run(&view, &run, 2, 2); /* one coded, one raw */
  assert_int_equal(kv_cost_view(&seen, mark).bytes,
                   raw + group_bytes + value_bytes);
  one_run(&view, &run, 3, 2); /* none coded */
  assert_int_equal(kv_cost_view(&seen, mark).bytes, 2 * raw);
  const int32_t left[] = {0, 1, 3, 7}; /* the group stays whole */
  l.room = w.lane.room;
  kv_keep(&l, 4, left);
  one_run(&view, &run, 1, 1);
  assert_int_equal(kv_cost_view(&seen, mark).bytes, group_bytes + value_bytes);
  assert_int_equal(kv_cost_lane_verbs(&l).records, 6);
  free(mark);
  kv_lane_release(&l);
  world_close(&w);
}

TEST(merging_moves_rows) {
  world w;
  world_open(&w, 1, 1, KV_HEAD, 0, true);
  kv_lane_append(&w.lane, 0, T);
  for (int i = 0; i < 3; i++) world_merge(&w);
  world_drop(&w);
  kv_cost_verbs v = kv_cost_lane_verbs(&w.lane);
  assert_int_equal(v.records, 4);
  assert_int_equal(v.moved, 3 * 4 * (D + DV));
  world_close(&w);
}

int main(void) {
  kv_float_ground();
  return tests_run("cost", NULL, NULL);
}
