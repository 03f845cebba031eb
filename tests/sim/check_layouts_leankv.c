/* SPDX-License-Identifier: Apache-2.0
 *
 * LeanKV itself in its pages: the journal and outputs of slots, and at the end
 * of every block of every layer what the issue of unified pages promises. Free
 * ids and table ids are a permutation; each token that was seen is high, low or
 * pruned, and those of the window are high; pages are those of the formula
 * right after the prompt, and never fewer than it later.
 */
#include "ref/pages/geometry.h"
#include "ref/pages/pages.h"
#include "sim/replay/layout/layouts.h"
#include "tests/laws/cells.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/opened.h"

#include <stdio.h>
#include <string.h>

enum { WINDOW = 16, PROMPT = 300, TOKENS = 400, STEPS = TOKENS - PROMPT };

static const kv_small small = {"leankv", 2, 4, 2, 32, KV_F16, TOKENS, PROMPT};
static kv_trace *trace;

/* --- who looks on --------------------------------------------------------- */

/* Layout unified, and after each compression a look at what it was told. */
static kv_layout witness;
static struct {
  int32_t tokens[KV_TIERS];   /* of a page */
  int surely;                 /* newest tokens that are high */
  int64_t least[STEPS + 1];   /* pages by the formula, over lanes and layers */
  int64_t of[KV_TIERS], gone; /* tokens at the end */
} seen;

static bool alike(const kv_replica_entry *a, const kv_replica_entry *b) {
  return !memcmp(a->format, b->format, sizeof a->format);
}

static void look(const kv_replica *lane, int step) {
  const kv_replica_entry *high = kv_replica_at(lane, lane->n - 1);
  int n[KV_TIERS] = {0, 0};
  assert_true(high->format[KV_SIDE_K] >= KV_CODED);
  for (int i = 0; i < lane->n; i++) {
    const kv_replica_entry *x = kv_replica_at(lane, i);
    bool low = !alike(x, high);
    n[low]++;
    assert_false(low && lane->order[i] >= step - seen.surely);
  }
  assert_int_equal(n[KV_HIGH] + n[KV_LOW] + lane->dropped, step);
  for (int t = 0; t < KV_TIERS; t++) {
    seen.least[step - PROMPT] += kv_pages_for(n[t], seen.tokens[t]);
    if (step == TOKENS) seen.of[t] += n[t];
  }
  if (step == TOKENS) seen.gone += lane->dropped;
}

static void compressed(kv_layout_state *s, int step, const kv_replica *lane) {
  kv_layout_unified.compressed(s, step, lane);
  if (s->fault) fail_msg("%s", s->fault);
  assert_true(kv_layout_unified.sound(s));
  for (int i = 0; i < small.n_kv_heads; i++) look(&lane[i], step);
}

/* --- the trace ------------------------------------------------------------ */

static int open_trace(void **state) {
  if (scratch_make(state)) return 1;
  trace = opened_trace(&small, 7, kv_trace_open);
  return 0;
}

static int close_trace(void **state) {
  kv_trace_close(trace);
  return scratch_remove(state);
}

static void replay(const char *text, const kv_layout_list *asked, kv_cell *c) {
  assert_true(
      cells_lay_out(kv_method_at, trace, text, -1, asked, cells_plain, c));
}

/* --- the laws ------------------------------------------------------------- */

static int32_t of_page(int k, int v) {
  const kv_page_config config = {{k, v}, {1, 1}};
  kv_page_token t = kv_page_token_of(small.d, small.d, &config);
  return kv_page_map_of(kv_page_bytes(small.d, small.d), &t).tokens;
}

static void holds(const char *text, kv_pages_variant pages) {
  kv_layout_asked slots = {.layout = &kv_layout_slots, .name = "slots"};
  kv_layout_asked unified = {
      .layout = &witness, .variant = (int)pages, .name = "witness"};
  const kv_layout_list a = {1, &slots}, b = {1, &unified};
  kv_cell x = {0}, y = {0};
  memset(&seen, 0, sizeof seen);
  seen.tokens[KV_HIGH] = of_page(8, 4);
  seen.tokens[KV_LOW] = of_page(4, 2);
  /* The authors' kernel decides for the token that comes next. */
  seen.surely = WINDOW - !strstr(text, "variant=paper");
  replay(text, &a, &x);
  replay(text, &b, &y);
  assert_memory_equal(&x.result.journal, &y.result.journal, 32);
  assert_memory_equal(&x.result.state, &y.result.state, 32);
  assert_memory_equal(&x.result.output, &y.result.output, 32);
  const kv_layout_result *l = y.result.layout;
  assert_int_equal(l->n_steps, STEPS + 1);
  assert_int_equal(l->step[0].pages, seen.least[0]);
  for (int i = 1; i <= STEPS; i++) {
    assert_true(l->step[i].pages >= seen.least[i]);
    assert_true(l->step[i].pages >= l->step[i - 1].pages);
  }
  /* Each way for a token was taken, or this shows nothing. */
  assert_true(seen.of[KV_HIGH] && seen.of[KV_LOW] && seen.gone);
  kv_cell_close(&x);
  kv_cell_close(&y);
}

#define LEANKV "leankv:window=16:alpha_l=0.5:alpha_h=1"

TEST(test_laws) {
  holds(LEANKV, KV_PAGES_CODE);
  holds(LEANKV ":sparsity=layer", KV_PAGES_PAPER);
  holds(LEANKV ":variant=paper", KV_PAGES_PAPER);
  holds(LEANKV ":sparsity=static:high_share=0.3:low_share=0.3", KV_PAGES_CODE);
}

int main(void) {
  witness = kv_layout_unified;
  witness.compressed = compressed;
  return tests_run("leankv in unified pages", open_trace, close_trace);
}
