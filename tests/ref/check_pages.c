/* SPDX-License-Identifier: Apache-2.0
 *
 * Unified pages: the tables of ref/PAGES.md, the free list worked by hand, and
 * what the page manager does at its edges. gpu/check_gpu_pages.cc compares it
 * with the device's.
 */
#include "ref/pages/geometry.h"
#include "ref/pages/pages.h"
#include "tests/support/test.h"

#include <string.h>

/* --- geometry ------------------------------------------------------------ */

enum { CONFIGS = 8 };

static const kv_page_config config[CONFIGS] = {
    {{8, 8}, {1, 1}}, {{8, 4}, {1, 2}}, {{8, 4}, {1, 1}}, {{8, 2}, {1, 1}},
    {{4, 4}, {1, 1}}, {{4, 2}, {2, 4}}, {{4, 2}, {1, 1}}, {{4, 1}, {1, 1}}};

TEST(test_tokens) {
  static const struct {
    int d;
    int64_t page;
    int32_t tokens[CONFIGS];
  } want[] = {{64, 6144, {41, 52, 54, 64, 74, 76, 96, 108}},
              {128, 6784, {24, 32, 32, 37, 46, 52, 60, 69}},
              {256, 5760, {10, 14, 14, 16, 20, 25, 27, 32}}};
  for (int i = 0; i < 3; i++) {
    int64_t page = kv_page_bytes(want[i].d, want[i].d);
    assert_int_equal(page, want[i].page);
    for (int c = 0; c < CONFIGS; c++) {
      kv_page_token t = kv_page_token_of(want[i].d, want[i].d, &config[c]);
      assert_int_equal(kv_page_map_of(page, &t).tokens, want[i].tokens[c]);
    }
  }
}

static void must_lie(const kv_page_config *c, int32_t tokens,
                     const int64_t at[KV_PAGE_SEGMENTS + 1]) {
  kv_page_token t = kv_page_token_of(128, 128, c);
  kv_page_map m = kv_page_map_of(kv_page_bytes(128, 128), &t);
  assert_int_equal(m.tokens, tokens);
  for (int i = 0; i <= KV_PAGE_SEGMENTS; i++) assert_int_equal(m.at[i], at[i]);
}

TEST(test_segments) {
  static const int64_t high[] = {0, 4096, 4224, 6272, 6400, 6528, 6656};
  static const int64_t low[] = {0, 3840, 4096, 6016, 6272, 6512, 6752};
  static const int32_t payload[CONFIGS] = {272, 212, 208, 176,
                                           144, 128, 112, 96};
  must_lie(&config[2], 32, high);
  must_lie(&config[6], 60, low);
  for (int i = 0; i < CONFIGS; i++) {
    kv_page_token t = kv_page_token_of(128, 128, &config[i]);
    assert_int_equal(kv_page_payload(&t), payload[i]);
  }
}

/* Any d: segments follow one another as they are aligned, a page holds no token
 * more than fits, and a token that has no room says so. */
TEST(test_any_d) {
  for (int d = 1; d <= 600; d += d < 40 ? 1 : 29)
    for (int c = 0; c < CONFIGS; c++) {
      int d_v = d % 3 ? d : d / 3 + 1;
      int64_t page = kv_page_bytes(d, d_v);
      kv_page_token t = kv_page_token_of(d, d_v, &config[c]);
      kv_page_map m = kv_page_map_of(page, &t);
      kv_page_map more = kv_page_map_with(m.tokens + 1, &t);
      assert_true(page % 128 == 0 && page >= 800 && page <= 8000);
      assert_true(m.tokens > 0 && m.at[KV_PAGE_SEGMENTS] <= page);
      assert_true(more.at[KV_PAGE_SEGMENTS] > page ||
                  kv_page_payload(&t) * (m.tokens + 1) > page);
      assert_int_equal(m.at[KV_PAGE_V] % 128, 0);
      for (int i = 0; i < KV_PAGE_SEGMENTS; i++) {
        assert_true(m.at[i] <= m.at[i + 1]);
        assert_true(i > KV_PAGE_SCORES || m.at[i] % 32 == 0);
      }
    }
  assert_int_equal(kv_page_bytes(6000, 6000), 0);
}

/* --- tables -------------------------------------------------------------- */

/* LeanKV's example: Llama-2-7B, 32 layers of 32 heads, 128 requests of 4,096
 * tokens, of which one has 2 GiB of KV cache in fp16. */
