/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts without a replay: examples by hand, row by row, the first that
 * of sim/replay/layout/README.md; of regular indices the paper's benchmark
 * shapes and a rewrite that pays; what unified pages have no place for; and
 * what --layout refuses.
 */
#include "ref/formats/minmax.h"
#include "sim/replay/layout/layouts.h"
#include "tests/support/told.h"

#include <string.h>

/* A layout of one layer, open, and a replica of a lane that it may follow. */
typedef struct hand {
  kv_layout_list list;
  const kv_layout *layout;
  kv_layout_state *s;
  kv_replica lane;
} hand;

/* A layer of so many heads, each a lane; rows of K and V have d halves. */
static kv_shape lanes_of(int heads, int d, int tokens, int prompt) {
  return (kv_shape){.n_layers = 1,
                    .n_heads = heads,
                    .n_kv_heads = heads,
                    .d = d,
                    .d_v = d,
                    .n_tokens = tokens,
                    .prompt_len = prompt,
                    .dtype = KV_F16};
}

/* shape and needs must outlive it. */
static hand opened(const char *text, const kv_shape *shape,
                   const kv_needs *needs, int blocks) {
  const kv_layout_room room = {shape, needs, shape->n_kv_heads, 1, blocks};
  hand h = {0};
  works(kv_layouts_parse(text, &h.list, &told));
  h.layout = h.list.item[0].layout;
  if ((h.layout->suits &&
       h.layout->suits(&h.list.item[0], shape, needs, &told)) ||
      h.layout->open(&h.list.item[0], &room, &h.s, &told) ||
      kv_replica_open(shape->n_tokens, 3, &h.lane, &told))
    fail_msg("%s: %s", text, told.text);
  h.layout->begin(h.s);
  return h;
}

static void closed(hand *h) {
  h->layout->close(h->s);
  kv_replica_close(&h->lane);
  kv_layout_list_free(&h->list);
}

/* --- the example by hand ------------------------------------------------- */

static void must_hold(const kv_layout_state *s, int64_t pages, int64_t bytes) {
  assert_int_equal(s->pages, pages);
  assert_int_equal(s->bytes, bytes);
}

/* sim/replay/layout/README.md, "An example by hand": one lane, rows of 8 bytes,
 * pages of 4 tokens; the K side alone is followed here, V does the same. Merged
 * rows of the trace's type stay in raw pages. */
static void by_hand(kv_means merged) {
  const kv_shape shape = lanes_of(1, 4, 10, 6);
  const bool apart = merged == KV_MEANS_FP32;
  const kv_needs needs = {.merges = true, .merged = merged};
  hand h = opened("pages:4", &shape, &needs, 5);
  const kv_layout *p = h.layout;
  kv_layout_state *s = h.s;
  s->block = 0;
  for (int side = 0; side < 2; side++)
    for (int t = 0; t < 6; t++) p->write(s, 0, side, KV_RAW, t);
  p->entered(s, 6);
  must_hold(s, 4, 4 * 32);               /* 0-3 and 4-5, K and V */
  for (int side = 0; side < 2; side++) { /* keep drops 0, 2, 3 */
    p->leave(s, 0, side, KV_RAW, 0);
    p->leave(s, 0, side, KV_RAW, 2);
    p->leave(s, 0, side, KV_RAW, 3);
  }
  must_hold(s, 4, 4 * 32); /* 1 holds its page */
  s->block = 1;
  for (int side = 0; side < 2; side++) { /* 4 is merged into 1 */
    p->leave(s, 0, side, KV_RAW, 4);
    p->leave(s, 0, side, KV_RAW, 1);
    p->write(s, 0, side, KV_MERGED, 1);
  }
  must_hold(s, 4, 2 * 32 + 2 * (apart ? 64 : 32)); /* raw 0-3 is free, or not */
  for (int side = 0; side < 2; side++) p->leave(s, 0, side, KV_RAW, 5);
  must_hold(s, 4, 2 * 32 + 2 * (apart ? 64 : 32)); /* 4-7 is written to */
  s->block = 2;
  for (int side = 0; side < 2; side++)
    for (int t = 6; t < 8; t++) p->write(s, 0, side, KV_RAW, t);
  p->entered(s, 8);
  for (int side = 0; side < 2; side++) {
    p->leave(s, 0, side, KV_RAW, 6);
    p->leave(s, 0, side, KV_RAW, 7);
  }
  must_hold(s, 2, 2 * (apart ? 64 : 32)); /* full and empty: free */
  p->end(s);
  assert_true(p->sound(s));
  assert_int_equal(s->freed[0], 0);
  assert_int_equal(s->freed[1], apart ? 2 * 4 * 8 : 0);
  assert_int_equal(s->freed[2], 2 * 4 * 8);
  closed(&h);
}

