/* SPDX-License-Identifier: Apache-2.0
 *
 * Compaction on the executor beside the page manager of ref/pages: the same
 * calls, and after each the same answers, books, ring, tables and counts, every
 * byte of them, whichever block begins first and on one thread or three. The
 * free list of ref/PAGES.md worked by hand, random requests over pools that are
 * too small for them, and more parts than a block has threads.
 */
#include "gpu/emu/emu.h"
#include "gpu/host/unified.h"

extern "C" {
#include "ref/pages/pages.h"
#include "tests/support/draw.h"
#include "tests/support/pages/pagewalk.h"
}
#include "tests/support/test.h"

enum { MANY = 200 };

struct world {
  kv_pages p;
  kv_gpu_unified u;
};

/* The reference goes by so many threads. */
static void open_both(world *w, const kv_pages_shape *s, int threads = 1) {
  kv_err e;
  assert_int_equal(kv_pages_open(s, threads, &w->p, &e), KV_OK);
  assert_int_equal(kv_gpu_unified_open(kv_device_emu(), s, &w->u, &e), KV_OK);
}

static void close_both(world *w) {
  kv_pages_close(&w->p);
  kv_gpu_unified_close(&w->u);
}

/* The executor's memory is the host's. */
static void must_be_same(const world *w) {
  const kv_pages *p = &w->p;
  const kv_gpu_pages *d = &w->u.p;
  size_t heads = (size_t)p->shape.requests * (size_t)p->shape.heads;
  size_t row = (size_t)p->shape.table * sizeof *p->table;
  const kv_gpu_pages_front *f = d->front;
  assert_int_equal(f->start, p->start);
  assert_int_equal(f->count, p->count);
  assert_int_equal(f->books.taken, p->books.taken);
  assert_int_equal(f->books.given, p->books.given);
  assert_int_equal(f->books.turned, p->books.turned);
  assert_int_equal(f->books.peak, p->books.peak);
  assert_memory_equal(d->ring, p->ring,
                      (size_t)p->shape.pages * sizeof *p->ring);
  assert_memory_equal(d->table, p->table, heads * row);
  assert_memory_equal(d->held, p->held, heads * sizeof *p->held);
  assert_memory_equal(d->store, p->store, heads * sizeof *p->store);
}

/* Both; returns how many were refused. */
static int call(world *w, int n, kv_pages_job *job) {
  static kv_pages_job twin[MANY];
  for (int i = 0; i < n; i++) twin[i] = job[i];
  int refused = kv_pages_compact(&w->p, n, job);
  assert_int_equal(kv_gpu_unified_compact(&w->u, n, twin), refused);
  for (int i = 0; i < n; i++) {
    assert_int_equal(twin[i].refused, job[i].refused);
    assert_int_equal(twin[i].wanted, job[i].wanted);
  }
  must_be_same(w);
  return refused;
}

/* --- by hand -------------------------------------------------------------- */

static void act(world *w, kv_pages_phase phase, int32_t tokens,
                const kv_pages_count *count) {
  kv_pages_job j = {phase, 0, tokens, count, false, 0};
  assert_int_equal(call(w, 1, &j), 0);
}

static void must_be_free(const world *w, int32_t n, const int32_t *id) {
  const kv_gpu_pages *d = &w->u.p;
  assert_int_equal(d->front->count, n);
  for (int32_t i = 0; i < n; i++)
    assert_int_equal(d->ring[(d->front->start + i) % d->shape.pages], id[i]);
}

/* 16 pages of a token: three heads take 4 each, give 2, 1 and 2 back, and take
 * 1, 0 and 2 more. */
TEST(free_list) {
  const kv_pages_count compressed[] = {{{2, 0}}, {{3, 0}}, {{2, 0}}};
  const kv_pages_count step[] = {{{3, 0}}, {{3, 0}}, {{4, 0}}};
  const kv_pages_shape s = {KV_PAGES_PAPER, 1, 3, 16, 8, {1, 0}};
  const int32_t first[] = {12, 13, 14, 15};
  const int32_t then[] = {12, 13, 14, 15, 2, 3, 7, 10, 11};
  const int32_t last[] = {15, 2, 3, 7, 10, 11};
  for (int order = 0; order < 2; order++) {
    world w;
    kv_emu_order(order);
    open_both(&w, &s);
    act(&w, KV_PAGES_PROMPT, 4, nullptr);
    must_be_free(&w, 4, first);
    act(&w, KV_PAGES_COMPRESSED, 0, compressed);
    must_be_free(&w, 9, then);
    act(&w, KV_PAGES_STEP, 0, step);
    must_be_free(&w, 6, last);
    assert_int_equal(w.u.p.table[2], 12);
    assert_int_equal(w.u.p.table[2 * 8 + 2], 13);
    assert_int_equal(w.u.p.table[2 * 8 + 3], 14);
    close_both(&w);
  }
  kv_emu_order(0);
}

/* What comes back from a request that takes pages, too, is not there for those
 * before it: the first one lacks 2 of 4, which the second gives. */
