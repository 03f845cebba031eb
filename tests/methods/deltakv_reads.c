/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step of DeltaKV reads, by kv_cost_view: the attended tokens, the
 * references that their latent vectors name, each once, and rows made of them;
 * what it fetches where latents lie in the host's memory.
 */
#include "sim/replay/measure/cost.h"
#include "tests/methods/delta_account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = DELTA_T, W = DELTA_W, H = DELTA_H, SINK = 2, R = 8 };

/* Is entry i kept in 4 bits? */
static bool in_four(const kv_lane *l, int i) {
  int f = l->k[i].format;
  return f != KV_RAW && !l->needs->coding[f - KV_CODED].format->layered;
}

/* What decoding the attended tokens reads: theirs, and all that they name, and
 * where a reference is what it decodes to, what that one names. */
static void named_too(const kv_lane *l, bool recon, bool *in, bool *part) {
  for (int i = l->n - 1; i >= 0; i--) {
    if (!in[i] && !(recon && part[i])) continue;
    if (l->k[i].format == KV_RAW || in_four(l, i)) continue;
    const int32_t *named = kv_lane_named(l, i);
    for (int j = 0; j < 4 && named[j] != KV_NO_TOKEN; j++)
      part[named[j]] = true;
  }
}

/* Bytes of both lanes together, and rows made of latent vectors. */
static void read_of(const kv_lane *l, bool held, bool recon, bool *in,
                    int64_t *bytes, int64_t *made) {
  bool part[T] = {false};
  int64_t row = W * (int64_t)sizeof(float), block = 4 * 4 + 4;
  *bytes = *made = 0;
  named_too(l, recon, in, part);
  for (int i = 0; i < l->n; i++) {
    bool coded = l->k[i].format != KV_RAW, reference = i % 5 == 0;
    bool as_it_came = part[i] && !in[i] && !recon;
    if (!in[i] && !part[i]) continue;
    if (in_four(l,
                i)) { /* rows of 4 and 3 elements: 2 bytes, and 4 of scales */
      *bytes += H * 2 * (2 + 4);
      continue;
    }
    *bytes +=
        !coded || as_it_came ? row : block + (held && reference ? row : 0);
    *made += coded && !as_it_came ? row : 0;
  }
}

static void reads_of(const char *more, bool held, bool recon) {
  rig_case c = delta_case(NULL);
  char spec[160];
  snprintf(spec, sizeof spec,
           "deltakv:compressor=none:full=0:sink=2:recent=8:stride=5:top=4%s",
           more);
  rig *chooses = rig_open(&c, spec);
  c.layer = 1;
  rig *follows = rig_below(&c, spec, chooses);
  const kv_shape shape = *rig_at(follows).shape;
  uint8_t *mark = calloc(1, kv_cost_mark_size(&shape));
  for (int step = c.prompt_len + 1; step <= T; step++) {
    uint32_t id[T];
    bool in[T] = {false};
    int64_t bytes, materialised;
    kv_cost_row sum = {0};
    /* before the step's compression there are those of the step before */
    if ((step - SINK) % R == 0) continue;
    rig_to(chooses, step);
    rig_to(follows, step);
    for (int i = rig_seen(follows, 0, id) - 1; i >= 0; i--) in[id[i]] = true;
    for (int g = 0; g < H; g++) {
      kv_seen seen = {.lane = rig_lane(follows, g),
                      .queries = 1,
                      .view = rig_view(follows, g)};
      kv_cost_row row = kv_cost_view(&seen, mark);
      sum.bytes += row.bytes;
      sum.materialised += row.materialised;
      sum.fetched += row.fetched;
    }
    read_of(rig_lane(follows, 0), held, recon, in, &bytes, &materialised);
    assert_int_equal(sum.bytes, bytes);
    assert_int_equal(sum.materialised, materialised);
    /* latents lie in the host's memory, references beside them do not */
    int64_t blocks = materialised / (W * (int64_t)sizeof(float)) * (4 * 4 + 4);
    assert_int_equal(sum.fetched, strstr(more, "host") ? blocks : 0);
    assert_true(sum.materialised > 0);
  }
  free(mark);
  rig_close(follows);
  rig_close(chooses);
  rig_data_free(&c);
}

TEST(step_reads) {
  if (rig_backend() != &kv_backend_ref) skip(); /* it asks rig_at */
  reads_of("", false, false);
  reads_of(":tier=host", false, false);
  reads_of(":self=yes", true, false);
  reads_of(":refs=recon", false, true);
  reads_of(":kept=int4", false, false);
}

RIG_TESTS(deltakv_reads, RIG_CASE(step_reads))