TEST(test_by_hand) {
  by_hand(KV_MEANS_FP32);
  by_hand(KV_MEANS_TRACE);
}

/* --- masks by hand ------------------------------------------------------- */

enum { READ, HIDDEN, ROW = 8 }; /* classes; bytes of a row */

static void both(const kv_layout *p, kv_layout_state *s, bool write, int lane,
                 int32_t place) {
  for (int side = 0; side < 2; side++)
    (write ? p->write : p->leave)(s, lane, side, KV_RAW, place);
}

static void counts(const kv_layout *p, kv_layout_state *s, int step, int kept,
                   int fullest, int joined, int masked, bool changed) {
  p->compressed(s, step, NULL);
  assert_true(p->sound(s));
  assert_int_equal(s->regular->kept, kept);
  assert_int_equal(s->regular->fullest, fullest);
  assert_int_equal(s->regular->joined, joined);
  assert_int_equal(s->regular->masked, masked * 2 * ROW);
  assert_int_equal(s->regular->stored, (kept + masked) * 2 * ROW);
  assert_int_equal(s->regular->changed, changed);
}

/* Two lanes whose bits are cleared and come back; `lanes`: are their own places
 * changed, or the union's? */
static void masks_of(const char *name, bool lanes) {
  const kv_shape shape = lanes_of(2, 4, 12, 8);
  const kv_needs needs = {.classes = 2, .unread = 1u << HIDDEN};
  hand h = opened(name, &shape, &needs, 5);
  const kv_layout *p = h.layout;
  kv_layout_state *s = h.s;
  for (int lane = 0; lane < 2; lane++)
    for (int t = 0; t < 8; t++) both(p, s, true, lane, t);
  for (int t = 2; t < 5; t++) p->retier(s, 0, t, HIDDEN);
  p->retier(s, 1, 3, HIDDEN);
  counts(p, s, 8, 12, 7, 7, 4, true); /* 5 and 7, of all but 3 */
  assert_int_equal(s->regular->vacated, 4 * 2 * ROW);
  for (int lane = 0; lane < 2; lane++) both(p, s, true, lane, 8);
  p->retier(s, 0, 5, HIDDEN);
  p->retier(s, 0, 2, READ);
  counts(p, s, 9, 14, 8, 8, 4, lanes); /* as long as if nothing had */
  for (int lane = 0; lane < 2; lane++) both(p, s, true, lane, 9);
  p->retier(s, 1, 2, HIDDEN); /* handed over: the union keeps 2 and 5 */
  p->retier(s, 0, 5, READ);
  p->retier(s, 0, 4, READ); /* and does not change its mind */
  p->retier(s, 0, 4, HIDDEN);
  counts(p, s, 10, 16, 8, 9, 4, lanes);
  p->entered(s, 10);
  both(p, s, false, 0, 3); /* out of the masks, and now of the store */
  both(p, s, false, 0, 6);
  counts(p, s, 10, 15, 8, 9, 3, lanes);
  assert_int_equal(s->regular->vacated, 2 * ROW); /* 3 was before */
  closed(&h);
}

