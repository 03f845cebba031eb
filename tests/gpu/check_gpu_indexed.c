/* SPDX-License-Identifier: Apache-2.0
 *
 * A store whose rows lie by regular indices, on the executor, because a replay
 * was asked for such a layout:
 * - journal, state and outputs are the reference's, which has no such store,
 *   whether threads and blocks run forwards or backwards;
 * - after every block and step each entry's place has its K and V, as the
 *   trace has them; the bits that are set are those of entries that views
 *   hold; masked, a lane has a place for every token seen, rewritten, for what
 *   it holds and no more, and joined, for what any lane of its layer holds, a
 *   token in the same place of each. What is not a lane's is scribbled over;
 * - where one mask serves a layer, its bits are those of entries that any lane
 *   reads, and attention goes by it as long as all lanes read the same;
 * - what was gathered is what the layout counts, slot for slot;
 * - attention goes by masks where views are the lanes or what classes leave of
 *   them, and else reads rows one by one; where rows are merged, coded or
 *   re-indexed there is no such store;
 * - masked, attention copies the values of the entries that it reads and no
 *   others, once for up to 8 heads;
 * - asked for base, a layer holds what its lanes share: where all layers hold
 *   the same tokens as many as the layout counts, else fewer.
 */
#include "gpu/host/backends.h"
#include "gpu/host/indexed.h"
#include "tests/gpu/gpucell.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 210, PROMPT = 170, BUDGET = 48 };

/* order.cc */
void order_of_threads(int reverse);
void copies_of(const void *from, size_t bytes);
void copies_made(uint64_t of[3]);

/* Where rows must lie, and how attention must read them. */
typedef enum expected { POOLS, READ, WALKED, BOTH } expected;

static kv_device device;
static kv_backend indexed;
static char trace[512];
static expected must;
static bool rewritten, joined, shared;
static int blocks, walked, read_rows;     /* of the replay */
static int64_t rewrites, gathered, hides; /* slots; clear bits of entries */
static int64_t held;                      /* places, after each block */
static kv_indices asked; /* by cases of the rig, which have no layout */
static int64_t pieces; /* of 16 bytes of values that their steps should copy */

/* --- the device and its backend ------------------------------------------- */

static void attend(void *stream, const kv_gpu_layer *l, int masked) {
  read_rows++;
  kv_device_emu()->attend(stream, l, masked);
}

/* Tokens that any lane of the layer holds. Joined, each has one place. */
static int union_of(const kv_gpu_layer *l) {
  int32_t at[TOKENS];
  int n = 0;
  memset(at, 0xff, sizeof at);
  for (int i = 0; i < l->lanes; i++)
    for (int j = 0; j < l->lane[i].n; j++) {
      int32_t token = (int32_t)l->lane[i].id[j], own = l->lane[i].k[j].block;
      n += at[token] < 0;
      if (joined && at[token] >= 0) assert_int_equal(own, at[token]);
      at[token] = own;
    }
  return n;
}

/* After a rewrite the first places are in use, and no others. */
static void must_be_gathered(const kv_gpu_layer *l, const kv_gpu_regular *r) {
  const kv_gpu_regular_half *h = &r->half[*r->which];
  for (int i = 0; i < l->lanes; i++)
    for (int at = 0; at < 32 * r->words; at++)
      assert_int_equal(h->mask[i * r->stride + at / 32] >> at % 32 & 1,
                       at < h->taken[i]);
}

static void regular(void *stream, const kv_gpu_layer *l,
                    const kv_gpu_regular *r, int act) {
  walked += act == KV_GPU_REGULAR_ATTEND;
  rewrites += act == KV_GPU_REGULAR_REWRITE;
  for (int i = 0; act == KV_GPU_REGULAR_REWRITE && i < l->lanes; i++)
    gathered += joined ? union_of(l) : l->lane[i].n;
  kv_device_emu()->regular(stream, l, r, act);
  if (act == KV_GPU_REGULAR_REWRITE) must_be_gathered(l, r);
}

static kv_rc open_indexed(const kv_plan *plan, kv_store **out, kv_err *e) {
  if (asked) ((kv_plan *)plan)->indices = asked; /* the rig's own */
  return kv_gpu_open(&device, plan, out, e);
}

static const kv_gpu_regular_half *half_of(const kv_store *s) {
  const kv_gpu_regular *r = &s->indexed->store.r; /* it is near */
  return &r->half[*r->which];
}

