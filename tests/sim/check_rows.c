/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of rows: every form says the same of a cell. JSON is one value that
 * another parser reads, numbers come back to the bit, no NaN gets in, a cell
 * that did not run carries null; CSV has one column per JSON leaf; the table
 * keeps within 120 columns and to plain text; a full disk is reported.
 */
#include "sim/cli/show/rows.h"
#include "tests/support/told.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static kv_result ran(void) {
  kv_result r;
  memset(&r, 0, sizeof r);
  strcpy(r.trace, "chat, \"short\"");
  r.prompt_len = 100;
  r.n_tokens = 120;
  r.method = "unheard";
  r.revision = 2;
  r.params = "{\"budget\": 20, \"group\": \"mean\"}";
  r.spec = "unheard:budget=20:group=mean";
  r.arithmetic = 1;
  r.budget = 20;
  r.basis = KV_BASIS_PROMPT;
  strcpy(r.target, "20%");
  r.achieved = 20;
  r.backend = "ref";
  memset(r.journal.byte, 0xab, sizeof r.journal.byte);
  r.totals.end.payload = ((int64_t)1 << 53) + 1;
  r.totals.end.tier_1 = 5;
  r.totals.end.metadata = 7;
  r.totals.mean = 1.0 / 3;
  r.totals.kr = 0.1;
  r.totals.cr = NAN;
  r.totals.kept = 20.5;
  r.totals.needle_kept = 0.125;
  for (int m = 0; m < KV_MEASURES; m++) {
    r.stat[m] = (kv_stat){10, 0.1 + m, 0.2, 1e-7, 0.3, INFINITY, 0};
  }
  r.stat[KV_RECALL_B].count = 0;
  return r;
}

static kv_result refused(void) {
  kv_result r = ran();
  r.status = KV_CELL_REFUSED;
  strcpy(r.reason, "window=32 does not fit a budget of 20");
  return r;
}

/* What the writer makes of n rows; freed with free(). */
static char *written(kv_row_format f, bool colour, int n, const kv_result *r) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  kv_row_writer *w;
  assert_int_equal(kv_row_writer_open(f, out, colour, &w, NULL), KV_OK);
  for (int i = 0; i < n; i++) {
    assert_int_equal(kv_row_writer_add(w, &r[i], NULL), KV_OK);
  }
  assert_int_equal(kv_row_writer_close(w, NULL), KV_OK);
  fclose(out);
  return text;
}

static json_t *loaded(const char *text) {
  json_error_t e;
  json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &e);
  if (j == NULL) fail_msg("%s at line %d of %s", e.text, e.line, text);
  return j;
}

/* The value at a path of names joined with points. */
static json_t *at(json_t *j, const char *path) {
  char copy[128], *save = NULL;
  snprintf(copy, sizeof copy, "%s", path);
  for (char *k = strtok_r(copy, ".", &save); k; k = strtok_r(NULL, ".", &save))
    j = json_object_get(j, k);
  if (j == NULL) fail_msg("no %s", path);
  return j;
}

TEST(demanded_keys) {
  static const char *const integers[] = {
      "arithmetic",           "budget",
      "bytes.end.payload",    "bytes.end.metadata",
      "bytes.end.columns",    "bytes.end.side",
      "bytes.end.slack",      "bytes.end.tier_1",
      "bytes.end.total",      "bytes.end.codes_only",
      "bytes.peak",           "bytes.mti",
      "bytes.codes_only.peak"};
  static const char *const reals[] = {"achieved",
                                      "kept",
                                      "bytes.mean",
                                      "bytes.read",
                                      "bytes.codes_only.mean",
                                      "kr",
                                      "output_error.mean"};
  kv_result r = ran();
  char *text = written(KV_ROWS_JSON, false, 1, &r);
  json_t *j = loaded(text), *row = json_array_get(j, 0);
  assert_int_equal(json_array_size(j), 1);
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
    assert_true(json_is_integer(at(row, integers[i])));
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
    assert_true(json_is_real(at(row, reals[i])));
  assert_int_equal(json_integer_value(at(row, "schema")), KV_ROW_SCHEMA);
  assert_string_equal(json_string_value(at(row, "trace")), r.trace);
  assert_string_equal(json_string_value(at(row, "method")), "unheard");
  assert_string_equal(json_string_value(at(row, "status")), "ok");
  assert_string_equal(json_string_value(at(row, "backend")), "ref");
  assert_string_equal(json_string_value(at(row, "basis")), "prompt");
  assert_string_equal(json_string_value(at(row, "target")), "20%");
  assert_int_equal(json_integer_value(at(row, "params.budget")), 20);
  assert_int_equal(strlen(json_string_value(at(row, "journal"))), 64);
  assert_true(json_is_string(at(row, "state")));
  assert_true(json_is_string(at(row, "output")));
  assert_true(json_is_null(at(row, "reason")));
  json_decref(j);
  free(text);
}