TEST(test_masks) {
  masks_of("ha:sparse", true);
  masks_of("hs:max", true);
  masks_of("ls:max", false);
  masks_of("la:sparse", false);
}

/* --- masks of a layer, and ranks ------------------------------------------ */

/* Dealt to two ranks: one layer of four lanes, 8 tokens, of which they keep 8,
 * 2, 3 and 3, the last two not the same. */
static hand four_lanes(const char *name) {
  static kv_shape shape;
  static const kv_needs needs = {0};
  static const char *const kept[] = {"01234567", "07", "017", "027"};
  shape = lanes_of(4, 4, 8, 8);
  hand h = opened(name, &shape, &needs, 1);
  const kv_layout *p = h.layout;
  kv_layout_state *s = h.s;
  p->entered(s, 8);
  for (int lane = 0; lane < 4; lane++)
    for (int t = 0; t < 8; t++) {
      both(p, s, true, lane, t);
      if (!strchr(kept[lane], '0' + t)) both(p, s, false, lane, t);
    }
  p->compressed(s, 8, NULL);
  assert_true(p->sound(s));
  return h;
}

static void must_count(const kv_regular_layer *r, int kept, int fullest,
                       int joined, int vacated) {
  assert_int_equal(r->kept, kept);
  assert_int_equal(r->fullest, fullest);
  assert_int_equal(r->joined, joined);
  assert_int_equal(r->vacated, vacated * 2 * ROW);
  assert_int_equal(r->stored, kept * 2 * ROW);
}

TEST(test_ranks) {
  hand two = four_lanes("ha:max:tp=2"), one = four_lanes("ha:max");
  must_count(&two.s->regular[0], 10, 8, 8, 6);
  must_count(&two.s->regular[1], 6, 3, 4, 10);
  must_count(one.s->regular, 16, 8, 8, 16);
  closed(&two);
  closed(&one);
}

TEST(test_ranks_refused) {
  const kv_shape shape = {.n_kv_heads = 4};
  const kv_needs needs = {0};
  kv_layout_list l = {0};
  works(kv_layouts_parse("ls:max:tp=3", &l, &told));
  fails(l.item[0].layout->suits(&l.item[0], &shape, &needs, &told), KV_REFUSED,
        "4 KV heads cannot be split among 3 ranks");
  kv_layout_list_free(&l);
}

/* A mask for all lanes reads what any of them holds: 2 layers of 4 lanes, whose
 * unions are 8 and 4 of 9 tokens. */
TEST(test_one_mask) {
  const kv_regular_counts c = {.layers = 2,
                               .lanes = 4,
                               .seen = 9,
                               .kept = 22,
                               .fullest = 7,
                               .joined = 12,
                               .widest = 8};
  assert_int_equal(kv_regular_mask(false, &c), 2 * 4 * 2);
  assert_int_equal(kv_regular_mask(true, &c), 2 * 2);
  assert_int_equal(kv_regular_kept(false, &c), 22);
  assert_int_equal(kv_regular_kept(true, &c), 48);
  assert_int_equal(kv_regular_fullest(true, &c), 8);
}

/* --- the paper's shapes ------------------------------------------------- */

enum { BIG_LAYERS = 36, BIG_LANES = 8, BIG = 2048 };

/* n = N / 2 by_layer^l by_lane^h. */
static kv_regular_counts shape(double by_layer, double by_lane) {
  kv_regular_counts c = {.layers = BIG_LAYERS, .lanes = BIG_LANES, .seen = BIG};
  double first = 0.5 * BIG;
  for (int l = 0; l < BIG_LAYERS; l++, first *= by_layer) {
    double n = first;
    for (int h = 0; h < BIG_LANES; h++, n *= by_lane) c.kept += (int64_t)n;
    c.longest += (int64_t)first;
    c.changed_joined += (int64_t)first;
  }
  c.fullest = c.widest = BIG / 2;
  c.changed = BIG_LAYERS;
  c.changed_kept = c.kept;
  return c;
}