/* Fails unless the entry's rows lie at its place; returns the place. */
static int place_of(const kv_store *s, int lane, int i) {
  const kv_gpu_regular_half *h = half_of(s);
  const kv_gpu_lane *l = &s->layer.lane[lane];
  const kv_lane *m = &s->mirror[lane];
  size_t at = (size_t)lane * (size_t)s->indexed->store.r.room;
  at += (size_t)l->k[i].block;
  assert_int_equal(l->k[i].block, l->v[i].block);
  assert_in_range(l->k[i].block, 0, h->taken[lane] - 1);
  assert_memory_equal(h->k + at * l->k_raw.size, kv_lane_raw_key(m, l->id[i]),
                      l->k_raw.size);
  assert_memory_equal(h->v + at * l->v_raw.size, kv_lane_raw_value(m, l->id[i]),
                      l->v_raw.size);
  return l->k[i].block;
}

/* Rows of places that no entry has become noise. */
static void scribble(const kv_store *s, int lane, const char *owned) {
  const kv_gpu_regular *r = &s->indexed->store.r;
  const kv_gpu_lane *l = &s->layer.lane[lane];
  for (int at = 0; at < r->room; at++) {
    size_t place = (size_t)lane * (size_t)r->room + (size_t)at;
    if (owned[at]) continue;
    memset(half_of(s)->k + place * l->k_raw.size, 0x7f, l->k_raw.size);
    memset(half_of(s)->v + place * l->v_raw.size, 0x7f, l->v_raw.size);
  }
}

static bool is_hidden(const kv_store *s, const kv_gpu_lane *l, int j) {
  return l->tier && s->plan->needs.unread >> l->tier[j] & 1;
}

/* Does any lane of the layer read an entry at the place? */
static bool is_read(const kv_store *s, int place) {
  bool any = false;
  for (int i = 0; i < s->lanes; i++) {
    const kv_gpu_lane *l = &s->layer.lane[i];
    for (int j = 0; j < l->n; j++)
      any = any || (l->k[j].block == place && !is_hidden(s, l, j));
  }
  return any;
}

static void check_lane(const kv_store *s, int i) {
  const kv_gpu_regular *r = &s->indexed->store.r;
  const kv_gpu_lane *l = &s->layer.lane[i];
  char *owned = calloc((size_t)r->room, 1);
  assert_int_equal(r->stride, shared ? 0 : r->words);
  int taken = half_of(s)->taken[i];
  assert_non_null(owned);
  assert_int_equal(taken, joined      ? union_of(&s->layer)
                          : rewritten ? l->n
                                      : s->end);
  held += taken;
  for (int j = 0; j < l->n; j++) {
    bool hidden = is_hidden(s, l, j);
    int at = place_of(s, i, j);
    assert_int_equal(owned[at], 0);
    owned[at] = hidden ? 2 : 1;
    hides += hidden;
  }
  for (int at = 0; at < 32 * r->words; at++) {
    uint32_t bit = half_of(s)->mask[i * r->stride + at / 32] >> at % 32 & 1;
    bool read = at < r->room && owned[at] == 1;
    assert_int_equal(bit, shared && at < r->room ? is_read(s, at) : read);
  }
  scribble(s, i, owned);
  free(owned);
}

/* Adds what the next step copies of values that were never moved. */
static void foresee(const kv_store *s) {
  const kv_gpu_regular *r = &s->indexed->store.r;
  size_t row = s->layer.lane[0].v_raw.size;
  if (s->end == s->shape.prompt_len)
    copies_of(r->half[0].v, (size_t)s->lanes * (size_t)r->room * row);
  for (int i = 0; s->end < s->shape.n_tokens && i < s->lanes; i++) {
    const kv_gpu_lane *l = &s->layer.lane[i];
    int64_t read = 1; /* the new token */
    for (int j = 0; j < l->n; j++) read += !is_hidden(s, l, j);
    pieces += (l->queries + 7) / 8 * read * (int64_t)row / 16;
  }
}

static void end_step(kv_store *s) {
  if (asked == KV_INDICES_MASKED) foresee(s);
  blocks++;
  assert_int_equal(must == POOLS, s->indexed == NULL);
  for (int i = 0; s->indexed && i < s->lanes; i++) check_lane(s, i);
  kv_backend_emu.end_step(s);
}

/* --- tests ---------------------------------------------------------------- */