TEST(test_table_bytes) {
  const int64_t heads = (int64_t)128 * 32 * 32, kib = 1024;
  const int32_t one[] = {32, 0}, two[] = {32, 60};
  int64_t paper = kv_pages_table(KV_PAGES_PAPER, 4096, one, 32);
  int64_t ours = kv_pages_table(KV_PAGES_PAPER, 4096, two, 32);
  int64_t code = kv_pages_table(KV_PAGES_CODE, 4096, two, 24);
  assert_int_equal(paper, 128);
  assert_int_equal(paper * 4 * heads, 64 * kib * kib);
  assert_int_equal(ours * 4 * heads, 64 * kib * kib + kib * kib / 2);
  assert_int_equal(code, 173);
  assert_int_equal(code * 4 * heads * 2, 173 * kib * kib); /* 86.5 MiB */
  assert_int_equal((int64_t)2 * 32 * 32 * 128 * 2 * 4096, 2 * kib * kib * kib);
}

/* --- the manager --------------------------------------------------------- */

static kv_pages_shape shape_of(kv_pages_variant variant, int requests,
                               int32_t pages, int32_t high, int32_t low,
                               int32_t most) {
  kv_pages_shape s = {variant, requests, 3, pages, 0, {high, low}};
  s.table = kv_pages_table(variant, most, s.tokens, high);
  return s;
}

static kv_pages opened(kv_pages_shape s, int threads) {
  kv_pages p;
  kv_err e;
  assert_int_equal(kv_pages_open(&s, threads, &p, &e), KV_OK);
  assert_true(kv_pages_sound(&p));
  return p;
}

/* One job of one request, which finds its pages. */
static void act(kv_pages *p, kv_pages_job j) {
  assert_int_equal(kv_pages_compact(p, 1, &j), 0);
  assert_false(j.refused);
  assert_true(kv_pages_sound(p));
}

static void must_be_free(const kv_pages *p, int32_t n, const int32_t *id) {
  assert_int_equal(p->count, n);
  for (int32_t i = 0; i < n; i++)
    assert_int_equal(p->ring[(p->start + i) % p->shape.pages], id[i]);
}

/* 16 pages of a token: three heads take 4 each, give 2, 1 and 2 back, and take
 * 1, 0 and 2 more. */
TEST(test_free_list) {
  const kv_pages_count compressed[] = {{{2, 0}}, {{3, 0}}, {{2, 0}}};
  const kv_pages_count step[] = {{{3, 0}}, {{3, 0}}, {{4, 0}}};
  for (int threads = 1; threads <= 3; threads++) {
    kv_pages p = opened(shape_of(KV_PAGES_PAPER, 1, 16, 1, 0, 8), threads);
    act(&p, (kv_pages_job){.phase = KV_PAGES_PROMPT, .tokens = 4});
    assert_int_equal(p.start, 12);
    must_be_free(&p, 4, (const int32_t[]){12, 13, 14, 15});
    for (int h = 0; h < 3; h++)
      for (int i = 0; i < 4; i++)
        assert_int_equal(kv_pages_row(&p, 0, h)[i], 4 * h + i);
    act(&p, (kv_pages_job){.phase = KV_PAGES_COMPRESSED, .count = compressed});
    must_be_free(&p, 9, (const int32_t[]){12, 13, 14, 15, 2, 3, 7, 10, 11});
    act(&p, (kv_pages_job){.phase = KV_PAGES_STEP, .count = step});
    assert_int_equal(p.start, 15);
    must_be_free(&p, 6, (const int32_t[]){15, 2, 3, 7, 10, 11});
    assert_int_equal(kv_pages_row(&p, 0, 0)[2], 12);
    assert_int_equal(kv_pages_row(&p, 0, 2)[2], 13);
    assert_int_equal(kv_pages_row(&p, 0, 2)[3], 14);
    assert_int_equal(p.books.taken, 15);
    assert_int_equal(p.books.given, 5);
    assert_int_equal(p.books.peak, 12);
    kv_pages_close(&p);
  }
}

/* All 16 pages are taken and all come back: a start and an end alone cannot
 * tell these two rings from each other. */