static void near(double share, double percent) {
  assert_true(100 * share > percent - 0.005 && 100 * share < percent + 0.005);
}

TEST(test_shapes) {
  const int64_t lanes = BIG_LAYERS * BIG_LANES, full = lanes * BIG;
  kv_regular_counts ha = shape(0.93389, 0.87215);
  near((double)ha.kept / (double)full, 12.48);
  near((double)ha.kept / (double)(lanes * ha.fullest), 24.95);
  assert_int_equal(kv_regular_slots(KV_REGULAR_HA, false, &ha), full / 2);
  assert_int_equal(kv_regular_moves(KV_REGULAR_HA, &ha), ha.kept);
  kv_regular_counts hs = shape(1, 0.502017);
  near((double)hs.kept / (double)full, 12.49);
  assert_int_equal(kv_regular_slots(KV_REGULAR_HS, false, &hs), full / 2);
  assert_int_equal(kv_regular_moves(KV_REGULAR_HS, &hs), hs.kept);
  kv_regular_counts la = shape(0.890533, 1);
  near((double)la.kept / (double)full, 12.47);
  assert_int_equal(kv_regular_slots(KV_REGULAR_LA, false, &la), full / 2);
  assert_int_equal(kv_regular_moves(KV_REGULAR_LA, &la), la.kept);
  kv_regular_counts ls = shape(1, 1);
  assert_int_equal(kv_regular_moves(KV_REGULAR_LS, &ls), full / 2);
  assert_int_equal(kv_regular_slots(KV_REGULAR_LS, true, &ls), full);
  assert_int_equal(kv_regular_mask(false, &ls), lanes * BIG / 8);
  ls.seen = 9;
  assert_int_equal(kv_regular_mask(false, &ls), lanes * 2);
}

/* 1,000 bytes, of which 400 stay: 1,400 are held for 800 bytes of reading and
 * writing, 1,120,000; then 160,000 a step instead of 1,000,000. The masks of 10
 * bytes cost 10,100 at once and 1,020,100 a step: (1,120,000 - 10,100) /
 * (1,020,100 - 160,000) = 1.29, so two steps. */
TEST(test_pays) {
  kv_regular_race r;
  kv_regular_begin(&r);
  kv_regular_step(&r, 1000, 1000);
  assert_int_equal(r.steps, 0);
  kv_regular_rewrite(&r, 1400, 400, 1010, 10);
  kv_regular_step(&r, 400, 1010);
  assert_int_equal(r.paid_at, -1);
  assert_true(r.rewritten == 1280000 && r.masked == 1030200);
  kv_regular_step(&r, 400, 1010);
  kv_regular_step(&r, 400, 1010);
  assert_int_equal(r.paid_at, 2);
}

/* --- unified pages by hand ------------------------------------------------ */

/* K8V4 and K4V2 rows of 128 elements, of which a page holds 32 and 60. */
enum { RAW = KV_RAW, INT8 = KV_CODED, INT4, INT2, TOKENS = 120, PROMPT = 100 };

static const kv_minmax int8 = {8, 128, KV_RULE_UNROUNDED};
static const kv_minmax int4 = {4, 128, KV_RULE_UNROUNDED};
static const kv_minmax int2 = {2, 128, KV_RULE_UNROUNDED};
static const kv_needs coded = {
    .codings = 3,
    .coding = {{.format = &kv_format_token, .settings = &int8},
               {.format = &kv_format_token, .settings = &int4},
               {.format = &kv_format_token, .settings = &int2}}};

static kv_shape wide; /* of them */

static hand unified(const char *text) {
  wide = lanes_of(1, 128, TOKENS, PROMPT);
  return opened(text, &wide, &coded, TOKENS);
}

/* Of `step` tokens so many are stored as high, low and raw entries, in this
 * order. */
