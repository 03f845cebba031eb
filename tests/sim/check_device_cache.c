/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches on the device: a worked case, and the definition by one loop over all
 * that was ever looked up, in which a larger cache finds no less.
 */
#include "sim/run/look/device_cache.h"
#include "tests/support/told.h"

#include <stdio.h>
#include <string.h>

enum { TOKENS = 40, STEPS = 200, SIZES = 6 };

static kv_cache open_cache(const char *name, int tokens) {
  kv_cache_list list = {0};
  kv_cache c = {0};
  works(kv_cache_parse(name, &list, &told));
  assert_int_equal(list.n, 1);
  assert_string_equal(list.of[0].name, name);
  works(kv_cache_open(&list.of[0], tokens, &c, &told));
  return c;
}

/* --- the worked case ------------------------------------------------------ */

/* A cache of 2. Of 3, 5 and 7 none is there, and the two lower stay. Then 5 is,
 * and 3 goes: it was looked up last at step 1, and once. Of 5 and 7, equal, the
 * lower one stays beside 3; then 7 returns, twice. 1 and 2 are the last, but no
 * more than once: here the two part, and in the end lru finds neither 3 nor 7
 * and lfu both. */
static const struct {
  int n;
  uint32_t token[3];
  int lru, lfu;                  /* hits */
  uint32_t in_lru[2], in_lfu[2]; /* afterwards, in order of their tokens */
} worked[] = {
    {3, {3, 5, 7}, 0, 0, {3, 5}, {3, 5}}, {2, {5, 7}, 1, 1, {5, 7}, {5, 7}},
    {1, {3}, 0, 0, {3, 5}, {3, 5}},       {1, {7}, 0, 0, {3, 7}, {3, 7}},
    {1, {7}, 1, 1, {3, 7}, {3, 7}},       {2, {1, 2}, 0, 0, {1, 2}, {3, 7}},
    {2, {3, 7}, 0, 2, {3, 7}, {3, 7}}};

static void holds(const kv_cache *c, const uint32_t *in) {
  for (uint32_t t = 0; t < 8; t++)
    assert_int_equal(c->in[t], t == in[0] || t == in[1]);
}

TEST(by_hand) {
  kv_cache lru = open_cache("lru:2", 8), lfu = open_cache("lfu:2", 8);
  for (size_t i = 0; i < sizeof worked / sizeof *worked; i++) {
    int n = worked[i].n, step = (int)i + 1;
    const uint32_t *token = worked[i].token;
    assert_int_equal(kv_cache_step(&lru, step, n, token), worked[i].lru);
    assert_int_equal(kv_cache_step(&lfu, step, n, token), worked[i].lfu);
    holds(&lru, worked[i].in_lru);
    holds(&lfu, worked[i].in_lfu);
  }
  kv_cache_close(&lru);
  kv_cache_close(&lfu);
}

/* --- the definition ------------------------------------------------------- */

/* Of all tokens that were ever looked up: is t one of the n that stay? */
static bool stays(bool often, int n, const int *steps, const int *last, int t) {
  int before = 0;
  for (int u = 0; u < TOKENS; u++) {
    int a = often ? steps[u] - steps[t] : 0, b = last[u] - last[t];
    before += last[u] && (a > 0 || (a == 0 && (b > 0 || (b == 0 && u < t))));
  }
  return last[t] && before < n;
}

static uint32_t next(uint32_t *x) {
  *x = *x * 1664525u + 1013904223u;
  return *x >> 16;
}

/* Replays draws against caches of these sizes; found[i]: hits of each. */
static void as_defined(const char *policy, int found[SIZES]) {
  static const int size[SIZES] = {0, 1, 3, 9, 20, TOKENS};
  int steps[TOKENS] = {0}, last[TOKENS] = {0};
  kv_cache cache[SIZES];
  uint32_t seed = 5;
  for (int i = 0; i < SIZES; i++) {
    char name[32];
    snprintf(name, sizeof name, "%s:%d", policy, size[i]);
    cache[i] = open_cache(name, TOKENS);
    found[i] = 0;
  }
  for (int step = 1; step <= STEPS; step++) {
    uint32_t token[TOKENS];
    int n = 0;
    for (uint32_t t = 0; t < TOKENS; t++)
      if (next(&seed) % (3 + t) < 2) token[n++] = t;
    for (int i = 0; i < n; i++) last[token[i]] = step, steps[token[i]]++;
    for (int i = 0; i < SIZES; i++) {
      found[i] += kv_cache_step(&cache[i], step, n, token);
      for (int t = 0; t < TOKENS; t++)
        assert_int_equal(
            cache[i].in[t],
            stays(*policy == 'l' && policy[1] == 'f', size[i], steps, last, t));
    }
  }
  int looked = 0, met = 0;
  for (int t = 0; t < TOKENS; t++) looked += steps[t], met += steps[t] > 0;
  assert_int_equal(found[0], 0);
  assert_int_equal(found[SIZES - 1], looked - met);
  for (int i = 0; i < SIZES; i++) kv_cache_close(&cache[i]);
}

TEST(definition) {
  int lru[SIZES], lfu[SIZES];
  as_defined("lru", lru);
  as_defined("lfu", lfu);
  for (int i = 1; i < SIZES; i++) {
    assert_true(lru[i] >= lru[i - 1]);
    assert_true(lfu[i] >= lfu[i - 1]);
  }
  assert_true(lru[2] != lfu[2]);
}

/* --- what is typed -------------------------------------------------------- */

TEST(typed) {
  static const char *const bad[] = {
      "",      "lru",    "lru:",   "lru:-1",
      "mru:5", "lru:5x", ",lru:1", "lfu:1073741825"};
  kv_cache_list list = {0};
  works(kv_cache_parse("lru:5,lfu:5,lru:05", &list, &told));
  assert_int_equal(list.n, 2);
  assert_true(list.of[1].often && list.of[1].entries == 5);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    fails(kv_cache_parse(bad[i], &list, &told), KV_USAGE,
          "--cache must be lru:N or lfu:N");
  }
  for (int i = 0; i < KV_CACHES_MOST - 2; i++) {
    char name[32];
    snprintf(name, sizeof name, "lru:%d", 100 + i);
    works(kv_cache_parse(name, &list, &told));
  }
  assert_int_equal(kv_cache_parse("lru:7", &list, &told), KV_USAGE);
}

int main(void) { return tests_run("device cache", NULL, NULL); }
