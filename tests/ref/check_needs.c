/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ref/lane/needs.h: it has every member of kv_needs, tells any two
 * needs apart, refuses what nothing can follow, and joins what layers say. The
 * law "needs" sees each field that a second open fills otherwise.
 */
#include "ref/formats/minmax.h"
#include "ref/lane/lane.h"
#include "ref/lane/needs.h"
#include "sim/run/laws/law_guest.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/small.h"
#include "traces/trace/trace.h"

#include <limits.h>
#include <string.h>

static const kv_minmax sixteen = {2, 16, 0}, other = {2, 17, 0};

/* Needs of which every element of every array counts. */
static kv_needs full(void) {
  kv_needs n;
  memset(&n, 0, sizeof n);
  n.columns = KV_MAX_COLUMNS;
  n.codings = KV_MAX_CODINGS;
  for (int i = 0; i < KV_MAX_CODINGS; i++)
    n.coding[i] = KV_CODING(&kv_format_token, &sixteen, false, KV_BOTH_SIDES);
  n.metas = KV_MAX_META;
  for (int i = 0; i < KV_MAX_META; i++)
    n.meta[i] = (kv_meta){.per = KV_PER_ENTRY, .bytes = 8};
  return n;
}

/* Another value that the field may have, in its last element. */
static void another(const kv_need *f, kv_needs *n) {
  size_t one = f->size / (size_t)f->elements;
  char *last = (char *)n + f->offset + f->size - one;
  int less = f->elements == 1 && f->most < 3 ? -1 : 1;
  if (f->kind == KV_NEED_CODING)
    n->coding[KV_MAX_CODINGS - 1].settings = &other;
  else if (f->kind == KV_NEED_META)
    n->meta[KV_MAX_META - 1].bytes++;
  else if (f->kind == KV_NEED_FLOAT)
    n->merge_bias = -n->merge_bias; /* of 0 another, to the bit */
  else if (f->kind == KV_NEED_INT && less < 0 && *(int *)(void *)last > 0)
    --*(int *)(void *)last;
  else
    *last = (char)(*last + 1);
}

/* --- the table ---------------------------------------------------------- */

static bool covered(size_t byte) {
  for (const kv_need *f = kv_need_list; f->name; f++)
    if (byte >= f->offset && byte < f->offset + f->size) return true;
  return false;
}

/* Bytes that belong to no member, as far as the compiler says which. */
static void mark_members(kv_needs *n) {
  memset(n, 0xff, sizeof *n);
#if defined __has_builtin
#  if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(n);
  return;
#  endif
#endif
  for (size_t i = 0; i < sizeof *n; i++)
    if (!covered(i)) ((unsigned char *)n)[i] = 0;
}

TEST(test_every_member) {
  kv_needs n;
  mark_members(&n);
  const unsigned char *byte = (const unsigned char *)&n;
  for (size_t i = 0; i < sizeof n; i++)
    if (byte[i] && !covered(i))
      fail_msg("byte %zu of kv_needs is a member without a line in "
               "kv_need_list",
               i);
}

TEST(test_unlike) {
  for (const kv_need *f = kv_need_list; f->name; f++) {
    kv_needs a = full(), b = full();
    assert_null(kv_needs_unlike(&a, &b));
    another(f, &b);
    const char *name = kv_needs_unlike(&a, &b);
    if (!name || strcmp(name, f->name))
      fail_msg("%s: told as %s", f->name, name ? name : "alike");
  }
  kv_needs a = full(), b = full();
  b.coding[1].sides = KV_KEYS_ONLY;
  assert_string_equal(kv_needs_unlike(&a, &b), "coding");
}

/* Elements past those that count are nobody's. */
TEST(test_past_the_count) {
  kv_needs a = {.columns = 1}, b = {.columns = 1};
  b.column[1] = KV_FLOAT;
  b.coding[0].settings = &other;
  assert_null(kv_needs_unlike(&a, &b));
  b.column[1] = (kv_column)9;
  assert_int_equal(kv_needs_check(&b, NULL), KV_OK);
}

/* Tables of bytes by layer are compared by what they say. */
TEST(test_tables) {
  uint32_t x[KV_BY_LAYER + 1] = {4}, y[KV_BY_LAYER + 1] = {4};
  kv_needs a = {.metas = 1, .meta = {{.bytes = 4, .in_layer = x}}}, b = a;
  b.meta[0].in_layer = y;
  assert_null(kv_needs_unlike(&a, &b));
  y[KV_BY_LAYER] = 4;
  assert_string_equal(kv_needs_unlike(&a, &b), "meta");
  b.meta[0].in_layer = NULL;
  assert_string_equal(kv_needs_unlike(&a, &b), "meta");
}

