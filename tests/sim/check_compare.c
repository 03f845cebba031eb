/* SPDX-License-Identifier: Apache-2.0
 *
 * The first difference of two backends, as sim/run/compare/compare.h names it:
 * each of a table of backends that tamper with one thing at one place must be
 * found at that step, layer, lane or head, under its name, with both values.
 * What is flipped is a lowest bit, so the two values differ by it. Also: who
 * does not tamper is equal; chance is told apart; a failure and a lost device;
 * bytes of the ledger, which no digest knows: the step, layer and lane, or the
 * total where a second look does not show it.
 */
#include "ref/backend/store.h"
#include "tests/support/backend/tamper.h"
#include "tests/support/backend/ulp.h"
#include "tests/support/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the compression hashed, and does not show. */
static void hidden_compress(kv_store *s, int lane, kv_scratch *x) {
  kv_backend_ref.compress(s, lane, x);
  if (tampers_here(&s->lane[lane])) s->state[lane].byte[0] ^= 1;
}

static void flip(float *f) {
  uint32_t u = kv_bits_of(*f) ^ 1;
  memcpy(f, &u, sizeof u);
}

/* The second head of the lane: query head 3. */
static void bad_output(kv_store *s, kv_scratch *x) {
  size_t d_v = (size_t)s->plan->shape->d_v;
  flip(&x->out[d_v + 5]);
  flip(&s->out[(HEAD + 1) * (d_v + 1) + 5]);
}
static void bad_lse(kv_store *s, kv_scratch *x) {
  size_t d_v = (size_t)s->plan->shape->d_v;
  flip(&x->lse[0]);
  flip(&s->out[HEAD * (d_v + 1) + d_v]);
}
static void bad_view(kv_store *s, kv_scratch *x) {
  (void)x;
  s->lane[LANE].views.word[7 + 5 + 1] ^= 1;
}
static void bad_both(kv_store *s, kv_scratch *x) {
  bad_output(s, x);
  bad_view(s, x);
}

/* An output that a chunk of the method's own is part of. */
static void bad_more(kv_store *s, kv_scratch *x) {
  assert_true(x->more[1].l > 0);
  bad_output(s, x);
}

static void bad_id(kv_lane *l) { l->id[2] ^= 1; }
static void bad_weight(kv_lane *l) { l->weight[3] ^= 1; }
static void bad_class(kv_lane *l) { l->tier[3] ^= 1; }
static void bad_format(kv_lane *l) { l->k[0].format ^= 1; }
static void bad_v_format(kv_lane *l) { l->v[0].format ^= 1; }
static void bad_column(kv_lane *l) { l->column[0].i[4] ^= 1; }
static void bad_real(kv_lane *l) { flip(&l->column[1].f[4]); }
static void bad_rows(kv_lane *l) { l->rewrites.byte[31] ^= 1; }
static void bad_key(kv_lane *l) {
  kv_slab *s = &l->k_slab[KV_MERGED];
  int i = 0;
  while (l->k[i].format != KV_MERGED) i++;
  flip((float *)(void *)(s->data + (size_t)l->k[i].block * s->size) + 3);
  bad_rows(l);
}
static void fewer(kv_lane *l) { l->n--; }
static void silent(kv_lane *l) { l->verbs.n = 0; }
static void loud(kv_lane *l) { kv_move(l, 0, 1); }
static void word_1(kv_lane *l) { l->verbs.word[5 + 1] ^= 1; }
static void word_0(kv_lane *l) { l->verbs.word[5] ^= 1; }
static void header(kv_lane *l) { l->verbs.word[2] ^= 1; }
static void kind(kv_lane *l) { l->verbs.word[0] ^= 1; }
static void liar(kv_lane *l) { l->verbs.word[4] = UINT32_MAX; }
static void failing(kv_lane *l) {
  kv_fail(&l->fault, KV_REFUSED, "the sky fell");
}
static void lost(kv_lane *l) {
  kv_fail(&l->fault, KV_RESOURCE, "the device went away");
}

