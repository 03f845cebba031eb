/* SPDX-License-Identifier: Apache-2.0
 *
 * The one list of hooks (ref/lane/hooks.h): who stands around a method sees
 * every call of every hook with what the hook is given, and a twin has the
 * hooks that its method's table has.
 */
#include "gpu/shared/device.h"
#include "ref/lane/hooks.h"
#include "tests/support/test.h"

#include <string.h>

enum { LANES = 3 };

/* --- a method that writes down what its hooks were given ----------------- */

static int calls[KV_N_HOOKS];
static const void *given[4];

static void write_down(kv_hook hook, const void *a, const void *b,
                       const void *c, int number) {
  const void *all[] = {a, b, c, &calls[number]};
  calls[hook]++;
  memcpy(given, all, sizeof all);
}

static void arrive(const kv_at *at, kv_lane *lane, int first) {
  write_down(KV_HOOK_arrive, at->method, lane, NULL, first);
}
static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  (void)at;
  write_down(KV_HOOK_view, lane, q, out, 0);
}
static bool chunk(const kv_at *at, const kv_lane *lane, const kv_query *q,
                  float *m, float *l, float *a) {
  (void)at, (void)q;
  write_down(KV_HOOK_chunk, lane, m, a, (int)(l - m));
  return true;
}
static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  write_down(KV_HOOK_observe, at->method, lane, rows, 0);
}
static void compress_lane(const kv_at *at, kv_lane *lane) {
  write_down(KV_HOOK_compress_lane, at->method, lane, NULL, 0);
}
static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  write_down(KV_HOOK_compress_layer, at->method, lane, NULL, lanes);
}
static bool publish(const kv_at *at, const kv_lane *const *lane, int lanes,
                    void *message) {
  write_down(KV_HOOK_publish, at->method, lane, message, lanes);
  return true;
}

static const kv_method whole = {.name = "whole",
                                .arrive = arrive,
                                .view = view,
                                .chunk = chunk,
                                .observe = observe,
                                .compress_lane = compress_lane,
                                .compress_layer = compress_layer,
                                .publish = publish};
static const kv_method bare = {.name = "bare", .compress_lane = compress_lane};

static int passed[KV_N_HOOKS];

static void pass(const kv_around *a, kv_call *c) {
  assert_ptr_equal(a->self, passed);
  passed[c->hook]++;
  kv_hook_call(a->inner, c);
}

/* --- checks -------------------------------------------------------------- */

/* Of no address that anybody follows. */
static char places[8];
#define PLACE(type, i) ((type *)(void *)&places[i])

static void expect(const void *a, const void *b, const void *c, int number) {
  const void *all[] = {a, b, c, &calls[number]};
  assert_memory_equal(given, all, sizeof all);
}

/* A hook that this list of calls leaves out fails the count below. */
TEST(every_hook_is_led_through) {
  kv_around around = {.call = pass, .self = passed, .inner = &whole};
  kv_method m = kv_method_around(&around);
  kv_at at = {.method = &m};
  kv_lane *lane[LANES] = {PLACE(kv_lane, 0)};
  memset(calls, 0, sizeof calls);
  memset(passed, 0, sizeof passed);
  m.arrive(&at, lane[0], 2);
  expect(&whole, lane[0], NULL, 2);
  m.view(&at, lane[0], PLACE(kv_query, 1), PLACE(kv_view, 2));
  expect(lane[0], &places[1], &places[2], 0);
  float of[3];
  assert_true(
      m.chunk(&at, lane[0], PLACE(kv_query, 1), &of[0], &of[1], &of[2]));
  expect(lane[0], &of[0], &of[2], 1);
  m.observe(&at, lane[0], PLACE(kv_rows, 3));
  expect(&whole, lane[0], &places[3], 0);
  m.compress_lane(&at, lane[0]);
  expect(&whole, lane[0], NULL, 0);
  m.compress_layer(&at, lane, LANES);
  expect(&whole, lane, NULL, LANES);
  assert_true(m.publish(&at, (const kv_lane *const *)lane, LANES, &places[4]));
  expect(&whole, lane, &places[4], LANES);
  for (int h = 0; h < KV_N_HOOKS; h++) {
    if (calls[h] != 1 || passed[h] != 1)
      fail_msg("%s: %d calls, %d seen", kv_hook_name((kv_hook)h), calls[h],
               passed[h]);
    assert_true(kv_hook_has(&m, (kv_hook)h));
  }
}

TEST(hooks_that_are_asked_for_are_there) {
  kv_around around = {.call = pass,
                      .self = passed,
                      .inner = &bare,
                      .also = 1u << KV_HOOK_arrive};
  kv_method m = kv_method_around(&around);
  kv_at at = {.method = &m};
  memset(calls, 0, sizeof calls);
  for (int h = 0; h < KV_N_HOOKS; h++)
    assert_int_equal(kv_hook_has(&m, (kv_hook)h),
                     h == KV_HOOK_arrive || h == KV_HOOK_compress_lane);
  m.arrive(&at, PLACE(kv_lane, 0), 0); /* the method has none */
  assert_int_equal(calls[KV_HOOK_arrive], 0);
}

/* Two tables around one another. */
TEST(tables_nest) {
  kv_around inside = {.call = pass, .self = passed, .inner = &bare};
  kv_method m = kv_method_around(&inside);
  kv_around outside = {.call = pass, .self = passed, .inner = &m};
  kv_method n = kv_method_around(&outside);
  kv_at at = {.method = &n};
  memset(calls, 0, sizeof calls);
  memset(passed, 0, sizeof passed);
  n.compress_lane(&at, PLACE(kv_lane, 0));
  assert_int_equal(passed[KV_HOOK_compress_lane], 2);
  assert_int_equal(calls[KV_HOOK_compress_lane], 1);
}

static void same_hooks(const kv_method *m, const kv_gpu_hooks *twin) {
  const bool has[KV_N_HOOKS] = {
#define KV_HOOK(name) twin->name != NULL,
      KV_HOOKS(KV_HOOK)
#undef KV_HOOK
  };
  for (int h = 0; h < KV_N_HOOKS; h++)
    if (has[h] != kv_hook_has(m, (kv_hook)h))
      fail_msg("%s: %s is in the table of %s alone", m->name,
               kv_hook_name((kv_hook)h), has[h] ? "the twin" : "ref/methods");
}

TEST(twins_have_the_hooks_of_their_method) {
  const kv_device *emu = kv_device_emu();
  if (!emu) skip();
  for (int i = 0; kv_method_at(i); i++)
    if (!kv_method_ref_only(kv_method_at(i)))
      same_hooks(kv_method_at(i), emu->hooks(kv_method_at(i)->name));
  for (int i = 0; kv_method_door_at(i); i++)
    same_hooks(kv_method_door_at(i), emu->hooks(kv_method_door_at(i)->name));
}

int main(void) { return tests_run("hooks", NULL, NULL); }
