/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of specifications, parameters and numbers:
 *   - what is written out reads back to the same bits, and is the shortest
 *     text that does;
 *   - defaults and what a user types go through one parser;
 *   - everything wrong is one sentence with the code KV_USAGE, names what is
 *     nearest, and leaves what was there as it was.
 * The registry is made up, so that only the grammar is tested.
 */
#include "ref/ground/json.h"
#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include "tests/support/draw.h"
#include "tests/support/told.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct made_up {
  int budget, recent;
  float decay;
  int32_t p;
  int group;
  char path[KV_TEXT_MAX];
} made_up;

static const kv_param table[] = {
    {.name = "budget",
     .kind = KV_INT,
     .knob = KV_KNOB_ENTRIES,
     .offset = offsetof(made_up, budget),
     .min = 1,
     .max = 1 << 30},
    {.name = "recent",
     .kind = KV_INT,
     .offset = offsetof(made_up, recent),
     .fallback = "8",
     .min = 1,
     .max = 64},
    {.name = "decay",
     .kind = KV_REAL,
     .offset = offsetof(made_up, decay),
     .fallback = "0.98",
     .min = 0,
     .max = 1},
    {.name = "p",
     .kind = KV_SHARE,
     .offset = offsetof(made_up, p),
     .fallback = "0.95",
     .min = 0,
     .max = 1},
    {.name = "group",
     .kind = KV_CHOICE,
     .offset = offsetof(made_up, group),
     .fallback = "mean",
     .choices = "mean|max|sum|query_head"},
    {.name = "path", .kind = KV_TEXT, .offset = offsetof(made_up, path)},
    {.name = NULL}};

static const kv_method some = {
    .name = "heavy", .params = table, .params_size = sizeof(made_up)};
static const kv_param none[] = {{.name = NULL}};
static const kv_method plain = {.name = "dense", .params = none};
static const kv_method third = {
    .name = "window", .params = table, .params_size = sizeof(made_up)};

static const kv_method *registry(int i) {
  const kv_method *const all[] = {&plain, &some, &third};
  return i >= 0 && i < 3 ? all[i] : NULL;
}

static kv_spec parsed(const char *text) {
  kv_spec s;
  if (kv_spec_parse(registry, text, &s, &told)) {
    fail_msg("%s: %s", text, told.text);
  }
  return s;
}

/* text is refused with a sentence that holds `says`. */
static void refused(const char *text, const char *says) {
  kv_specs s = {0};
  kv_rc rc = kv_specs_add(registry, text, &s, &told);
  if (rc != KV_USAGE || !strstr(told.text, says) || strchr(told.text, '\n')) {
    fail_msg("%s: rc %d, \"%s\" does not hold \"%s\"", text, rc, told.text,
             says);
  }
  assert_int_equal(s.n, 0);
  kv_specs_free(&s);
}

TEST(defaults_are_typed) {
  kv_spec a = parsed("heavy");
  kv_spec b = parsed("heavy:recent=8:decay=0.98:p=0.95:group=mean");
  const made_up *v = a.params;
  assert_memory_equal(a.params, b.params, sizeof(made_up));
  assert_int_equal(v->budget, KV_UNSET);
  assert_int_equal(v->recent, 8);
  assert_true(v->decay == 0.98f);
  assert_int_equal(v->p, 996147); /* 0.95 * 2^20 = 996147.2 */
  assert_int_equal(v->group, 0);
  assert_false(a.given[1]);
  assert_true(b.given[1] && !b.given[0]);
  assert_true(kv_spec_wants_budget(&a));
  kv_spec_free(&a);
  kv_spec_free(&b);
  a = parsed("heavy:budget=5");
  assert_false(kv_spec_wants_budget(&a));
  kv_spec_free(&a);
  a = parsed("dense");
  assert_false(kv_spec_wants_budget(&a));
  kv_spec_free(&a);
}

TEST(written_reads_back) {
  static const char *const texts[] = {
      "dense",
      "heavy",
      "heavy:budget=1073741824:recent=64:decay=1e-7",
      "heavy:p=0.123456789:group=query_head:decay=0.1",
      "heavy:path=a\\:b\\,c\\\\d \"e\":recent=2",
      "window:p=1:decay=0"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    kv_spec a = parsed(texts[i]);
    char *once = kv_spec_text(&a);
    kv_spec b = parsed(once);
    char *twice = kv_spec_text(&b);
    assert_string_equal(once, twice);
    assert_memory_equal(a.params, b.params, a.method->params_size);
    free(once);
    free(twice);
    kv_spec_free(&a);
    kv_spec_free(&b);
  }
}