TEST(in_order) {
  const kv_pages_count compressed[] = {{{1, 0}}, {{3, 1}}};
  const kv_pages_shape s = {KV_PAGES_PAPER, 2, 2, 8, 6, {1, 2}};
  kv_pages_job job[] = {{KV_PAGES_PROMPT, 1, 2, nullptr, false, 0},
                        {KV_PAGES_COMPRESSED, 0, 0, compressed, false, 0}};
  world w;
  open_both(&w, &s);
  act(&w, KV_PAGES_PROMPT, 3, nullptr);
  assert_int_equal(call(&w, 2, job), 1);
  assert_true(job[0].refused && !job[1].refused);
  assert_int_equal(job[0].wanted, 4);
  assert_int_equal(w.u.p.front->count, 3);
  close_both(&w);
}

/* --- at random ------------------------------------------------------------ */

typedef struct walk {
  kv_pages_variant variant;
  int heads;
  int32_t pages, high, low;
  int calls;
} walk;

/* Right after a prompt a head has the pages of the formula. */
static void by_formula(const kv_pages *p, int n, const kv_pages_job *job) {
  for (int i = 0; i < n; i++)
    for (int h = 0; h < p->shape.heads; h++)
      for (int t = 0; t < KV_TIERS; t++) {
        int at = job[i].request * p->shape.heads + h;
        int32_t page = p->shape.tokens[t];
        if (job[i].phase != KV_PAGES_COMPRESSED || job[i].refused || !page)
          continue;
        assert_int_equal(p->held[at].of[t],
                         (job[i].count[h].of[t] + page - 1) / page);
      }
}

/* Returns how many requests were refused. */
static int random_walk(const walk *k, uint64_t seed, int threads) {
  static pagewalk w; /* too large for a stack */
  kv_pages_job job[PAGEWALK_REQUESTS];
  world both;
  int refused = 0;
  kv_pages_shape s = {k->variant, PAGEWALK_REQUESTS, k->heads, k->pages,
                      0,          {k->high, k->low}};
  s.table = kv_pages_table(k->variant, PAGEWALK_MOST, s.tokens, k->high);
  open_both(&both, &s, threads);
  pagewalk_begin(&w, seed, k->heads, k->low > 0);
  for (int i = 0; i < k->calls; i++) {
    int n = pagewalk_draw(&w, job);
    refused += call(&both, n, job);
    by_formula(&both.p, n, job);
    if (i % 16 == 0) assert_true(kv_pages_sound(&both.p));
    pagewalk_learn(&w, n, job);
  }
  assert_true(kv_pages_sound(&both.p));
  close_both(&both);
  return refused;
}

TEST(walks) {
  static const walk all[] = {{KV_PAGES_PAPER, 3, 90, 4, 7, 150},
                             {KV_PAGES_CODE, 3, 90, 4, 7, 150},
                             {KV_PAGES_PAPER, 2, 60, 3, 0, 60},
                             {KV_PAGES_CODE, 1, 70, 1, 1, 60},
                             {KV_PAGES_CODE, 130, 3300, 4, 7, 30},
                             {KV_PAGES_PAPER, 257, 6000, 4, 7, 30}};
  for (int order = 0; order < 2; order++) {
    kv_emu_order(order);
    for (int i = 0; i < 6; i++)
      assert_true(random_walk(&all[i], 31 + (uint64_t)i, 1 + order * 2) > 0);
  }
  kv_emu_order(0);
}

/* --- many requests -------------------------------------------------------- */

/* Of 200 requests some find no page; the others compress and end. */
TEST(many) {
  static kv_pages_count count[MANY][2];
  static kv_pages_job job[MANY];
  const kv_pages_shape s = {KV_PAGES_CODE, MANY, 2, 900, 13, {2, 3}};
  for (int order = 0; order < 2; order++) {
    world w;
    uint64_t seed = 3;
    int n = 0;
    kv_emu_order(order);
    open_both(&w, &s);
    for (int i = 0; i < MANY; i++)
      job[i] = {KV_PAGES_PROMPT, i,     1 + draw_below(&seed, 20),
                nullptr,         false, 0};
    assert_true(call(&w, MANY, job) > 9);
    for (int i = 0; i < MANY; i++) {
      if (job[i].refused) continue;
      for (int h = 0; h < 2; h++) {
        count[n][h].of[KV_HIGH] = draw_below(&seed, job[i].tokens + 1);
        count[n][h].of[KV_LOW] = job[i].tokens - count[n][h].of[KV_HIGH];
      }
      job[n] = {KV_PAGES_COMPRESSED, i, 0, count[n], false, 0};
      n++;
    }
    assert_int_equal(call(&w, n, job), 0);
    for (int i = 0; i < n; i++) job[i].phase = KV_PAGES_END;
    assert_int_equal(call(&w, n, job), 0);
    assert_int_equal(w.p.count, 900);
    assert_true(kv_pages_sound(&w.p));
    close_both(&w);
  }
  kv_emu_order(0);
}

int main(void) { return tests_run("gpu pages", nullptr, nullptr); }
