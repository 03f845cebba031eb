/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that a device holds are its own, and they are what the ledger says:
 * - as soon as tokens entered, their K and V in the uploaded trace become NaN,
 *   and all digests are those of the reference;
 * - after every block and step each row of a pool is one entry's or free, and
 *   rows and blocks held are the payload, in bytes, that is charged;
 * - a pool has the pages for as many rows as were held at once, in decoding an
 *   eighth more at most: of a method with a bound, for its bound.
 * - a lane whose journal or log is full ends the replay;
 * - of latent vectors that attention decodes itself, what was decoded into the
 *   lanes' blocks becomes NaN once it was reported: no step reads it.
 * Of methods with weights, on a bundled trace that has them.
 */
#include "gpu/host/backends.h"
#include "gpu/host/store.h"
#include "tests/gpu/gpucell.h"
#include "tests/gpu/gpupool.h"
#include "tests/made/mad.h"
#include "tests/support/bundled.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 420, PROMPT = 5 * KV_GPU_PAGE, BUDGET = 48 };

extern void poison_start(void *stream, const kv_gpu_layer *l);
extern const kv_gpu_hooks kv_gpu_mad; /* tests/made/mad_twin.cc */

static kv_device device;
static kv_backend poisoned;
static char trace[512];
static int prompt;            /* its own: 0 */
static int blocks, most_rows; /* of the replay */
static int spoilt, remade;    /* blocks of latent vectors; steps that decode */

/* --- the device and its backend ------------------------------------------- */

static void append(void *stream, const kv_gpu_layer *l, int count) {
  kv_device_emu()->append(stream, l, count);
  poison_start(stream, l);
}

static void rebuilt(void *stream, const kv_gpu_layer *l,
                    const kv_gpu_rebuilt *r, int act) {
  remade += act == KV_GPU_REBUILT_ATTEND;
  kv_device_emu()->rebuilt(stream, l, r, act);
}

static const kv_gpu_hooks *hooks(const char *method) {
  if (!strcmp(method, mad_method.name)) return &kv_gpu_mad;
  return kv_device_emu()->hooks(method);
}

static int words, log_rows; /* room of a lane's journal and log; 0: enough */

static kv_rc open_poisoned(const kv_plan *plan, kv_store **out, kv_err *e) {
  kv_rc rc = kv_gpu_open(&device, plan, out, e);
  for (int i = 0; !rc && i < (*out)->lanes; i++) {
    if (words) (*out)->head[i].cap_verbs = words;
    if (log_rows) (*out)->head[i].cap_log = log_rows;
  }
  return rc;
}

/* Bytes of rows and blocks that one side of a lane holds; `parts` are what its
 * codings count as metadata. */
static int64_t held(const kv_gpu_raw *pool, const kv_gpu_slab *slab,
                    int64_t *parts) {
  int64_t bytes = (int64_t)gpupool_held(pool) * (int64_t)pool->size;
  for (int f = KV_MERGED; f < KV_SLABS; f++) {
    bytes += slab[f].codes;
    *parts += slab[f].metadata;
  }
  return bytes;
}

/* The list of an entry's tokens runs from its id to its last one. Entries are
 * tokens 0, 1, .. until one was dropped or moved. */
static void check_members(const kv_gpu_lane *l) {
  for (int i = 0; !l->dropped && !l->holes && i < l->n; i++)
    assert_int_equal(l->id[i], i);
  for (int i = 0; l->last && i < l->n; i++) {
    uint32_t token = l->id[i], n = 1;
    for (; token != l->last[i] && n <= l->weight[i]; n++)
      token = l->next[token];
    assert_int_equal(n, l->weight[i]);
  }
}

static void check_lane(const kv_store *s, int i) {
  const kv_gpu_lane *l = &s->layer.lane[i]; /* it is near */
  check_members(l);
  const char *wrong = gpupool_wrong(l);
  kv_bytes charged = {0};
  int64_t metadata = 0;
  if (wrong)
    fail_msg("layer %d, lane %d, step %d: a pool has %s", s->data->layer, i,
             s->end, wrong);
  kv_lane_bytes(&s->mirror[i], &charged);
  int64_t bytes = held(&l->k_raw, l->k_slab, &metadata);
  bytes += held(&l->v_raw, l->v_slab, &metadata);
  if (bytes != charged.payload || metadata > charged.metadata)
    fail_msg("layer %d, lane %d, step %d: %d bytes are held, and %d charged",
             s->data->layer, i, s->end, (int)bytes, (int)charged.payload);
  if (l->k_raw.used > most_rows) most_rows = l->k_raw.used;
  if (l->v_raw.used > most_rows) most_rows = l->v_raw.used;
}

/* Decoded rows, which stand first in each block, become NaN. */
static void spoil(const kv_gpu_slab *slab) {
  for (int b = 0; b < slab->used; b++)
    memset(slab->data + (size_t)b * slab->size, 0xff,
           (size_t)slab->width * sizeof(float));
  spoilt += slab->used;
}

static void end_step(kv_store *s) {
  int most = 0;
  for (int i = 0; s->rebuilt && i < s->lanes; i++) {
    spoil(&s->layer.lane[i].k_slab[KV_CODED]);
    spoil(&s->layer.lane[i].v_slab[KV_CODED]);
  }
  blocks++;
  for (int i = 0; i < s->lanes; i++) check_lane(s, i);
  for (int i = 0; i < 2 * s->lanes; i++)
    if (s->pages[i] > most) most = s->pages[i];
  assert_in_range(most, 1, kv_gpu_pages(most_rows) * 9 / 8);
  kv_backend_emu.end_step(s);
}