static const tamper_fault faults[] = {
    {"window", 30, NULL, bad_view, 80, "view", 3, 1,
     "record 1, view: length of run 0: 0x0000001f in ref, 0x"},
    {"window", 30, NULL, bad_output, 80, "output", 3, 5,
     "step 80, layer 1, query head 3: element 5 of the output: 0x"},
    {"window", 30, NULL, bad_lse, 96, "lse", 2, -1, "the LSE: 0x"},
    {"rest", -1, NULL, bad_more, 80, "output", 3, 5, "element 5"},
    {"window", 30, NULL, bad_both, 65, "view", 3, 1, "length of run 0"},
    {"quest", 30, NULL, bad_output, 70, "output", 3, 5, "element 5"},
    {"window", 30, bad_id, NULL, 64, "id", -1, 2, "id of entry 2 ("},
    {"window", 30, bad_weight, NULL, 96, "weight", -1, 3,
     "(token 69): 0x00000001 in ref, 0x00000000 in odd"},
    {ZSMERGE, 16, bad_class, NULL, 80, "class", -1, 3, "class of entry 3"},
    {"dense", -1, bad_id, NULL, 96, "id", -1, 2, "(token 2)"},
    {KIVI, -1, bad_format, NULL, 96, "k_format", -1, 0,
     "(token 0): 0x0002 in ref, 0x0003 in odd"},
    {KIVI, -1, bad_v_format, NULL, 96, "v_format", -1, 0,
     "v_format of entry 0"},
    {"h2o", 30, bad_column, NULL, 80, "column", -1, 4, "column 0 of entry 4"},
    {"h2o", 30, bad_column, NULL, 64, "column", -1, 4, "column 0 of entry 4"},
    {"mad", -1, bad_real, NULL, 75, "column", -1, 4, "column 1 of entry 4"},
    {"window", 30, fewer, NULL, 80, "entries", -1, 29,
     "entries: 0x0000001e in ref, 0x0000001d in odd"},
    {"window", 30, silent, NULL, 80, "keep", -1, -1,
     "0x00000001 in ref, no such record in odd"},
    {"window", 30, loud, NULL, 80, "move", -1, -1, "no such record"},
    {"window", 30, word_1, NULL, 80, "keep", -1, 1, "keep: dropped id 1 of 1"},
    {"window", 30, word_0, NULL, 80, "keep", -1, 0, "how many it drops"},
    {"window", 30, word_0, NULL, 64, "keep", -1, 0,
     "keep: how many it drops: 0x00000022 in ref, 0x00000023 in"},
    {"window", 30, header, NULL, 80, "keep", -1, -1, "keep: step: 0x00000050"},
    {"window", 30, kind, NULL, 80, "keep", -1, -1, "a keep and a merge"},
    {"window", 30, liar, NULL, 80, "keep", -1, -1, "keep: count: 0x00000003"},
    {ZSMERGE, 16, bad_rows, NULL, 80, "rewritten", -1, -1,
     "as rewritten by the merge into token"},
    {ZSMERGE, 16, bad_key, NULL, 80, "key", -1, 3, "by the merge into token"},
    {ZSMERGE, 16, word_1, NULL, 40, "merge", -1, 1,
     "step 40, layer 1, lane 1: record 0, merge: the id merged: 0x"}};

TEST(test_named) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    must_name(&faults[i]);
}

/* Every kind of record, by a method that writes them all: each word of it. */
static uint32_t wanted;
static size_t word_of_it;
static int found_step, found_record;

