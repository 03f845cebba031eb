/* SPDX-License-Identifier: Apache-2.0
 *
 * KeyDiff. The worked case: the eight keys have the anchor (.167705, .344482)
 * and the scores -.437718 -.899112 -.793602 .437718 -.999944 .899112 -.945282
 * -.326255. Blocks are replayed plainly in binary64; forms and protection.
 */
#include "tests/support/rig.h"
#include <math.h>
#include <string.h>

TEST(worked) {
  rig_case c = rig_eight(8);
  rig_keeps(&c, "keydiff:budget=4", 0, (int[]){0, 3, 5, 7, -1});
  rig_keeps(&c, "keydiff:budget=5:block=0", 0, (int[]){0, 2, 3, 5, 7, -1});
  rig_keeps(&c, "keydiff:budget=4:sinks=1:last=2", 0, (int[]){0, 5, 6, 7, -1});
}

static const float *key_of(const rig_case *c, int lane, int t) {
  return c->k + ((size_t)lane * (size_t)c->n_tokens + (size_t)t) * (size_t)c->d;
}

static double dot(const rig_case *c, const double *a, const float *b) {
  double sum = 0;
  for (int x = 0; x < c->d; x++) sum += a[x] * (double)b[x];
  return sum;
}

static double length(const rig_case *c, const float *k) {
  double sum = 0;
  for (int x = 0; x < c->d; x++) sum += (double)k[x] * (double)k[x];
  return sqrt(sum);
}

/* The best of ids[0..n) stay: random keys lie far enough apart. */
static int compress(const rig_case *c, int lane, int budget, int n, int *ids) {
  double anchor[64] = {0}, score[64];
  int kept = 0;
  if (n <= budget) return n;
  for (int i = 0; i < n; i++)
    for (int x = 0; x < c->d; x++)
      anchor[x] += (double)key_of(c, lane, ids[i])[x] /
                   length(c, key_of(c, lane, ids[i]));
  for (int i = 0; i < n; i++)
    score[i] = -dot(c, anchor, key_of(c, lane, ids[i])) /
               length(c, key_of(c, lane, ids[i]));
  for (int i = 0; i < n; i++) {
    int better = 0;
    for (int o = 0; o < n; o++) better += score[o] > score[i];
    if (better < budget) ids[kept++] = ids[i];
  }
  return kept;
}

static void plainly(const rig_case *c, int lane, int budget, int block,
                    int *ids) {
  int n = 0;
  for (int t = 0; t < c->prompt_len; t++) {
    ids[n++] = t;
    if ((t + 1) % block == 0 || t + 1 == c->prompt_len)
      n = compress(c, lane, budget, n, ids);
  }
  ids[n] = -1;
}

static rig_case sample(uint32_t seed) {
  rig_case c = RIG_SHAPE(4, 2, 16, 8, 52, 44);
  rig_data(&c, seed);
  return c;
}

TEST(blocks) {
  rig_case c = sample(3);
  int ids[64];
  rig *r = rig_open(&c, "keydiff:budget=12:block=10");
  for (int lane = 0; lane < 2; lane++) {
    plainly(&c, lane, 12, 10, ids);
    rig_holds(r, lane, ids);
  }
  rig_close(r);
  rig_data_free(&c);
}

/* Compressed every third step; with form=decode the prompt stays until then. */
TEST(forms) {
  rig_case c = sample(4);
  rig *r = rig_open(&c, "keydiff:budget=12:form=both:every=3");
  assert_int_equal(rig_lane(r, 0)->n, 12);
  rig_to(r, 46);
  assert_int_equal(rig_lane(r, 0)->n, 14);
  rig_to(r, 47);
  assert_int_equal(rig_lane(r, 1)->n, 12);
  rig_close(r);
  r = rig_open(&c, "keydiff:budget=12:form=decode:every=4");
  assert_int_equal(rig_lane(r, 0)->n, 44);
  rig_to(r, 47);
  assert_int_equal(rig_lane(r, 0)->n, 47);
  rig_to(r, 48);
  assert_int_equal(rig_lane(r, 0)->n, 12);
  rig_close(r);
  rig_data_free(&c);
}

/* Re-indexing moves no decision, and what is attended. */
TEST(reindexed) {
  static const float inv_freq[8] = {1, .5f, .25f, .125f, .06f, .03f, .01f, 0};
  rig_case c = sample(5);
  c.inv_freq = inv_freq;
  kv_layer_digests a = rig_replay(&c, "keydiff:budget=9");
  kv_layer_digests b = rig_replay(&c, "keydiff:budget=9:reindex=yes");
  assert_true(rig_same(&a.journal, &b.journal));
  assert_false(rig_same(&a.output, &b.output));
  rig_data_free(&c);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 8, 52, 44),
    {{"keydiff:budget=7", .grown = 7},
     {"keydiff:budget=7:block=5", .grown = 7},
     {"keydiff:budget=7:form=both:every=1", .at_most = 7},
     {"keydiff:budget=1:form=both:every=1", .at_most = 1},
     {"keydiff:budget=44", .dense = true},
     {"keydiff:budget=52:block=5:form=both:every=1", .dense = true},
     {"keydiff:budget=7:form=decode:every=9", .dense = true},
     {"keydiff:budget=4:every=4", KV_REFUSED,
      .says = {"every", "form=prefill"}},
     {"keydiff:budget=4:block=4:form=decode", KV_REFUSED,
      .says = {"block", "form=decode"}},
     {"keydiff:budget=4:sinks=3:last=2", KV_REFUSED,
      .says = {"sinks", "budget"}}}};

RIG_TESTS(keydiff, RIG_CASE(worked), RIG_CASE(blocks), RIG_CASE(forms),
          RIG_CASE(reindexed), RIG_LAWS(laws))