/* --- replays -------------------------------------------------------------- */

/* The most rows that a pool held of the spec, in so many blocks and steps. */
static int rows_in(const char *text, int least, int most) {
  const gpucell cell = {.trace = trace, .prompt = prompt, .budget = BUDGET};
  kv_digest of_ref[GPUCELL_ENDS], of_device[GPUCELL_ENDS];
  blocks = most_rows = 0;
  gpucell_replay(&cell, text, &kv_backend_ref, of_ref);
  gpucell_replay(&cell, text, &poisoned, of_device);
  assert_in_range(blocks, least, most);
  gpucell_must_match(text, "of rows that are not the lane's", of_ref,
                     of_device);
  return most_rows;
}

static int rows_of(const char *text) {
  return rows_in(text, GPUCELL_LAYERS * (TOKENS - PROMPT + 1),
                 GPUCELL_LAYERS * TOKENS);
}

static void make_trace(kv_dtype dtype, int d) {
  gpucell_trace("rows", dtype, d, TOKENS, PROMPT, trace);
}

/* --- tests ---------------------------------------------------------------- */

TEST(test_rows) {
  static const struct {
    const char *spec;
    int rows; /* most held at once; -1: less than the prompt has */
  } cases[] = {{"dense", TOKENS},
               {"h2o", PROMPT},
               {"snapkv:window=16", PROMPT},
               {"adakv", PROMPT},
               {"quest:page=8:skip=0", TOKENS},
               {"oracle-topk", TOKENS},
               {"zsmerge:variant=code", PROMPT},
               {"zsmerge", BUDGET + 1},
               {"kivi:residual=32:group=32", PROMPT},
               {"snapkv:window=16+kivi:residual=32:group=32", PROMPT},
               {"mad", -1}};
  make_trace(KV_F32, 32);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int rows = rows_of(cases[i].spec);
    if (cases[i].rows < 0 ? rows >= PROMPT : rows != cases[i].rows)
      fail_msg("%s: a pool has %d rows, not %d", cases[i].spec, rows,
               cases[i].rows);
  }
}

/* Rows of any length and type, copied whole. */
TEST(test_types) {
  static const struct {
    kv_dtype dtype;
    int d;
  } cases[] = {{KV_F16, 32}, {KV_BF16, 12}, {KV_F16, 20}, {KV_F32, 12}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make_trace(cases[i].dtype, cases[i].d);
    rows_of("quest:page=8:skip=0");
    rows_of("zsmerge");
    rows_of("mad");
  }
}

/* A replay ends when the journal or the log of rewritten rows is full: the
 * method asked for too little room. */
TEST(test_full) {
  static const struct {
    const char *spec;
    int words, rows;
  } cases[] = {{"window:budget=30", 12, 0},
               {"hardkv:upper=20:lower=10:window=4:every=6", 12, 0},
               {"zsmerge:budget=30", 8, 0},
               {"zsmerge:budget=30:variant=code", 0, 1},
               {"kivi:residual=4:group=4", 12, 0},
               {"kivi:residual=4:group=4", 0, 1}};
  rig_case c = RIG_SHAPE(2, 1, 8, 8, 60, 40, .backend = &poisoned);
  rig_data(&c, 3);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    words = cases[i].words;
    log_rows = cases[i].rows;
    kv_err e = rig_fault(&c, cases[i].spec);
    if (e.rc != KV_INTERNAL || !strstr(e.text, "the verbs of one step name"))
      fail_msg("%s, %d words, %d rows: %d, '%s'", cases[i].spec, words,
               log_rows, e.rc, e.text);
  }
  words = log_rows = 0;
  rig_data_free(&c);
}

/* What is stored in the place of tokens, of weights that lie beside a trace of
 * six layers and 400 tokens: a row is free as soon as its token was coded. One
 * layer of deltakv keeps all as they came. */
TEST(test_latents) {
  enum { ALL = 400, LONG = 385, STEPS = 6 * (ALL - LONG + 1) };
  static const struct {
    const char *spec;
    int rows;
    bool remade; /* by attention */
  } cases[] = {{"palu", LONG, false},
               {"palu:share=0.25:latent=int4", LONG, false},
               {"deltakv:recent=16:full=0:latent=int4", ALL, true},
               {"deltakv:recent=16:retrieve=all", ALL, true},
               {"deltakv:recent=16:full=0:compressor=none", ALL, true},
               {"deltakv:recent=16:full=0:tier=host", ALL, true},
               {"deltakv:recent=16:full=0:self=yes", ALL, false},
               {"deltakv:recent=16:full=0:refs=recon", ALL, false}};
  char *path = bundled_path("text_400.safetensors");
  snprintf(trace, sizeof trace, "%s", path);
  free(path);
  prompt = LONG;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    spoilt = remade = 0;
    if (rows_in(cases[i].spec, STEPS, STEPS) != cases[i].rows)
      fail_msg("%s: a pool has %d rows", cases[i].spec, most_rows);
    if ((remade > 0) != cases[i].remade || (spoilt > 0) != cases[i].remade)
      fail_msg("%s: %d decoded rows became NaN, and %d steps decode",
               cases[i].spec, spoilt, remade);
  }
  prompt = 0;
}

int main(void) {
  if (!kv_device_emu()) return 77;
  device = *kv_device_emu();
  device.append = append;
  device.hooks = hooks;
  device.rebuilt = rebuilt;
  poisoned = kv_backend_emu;
  poisoned.open = open_poisoned;
  poisoned.end_step = end_step;
  return tests_run("gpu_rows", scratch_make, scratch_remove);
}