/* No one lane and step: the first record of the kind, wherever it is. */
static void anywhere(kv_store *s, int lane, kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  kv_backend_ref.compress(s, lane, x);
  int nth = 0;
  if (l->data->layer != LAYER || lane != LANE) return;
  for (size_t i = 0; i < l->verbs.n; i += 5 + l->verbs.word[i + 4], nth++) {
    if (l->verbs.word[i] != wanted) continue;
    l->verbs.word[i + 5 + word_of_it] ^= 1;
    if (found_step < 0 || l->step < found_step) {
      found_step = l->step;
      found_record = nth;
    }
    return;
  }
}

TEST(test_every_record) {
  static const struct {
    uint32_t kind;
    int words;
    const char *what, *said[4];
  } all[] = {
      {KV_MERGE,
       4,
       "merge",
       {"the id merged into", "the id merged:", "the factor a",
        "the factor b"}},
      {KV_RECODE, 3, "recode", {"the K format", NULL, "id 0 of the group"}},
      {KV_MOVE, 2, "move", {"the id moved", "its new place"}},
      {KV_RETIER, 2, "retier", {"the class: 0x", "id 0 of the group: 0x"}},
      {KV_KEEP, 2, "keep", {"how many it drops", "dropped id 1 of"}}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int w = 0; w < all[i].words; w++) {
      kv_difference d;
      char record[32];
      if (!all[i].said[w]) continue; /* would name a format there is not */
      set_odd();
      odd.compress = anywhere;
      wanted = all[i].kind;
      word_of_it = (size_t)w;
      found_step = -1;
      compare("mad", -1, &d);
      assert_true(d.found && found_step > 0);
      snprintf(record, sizeof record, "record %d, ", found_record);
      if (strcmp(d.what, all[i].what) || d.step != found_step ||
          d.layer != LAYER || d.lane != LANE || d.index != w ||
          !strstr(d.sentence, all[i].said[w]) || !strstr(d.sentence, record))
        fail_msg("%s, word %d, step %d: %s", all[i].what, w, found_step,
                 d.sentence);
    }
}

/* --- scores that change no decision ------------------------------------- */

/* A sum in the lane's own state grows a little; no journal or state has it. */
static void bump(kv_lane *l) {
  int64_t *sum = l->own;
  sum[5] += sum[5] / 65536 + 65536;
}
static void bump_before(kv_store *s, int lane, kv_scratch *x) {
  if (tampers_here(&s->lane[lane])) bump(&s->lane[lane]);
  kv_backend_ref.compress(s, lane, x);
}
static void bump_after(kv_store *s, int lane, kv_scratch *x) {
  kv_backend_ref.compress(s, lane, x);
  if (tampers_here(&s->lane[lane])) bump(&s->lane[lane]);
}
static void show_nothing(kv_store *s, int lane, kv_scratch *x) {
  kv_shows shows = s->shows;
  if (tampers_here(&s->lane[lane])) s->shows = (kv_shows){0};
  kv_backend_ref.compress(s, lane, x);
  s->shows = shows;
}
static void hidden_score(kv_store *s, int lane, kv_scratch *x) {
  kv_backend_ref.compress(s, lane, x);
  if (tampers_here(&s->lane[lane])) kv_sha256_add(&s->shows.lane[lane], "", 1);
}

typedef struct score_fault {
  const char *method;
  int budget, step;
  void (*compress)(kv_store *s, int lane, kv_scratch *x); /* NULL: ulp.h */
  int layer, lane, head, index;
  const char *what, *said;
} score_fault;

