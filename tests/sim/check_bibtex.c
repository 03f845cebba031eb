/* SPDX-License-Identifier: Apache-2.0
 *
 * The papers of the methods: each method of the list names one with authors,
 * title, year and arXiv number, or is one of the few below that have none; the
 * BibTeX made of them is read again by the parser below, and its keys are
 * unique.
 */
#include "sim/cli/show/bibtex.h"
#include "tests/support/told.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

/* Baselines, bounds and files. */
static const char *const without[] = {
    "random", "oracle-evict", "oracle-topk", "oracle-topp",
    "replay", "topk",         NULL};

static bool may_have_none(const char *name) {
  for (int i = 0; without[i]; i++)
    if (strcmp(without[i], name) == 0) return true;
  return false;
}

static int listed(const kv_method **out) {
  int n = 0;
  for (int i = 0; kv_method_at(i); i++) out[n++] = kv_method_at(i);
  for (int i = 0; kv_method_door_at(i); i++) out[n++] = kv_method_door_at(i);
  assert_true(n <= MOST);
  return n;
}

TEST(every_method_has_one) {
  const kv_method *m[MOST];
  int n = listed(m);
  for (int i = 0; i < n; i++) {
    const char *text = m[i]->paper;
    kv_paper p;
    if (kv_paper_none(text)) {
      if (!may_have_none(m[i]->name))
        fail_msg("%s says that it has no paper: name one in kv_method.paper, "
                 "or add it to `without` of this test",
                 m[i]->name);
      if (!*kv_paper_none(text))
        fail_msg("%s does not say why it has no paper", m[i]->name);
      continue;
    }
    while (text) works(kv_paper_next(m[i]->name, &text, &p, &told));
  }
}

/* --- reading BibTeX ----------------------------------------------------- */

/* The value of a field: what its braces hold, which are balanced. */
static char *value(char **at) {
  int depth = 0;
  assert_int_equal(**at, '{');
  char *from = *at + 1;
  do {
    assert_int_not_equal(**at, 0);
    depth += (**at == '{') - (**at == '}');
    (*at)++;
  } while (depth);
  (*at)[-1] = 0;
  return from;
}

/* Expects `text`, after blanks. */
static void expect(char **at, const char *text) {
  while (isspace((unsigned char)**at)) (*at)++;
  if (strncmp(*at, text, strlen(text)) != 0)
    fail_msg("\"%.40s\" does not begin with \"%s\"", *at, text);
  *at += strlen(text);
}

typedef struct entry {
  char *key, *field[6];
} entry;

static const char *const fields[] = {"author", "title",         "year",
                                     "eprint", "archivePrefix", "url"};

/* The entry at the next '@'; false at the end. */
static bool next_entry(char **at, entry *out) {
  *at = strchr(*at, '@');
  if (!*at) return false;
  expect(at, "@misc{");
  out->key = *at;
  *at = strchr(*at, ',');
  assert_non_null(*at);
  *(*at)++ = 0;
  for (int i = 0; i < 6; i++) {
    expect(at, fields[i]);
    expect(at, "=");
    expect(at, "{");
    (*at)--;
    out->field[i] = value(at);
    if (i < 5) expect(at, ",");
  }
  expect(at, "}");
  return true;
}

static char *written(int n, const kv_method *const *m) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  kv_bibtex_write(n, m, out);
  assert_int_equal(fclose(out), 0);
  return text;
}

TEST(entries_read_back) {
  const kv_method *m[MOST];
  char *text = written(listed(m), m), *at = text, *key[MOST], *number[MOST];
  int n = 0;
  entry e;
  while (next_entry(&at, &e)) {
    for (int i = 0; i < n; i++)
      if (strcmp(number[i], e.field[3]) == 0)
        fail_msg("two methods name arXiv:%s as %s and %s: write it alike",
                 number[i], key[i], e.key);
    assert_true(n < MOST);
    number[n] = e.field[3];
    key[n++] = e.key;
    for (const char *c = e.key; *c; c++)
      assert_true(isalnum((unsigned char)*c));
    for (int i = 0; i < 6; i++) assert_true(*e.field[i]);
    assert_non_null(strstr(e.field[5], e.field[3]));
  }
  assert_true(n >= 10);
  free(text);
}

