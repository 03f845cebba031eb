/* SPDX-License-Identifier: Apache-2.0
 *
 * TOVA: the worked case is the last query (2, 0) over the eight keys, whose
 * probabilities are .129572 .031501 .532964 .007658 .129572 .031501 .129572
 * .007658: of a cache of four the newest token is not part. With several
 * heads the choice is that of the mean over all of them, in binary64.
 */
#include "tests/support/rig.h"
#include <string.h>

TEST(worked) {
  rig_case c = rig_eight(8);
  rig_keeps(&c, "tova:budget=4", 0, (int[]){0, 2, 4, 6, -1});
  rig_keeps(&c, "tova:budget=4:protect_newest=yes", 0, (int[]){0, 2, 4, 7, -1});
  rig *r = rig_open(&c, "tova:budget=3"); /* 0, 4 and 6 tie: the lower ones */
  rig_holds(r, 0, (int[]){0, 2, 4, -1});
  rig_close(r);
  rig_keeps(&c, "tova:budget=1:protect_newest=yes", 0, (int[]){7, -1});
}

/* The last query of six, (1, 1): .093347 .093347 .383959 .022694 .383959
 * .022694, of which 0 and 1 tie. What decoding brings stays. */
TEST(prefill) {
  rig_case c = rig_eight(6);
  rig *r = rig_open(&c, "tova:budget=3:variant=prefill");
  rig_holds(r, 0, (int[]){0, 2, 4, -1});
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){0, 2, 4, 6, 7, -1});
  rig_holds(r, 0, (int[]){0, 2, 4, 6, 7, -1});
  rig_close(r);
  r = rig_open(&c, "tova:budget=3:variant=prefill:protect_newest=yes");
  rig_holds(r, 0, (int[]){2, 4, 5, -1});
  rig_to(r, 8);
  rig_holds(r, 0, (int[]){2, 4, 5, 6, 7, -1});
  rig_close(r);
}

/* in[] becomes what a cache of `budget` keeps after row t. */
static void plain(const rig_case *c, int t, int budget, bool newest, bool *in) {
  double p[64], sum[64] = {0};
  int n = 0;
  in[t] = true;
  for (int h = 0; h < c->heads; h++) {
    rig_exact(c, h, t, in, p);
    for (int j = 0; j <= t; j++) sum[j] += p[j];
  }
  for (int j = 0; j <= t; j++) n += in[j];
  for (; n > budget; n--) {
    int worst = -1;
    for (int j = 0; j <= t - newest; j++)
      if (in[j] && (worst < 0 || sum[j] <= sum[worst])) worst = j;
    in[worst] = false;
  }
}

static void against_plain(const rig_case *c, int budget, bool newest,
                          const char *spec) {
  bool in[64];
  int ids[65];
  rig *r = rig_open(c, spec);
  memset(in, true, sizeof in);
  for (int t = c->prompt_len - 1; t < c->n_tokens; t++) {
    int n = 0;
    rig_to(r, t + 1);
    plain(c, t, budget, newest, in);
    for (int j = 0; j <= t; j++)
      if (in[j]) ids[n++] = j;
    ids[n] = -1;
    for (int l = 0; l < c->kv_heads; l++) rig_holds(r, l, ids);
  }
  rig_close(r);
}

TEST(plainly) {
  rig_case c = RIG_SHAPE(6, 3, 8, 8, 48, 24);
  rig_data(&c, 8);
  against_plain(&c, 11, false, "tova:budget=11");
  against_plain(&c, 11, true, "tova:budget=11:protect_newest=yes");
  rig_data_free(&c);
}

static const rig_laws laws = {
    RIG_SHAPE(6, 3, 8, 8, 48, 24),
    {{"tova:budget=11", .at_most = 11},
     {"tova:budget=11:variant=prefill", .grown = 11},
     {"tova:budget=24:variant=prefill", .dense = true},
     {"tova:budget=48", .dense = true},
     {"tova:budget=47", .dense = true},
     {"tova:budget=11", .at_most = 11, .prompt_len = 1}}};

RIG_TESTS(tova, RIG_CASE(worked), RIG_CASE(prefill), RIG_CASE(plainly),
          RIG_LAWS(laws))
