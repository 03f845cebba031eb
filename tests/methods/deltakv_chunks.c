/* SPDX-License-Identifier: Apache-2.0
 *
 * A prompt that DeltaKV reads in chunks: a worked case, in which a row reads
 * what its chunk found coded; who is attended, by the definition in binary64;
 * and laws: of everything it selects it is the prompt read whole but for what
 * was coded, of references alone it reads as omnikv in the same roles does.
 */
#include "tests/methods/delta_account.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = DELTA_T, H = DELTA_H, P = 40, SINK = 2, R = 8 };

/* --- the worked case ----------------------------------------------------- */

/* The eight keys, which RoPE does not turn, in two chunks of four. With R = 1
 * tokens 0 to 2 compete in the second; 0 and 2 are references, 1 is what they
 * are before it: 0. Head 0 asks (4, 0) in the chunk's first row, head 1 (-8, 0)
 * in its last; they ask (0, 0) elsewhere, so that in the last row head 0's
 * output is the mean of the values it reads. The mean queries give 1 0 2 and -2
 * 0 -4: the best are 2 and 0. The sums of the probabilities are 1.0556 1.0033
 * 1.9411 and .7535 1.7465 .75: the best are 2 and 1. Values are the unit
 * vectors, p the shares of tokens. */
static void reads(const char *more, const int *ids, const double *p) {
  static const float still[1] = {0}, q[36] = {[8] = 4, [32] = -8};
  float k[18] = {0}, v[72] = {0};
  char spec[160];
  memcpy(k, rig_key8, sizeof rig_key8);
  memcpy(v, rig_unit8, sizeof rig_unit8);
  rig_case c = RIG_SHAPE(2, 1, 2, 8, 9, 8, .n_layers = 2, .q = q, .k = k,
                         .v = v, .inv_freq = still);
  snprintf(spec, sizeof spec,
           "deltakv:compressor=none:full=0:sink=0:recent=1:stride=2:nearest=1:"
           "prefill=4%s",
           more);
  rig *chooses = rig_open(&c, spec);
  c.layer = 1;
  rig *follows = rig_below(&c, spec, chooses);
  for (int h = 0; h < 2; h++) {
    assert_int_equal(rig_view(chooses, h)->entries, 8);
    rig_saw(follows, h, ids);
  }
  rig_shares(follows, 0, p);
  rig_close(follows);
  rig_close(chooses);
}

#define A (1. / 6)
#define B (1. / 7)

TEST(worked) {
  reads(":top=1", (int[]){2, 3, 4, 5, 6, 7, -1},
        (double[]){0, 0, A, A, A, A, A, A});
  reads(":top=2", (int[]){0, 2, 3, 4, 5, 6, 7, -1},
        (double[]){B, 0, B, B, B, B, B, B});
  reads(":r=0.7", (int[]){0, 2, 3, 4, 5, 6, 7, -1},
        (double[]){B, 0, B, B, B, B, B, B});
  reads(":top=1:prompt_top=2", (int[]){0, 2, 3, 4, 5, 6, 7, -1},
        (double[]){B, 0, B, B, B, B, B, B});
  reads(":top=2:score=prob", (int[]){1, 2, 3, 4, 5, 6, 7, -1},
        (double[]){B, 0, B, B, B, B, B, B});
  reads(":retrieve=all", (int[]){0, 1, 2, 3, 4, 5, 6, 7, -1},
        (double[]){2 / 8., 0, 1 / 8., 1 / 8., 1 / 8., 1 / 8., 1 / 8., 1 / 8.});
}

/* --- the definition ------------------------------------------------------ */

/* Compressed when `seen` tokens were. */
static int end_at(int seen) { return SINK + ((seen - SINK) / R - 1) * R; }