TEST(written_form) {
  kv_spec a = parsed("heavy:path=a\\:\"b\"\\+\\+:p=0.5:decay=0.1:group=max");
  char *text = kv_spec_text(&a), *json = kv_spec_json(&a);
  assert_string_equal(
      text, "heavy:recent=8:decay=0.1:p=0.5:group=max:path=a\\:\"b\"\\+\\+");
  assert_string_equal(json, "{\"budget\": null, \"recent\": 8, \"decay\": 0.1, "
                            "\"p\": 0.5, \"group\": \"max\", "
                            "\"path\": \"a:\\\"b\\\"++\"}");
  free(text);
  free(json);
  kv_spec_free(&a);
}

TEST(lists) {
  kv_specs s = {0};
  works(kv_specs_add(registry, "heavy:path=x\\,y,dense,heavy:recent=3", &s,
                     &told));
  assert_int_equal(s.n, 3);
  assert_string_equal(((made_up *)s.spec[0].params)->path, "x,y");
  assert_ptr_equal(s.spec[1].method, &plain);
  assert_int_equal(((made_up *)s.spec[2].params)->recent, 3);
  /* "all" now meets dense, which is there. */
  assert_int_equal(kv_specs_add(registry, "all", &s, &told), KV_USAGE);
  assert_int_equal(s.n, 3);
  kv_specs_free(&s);
  works(kv_specs_add(registry, "all", &s, &told));
  assert_int_equal(s.n, 3);
  kv_specs_free(&s);
}

TEST(wrong_is_named) {
  refused("heavi", "did you mean heavy?");
  refused("zzzzzz", "kvreplay methods");
  refused("heavy:recnt=4", "did you mean recent? (it has budget, recent");
  refused("dense:recent=4", "dense has no parameters");
  refused("heavy:recent=0", "from 1 to 64, not 0; the nearest is recent=1");
  refused("heavy:recent=1000", "the nearest is recent=64");
  refused("heavy:recent=2.6",
          "a whole number from 1 to 64, not 2.6; the nearest is "
          "recent=3");
  refused("heavy:budget=0",
          "from 1 to 1073741824, not 0; the nearest is budget=1");
  refused("heavy:budget=2e9",
          "from 1 to 1073741824, not 2e9; the nearest is budget=1073");
  refused("heavy:recent=4x", "must be a number from");
  refused("heavy:recent=0x10", "must be a number from");
  refused("heavy:recent=nan", "must be a number from");
  refused("heavy:decay=inf", "must be a number from");
  refused("heavy:decay=1.01", "the nearest is decay=1");
  refused("heavy:p=-0.1", "the nearest is p=0");
  refused("heavy:group=men", "sum|query_head, not 'men'; did you mean mean?");
  refused("heavy:recent=4:recent=4", "recent is given twice");
  refused("heavy,heavy:recent=8", "listed twice");
  refused("", "empty at place 1");
  refused("heavy,,dense", "empty at place 2");
  refused("heavy,", "empty at place 2");
  refused(":recent=4", "no name");
  refused("heavy:", "write a parameter");
  refused("heavy:recent", "recent has no value; write recent=");
  refused("heavy:path=", "path= has no value");
  refused("heavy:path=a\\b", "escapes nothing");
  refused("./a\\b.so", "escapes nothing");
  refused("heavy:path=a\\", "escapes nothing");
  refused("heavy:path=\xff\xfe", "not UTF-8");
  refused("heavy:path=a\nb", "control character");
  refused("he\navy", "no method is called he\\x0aavy");
}

TEST(long_values) {
  char text[KV_TEXT_MAX + 32] = "heavy:path=";
  size_t at = strlen(text);
  memset(text + at, 'x', KV_TEXT_MAX - 1);
  kv_spec a = parsed(text);
  assert_int_equal(strlen(((made_up *)a.params)->path), KV_TEXT_MAX - 1);
  kv_spec_free(&a);
  text[at + KV_TEXT_MAX - 1] = 'x';
  refused(text, "the limit is 1023");
}

