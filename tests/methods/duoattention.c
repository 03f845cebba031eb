/* SPDX-License-Identifier: Apache-2.0
 *
 * DuoAttention. Gates of a file: two layers of two KV heads, .1 .9 / .5 .5. Of
 * four gates numpy.quantile puts .5 at the place 1.5, so that two stream: .1
 * and, of the equal ones, the earlier. Gates of the prompt: a head whose keys
 * are all alike looks at everything alike, so that with sink 1 and recent 2 a
 * stream loses 3 of 6 tokens, a gate of .5; one that looks at its first token
 * loses nothing.
 */
#include "tests/support/rig.h"

#include "ref/methods/duoattention.h"

#include <string.h>

/* --- a file -------------------------------------------------------------- */

typedef struct table {
  float gate[4];
  int layer[2];
  kv_tensor tensor[2];
  kv_asset asset;
} table;

static void fill(table *t) {
  static const kv_tensor_ask ask[] = {
      {"gates", KV_T_F32, 2, {KV_DIM_LAYERS, KV_DIM_KV_HEADS}, false, false},
      {.name = NULL}};
  t->layer[0] = 0, t->layer[1] = 1;
  t->tensor[0] = (kv_tensor){t->gate, 4, {2, 2}};
  t->tensor[1] = t->tensor[0];
  t->asset = (kv_asset){.path = "gates.safetensors",
                        .ask = ask,
                        .asked = 1,
                        .layers = 2,
                        .layer = t->layer,
                        .tensor = t->tensor,
                        .bytes = sizeof t->gate};
}

static rig_case two_heads(void) {
  return (rig_case)RIG_SHAPE(4, 2, 4, 4, 9, 7, .n_layers = 2);
}

/* Heads 0 and 1 of both layers: s streams, k keeps everything. */
static void pattern(rig_case *c, const char *more, const char *want) {
  char spec[128] = "duoattention:sink=1:recent=2";
  strcat(spec, more);
  for (int l = 0; l < 2; l++) {
    c->layer = l;
    rig *r = rig_open(c, spec);
    for (int g = 0; g < 2; g++)
      if (want[2 * l + g] == 's')
        rig_holds(r, g, (int[]){0, 5, 6, -1});
      else
        rig_holds(r, g, (int[]){0, 1, 2, 3, 4, 5, 6, -1});
    rig_to(r, 9);
    if (want[2 * l] == 's') rig_holds(r, 0, (int[]){0, 7, 8, -1});
    if (want[2 * l] == 's') rig_saw(r, 0, (int[]){0, 6, 7, 8, -1});
    rig_close(r);
  }
}

TEST(of_a_file) {
  table t = {.gate = {.1f, .9f, .5f, .5f}};
  rig_case c = two_heads();
  fill(&t);
  rig_data(&c, 3);
  c.asset = &t.asset;
  pattern(&c, "", "sksk");
  pattern(&c, ":sparsity=0", "kkkk");
  pattern(&c, ":sparsity=1", "ssss");
  pattern(&c, ":sparsity=0.3", "skkk");  /* place .9: one */
  pattern(&c, ":sparsity=0.75", "skss"); /* place 2.25: three */
  pattern(&c, ":threshold=0.5", "skkk");
  pattern(&c, ":threshold=0.6:sparsity=0", "skss");
  rig_data_free(&c);
}

TEST(quantiles) {
  for (int n = 1; n < 70; n++)
    for (int k = 0; k <= 16; k++) {
      int streams = 0;
      for (int i = 0; i < n; i++) streams += 16 * i < (n - 1) * k;
      if (k == 16) streams = n;
      assert_int_equal(kv_duo_streams(n, (float)k / 16), streams);
    }
  assert_int_equal(kv_duo_streams(11, 0.3f), 3); /* place 3 */
}

/* --- the prompt ---------------------------------------------------------- */

static rig_case uneven(float q[32], float k[32]) {
  rig_case c = rig_eight(6);
  for (int i = 0; i < 32; i++) q[i] = 1, k[i] = .5f;
  k[16] = k[17] = 20; /* the first key of head 1 */
  c.heads = c.kv_heads = 2;
  c.q = q;
  c.k = k;
  return c;
}

TEST(of_the_prompt) {
  static const int all[] = {0, 1, 2, 3, 4, 5, -1}, ends[] = {0, 4, 5, -1};
  static const struct {
    const char *spec;
    bool streams[2];
  } is[] = {
      {"duoattention:sink=1:recent=2", {false, true}},
      {"duoattention:sink=1:recent=2:sparsity=0", {false, false}},
      {"duoattention:sink=1:recent=2:sparsity=1", {true, true}},
      {"duoattention:sink=1:recent=2:window=1", {false, true}},
      {"duoattention:sink=1:recent=2:window=1:threshold=0.4", {false, true}},
      {"duoattention:sink=1:recent=2:window=1:threshold=0.6", {true, true}},
      /* Nothing is lost at all: the first head streams. */
      {"duoattention:sink=3:recent=3", {true, false}}};
  float q[32], k[32], v[128];
  rig_case c = uneven(q, k);
  memcpy(v, rig_unit8, sizeof rig_unit8);
  memcpy(v + 64, rig_unit8, sizeof rig_unit8);
  c.v = v;
  for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
    bool few = strstr(is[i].spec, "sink=1") != NULL;
    rig *r = rig_open(&c, is[i].spec);
    for (int g = 0; g < 2; g++)
      rig_holds(r, g, is[i].streams[g] && few ? ends : all);
    rig_to(r, 8);
    if (!few) rig_holds(r, 0, (int[]){0, 1, 2, 5, 6, 7, -1});
    rig_close(r);
  }
}

/* --- laws ---------------------------------------------------------------- */

static const rig_laws laws = {
    RIG_SHAPE(8, 4, 16, 8, 40, 20),
    {{.spec = "duoattention:sink=2:recent=6"},
     {"duoattention:sink=2:recent=6:sparsity=1", .at_most = 8},
     {"duoattention:sink=0:recent=1:sparsity=1", .at_most = 1},
     {"duoattention:sink=2:recent=6:sparsity=0", .dense = true},
     {"duoattention:sink=8:recent=32", .dense = true},
     {"duoattention:sink=2:recent=6", .prompt_len = 1}}};

TEST(opening) {
  table t = {.gate = {.1f, .9f, .5f, 1.5f}};
  rig_case c = two_heads();
  fill(&t);
  kv_needs n = rig_needs(&c, "duoattention");
  assert_int_equal(n.prompt_rows, 7);
  assert_int_equal(n.want, KV_SUM);
  c.asset = &t.asset;
  rig_law_refused(&c, "duoattention", KV_REFUSED, "KV head 1 of layer 1",
                  "1.5");
  t.gate[3] = 1;
  n = rig_needs(&c, "duoattention");
  assert_int_equal(n.prompt_rows, 0);
}

RIG_TESTS(duoattention, RIG_CASE(of_a_file), RIG_CASE(quantiles),
          RIG_CASE(of_the_prompt), RIG_LAWS(laws), RIG_CASE(opening))