static void must_match(const char *text, const char *layout,
                       const kv_digest of_ref[GPUCELL_ENDS], int reverse) {
  kv_digest of[GPUCELL_ENDS];
  kv_layout_result counted;
  gpucell c = {trace, layout, 0, BUDGET, &counted};
  blocks = walked = read_rows = 0;
  rewrites = gathered = hides = held = 0;
  order_of_threads(reverse);
  gpucell_replay(&c, text, &indexed, of);
  order_of_threads(0);
  gpucell_must_match(text, layout, of_ref, of);
  assert_true(blocks >= GPUCELL_LAYERS * (TOKENS - PROMPT + 1));
  if ((walked > 0) != (must == WALKED || must == BOTH) ||
      (read_rows > 0) == (must == WALKED))
    fail_msg("%s: attention went by masks in %d steps, and read rows in %d",
             text, walked, read_rows);
  if (must == POOLS || !rewritten) {
    assert_int_equal(rewrites, 0);
    return;
  }
  assert_int_equal(gathered, counted.regular.moves);
  assert_true(rewrites >= counted.regular.rewrites);
}

static const struct {
  const char *spec;
  expected where, one; /* by masks of lanes; by one of the layer */
  int least;           /* rewrites; and bits that are clear, */
  bool hides;
} cases[] = {
    {"dense", WALKED, WALKED, 0, false},
    {"snapkv:window=16", WALKED, READ, 2, false},
    {"h2o", READ, READ, 20, false}, /* views are asked for, and are the lane */
    {"adakv", WALKED, READ, 2, false},
    {"tova", WALKED, WALKED, 20, false}, /* all lanes drop the same */
    {"quest:page=8:skip=0", READ, READ, 0, false},
    {"hardkv:upper=100:lower=10:window=4:every=6:p=0.6", WALKED, READ, 2, true},
    {"hardkv:upper=199:lower=190:window=4:every=6:p=0.6", WALKED, BOTH, 2,
     true}, /* lanes are alike until they are longer than lower */
    {"hardkv:upper=190:lower=10:window=1:sinks=0:local=0:every=1:"
     "adapter=vanilla:variant=code",
     BOTH, READ, 2, true},                    /* lanes get another order */
    {"streamingllm", POOLS, POOLS, 0, false}, /* re-indexed */
    {"zsmerge", POOLS, POOLS, 0, false},
    {"tova+int8", POOLS, POOLS, 0, false}};

static void test_layout(const char *layout, bool rewrite, bool join) {
  shared = strstr(layout, "masks=layer");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kv_digest of_ref[GPUCELL_ENDS];
    gpucell plain = {trace, NULL, 0, BUDGET, NULL};
    must = shared ? cases[i].one : cases[i].where;
    rewritten = rewrite;
    joined = join;
    gpucell_replay(&plain, cases[i].spec, &kv_backend_ref, of_ref);
    must_match(cases[i].spec, layout, of_ref, (int)(i + rewrite) % 2);
    if (must == POOLS) continue;
    if (rewrite ? rewrites < cases[i].least : rewrites != 0)
      fail_msg("%s: rewritten %d times", cases[i].spec, (int)rewrites);
    assert_int_equal(hides > 0, cases[i].hides);
  }
}

TEST(test_max) {
  gpucell_trace("indexed", KV_F32, 32, TOKENS, PROMPT, trace);
  test_layout("ha:max:masks=lane", true, false);
}

TEST(test_sparse) {
  gpucell_trace("indexed", KV_F16, 20, TOKENS, PROMPT, trace);
  test_layout("ha:sparse", false, false);
}

TEST(test_joined) {
  gpucell_trace("indexed", KV_F16, 24, TOKENS, PROMPT, trace);
  test_layout("la:max:masks=lane", true, true);
}

/* Rows of K and V that the layout counts, summed over steps. */
static double rows_of(const kv_layout_result *of) {
  return of->pages_mean * of->n_steps;
}

TEST(test_base) {
  static const struct {
    const char *text;
    bool same; /* do all layers hold the same? */
  } of[] = {{"window", true}, {"tova", false}, {"snapkv:window=16", false}};
  gpucell_trace("indexed", KV_F32, 16, TOKENS, PROMPT, trace);
  must = WALKED;
  rewritten = joined = true;
  shared = false;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kv_digest of_ref[GPUCELL_ENDS], found[GPUCELL_ENDS];
    kv_layout_result counted;
    gpucell c = {trace, "base", 0, BUDGET, &counted};
    gpucell_replay(&c, of[i].text, &kv_backend_ref, of_ref);
    walked = 0;
    held = 0;
    gpucell_replay(&c, of[i].text, &indexed, found);
    gpucell_must_match(of[i].text, "base", of_ref, found);
    assert_true(walked > 0);
    if ((2.0 * (double)held == rows_of(&counted)) != of[i].same ||
        2.0 * (double)held > rows_of(&counted))
      fail_msg("%s: %d places, counted are %g rows", of[i].text, (int)held,
               rows_of(&counted));
  }
}