TEST(test_empty_is_not_full) {
  kv_pages p = opened(shape_of(KV_PAGES_PAPER, 1, 12, 1, 0, 8), 1);
  kv_pages_job j = {.phase = KV_PAGES_STEP};
  const kv_pages_count more[] = {{{5, 0}}, {{4, 0}}, {{4, 0}}};
  act(&p, (kv_pages_job){.phase = KV_PAGES_PROMPT, .tokens = 4});
  assert_int_equal(p.count, 0);
  assert_int_equal(p.start, 0);
  j.count = more;
  assert_int_equal(kv_pages_compact(&p, 1, &j), 1);
  assert_true(j.refused && kv_pages_sound(&p));
  act(&p, (kv_pages_job){.phase = KV_PAGES_END});
  assert_int_equal(p.count, 12);
  assert_int_equal(p.start, 0);
  kv_pages_close(&p);
}

/* Figure 5 of the paper: 8 tokens, 2 in a high page and 4 in a low one, 4 pages
 * reserved; one head keeps a high page and a low one, one two and one, one
 * nothing but high. Low pages are those reserved behind the high ones. */
TEST(test_prompt) {
  const kv_pages_count kept[] = {{{2, 3}}, {{3, 4}}, {{7, 0}}};
  kv_pages p = opened(shape_of(KV_PAGES_PAPER, 1, 16, 2, 4, 8), 1);
  act(&p, (kv_pages_job){.phase = KV_PAGES_PROMPT, .tokens = 8});
  assert_int_equal(kv_pages_used(&p), 12);
  act(&p, (kv_pages_job){.phase = KV_PAGES_COMPRESSED, .count = kept});
  assert_int_equal(p.shape.table, 5);
  const int32_t *row = kv_pages_row(&p, 0, 0);
  assert_true(row[0] == 0 && row[4] == 1);
  row = kv_pages_row(&p, 0, 1);
  assert_true(row[0] == 4 && row[1] == 5 && row[4] == 6);
  must_be_free(&p, 7, (const int32_t[]){12, 13, 14, 15, 2, 3, 7});
  assert_int_equal(p.books.turned, 2);
  kv_pages_close(&p);
}

/* Low pages are more than half of the table: what is turned round reaches into
 * itself. */
TEST(test_turn) {
  const kv_pages_count kept[] = {{{1, 8}}, {{0, 9}}, {{4, 5}}};
  kv_pages p = opened(shape_of(KV_PAGES_CODE, 1, 64, 1, 1, 9), 1);
  act(&p, (kv_pages_job){.phase = KV_PAGES_PROMPT, .tokens = 9});
  act(&p, (kv_pages_job){.phase = KV_PAGES_COMPRESSED, .count = kept});
  for (int h = 0; h < 3; h++)
    for (int32_t i = 0; i < kept[h].of[KV_LOW]; i++)
      assert_int_equal(kv_pages_row(&p, 0, h)[p.shape.table - 1 - i],
                       10 * h + kept[h].of[KV_HIGH] + i);
  kv_pages_close(&p);
}

/* What the paper's reserve and table lack: of two tokens that fit into one high
 * page one becomes low, which needs a page of its own. The code reserves it. */
TEST(test_one_more) {
  const kv_pages_count kept[] = {{{1, 1}}, {{2, 0}}, {{0, 2}}};
  for (int v = KV_PAGES_PAPER; v <= KV_PAGES_CODE; v++) {
    kv_pages p = opened(shape_of((kv_pages_variant)v, 1, 16, 2, 4, 2), 1);
    act(&p, (kv_pages_job){.phase = KV_PAGES_PROMPT, .tokens = 2});
    assert_int_equal(kv_pages_used(&p), v == KV_PAGES_CODE ? 6 : 3);
    act(&p, (kv_pages_job){.phase = KV_PAGES_COMPRESSED, .count = kept});
    assert_int_equal(kv_pages_used(&p), 4);
    assert_int_equal(p.books.taken, v == KV_PAGES_CODE ? 6 : 4);
    kv_pages_close(&p);
  }
}

/* A step takes at most one page by the paper, and up to two by the code, which
 * takes them before it knows where the token goes. */