static void must_refuse(const kv_needs *n, const char *said) {
  kv_err e = {0};
  assert_int_equal(kv_needs_check(n, &e), KV_REFUSED);
  if (!strstr(e.text, said)) fail_msg("%s: not \"%s\"", e.text, said);
}

TEST(test_refused) {
  kv_needs n = full();
  assert_int_equal(kv_needs_check(&n, NULL), KV_OK);
  for (const kv_need *f = kv_need_list; f->name; f++) {
    if (f->kind == KV_NEED_FLOAT || f->least == INT_MIN) continue;
    n = full();
    size_t one = f->size / (size_t)f->elements;
    char *last = (char *)&n + f->offset + f->size - one;
    memset(last, f->kind == KV_NEED_CODING ? 0 : 0xff, one); /* -1, or NULL */
    must_refuse(&n, f->name);
  }
  n = full();
  n.coding[0].sides = (kv_coded_sides)3;
  must_refuse(&n, "needs.coding codes sides 3");
  n = full();
  n.meta[0].in_layer = (const uint32_t[KV_BY_LAYER + 1]){0};
  n.meta[0].scanned = 1;
  must_refuse(&n, "depend on the layer");
  n = full();
  n.columns = KV_MAX_COLUMNS + 1;
  must_refuse(&n, "needs.columns is 5; it must be from 0 to 4");
}

TEST(test_widened) {
  kv_needs wide = {.prompt_rows = 4, .want = KV_Q, .work = 9, .lengths = true};
  kv_needs n = {.prompt_rows = 3,
                .want = KV_P,
                .work = 20,
                .decode_rows = true,
                .every = 5,
                .merge_bias = 1};
  assert_null(kv_needs_widen(&wide, &n));
  assert_int_equal(wide.prompt_rows, 4);
  assert_int_equal(wide.want, KV_Q | KV_P);
  assert_int_equal(wide.work, 20);
  assert_true(wide.decode_rows && !wide.lengths);
  assert_int_equal(wide.every, 0);
  for (const kv_need *f = kv_need_list; f->name; f++) {
    kv_needs a = full(), b = full();
    another(f, &b);
    const char *name = kv_needs_widen(&a, &b);
    bool alike = f->layers == KV_NEED_SAME;
    if (alike != (name && !strcmp(name, f->name)))
      fail_msg("%s: layers that differ in it gave %s", f->name,
               name ? name : "no complaint");
  }
}

/* --- the law ------------------------------------------------------------ */

static const kv_need *moody; /* the field that an open fills otherwise */
static bool wild;            /* or more columns than there can be */
static int opens;

static kv_rc open_moodily(const kv_shape *shape, void *params, kv_needs *needs,
                          kv_err *e) {
  (void)shape, (void)params, (void)e;
  *needs = full();
  if (moody && ++opens == 2) another(moody, needs);
  needs->columns += wild;
  return KV_OK;
}

static const kv_method fickle = {.abi = KV_METHOD_ABI,
                                 .name = "fickle",
                                 .title = "other needs the second time",
                                 .paper = "none",
                                 .open = open_moodily};

static const kv_method *only_fickle(int i) { return i == 0 ? &fickle : NULL; }

static kv_rc ask_needs(const kv_trace *trace, const kv_spec *spec, kv_err *e) {
  kv_law_case c = {
      .backend = &kv_backend_ref, .trace = trace, .spec = spec, .entries = -1};
  int i = 0;
  while (strcmp(kv_law_guest_at(i)->name, "needs")) i++;
  opens = 0;
  return kv_law_guest_ask(i, &c, e);
}

TEST(test_law) {
  const kv_small small = {"needs", 1, 2, 1, 32, KV_F32, 24, 16};
  kv_trace *trace = NULL;
  kv_spec spec = {0};
  kv_err e = {0};
  const char *path = scratch_path("needs.safetensors");
  if (kv_small_write(&small, 5, path, &e) || kv_law_open(path, &trace, &e) ||
      kv_spec_parse(only_fickle, "fickle", &spec, &e))
    fail_msg("%s", e.text);
  moody = NULL;
  assert_int_equal(ask_needs(trace, &spec, &e), KV_OK);
  for (moody = kv_need_list; moody->name; moody++) {
    kv_rc rc = ask_needs(trace, &spec, &e);
    if (rc != KV_DIFFERENT || !strstr(e.text, moody->name))
      fail_msg("law needs is blind to %s: rc %d, %s", moody->name, rc, e.text);
  }
  moody = NULL;
  wild = true;
  kv_rc rc = ask_needs(trace, &spec, &e);
  if (rc != KV_REFUSED || !strstr(e.text, "needs.columns is 5"))
    fail_msg("a cell of five columns: rc %d, %s", rc, e.text);
  kv_spec_free(&spec);
  kv_trace_close(trace);
}

int main(void) { return tests_run("needs", scratch_make, scratch_remove); }