/* --- the grammar -------------------------------------------------------- */

static kv_paper reading(const char *text) {
  kv_paper p;
  works(kv_paper_next("x", &text, &p, &told));
  assert_null(text);
  return p;
}

TEST(names_and_titles) {
  kv_paper p = reading("Zhang et al. 2023, The H_2-O: 5% of it, with a comma, "
                       "arXiv:2306.14048");
  assert_string_equal(p.key, "zhang2023h2o");
  assert_string_equal(p.authors, "Zhang and others");
  assert_string_equal(p.title, "{The H\\_2-O: 5\\% of it, with a comma}");
  assert_string_equal(p.year, "2023");
  assert_string_equal(p.eprint, "2306.14048");
  p = reading("Ada Lovelace, B. Xiao, and C. Han et al. 2024, In 2023, we, "
              "arXiv:2407.1155");
  assert_string_equal(p.key, "lovelace2024in");
  assert_string_equal(p.authors,
                      "Ada Lovelace and B. Xiao and C. Han and others");
  assert_string_equal(p.title, "{In 2023, we}");
  p = reading("Hao et al. 2025, OmniKV, OpenReview:ulCAPXYXfa");
  assert_string_equal(p.eprint, "ulCAPXYXfa");
  assert_int_equal(p.archive, 1);
}

TEST(wrong_ones) {
  static const char *const texts[] = {
      "",
      "somewhere",
      "Zhang et al. 2023, H2O",
      "Zhang et al. 2023, H2O, NeurIPS",
      "Zhang et al., H2O, arXiv:2306.14048",
      "2023, H2O, arXiv:2306.14048",
      "Zhang et al. 2023, arXiv:2306.14048",
      "Zhang et al. 2023, H2O, arXiv:2306",
      "Zhang et al. 2023, H2O, arXiv:2306.14048v2",
      "Zhang et al. 2023, H2O, OpenReview:a/b?c=d&told",
      "Zhang et al. 2023, {H2O, arXiv:2306.14048",
      "Zhang et al. 2023, H2O, arXiv:2306.14048;none"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const char *text = texts[i];
    kv_paper p;
    if (kv_paper_next("x", &text, &p, &told) != KV_USAGE ||
        !strstr(told.text, "the paper of x is"))
      fail_msg("\"%s\" was taken: %s", texts[i], told.text);
  }
}

TEST(shared_and_missing) {
  static const kv_method a = {.name = "a",
                              .paper = "Li 2024, One, arXiv:2404.14469"},
                         b = {.name = "b", .paper = "none: a bound"},
                         c = {.name = "c",
                              .paper = "Wu and Li 2025, Two, arXiv:2501.00001; "
                                       "Li 2024, One, arXiv:2404.14469"},
                         d = {.name = "d", .paper = "none"},
                         f = {.name = "f", .paper = "Li"};
  const kv_method *const m[] = {&a, &b, &c, &d, &f};
  char *text = written(5, m), *at = text;
  assert_non_null(strstr(text, "\n% a, c\n@misc{li2024one,"));
  assert_non_null(strstr(text, "\n% b: no paper, a bound\n"));
  assert_non_null(strstr(text, "\n% c\n@misc{wu2025two,"));
  assert_non_null(strstr(text, "\n% d: no paper\n"));
  assert_non_null(strstr(text, "\n% f: its paper is not written as NAMES"));
  entry e;
  int n = 0;
  while (next_entry(&at, &e)) n++;
  assert_int_equal(n, 2);
  free(text);
}

int main(void) { return tests_run("bibtex", NULL, NULL); }