static void compress(hand *h, int step, int high, int low, int raw) {
  kv_replica *r = &h->lane;
  r->n = high + low + raw;
  r->dropped = step - r->n;
  for (int i = 0; i < r->n; i++) {
    int tier = i < high ? 0 : i < high + low ? 1 : 2;
    static const int16_t format[3][KV_SIDES] = {
        {INT8, INT4}, {INT4, INT2}, {RAW, RAW}};
    r->order[i] = i;
    memcpy(r->entry[i].format, format[tier], sizeof format[tier]);
  }
  h->layout->compressed(h->s, step, r);
  h->s->block++;
}

static void must_have(const hand *h, int64_t pages, int64_t most,
                      int64_t unused) {
  assert_null(h->s->fault);
  assert_int_equal(h->s->pages, pages);
  assert_int_equal(h->s->bytes, pages * 6784);
  assert_int_equal(h->s->most_pages, most);
  assert_int_equal(h->s->unused, unused);
}

TEST(test_unified) {
  hand h = unified("unified");
  compress(&h, 100, 40, 50, 0); /* 4 are reserved, 2 and 1 are needed */
  must_have(&h, 3, 4, 3 * 6784 - 40 * 208 - 50 * 112);
  assert_int_equal(h.s->freed[0], 0); /* nothing lay in what went back */
  compress(&h, 101, 40, 51, 0);
  must_have(&h, 3, 3, 3 * 6784 - 40 * 208 - 51 * 112);
  compress(&h, 111, 40, 61, 0); /* ten at once, as a prompt: 2 and 2 */
  must_have(&h, 4, 4, 4 * 6784 - 40 * 208 - 61 * 112);
  compress(&h, 112, 39, 62, 0); /* a demotion: no page goes back */
  must_have(&h, 4, 4, 4 * 6784 - 39 * 208 - 62 * 112);
  assert_int_equal(h.s->moved, 1);
  h.layout->end(h.s);
  assert_true(h.layout->sound(h.s));
  assert_int_equal(h.s->taken, 5);
  assert_int_equal(h.s->given, 1);
  assert_int_equal(h.s->operations, 6);
  assert_int_equal(h.s->entries, 4 + 1); /* 120 tokens, 32 a page, and one */
  closed(&h);
}

/* Rows that were left: before they lay in a page, in one that stays, and in one
 * that goes back, of whose 8 tokens the other page has no room for. */
TEST(test_unified_freed) {
  hand h = unified("unified");
  h.layout->leave(h.s, 0, KV_SIDE_K, RAW, 99);
  compress(&h, 100, 40, 50, 0);
  assert_int_equal(h.s->freed[0], 256);
  h.layout->leave(h.s, 0, KV_SIDE_K, INT8, 39);
  compress(&h, 101, 39, 51, 0);
  assert_int_equal(h.s->freed[1], 0);
  compress(&h, 103, 20, 51, 0); /* two enter at once */
  must_have(&h, 2, 3, 2 * 6784 - 20 * 208 - 51 * 112);
  assert_int_equal(h.s->freed[2], (39 - 32) * (128 + 64));
  closed(&h);
}

/* The code reserves a page more, and in a step before it knows. */
TEST(test_unified_code) {
  hand h = unified("unified:code");
  compress(&h, 100, 64, 10, 0);
  must_have(&h, 3, 5, 3 * 6784 - 64 * 208 - 10 * 112);
  compress(&h, 101, 64, 11, 0); /* the high pages are full: one more */
  must_have(&h, 4, 4, 4 * 6784 - 64 * 208 - 11 * 112);
  h.layout->end(h.s);
  assert_int_equal(h.s->entries, 5 + 2); /* 24 a page: K8V8 */
  assert_true(h.layout->sound(h.s));
  closed(&h);
}

/* Raw rows that a compression left are a tier; a third pair has none. A token
 * that nobody has is noticed. */