TEST(numbers_read_back) {
  char text[KV_NUMBER];
  uint64_t seed = 1;
  double back;
  for (int i = 0; i < 20000; i++) {
    uint64_t bits = draw(&seed);
    uint32_t low = (uint32_t)bits;
    double x;
    float f;
    memcpy(&x, &bits, sizeof x);
    memcpy(&f, &low, sizeof f);
    if (isfinite(x)) {
      assert_true(kv_number_parse(kv_number_real(x, text), &back));
      assert_memory_equal(&back, &x, sizeof x);
    }
    if (isfinite(f)) {
      float g = strtof(kv_number_float(f, text), NULL);
      assert_memory_equal(&g, &f, sizeof f);
    }
  }
  for (int32_t s = 0; s <= KV_SHARE_ONE; s += s < 2000 ? 1 : 61) {
    assert_true(kv_number_parse(kv_number_share(s, text), &back));
    assert_int_equal(kv_number_to_share(back), s);
  }
}

TEST(numbers_are_short) {
  char text[KV_NUMBER];
  assert_string_equal(kv_number_real(0.1, text), "0.1");
  assert_string_equal(kv_number_real(0.1 + 0.2, text), "0.30000000000000004");
  assert_string_equal(kv_number_real(-5, text), "-5");
  assert_string_equal(kv_number_float(0.98f, text), "0.98");
  assert_string_equal(kv_number_share(996147, text), "0.95");
  assert_int_equal(kv_number_to_share(0.3), 314573); /* 314572.8 */
  assert_int_equal(kv_number_to_share(1.5 / KV_SHARE_ONE), 2);
  assert_int_equal(kv_number_to_share(2.5 / KV_SHARE_ONE), 2);
  assert_string_equal(kv_number_bytes(999, text), "999");
  assert_string_equal(kv_number_bytes(1000, text), "0.98K");
  assert_string_equal(kv_number_bytes(1024 * 20.5, text), "20.5K");
  assert_string_equal(kv_number_bytes(3.0 * (1 << 30), text), "3.00G");
}

TEST(json_escapes) {
  char *text = NULL;
  size_t size;
  kv_json j = {open_memstream(&text, &size), false};
  kv_json_open(&j, NULL, '{');
  kv_json_text(&j, "a", "q\"\\\n\xc3\xa9");
  kv_json_text(&j, "b", "\xff");
  kv_json_real(&j, "c", NAN);
  kv_json_real(&j, "d", 2);
  kv_json_integer(&j, "e", INT64_MIN);
  kv_json_text_or_null(&j, "f", "");
  kv_json_text_or_null(&j, "g", NULL);
  kv_json_text_or_null(&j, "h", "x");
  kv_json_count_or_null(&j, "i", -1);
  kv_json_count_or_null(&j, "j", 0);
  kv_json_close(&j, '}');
  fclose(j.out);
  assert_string_equal(text,
                      "{\"a\": \"q\\\"\\\\\\u000a\xc3\xa9\", "
                      "\"b\": \"\\ufffd\", \"c\": null, \"d\": 2.0, "
                      "\"e\": -9223372036854775808, \"f\": null, "
                      "\"g\": null, \"h\": \"x\", \"i\": null, \"j\": 0}");
  free(text);
}

/* Only what may have been meant is suggested. */
TEST(nearest_is_near) {
  static const char *const names[] = {"dense", "h2o", "tova", "quest"};
  static const struct {
    const char *typed, *meant;
  } words[] = {{"h20", "h2o"},     {"tvoa", "tova"},   {"quset", "quest"},
               {"qust", "quest"},  {"h", "h2o"},       {"densse", "dense"},
               {"qeust", "quest"}, {"dnese", "dense"}, {"foo", NULL},
               {"boar", NULL},     {"to", "tova"},     {"ho", NULL},
               {"xx", NULL},       {"best", NULL},     {"", NULL}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const char *near = kv_text_nearest(words[i].typed, 4, names);
    if (words[i].meant)
      assert_string_equal(near ? near : "nothing", words[i].meant);
    else
      assert_null(near);
  }
}

int main(void) { return tests_run("spec", NULL, NULL); }