TEST(numbers_to_the_bit) {
  kv_result r = ran();
  char *text = written(KV_ROWS_JSONL, false, 1, &r);
  json_t *row = loaded(text);
  assert_true(json_integer_value(at(row, "bytes.end.payload")) ==
              ((int64_t)1 << 53) + 1);
  assert_true(json_integer_value(at(row, "bytes.end.total")) ==
              ((int64_t)1 << 53) + 8);
  assert_true(json_real_value(at(row, "bytes.mean")) == 1.0 / 3);
  assert_true(json_is_null(at(row, "cr")));
  for (int m = 0; m < KV_MEASURES; m++) {
    json_t *s = at(row, kv_measure_table[m].name);
    if (m == KV_RECALL_B) {
      assert_true(json_is_null(s));
      continue;
    }
    assert_true(json_real_value(at(s, "mean")) == 0.1 + m);
    assert_true(json_real_value(at(s, "p50")) == 0.2);
    assert_true(json_real_value(at(s, "p95")) == 1e-7);
    assert_true(json_real_value(at(s, "p99")) == 0.3);
    assert_true(json_is_null(at(s, "max"))); /* infinite */
  }
  assert_null(strstr(text, "nan"));
  assert_null(strstr(text, "inf"));
  json_decref(row);
  free(text);
}

TEST(not_run_is_null) {
  static const char *const keys[] = {
      "journal", "state", "output",   "bytes", "kr",
      "cr",      "kept",  "achieved", "mass",  "output_error"};
  kv_result r = refused();
  char *text = written(KV_ROWS_JSON, false, 1, &r);
  json_t *j = loaded(text), *row = json_array_get(j, 0);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    assert_true(json_is_null(at(row, keys[i])));
  assert_string_equal(json_string_value(at(row, "status")), "refused");
  assert_string_equal(json_string_value(at(row, "reason")), r.reason);
  assert_int_equal(json_integer_value(at(row, "budget")), 20);
  json_decref(j);
  free(text);
}

TEST(streams) {
  kv_result r[2] = {ran(), refused()};
  char *text = written(KV_ROWS_JSON, false, 0, r);
  assert_string_equal(text, "[]\n");
  free(text);
  text = written(KV_ROWS_JSON, false, 2, r);
  json_t *j = loaded(text);
  assert_int_equal(json_array_size(j), 2);
  json_decref(j);
  free(text);
  text = written(KV_ROWS_JSONL, false, 2, r);
  char *second = strchr(text, '\n') + 1;
  second[-1] = 0;
  json_decref(loaded(text));
  json_decref(loaded(second));
  assert_ptr_equal(strchr(second, '\n'), second + strlen(second) - 1);
  free(text);
}

/* Cuts a CSV line in place; quotes are taken off. Returns what follows. */
static char *cut(char *line, int *n, char *field[]) {
  char *to = line;
  bool quoted = false;
  *n = 0;
  field[(*n)++] = to;
  for (;; line++) {
    if (quoted && line[0] == '"' && line[1] == '"') {
      *to++ = *++line;
    } else if (*line == '"') {
      quoted = !quoted;
    } else if (!quoted && *line == ',') {
      *to++ = 0;
      field[(*n)++] = to;
    } else if (!quoted && *line == '\n') {
      *to = 0;
      return line + 1;
    } else {
      *to++ = *line;
    }
  }
}

TEST(csv) {
  enum { MOST = 256 };
  char *name[MOST], *value[MOST];
  int names, values;
  kv_result r[2] = {ran(), refused()};
  char *text = written(KV_ROWS_CSV, false, 2, r);
  char *json = written(KV_ROWS_JSONL, false, 1, r);
  json_t *row = loaded(json);
  char *line = cut(cut(text, &names, name), &values, value);
  assert_int_equal(names, values);
  for (int i = 0; i < names; i++) {
    if (strncmp(name[i], "recall_b", 8) == 0) continue; /* null as a whole */
    json_t *v = at(row, name[i]);
    if (json_is_null(v)) assert_string_equal(value[i], "");
    if (json_is_string(v)) assert_string_equal(value[i], json_string_value(v));
    if (json_is_real(v)) assert_true(atof(value[i]) == json_real_value(v));
    if (json_is_integer(v))
      assert_true(atoll(value[i]) == json_integer_value(v));
  }
  assert_string_equal(name[0], "schema");
  assert_string_equal(value[1], r[0].trace);
  line = cut(line, &values, value);
  assert_int_equal(names, values);
  assert_int_equal(*line, 0);
  json_decref(row);
  free(json);
  free(text);
}

/* Their prompts were read whole. */
static void whole(int n, kv_result *r) {
  for (int i = 0; i < n; i++)
    for (int m = KV_PROMPT_ERROR; m <= KV_PROMPT_ATTENDED; m++)
      r[i].stat[m].count = 0;
}

/* Fails unless the form of n rows has these parts, and none of those; both end
 * with NULL. */