TEST(test_shared) {
  gpucell_trace("indexed", KV_F32, 20, TOKENS, PROMPT, trace);
  test_layout("ls:sparse:masks=layer", false, false);
}

/* Of every layout what a store does where it is asked for first. */
TEST(test_layouts) {
  static const struct {
    const char *layouts;
    kv_indices stored;
  } all[] = {{"hs:max", KV_INDICES_REWRITTEN},
             {"hs:sparse", KV_INDICES_MASKED},
             {"ls:sparse", KV_INDICES_MASKED},
             {"la:sparse,ha:max", KV_INDICES_MASKED},
             {"la:sparse:masks=layer", KV_INDICES_SHARED},
             {"ls:max", KV_INDICES_JOINED},
             {"la:max,hs:max", KV_INDICES_JOINED},
             {"base", KV_INDICES_JOINED},
             {"pages:16", KV_INDICES_NONE}};
  const char *text = "snapkv:window=16";
  gpucell_trace("indexed", KV_BF16, 12, TOKENS, PROMPT, trace);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    kv_digest of_ref[GPUCELL_ENDS], of[GPUCELL_ENDS];
    gpucell c = {trace, all[i].layouts, 0, BUDGET, NULL};
    shared = all[i].stored == KV_INDICES_SHARED;
    must = shared ? READ : all[i].stored ? WALKED : POOLS;
    rewritten = all[i].stored > KV_INDICES_MASKED && !shared;
    joined = all[i].stored == KV_INDICES_JOINED;
    walked = 0;
    gpucell_replay(&c, text, &kv_backend_ref, of_ref);
    gpucell_replay(&c, text, &indexed, of);
    gpucell_must_match(text, all[i].layouts, of_ref, of);
    assert_int_equal(walked > 0, must == WALKED);
  }
}

/* Groups of 1 to 13 heads, rows that are and are not multiples of 16 bytes, and
 * more tokens than the 512 places that one block rewrites. */
TEST(test_shapes) {
  static const struct {
    rig_case c;
    const char *spec;
    bool whole; /* are rows whole pieces? */
  } shapes[] = {
      {RIG_SHAPE(3, 3, 64, 64, 640, 600), "snapkv:window=16:budget=550", true},
      {RIG_SHAPE(8, 2, 32, 48, 300, 260, .half = true), "tova:budget=200",
       true},
      {RIG_SHAPE(14, 2, 20, 12, 300, 260, .half = true),
       "adakv:window=16:budget=100", false},
      {RIG_SHAPE(16, 2, 64, 64, 200, 160), "tova:budget=140", true},
      {RIG_SHAPE(13, 1, 16, 136, 300, 260, .half = true),
       "hardkv:upper=199:lower=100:window=4:every=6:p=0.6", true}};
  must = WALKED;
  joined = shared = false;
  for (size_t i = 0; i < 2 * (sizeof shapes / sizeof *shapes); i++) {
    rig_case c = shapes[i / 2].c;
    kv_digest of_ref[GPUCELL_ENDS], of[GPUCELL_ENDS];
    const char *text = shapes[i / 2].spec;
    uint64_t copied[3];
    rewritten = i % 2;
    rig_data(&c, 11);
    gpucell_layer(&c, text, &kv_backend_ref, of_ref);
    for (int reverse = 0; reverse < 2; reverse++) {
      asked = rewritten ? KV_INDICES_REWRITTEN : KV_INDICES_MASKED;
      walked = read_rows = 0;
      rewrites = pieces = 0;
      order_of_threads(reverse);
      gpucell_layer(&c, text, &indexed, of);
      copies_made(copied);
      order_of_threads(0);
      asked = KV_INDICES_NONE;
      gpucell_must_match(text, "a shape", of_ref, of);
      /* One sequence for steps that compress, and one for the others. */
      if (walked < 1 || walked > 2 || read_rows || (rewrites > 0) != rewritten)
        fail_msg(
            "%s: attention went by masks in %d sequences, and read rows in "
            "%d; rewritten %d times",
            text, walked, read_rows, (int)rewrites);
      if (!rewritten && shapes[i / 2].whole && (int64_t)copied[0] != pieces)
        fail_msg("%s: %d pieces were copied, not %d", text, (int)copied[0],
                 (int)pieces);
    }
    rig_data_free(&c);
  }
}

int main(void) {
  if (!kv_device_emu()) return 77;
  device = *kv_device_emu();
  device.attend = attend;
  device.regular = regular;
  indexed = kv_backend_emu;
  indexed.open = open_indexed;
  indexed.end_step = end_step;
  return tests_run("gpu_indexed", scratch_make, scratch_remove);
}