/* What the chunk that begins at a attends of the tokens before P. */
static int chosen(const rig_case *c, int a, int top, bool *in) {
  double best[T];
  int end = end_at(a), sum = 0;
  for (int i = 0; i < P; i++) {
    in[i] = i < SINK || i >= end;
    best[i] = -INFINITY;
    for (int h = 0; h < H; h++) {
      double mean = 0;
      for (int t = a; t < P; t++)
        for (int x = 0; x < DELTA_D; x++)
          mean += (double)c->q[(h * T + t) * DELTA_D + x] *
                  (double)c->k[(h * T + i) * DELTA_D + x] / (P - a);
      best[i] = fmax(best[i], mean);
    }
  }
  for (int n = 0; n < top && n < end - SINK; n++) {
    int at = -1;
    for (int i = SINK; i < end; i++)
      if (!in[i] && (at < 0 || best[i] > best[at])) at = i;
    in[at] = true;
  }
  for (int i = 0; i < P; i++) sum += in[i];
  return sum;
}

#define FEW "deltakv:compressor=none:full=0:sink=2:recent=8:stride=5"

TEST(chunks) {
  static const int chunk[] = {7, 16, 28, 39};
  static const struct {
    const char *more;
    int top;     /* 0: */
    double part; /* .. this share */
  } few[] = {{":top=5", 5, 0},
             {":top=5:phase=block", 5, 0},
             {":top=5:prompt_top=9", 9, 0},
             {":r=0.25", 0, .25},
             {":top=99", 99, 0}};
  rig_case c = delta_case(NULL);
  char spec[160];
  uint32_t id[T];
  bool in[T];
  for (size_t i = 0; i < sizeof few / sizeof *few; i++)
    for (size_t j = 0; j < sizeof chunk / sizeof *chunk; j++) {
      int a = (P - 1) / chunk[j] * chunk[j];
      int top = few[i].top;
      if (!top) top = (int)(few[i].part * (end_at(a) - SINK));
      snprintf(spec, sizeof spec, FEW "%s:prefill=%d", few[i].more, chunk[j]);
      c.layer = 0;
      rig *chooses = rig_open(&c, spec);
      c.layer = 1;
      rig *follows = rig_below(&c, spec, chooses);
      int n = chosen(&c, a, top, in);
      for (int h = 0; h < H; h++) {
        assert_int_equal(rig_view(chooses, h)->entries, P);
        assert_int_equal(rig_seen(follows, h, id), n);
        for (int e = 0; e < n; e++) assert_true(in[id[e]]);
      }
      rig_close(follows);
      rig_close(chooses);
    }
  rig_data_free(&c);
}

/* --- laws ---------------------------------------------------------------- */

/* The layer that follows, after all of the prompt and its steps. */
static kv_layer_digests below(rig_case *c, const char *spec) {
  c->layer = 0;
  rig *chooses = rig_open(c, spec);
  c->layer = 1;
  rig *follows = rig_below(c, spec, chooses);
  for (int step = c->prompt_len + 1; step <= c->n_tokens; step++) {
    rig_to(chooses, step);
    rig_to(follows, step);
  }
  kv_layer_digests d = rig_digests(follows);
  rig_close(follows);
  rig_close(chooses);
  return d;
}

static bool same(const kv_layer_digests *a, const kv_layer_digests *b) {
  return rig_same(&a->journal, &b->journal) &&
         rig_same(&a->output, &b->output) && rig_same(&a->state, &b->state);
}

/* Where references count from the text's first token, a prompt in chunks is
 * stored as one read whole: of everything selected each later step has the same
 * outputs, to the bit, and holds the same bytes. */