TEST(test_unified_tiers) {
  hand h = unified("unified");
  compress(&h, 100, 0, 90, 10); /* 12 raw tokens of 520 bytes a page */
  must_have(&h, 1 + 2, 9, 3 * 6784 - 10 * 520 - 90 * 112);
  compress(&h, 101, 1, 90, 10);
  assert_non_null(strstr(h.s->fault, "after 101 tokens entries are stored in a "
                                     "third pair of formats"));
  closed(&h);
  h = unified("unified");
  compress(&h, 100, 90, 0, 0);
  h.lane.dropped--;
  h.layout->compressed(h.s, 101, &h.lane);
  assert_false(h.layout->sound(h.s));
  closed(&h);
}

TEST(test_unified_refused) {
  static const kv_minmax many = {4, 32, KV_RULE_STORED};
  static const struct {
    kv_needs needs;
    int d;
    const char *says;
  } of[] = {{{.merges = true}, 128, "no page for merged rows"},
            {{.tiers = 3}, 128, "2 precisions, but the method has 3"},
            {{.codings = 1,
              .coding = {{.format = &kv_format_channel, .settings = &many}}},
             128,
             "format channel has one scale for 32 tokens"},
            {{0}, 6000, "coded token of 6000 and 6000 elements"}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kv_shape shape = lanes_of(1, of[i].d, TOKENS, PROMPT);
    kv_rc rc = kv_layout_unified.suits(NULL, &shape, &of[i].needs, &told);
    if (rc != KV_REFUSED || !strstr(told.text, of[i].says))
      fail_msg("%s: %d, %s", of[i].says, rc, told.text);
  }
}

/* --- what is refused ----------------------------------------------------- */

TEST(test_refused) {
  static const struct {
    const char *text, *says;
  } bad[] = {{"ha:sum", "load almost everything"},
             {"ls", "must be followed by sparse (masks) or max"},
             {"hs:most", "not \"most\""},
             {"base:max", "use tp=N"},
             {"base:masks=lane", "use base without masks"},
             {"ls:max:masks=layer", "use masks=lane, or sparse"},
             {"ha:sparse:masks=layer", "use ls:sparse or la:sparse"},
             {"ls:sparse:masks=head", "must be lane or layer"},
             {"ls:sparse:", "use tp=N"},
             {"ls::tp=2", "must be followed by sparse (masks) or max"},
             {"ha:max:tp=1", "from 2 to 1024"},
             {"ha:max:tp=1025", "from 2 to 1024"},
             {"ha:max:tp=2x", "from 2 to 1024"},
             {"ha:max:tp=+2", "from 2 to 1024"},
             {"ls:sparse:tp=2:masks=layer,ls:sparse:masks=layer:tp=2",
              "layout ls:sparse:masks=layer:tp=2 is named twice"},
             {"hs:sparse,hs:sparse:masks=lane", "named twice"},
             {"la:max,la:max", "named twice"},
             {"xs:max", "ls, la, hs or ha"},
             {"", "no layout is called"},
             {"slot", "no layout is called"},
             {"slots:1", "has no settings"},
             {"pages", "from 1 to 65536"},
             {"pages:0", "from 1 to 65536"},
             {"pages:65537", "from 1 to 65536"},
             {"pages:4:", "lane, layer or model"},
             {"pages:4:all", "not \"4:all\""},
             {"pages:+4", "from 1 to 65536"},
             {"pages:4x", "from 1 to 65536"},
             {"slots,slots", "named twice"},
             {"slots,", "no layout is called"},
             {"pages:4,pages:4:lane", "named twice"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kv_layout_list l = {0};
    if (kv_layouts_parse(bad[i].text, &l, &told) != KV_USAGE ||
        !strstr(told.text, bad[i].says))
      fail_msg("\"%s\": %s", bad[i].text, told.text);
    kv_layout_list_free(&l);
  }
}

int main(void) { return tests_run("layouts by hand", NULL, NULL); }