static const score_fault score_faults[] = {
    {"quest:page=4:skip=0", 24, 65, NULL, 0, 0, 0, ULP_PAGE, "score",
     "step 65, layer 0, query head 0: score 3 of 16 of selection 0 (the "
     "largest), "},
    {"snapkv:window=4:pooling=none", 30, 64, bump_before, LAYER, LANE, -1, 5,
     "score", "step 64, layer 1, lane 1: score 5 of 60 of selection 0 ("},
    {"tova", 30, 80, bump_after, LAYER, -1, -1, 5, "score",
     "step 80, layer 1: score 5 of 31 of selection 0 (the largest), "},
    {"adakv:window=4:pooling=none:skip=0:safeguard=minimum", 30, 64, bump_after,
     LAYER, -1, -1, 5, "score", "score 5 of 60 of selection 1 (the largest), "},
    {"adakv:window=4:pooling=none:skip=0", 30, 64, bump_after, LAYER, LANE, -1,
     5, "score",
     "lane 1: score 5 of 60 of selection 0 (the largest, list 1 of "},
    {"h2o", 30, 80, show_nothing, LAYER, LANE, -1, -1, "selection",
     "selection 0 (the largest): its scores: 0x00000010 in ref, no such "
     "selection in odd"},
    {"h2o", 30, 80, hidden_score, LAYER, -1, -1, -1, "scores",
     "the digest of the scores, which the step no longer shows: 0x"}};

TEST(test_scores) {
  for (size_t i = 0; i < sizeof score_faults / sizeof *score_faults; i++) {
    const score_fault *f = &score_faults[i];
    kv_difference d;
    set_odd();
    at_step = f->step;
    if (f->compress) odd.compress = f->compress;
    if (!f->compress) odd.open = ulp_open, odd.close = ulp_close;
    compare(f->method, f->budget, &d);
    if (!d.found) fail_msg("%s: not found", f->said);
    uint64_t a = strtoull(d.a, NULL, 16), b = strtoull(d.b, NULL, 16);
    bool next = a < b;
    if (strcmp(d.what, f->what) || d.layer != f->layer || d.step != f->step ||
        d.lane != f->lane || d.head != f->head || d.index != f->index ||
        next != (f->index >= 0) || !strstr(d.sentence, f->said))
      fail_msg("'%s': %s at layer %d, step %d, lane %d, head %d, index %d: %s",
               f->said, d.what, d.layer, d.step, d.lane, d.head, d.index,
               d.sentence);
  }
}

/* --- what no look sees -------------------------------------------------- */

TEST(test_hidden) {
  static const int steps[] = {64, 65, 80, 96};
  for (int i = 0; i < 4; i++) {
    kv_difference d;
    set_odd();
    odd.compress = hidden_compress;
    at_step = steps[i];
    compare("window", 30, &d);
    assert_true(d.found);
    assert_string_equal(d.what, "state");
    assert_int_equal(d.layer, LAYER);
    assert_int_equal(d.step, steps[i]);
    assert_string_not_equal(d.a, d.b);
    assert_non_null(strstr(d.sentence, "which the step no longer shows: 0x"));
  }
}

TEST(test_chance) {
  kv_difference d;
  set_odd();
  only_then = true;
  on_row = bad_output;
  compare("window", 30, &d);
  assert_true(d.found);
  assert_string_equal(d.what, "output");
  assert_int_equal(d.layer, LAYER);
  assert_int_equal(d.step, -1);
  assert_non_null(strstr(d.sentence, "agrees when the cell runs alone"));
}

TEST(test_equal) {
  static const char *const methods[] = {"dense", "h2o", "snapkv:window=4",
                                        ZSMERGE, KIVI};
  kv_difference d;
  for (int i = 0; i < 5; i++) {
    set_odd();
    compare(methods[i], 16, &d);
    if (d.found) fail_msg("%s: %s", methods[i], d.sentence);
  }
}

/* --- what cannot go on -------------------------------------------------- */

TEST(test_stops) {
  kv_difference d;
  kv_cell cell = {0};
  set_odd();
  on_lane = failing;
  compare("window", 30, &d);
  assert_true(d.found);
  assert_string_equal(d.what, "failed");
  assert_string_equal(d.sentence, "odd failed: the sky fell");
  on_lane = lost;
  assert_int_equal(replay("window", 30, &odd, &cell, &told), KV_RESOURCE);
  assert_string_equal(told.text, "the device went away");
  kv_cell_close(&cell);
}