TEST(stored_as_whole) {
  static const char *const more[] = {"", ":self=yes", ":kept=int4",
                                     ":refs=recon", ":tier=host"};
  rig_case c = delta_case(NULL);
  char spec[160];
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    rig *pair[2];
    c.layer = 0;
    snprintf(spec, sizeof spec, FEW ":r=1%s:prefill=7", more[i]);
    rig *chooses = rig_open(&c, spec);
    c.layer = 1;
    pair[0] = rig_below(&c, spec, chooses);
    snprintf(spec, sizeof spec, FEW ":retrieve=all%s", more[i]);
    pair[1] = rig_open(&c, spec);
    for (int step = P + 1; step <= T; step++) {
      rig_to(chooses, step);
      for (int x = 0; x < 2; x++) rig_to(pair[x], step);
      for (int h = 0; h < H; h++) {
        kv_bytes held[2] = {{0}};
        for (int x = 0; x < 2; x++)
          kv_lane_bytes(rig_lane(pair[x], h), &held[x]);
        assert_memory_equal(&held[0], &held[1], sizeof held[0]);
        assert_memory_equal(rig_out(pair[0], h), rig_out(pair[1], h),
                            DELTA_DV * sizeof(float));
      }
    }
    for (int x = 0; x < 2; x++) rig_close(pair[x]);
    rig_close(chooses);
  }
  rig_data_free(&c);
}

TEST(one_chunk_is_whole) {
  rig_case c = delta_case(NULL);
  kv_layer_digests one = below(&c, FEW ":top=4:prefill=40");
  kv_layer_digests whole = below(&c, FEW ":top=4");
  kv_layer_digests two = below(&c, FEW ":top=4:prefill=39");
  assert_true(same(&one, &whole));
  assert_false(rig_same(&two.output, &whole.output));
  rig_data_free(&c);
}

/* With a stride of 1 every token is a reference, and stays as it came: selected
 * it is dense, and of a few, where chunks end on whole R, omnikv's candidates
 * are the same. Decoding has none here, for there they differ. */
TEST(of_references_alone) {
  rig_case c = delta_case(NULL);
  kv_layer_digests all = below(
      &c, "deltakv:compressor=none:full=0:stride=1:r=1:recent=8:prefill=7");
  kv_layer_digests dense = below(&c, "dense:prefill=7");
  assert_true(rig_same(&all.output, &dense.output));
  rig_data_free(&c);
  rig_case p = RIG_SHAPE(4, 2, DELTA_D, DELTA_DV, P, P, .n_layers = 2,
                         .inv_freq = c.inv_freq);
  rig_data(&p, 36);
  static const char *const score[] = {"dot", "logit", "prob"};
  for (int i = 0; i < 3; i++) {
    char one[160], other[160];
    snprintf(one, sizeof one,
             "deltakv:compressor=none:full=0:sink=0:recent=8:stride=1:top=5:"
             "score=%s:prefill=16",
             score[i]);
    snprintf(other, sizeof other,
             "omnikv:roles=sparse-vllm:layers=0:sink=0:recent=8:k=5:"
             "score=%s:prefill=16",
             score[i]);
    kv_layer_digests a = below(&p, one), b = below(&p, other);
    assert_true(rig_same(&a.output, &b.output));
  }
  rig_data_free(&p);
}

/* What orthonormal maps give back is read by the chunk's rows, too: their last
 * is off dense's by roundings. */
TEST(given_back) {
  static delta_weights w;
  delta_orthonormal(&w);
  w.layer = 1;
  rig_case c = delta_case(&w);
  const char *spec = "deltakv:full=0:r=1:sink=2:recent=8:stride=5:latent=fp32:"
                     "prefill=7";
  rig *chooses = rig_open(&c, spec);
  c.layer = 1;
  rig *follows = rig_below(&c, spec, chooses);
  rig *whole = rig_open(&c, "dense:prefill=7");
  for (int h = 0; h < H; h++) {
    assert_int_equal(rig_view(follows, h)->entries, P);
    for (int x = 0; x < DELTA_DV; x++)
      assert_true(fabs((double)rig_out(follows, h)[x] -
                       (double)rig_out(whole, h)[x]) < 2e-4);
  }
  rig_close(whole);
  rig_close(follows);
  rig_close(chooses);
  rig_data_free(&c);
}

RIG_TESTS(deltakv_chunks, RIG_CASE(worked), RIG_CASE(chunks),
          RIG_CASE(stored_as_whole), RIG_CASE(one_chunk_is_whole),
          RIG_CASE(of_references_alone), RIG_CASE(given_back))
