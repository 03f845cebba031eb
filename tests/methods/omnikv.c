/* SPDX-License-Identifier: Apache-2.0
 *
 * OmniKV: what each layer of a model does, by hand, and parameters that follow
 * from others.
 */
#include "ref/methods/omnikv.h"
#include "sim/ask/spec.h"
#include "tests/support/rig.h"
#include <string.h>

static void opened(const char *text, int layers, params *out) {
  kv_shape shape = {.n_layers = layers,
                    .n_heads = 2,
                    .n_kv_heads = 1,
                    .d = 4,
                    .d_v = 4,
                    .n_tokens = 1000,
                    .prompt_len = 900,
                    .dtype = KV_F32,
                    .scale = .5f};
  kv_spec s = {0};
  kv_needs needs = {0};
  kv_err e = {0};
  if (kv_spec_parse(kv_method_at, text, &s, &e) ||
      s.method->open(&shape, s.params, &needs, &e))
    fail_msg("%s: %s", text, e.text);
  memcpy(out, s.params, sizeof *out);
  kv_spec_free(&s);
}

/* A letter a layer: whole, chooses, follows. */
static void does(const char *spec, int layers, const char *list,
                 const char *roles) {
  char is[128] = "";
  params o;
  opened(spec, layers, &o);
  assert_string_equal(o.layers, list);
  for (int l = 0; l < layers; l++) is[l] = "wcf"[role_of(&o, layers, l)];
  assert_string_equal(is, roles);
}

TEST(roles) {
  does("omnikv:layers=2/8/18:wait=1", 32, "2/8/18",
       "wwcwffffcwffffffffcwffffffffffff");
  does("omnikv", 32, "2/8/18", "wwcwffffcwffffffffcwffffffffffff");
  does("omnikv:wait=0", 32, "2/8/18", "wwcfffffcfffffffffcfffffffffffff");
  does("omnikv", 1, "0", "c");
  does("omnikv", 2, "1", "wc");
  does("omnikv", 8, "2", "wwcfffff");
  does("omnikv", 15, "3", "wwwcfffffffffff");
  does("omnikv", 16, "1/4/9", "wcwfcwfffcwfffff");
  does("omnikv", 24, "2/6/14", "wwcwffcwffffffcwffffffff");
  does("omnikv", 28, "2/7/16", "wwcwfffcwfffffffcwffffffffff");
  does("omnikv:roles=sparse-vllm", 32, "0/1/2/8/18",
       "wwcfffffcfffffffffcfffffffffffff");
  does("omnikv:roles=sparse-vllm", 28, "0/1/2/4/7/14",
       "wwcfcffcffffffcfffffffffffff");
  does("omnikv:roles=sparse-vllm", 64, "0/1/2/3/4/5/17/29/40",
       "wwwwwcfffffffffffcfffffffffffcffffffffffcfffffffffffffffffffffff");
  does("omnikv:roles=sparse-vllm", 4, "0/1", "wcff");
  does("omnikv:roles=sparse-vllm:layers=1/2/5", 6, "1/2/5", "wwcffw");
}

/* Parameters that follow from others. */
TEST(defaults) {
  params o;
  opened("omnikv", 32, &o);
  assert_int_equal(o.k, 60); /* of 900, by 0.067: 60.3 */
  assert_true(o.wait == 1 && o.score == KV_VOTE_PROB && o.candidates == PROMPT);
  assert_true(o.sink == 0 && o.recent == 0 && o.tier == HOST);
  opened("omnikv:roles=sparse-vllm", 32, &o);
  assert_true(o.k == 4096 && o.wait == 0 && o.score == KV_VOTE_DOT);
  assert_true(o.sink == 64 && o.recent == 512 && o.tier == DEVICE);
  opened("omnikv:share=0.2", 32, &o);
  assert_int_equal(o.k, 180);
  opened("omnikv:share=0.7", 32, &o);
  assert_int_equal(o.k, 630); /* whose binary32 is less */
  opened("omnikv:k=63:share=0.07", 32, &o);
  assert_int_equal(o.k, 63);
}

RIG_TESTS(omnikv, RIG_CASE(roles), RIG_CASE(defaults))