/* --- bytes of the ledger ------------------------------------------------ */

/* A row index, a merged row's codes. */
static void indexed(kv_lane *l) { l->holes = true; }
static void heavier(kv_lane *l) { l->k_slab[KV_MERGED].bytes.codes += 1; }
static void relieved(kv_lane *l) { l->holes = false; }
static void indexed_early(kv_store *s, kv_scratch *x) {
  (void)x;
  indexed(&s->lane[LANE]);
}
static const tamper_fault ledger_faults[] = {
    {"dense", -1, indexed, NULL, 80, "metadata", -1, -1,
     "ledger, metadata: 0x0000000000000000 in ref, 0x0000000000000140 in odd"},
    {"dense", -1, indexed, NULL, 64, "metadata", -1, -1,
     "step 64, layer 1, lane 1: ledger, metadata: 0x"},
    {"dense", -1, relieved, indexed_early, 96, "metadata", -1, -1,
     "ledger, metadata before compression: 0x0000000000000000 in ref, 0x"},
    {ZSMERGE, 16, heavier, NULL, 80, "payload", -1, -1,
     "step 80, layer 1, lane 1: ledger, payload: 0x"}};

TEST(test_ledger_named) {
  for (size_t i = 0; i < sizeof ledger_faults / sizeof *ledger_faults; i++)
    must_name(&ledger_faults[i]);
}

/* The totals alone show it, from the next step on: dense never compresses. */
TEST(test_chance_of_bytes) {
  kv_difference d;
  set_odd();
  only_then = true;
  on_lane = indexed;
  compare("dense", -1, &d);
  assert_true(d.found && d.ledger);
  assert_string_equal(d.what, "bytes");
  assert_int_equal(d.step, 81);
  assert_int_equal(d.layer, -1);
  assert_int_equal(d.lane, -1);
  if (strncmp(d.sentence, "step 81, all layers: ledger, bytes: 0x", 38))
    fail_msg("%s", d.sentence);
}

/* A total that no step shows. */
TEST(test_totals) {
  static const struct {
    size_t at;
    const char *what;
  } all[] = {{offsetof(kv_totals, end.side), "side"},
             {offsetof(kv_totals, peak), "bytes.peak"},
             {offsetof(kv_totals, codes_peak), "bytes.codes_only.peak"},
             {offsetof(kv_totals, moved), "bytes.moved"},
             {offsetof(kv_totals, verbs), "verbs"},
             {offsetof(kv_totals, kept_min), "kept_min"},
             {offsetof(kv_totals, kept_max), "kept_max"},
             {offsetof(kv_totals, kept), "kept"},
             {offsetof(kv_totals, attended), "attended"}};
  kv_cell a = {0}, b = {0};
  kv_difference d;
  bool stopped;
  set_odd();
  if (replay("window", 30, &kv_backend_ref, &a, &told) ||
      replay("window", 30, &kv_backend_ref, &b, &told))
    fail_msg("%s", told.text);
  kv_compared x = {&a, &kv_backend_ref}, y = {&b, &odd};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    unsigned char *byte = (unsigned char *)&b.result.totals + all[i].at;
    byte[0] ^= 1;
    works(kv_compare_cells(&x, &y, NULL, &stopped, &d, &told));
    byte[0] ^= 1;
    if (!d.found || !d.ledger || strcmp(d.what, all[i].what) || d.layer != -1 ||
        d.step != -1 || strncmp(d.sentence, "all layers: ledger, ", 20))
      fail_msg("%s: %s", all[i].what, d.sentence);
  }
  b.result.step[3].read ^= 1;
  works(kv_compare_cells(&x, &y, NULL, &stopped, &d, &told));
  assert_string_equal(d.what, "read");
  assert_int_equal(d.step, PROMPT + 3);
  kv_cell_close(&a);
  kv_cell_close(&b);
}

int main(void) { return tests_run("compare", open_trace, close_trace); }