static void says(kv_row_format f, int n, const kv_result *r,
                 const char *const *parts, const char *const *none) {
  char *text = written(f, false, n, r);
  for (; *parts; parts++)
    if (!strstr(text, *parts)) fail_msg("no '%s' in\n%s", *parts, text);
  for (; *none; none++)
    if (strstr(text, *none)) fail_msg("'%s' in\n%s", *none, text);
  free(text);
}

#define HAS(...)                                                               \
  (const char *[]) { __VA_ARGS__, NULL }
static const char *const nothing[] = {NULL};

TEST(table) {
  kv_result r[3] = {ran(), refused(), ran()};
  whole(3, r);
  r[2].totals.peak = INT64_MAX;
  r[2].totals.mean = 1e18;
  r[2].totals.kept = 131072.25;
  strcpy(r[2].target, "entries:1073741824");
  r[2].budget = 1 << 30;
  says(KV_ROWS_WIDE, 3, r,
       HAS("open loop: recorded queries",
           "window=32 does not fit a budget of 20", "abababab"),
       HAS("\033"));
  char *text = written(KV_ROWS_WIDE, true, 3, r), *save = NULL;
  assert_non_null(strstr(text, "\033[1m"));
  free(text);
  text = written(KV_ROWS_WIDE, false, 3, r);
  for (char *l = strtok_r(text, "\n", &save); l;
       l = strtok_r(NULL, "\n", &save))
    assert_true(strlen(l) <= 120);
  free(text);
  text = written(KV_ROWS_TABLE, false, 0, r);
  assert_string_equal(text, "");
  free(text);
}

/* Was asked for nothing. */
static void make_dense(kv_result *r) {
  r->method = r->spec = "dense";
  r->target[0] = 0;
  r->budget = -1;
}

/* Seven columns, five where no trace has answers, two more where a prompt was
 * read in chunks; what was asked stands once, or beside each method where rows
 * differ; a refused row says so in the last. */
TEST(narrow) {
  kv_result r[3] = {ran(), refused(), ran()};
  make_dense(&r[2]);
  says(KV_ROWS_TABLE, 3, r, HAS("output error  prompt error  prompt mass\n"),
       nothing);
  whole(3, r);
  says(KV_ROWS_TABLE, 3, r,
       HAS("\", at 20%\nmethod",
           "tokens kept  bytes held  on the answer  answer kept  worst error  ",
           "  0.1250  ", "\nunheard ", " refused\n",
           "window=32 does not fit a budget of 20"),
       HAS("abababab"));
  strcpy(r[1].target, "10%");
  for (int i = 0; i < 3; i++) {
    r[i].stat[KV_NEEDLE_MASS].count = r[i].stat[KV_NEEDLE_DENSE].count = 0;
    r[i].totals.needle_kept = NAN;
  }
  says(KV_ROWS_TABLE, 3, r,
       HAS("\"\nmethod", "\nunheard at 20% ", "\nunheard at 10% ", "\ndense ",
           "bytes held  worst error  output error\n"),
       HAS("on the answer", "answer kept"));
}

/* Rows that were asked for alike and hold a tenth more bytes are said to, with
 * what to ask for instead; not dense, and not those of another budget. */
TEST(unequal) {
  kv_result r[3] = {ran(), ran(), ran()};
  r[1].method = r[1].spec = "other";
  r[1].totals.kr = 0.105;
  make_dense(&r[2]);
  r[2].totals.kr = 1;
  says(KV_ROWS_TABLE, 3, r, nothing, HAS("unequal"));
  r[1].totals.kr = 0.2;
  says(KV_ROWS_TABLE, 3, r,
       HAS("unequal bytes, 10.0% to 20.0%: to compare, use -b mean:20%;\n"),
       nothing);
  strcpy(r[1].target, "30%");
  says(KV_ROWS_TABLE, 3, r, nothing, HAS("unequal"));
}

/* Two traces of one name are two headings, and no rows of one trace. */
TEST(twins) {
  kv_result r[2] = {ran(), ran()};
  r[1].totals.kr = 0.2;
  strcpy(r[0].path, "a/p.safetensors");
  strcpy(r[1].path, "b/p.safetensors");
  r[0].twin = r[1].twin = true;
  says(KV_ROWS_TABLE, 2, r,
       HAS("a/p.safetensors, at ", "\nb/p.safetensors, at "), HAS("unequal"));
  r[0].twin = r[1].twin = false;
  says(KV_ROWS_TABLE, 2, r, HAS("unequal"), HAS("p.safetensors"));
}

TEST(full_disk) {
  for (int f = KV_ROWS_TABLE; f <= KV_ROWS_WIDE; f++) {
    FILE *out = fopen("/dev/full", "w");
    kv_result r = ran();
    kv_row_writer *w;
    if (out == NULL) skip();
    works(kv_row_writer_open((kv_row_format)f, out, false, &w, &told));
    kv_rc added = kv_row_writer_add(w, &r, &told);
    kv_rc closed = kv_row_writer_close(w, &told);
    assert_true(added == KV_RESOURCE || closed == KV_RESOURCE);
    must_say("cannot write the output");
    fclose(out);
  }
}

int main(void) { return tests_run("rows", NULL, NULL); }
