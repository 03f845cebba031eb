/* SPDX-License-Identifier: Apache-2.0
 *
 * A million random operations on the page manager, each also done by the naive
 * one of tests/support/pages/pagelist.h: the same requests are refused, every
 * head holds the same pages in the same order, the same are free, and what must
 * always hold does. On one thread and on several, which give the same.
 */
#include "tests/support/pages/pagelist.h"
#include "tests/support/pages/pagewalk.h"
#include "tests/support/test.h"

#include <string.h>

enum { HEADS = 130 }; /* more than two parts */

typedef struct world {
  pagewalk w;
  kv_pages p;
  pagelist *l;
} world;

static bool same_answers(int n, const kv_pages_job *a, const kv_pages_job *b) {
  for (int i = 0; i < n; i++)
    if (a[i].refused != b[i].refused || a[i].wanted != b[i].wanted)
      return false;
  return true;
}

/* Right after a prompt a head has the pages of the formula. */
static bool by_formula(const world *w, int n, const kv_pages_job *job) {
  const kv_pages *p = &w->p;
  for (int i = 0; i < n; i++)
    for (int h = 0; h < p->shape.heads; h++)
      for (int t = 0; t < KV_TIERS; t++) {
        int at = job[i].request * p->shape.heads + h;
        int32_t page = p->shape.tokens[t];
        if (job[i].phase != KV_PAGES_COMPRESSED || job[i].refused || !page)
          continue;
        if (p->held[at].of[t] != (job[i].count[h].of[t] + page - 1) / page)
          return false;
      }
  return true;
}

/* One call with some requests. Returns how many jobs it had; 0: the two
 * managers, or a law, disagree. */
static int one_call(world *w, int turn) {
  kv_pages_job a[PAGEWALK_REQUESTS], b[PAGEWALK_REQUESTS];
  int n = pagewalk_draw(&w->w, a);
  memcpy(b, a, sizeof a);
  int refused = kv_pages_compact(&w->p, n, a);
  if (refused != pagelist_compact(w->l, n, b)) return 0;
  if (!same_answers(n, a, b) || !by_formula(w, n, a)) return 0;
  for (int i = 0; i < n; i++)
    if (!pagelist_same(w->l, &w->p, a[i].request)) return 0;
  pagewalk_learn(&w->w, n, a);
  bool look = turn % 16 == 0;
  return look && (!kv_pages_sound(&w->p) || !pagelist_same_free(w->l, &w->p))
             ? 0
             : n;
}

typedef struct walk {
  kv_pages_variant variant;
  int heads, threads;
  int32_t pages, high, low;
  int jobs;
} walk;

static void test_walk(const walk *k, uint64_t seed) {
  static world w; /* too large for a stack */
  kv_err e;
  kv_pages_shape s = {k->variant, PAGEWALK_REQUESTS, k->heads, k->pages,
                      0,          {k->high, k->low}};
  s.table = kv_pages_table(k->variant, PAGEWALK_MOST, s.tokens, k->high);
  w.l = pagelist_open(&s);
  assert_non_null(w.l);
  assert_int_equal(kv_pages_open(&s, k->threads, &w.p, &e), KV_OK);
  pagewalk_begin(&w.w, seed, k->heads, k->low > 0);
  for (int done = 0, turn = 0; done < k->jobs; turn++) {
    int n = one_call(&w, turn);
    if (n == 0) fail_msg("call %d of seed %d", turn, (int)seed);
    done += n;
  }
  kv_pages_close(&w.p);
  pagelist_close(w.l);
}

TEST(test_million) {
  static const walk walks[] = {
      {KV_PAGES_PAPER, 3, 1, 90, 4, 7, 300000},
      {KV_PAGES_CODE, 3, 1, 120, 4, 7, 300000},
      {KV_PAGES_PAPER, 2, 1, 60, 3, 0, 200000},
      {KV_PAGES_CODE, 1, 1, 300, 1, 1, 190000},
      {KV_PAGES_CODE, HEADS, 1, 4500, 4, 7, 5000}, /* more than a part */
  };
  for (int i = 0; i < 5; i++) test_walk(&walks[i], 17 + (uint64_t)i);
}

TEST(test_threads) {
  for (int threads = 2; threads <= 3; threads++) {
    const walk k = {KV_PAGES_PAPER, HEADS, threads, 3600, 4, 7, 2500};
    test_walk(&k, 5);
  }
}

int main(void) { return test_all("pages many", NULL, NULL); }