TEST(test_step) {
  const kv_pages_count kept[] = {{{2, 0}}, {{1, 4}}, {{2, 4}}};
  const kv_pages_count step[] = {{{3, 0}}, {{2, 4}}, {{2, 5}}};
  const int32_t want[2][3] = {{2, 2, 3}, {3, 3, 4}};
  for (int v = KV_PAGES_PAPER; v <= KV_PAGES_CODE; v++) {
    kv_pages p = opened(shape_of((kv_pages_variant)v, 1, 32, 2, 4, 12), 1);
    act(&p, (kv_pages_job){.phase = KV_PAGES_PROMPT, .tokens = 6});
    act(&p, (kv_pages_job){.phase = KV_PAGES_COMPRESSED, .count = kept});
    assert_int_equal(kv_pages_used(&p), 1 + 2 + 2);
    act(&p, (kv_pages_job){.phase = KV_PAGES_STEP, .count = step});
    for (int h = 0; h < 3; h++)
      assert_int_equal(p.held[h].of[KV_HIGH] + p.held[h].of[KV_LOW],
                       want[v][h]);
    kv_pages_close(&p);
  }
}

/* A step that would let the two ends of a table meet gives pages back. */
TEST(test_never_meet) {
  const kv_pages_count full[] = {{{8, 0}}, {{8, 0}}, {{8, 0}}};
  const kv_pages_count low[] = {{{0, 8}}, {{4, 4}}, {{8, 0}}};
  kv_pages p = opened(shape_of(KV_PAGES_PAPER, 1, 32, 1, 2, 8), 1);
  act(&p, (kv_pages_job){.phase = KV_PAGES_PROMPT, .tokens = 8});
  act(&p, (kv_pages_job){.phase = KV_PAGES_COMPRESSED, .count = full});
  act(&p, (kv_pages_job){.phase = KV_PAGES_STEP, .count = low});
  assert_int_equal(kv_pages_used(&p), 4 + 6 + 8);
  kv_pages_close(&p);
}

/* A request that finds no page is refused; the others get theirs, and nothing
 * of it has changed. What one gives back another takes in the same call. */
TEST(test_refused) {
  const kv_pages_count kept[] = {{{4, 0}}, {{4, 0}}, {{4, 0}}};
  const kv_pages_count more[] = {{{5, 0}}, {{5, 0}}, {{5, 0}}};
  kv_pages p = opened(shape_of(KV_PAGES_PAPER, 3, 28, 1, 0, 8), 1);
  kv_pages_job first[] = {
      {.phase = KV_PAGES_PROMPT, .tokens = 4},
      {.phase = KV_PAGES_PROMPT, .request = 1, .tokens = 6},
      {.phase = KV_PAGES_PROMPT, .request = 2, .tokens = 4}};
  kv_pages_job compress[] = {
      {.phase = KV_PAGES_COMPRESSED, .count = kept},
      {.phase = KV_PAGES_COMPRESSED, .request = 2, .count = kept}};
  kv_pages_job last[] = {{.phase = KV_PAGES_STEP, .count = more},
                         {.phase = KV_PAGES_END, .request = 2}};
  assert_int_equal(kv_pages_compact(&p, 3, first), 1);
  assert_true(!first[0].refused && first[1].refused && !first[2].refused);
  assert_int_equal(first[1].wanted, 18);
  assert_int_equal(p.held[3].of[KV_HIGH], 0);
  assert_int_equal(kv_pages_used(&p), 24);
  assert_int_equal(kv_pages_row(&p, 2, 0)[0], 12);
  assert_int_equal(kv_pages_compact(&p, 2, compress), 0);
  act(&p, (kv_pages_job){.phase = KV_PAGES_STEP, .count = more});
  last[0].count = (const kv_pages_count[]){{{7, 0}}, {{7, 0}}, {{6, 0}}};
  assert_int_equal(kv_pages_compact(&p, 1, last), 1); /* 5 wanted, 1 is free */
  assert_int_equal(kv_pages_used(&p), 27);
  assert_int_equal(kv_pages_compact(&p, 2, last), 0);
  assert_int_equal(kv_pages_used(&p), 20);
  assert_true(kv_pages_sound(&p));
  kv_pages_close(&p);
}

/* A pool that no machine has is one sentence. */
TEST(test_no_memory) {
  kv_pages_shape s = {.requests = 1 << 30,
                      .heads = 1 << 20,
                      .pages = 8,
                      .table = 1 << 30,
                      .tokens = {1, 0}};
  kv_pages p;
  kv_err e;
  assert_int_equal(kv_pages_open(&s, 1, &p, &e), KV_RESOURCE);
  assert_non_null(strstr(e.text, "not enough memory for tables of pages"));
  kv_pages_close(&p);
}

int main(void) { return tests_run("pages", NULL, NULL); }
