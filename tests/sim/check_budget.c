/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of budgets and of run's command line:
 *   - a percentage is exactly the decimal typed: floor(prompt * p / 100) in
 *     integers, and a share fits up to the byte;
 *   - a compression ratio, the budget of kvpress's presses, leaves what
 *     Python's int(n * (1 - r)) does, also where that is one fewer than real
 *     numbers leave;
 *   - a list, typed or in a file, is a budget a layer, by one name;
 *   - a command line that contradicts itself is KV_USAGE with one sentence.
 */
#include "sim/ask/budget.h"
#include "sim/cli/commands.h"
#include "sim/cli/options_run.h"
#include "sim/run/session/session.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"

#include <string.h>

static kv_budget parsed(const char *text) {
  kv_budget b;
  if (kv_budget_parse(text, &b, &told)) fail_msg("%s: %s", text, told.text);
  return b;
}

static void refused(const char *text, const char *says) {
  kv_budgets b = {0};
  kv_rc rc = kv_budgets_add(text, &b, &told);
  if (rc != KV_USAGE || !strstr(told.text, says)) {
    fail_msg("%s: rc %d, \"%s\" does not hold \"%s\"", text, rc, told.text,
             says);
  }
  assert_int_equal(b.n, 0);
  kv_budgets_free(&b);
}

static int entries(const char *text, int prompt) {
  kv_budget b = parsed(text);
  int n = -1;
  assert_int_equal(kv_budget_entries(&b, prompt, &n, NULL), KV_OK);
  return n;
}

TEST(forms) {
  kv_budget b = parsed("512");
  assert_int_equal(b.basis, KV_BASIS_ENTRIES);
  assert_int_equal(b.entries, 512);
  assert_int_equal(parsed("entries:512").entries, 512);
  b = parsed("12.50%");
  assert_int_equal(b.basis, KV_BASIS_PROMPT);
  assert_int_equal(b.num, 125);
  assert_int_equal(b.den, 1000);
  assert_string_equal(b.target, "12.50%");
  assert_int_equal(parsed("prompt:20%").basis, KV_BASIS_PROMPT);
  assert_int_equal(parsed("end:20%").basis, KV_BASIS_END);
  assert_int_equal(parsed("mean:20%").basis, KV_BASIS_MEAN);
  assert_int_equal(parsed("peak:20%").basis, KV_BASIS_PEAK);
  b = parsed("read:.5%");
  assert_int_equal(b.basis, KV_BASIS_READ);
  assert_true(kv_budget_in_bytes(&b));
  assert_int_equal(b.den, 1000);
}

TEST(percentages_are_exact) {
  char text[32];
  assert_int_equal(entries("29%", 100), 29); /* 0.29 * 100 < 29 in binary */
  assert_int_equal(entries("0.1%", 1000), 1);
  assert_int_equal(entries("33.333333%", 3000000), 999999);
  assert_int_equal(entries("100%", 1 << 30), 1 << 30);
  assert_int_equal(entries("150%", 10), 15);
  for (int p = 1; p <= 1000; p++) {
    snprintf(text, sizeof text, "%d.%d%%", p / 10, p % 10);
    for (int n = 1000; n < 1100; n++) {
      assert_int_equal(entries(text, n), (int64_t)p * n / 1000);
    }
  }
}

TEST(less_than_one_is_usage) {
  kv_budget b = parsed("0.5%");
  int n;
  fails(kv_budget_entries(&b, 199, &n, &told), KV_USAGE, "less than one entry");
  works(kv_budget_entries(&b, 200, &n, &told));
  assert_int_equal(n, 1);
}

TEST(wrong_is_named) {
  refused("", "is empty");
  refused("0", "at least 1");
  refused("0%", "above 0");
  refused("0.0%", "above 0");
  refused("-5", "write a number of entries");
  refused("5.5", "write a number of entries");
  refused("1e3", "write a number of entries");
  refused("1073741825", "must be at most 1073741824");
  refused("99999999999999999999", "must be at most 1073741824");
  refused("%", "plain decimal");
  refused(".%", "plain decimal");
  refused("1.2.3%", "plain decimal");
  refused("1e1%", "plain decimal");
  refused("1001%", "up to 1000");
  refused("0.1234567%", "6 decimals");
  refused("men:20%", "did you mean mean?");
  refused("mean:512", "takes a percentage");
  refused("entries:20%", "not a percentage");
  refused("20%,", "is empty");
  refused("20%,prompt:20.0%", "listed twice");
  refused("512,entries:512", "listed twice");
  refused("123456789012345678901234567890123456789012345678901234567890123456",
          "too long");
}

/* --- a budget a layer --------------------------------------------------- */

static const char *file_of(const char *text) {
  const char *path = scratch_path("budgets");
  static char budget[1024];
  scratch_write(path, strlen(text), text);
  snprintf(budget, sizeof budget, "layers:%s", path);
  return budget;
}

static void holds(const char *text, kv_basis basis, const char *name,
                  const int *expected) {
  kv_budget b = parsed(text);
  int n[3] = {0}, of[3] = {90, 90, 90};
  assert_int_equal(b.layers, 3);
  assert_int_equal(b.basis, basis);
  assert_string_equal(b.target, name);
  assert_int_equal(kv_budget_layers(&b, 3, of, n, NULL), KV_OK);
  assert_memory_equal(n, expected, sizeof n);
  kv_budget_free(&b);
}

/* The name is that of printf 64/32/16 | sha256sum. */
TEST(lists) {
  const int three[] = {64, 32, 16}, shares[] = {18, 9, 4}, both[] = {64, 9, 90};
  const char *name = "layers:edfb79b6";
  holds("64/32/16", KV_BASIS_ENTRIES, name, three);
  holds("entries:64/32/16", KV_BASIS_ENTRIES, name, three);
  holds(file_of("# by hand\n64\n\n 32 # low\r\n16"), KV_BASIS_ENTRIES, name,
        three);
  holds(file_of(" [64, 32,\n \"16\"]\n"), KV_BASIS_ENTRIES, name, three);
  holds("20%/10%/5%", KV_BASIS_PROMPT, "layers:13c126f6", shares);
  holds(file_of("[64, \"10%\", \"100%\"]"), KV_BASIS_ENTRIES, "layers:1fcef822",
        both);
  kv_budget b = parsed(file_of("7\n")), few = parsed("50%/1%");
  assert_int_equal(b.layers, 1);
  kv_budget_free(&b);
  fails(kv_budget_layers(&few, 2, (int[]){90, 90}, (int[2]){0}, &told),
        KV_USAGE, "layer 1: budget 1% of a prompt of 90");
  kv_budget_free(&few);
}

static void bad_file(const char *text, const char *says) {
  kv_budget b;
  kv_rc rc = kv_budget_parse(text, &b, &told);
  if (rc != KV_INPUT || !strstr(told.text, says) || strchr(told.text, '\n'))
    fail_msg("%s: rc %d, \"%s\" does not hold \"%s\"", text, rc, told.text,
             says);
}

TEST(wrong_lists) {
  refused("64/", "layer 1: a budget of the list is empty");
  refused("64/0", "layer 1: budget 0: must be at least 1");
  refused("64/mean:5%", "is of bytes");
  refused("64/layers", "layer 1: budget layers");
  refused("64/32,entries:64/32", "listed twice");
  refused("20%/10%,prompt:20.0%/10%", "listed twice");
  bad_file("layers:", "cannot read it: No such file");
  bad_file("layers:/dev/null", "is no file of at most");
  bad_file(file_of(""), "holds no budget");
  bad_file(file_of("[]"), "holds no budget");
  bad_file(file_of("64\nfoo"), ", line 2: budget foo: write");
  bad_file(file_of("layers:x"), ", line 1: layers:x is a list in a list");
  bad_file(file_of("64/32"), ", line 1: 64/32 is a list in a list");
  bad_file(file_of("[64, 0.5]"), ", layer 1: is neither a whole number");
  bad_file(file_of("[64, -1]"), ", layer 1: budget -1: write");
  bad_file(file_of("[64, \"read:5%\"]"), ", layer 1: read:5% is of bytes");
  bad_file(file_of("[64"), "line 1 is not JSON: ");
  bad_file(file_of("[64,\n]"), "line 2 is not JSON: ");
  bad_file(file_of("[64] 32"), "line 1 is not JSON: ");
  bad_file(file_of("[64 32]"), "line 1 is not JSON: ");
  bad_file(file_of("[\"64]"), "line 1 is not JSON: ");
  bad_file(file_of("[[64]]"), ", layer 0: is neither a whole number");
}

TEST(fits_to_the_byte) {
  kv_budget b = parsed("mean:33.333333%");
  int64_t dense = (int64_t)300000000 << 20;
  int64_t most = (int64_t)99999999 << 20;
  assert_true(kv_budget_fits(&b, most, dense));
  assert_false(kv_budget_fits(&b, most + 1, dense));
  assert_true(kv_budget_fits(&b, 0, 0));
  assert_false(kv_budget_fits(&b, 1, 0));
  b = parsed("end:100%");
  assert_true(kv_budget_fits(&b, INT64_MAX, INT64_MAX));
  assert_false(kv_budget_fits(&b, INT64_MAX, INT64_MAX - 1));
}

/* Two made-up methods: one with a budget, one without. */
typedef struct made_up {
  int budget;
} made_up;

static const kv_param table[] = {{.name = "budget",
                                  .kind = KV_INT,
                                  .knob = KV_KNOB_ENTRIES,
                                  .offset = offsetof(made_up, budget),
                                  .min = 1,
                                  .max = 1 << 30},
                                 {.name = NULL}};
static const kv_method heavy = {
    .name = "heavy", .params = table, .params_size = sizeof(made_up)};
static const kv_method dense = {.name = "dense"};

static const kv_method *registry(int i) {
  return i == 0 ? &heavy : i == 1 ? &dense : NULL;
}

enum { WORDS = 24 };

static void forget(kv_run_options *o) {
  kv_run_options_free(o);
  kv_options_free(&kv_command_run, o);
}

/* Cuts a line at blanks and parses it; says NULL: it is right. */
static kv_asked line(const char *text, const char *says, kv_run_options *keep) {
  static char copy[256];
  char *argv[WORDS + 1], *save = NULL;
  kv_run_options o = {0};
  kv_asked asked;
  int n = 0;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
    argv[n++] = w;
  argv[n] = NULL;
  kv_rc rc = kv_options_parse(&kv_command_run, n, argv, &o, &asked, &told);
  if (!rc && asked == KV_ASKED_WORK)
    rc = kv_run_options_check(registry, &o, &told);
  if (rc != (says ? KV_USAGE : KV_OK) || (says && !strstr(told.text, says))) {
    fail_msg("%s: rc %d, \"%s\"", text, rc, told.text);
  }
  if (keep)
    *keep = o;
  else
    forget(&o);
  return asked;
}

TEST(run_lines) {
  line("run t -m dense", NULL, NULL);
  line("run t -m heavy:budget=3", NULL, NULL);
  line("run -b 20% t u -m heavy,dense --format=json", NULL, NULL);
  line("run t -mheavy -b1 --selections f", NULL, NULL);
  line("run t", "-m all", NULL);
  line("run -m dense", "needs TRACE", NULL);
  line("run t -m heavy", "heavy needs a budget", NULL);
  line("run t -m heavy -b 0", "at least 1", NULL);
  line("run t u -m dense --views f", "--views describes one cell", NULL);
  line("run t -m dense,heavy -b 1 --stored f", "one cell", NULL);
  line("run t -m heavy -b 1,2 --outputs f", "one cell", NULL);
  line("run t -m dense --jobs 0", "from 1 to 4096", NULL);
  line("run t -m dense --jobs x", "from 1 to 4096", NULL);
  line("run t -m dense --format tabel", "did you mean table?", NULL);
  line("run t -m dense --twise", "did you mean --twice?", NULL);
  line("run t -m dense --twice=3", "--twice takes no value", NULL);
  line("run t -m dense --db", "--db needs a value", NULL);
  line("run t -m dense --db=", "--db is empty", NULL);
  line("run t -m dense -Z", "no option -Z", NULL);
  line("run t -m dense --backend cud", "there are ref, emu and cuda", NULL);
}

TEST(run_values) {
  kv_run_options o;
  kv_asked asked =
      line("run a -m dense -m heavy -b 5 -b 20%,7 b -j3 -tn -- -c", NULL, &o);
  assert_int_equal(asked, KV_ASKED_WORK);
  assert_int_equal(o.cells.traces.n, 3);
  assert_string_equal(o.cells.traces.item[1], "b");
  assert_string_equal(o.cells.traces.item[2], "-c");
  assert_int_equal(o.cells.specs.n, 2);
  assert_int_equal(o.cells.budgets.n, 3);
  assert_int_equal(o.cells.jobs, 3);
  assert_true(o.twice && o.dry_run && !o.cells.quiet);
  assert_int_equal(o.format, KV_ROWS_TABLE);
  assert_int_equal(o.walk, KV_WALK_LAYERS);
  assert_null(o.cells.db);
  assert_ptr_equal(o.backend, &kv_backend_ref);
  forget(&o);
  line("run t -m dense --walk steps --format jsonl --prompt-len 9 --db x", NULL,
       &o);
  assert_int_equal(o.walk, KV_WALK_STEPS);
  assert_int_equal(o.format, KV_ROWS_JSONL);
  assert_int_equal(o.cells.prompt_len, 9);
  assert_string_equal(o.cells.db, "x");
  forget(&o);
  assert_int_equal(line("run --help --nonsense", NULL, NULL), KV_ASKED_HELP);
  assert_int_equal(line("run -V", NULL, NULL), KV_ASKED_VERSION);
}

/* --- ratios ------------------------------------------------------------- */

TEST(as_python_computes) {
  const struct {
    int n;
    const char *text;
    int kept; /* what Python 3 prints */
  } of[] = {{465, "ratio:0.8", 92},
            {40, "ratio:.8", 7},
            {30, "ratio:0.900", 2},
            {300, "ratio:0.9", 29}, /* up to here one fewer than in reals */
            {465, "ratio:0.9", 46},
            {50, "ratio:0.94", 3},
            {100, "ratio:0.3", 70},
            {1000, "ratio:0.1", 900},
            {7, "ratio:0.142857142857143", 5},
            {1 << 20, "ratio:0.000001", 1048574},
            {761, "ratio:0.8", 152},
            {273, "ratio:0.7", 81},
            {1, "ratio:0", 1},
            {1 << 30, "ratio:0.0", 1 << 30}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kv_budget b;
    int n = -1;
    assert_int_equal(kv_budget_parse(of[i].text, &b, NULL), KV_OK);
    assert_int_equal(b.basis, KV_BASIS_RATIO);
    assert_false(kv_budget_in_bytes(&b));
    assert_int_equal(kv_budget_entries(&b, of[i].n, &n, NULL), KV_OK);
    assert_int_equal(n, of[i].kept);
  }
  assert_string_equal(kv_basis_names[KV_BASIS_RATIO], "ratio");
}

TEST(a_layer_each) {
  kv_budget b;
  int n[3], of[3] = {465, 465, 465};
  assert_int_equal(kv_budget_parse("ratio:0.8/20%/ratio:0", &b, NULL), KV_OK);
  assert_int_equal(kv_budget_layers(&b, 3, of, n, NULL), KV_OK);
  assert_int_equal(n[0], 92);
  assert_int_equal(n[1], 93);
  assert_int_equal(n[2], 465);
  kv_budget_free(&b);
}

TEST(wrong_ratios) {
  refused("ratio:1", "below 1");
  refused("ratio:1.0", "below 1");
  refused("ratio:-0.1", "from 0 on");
  refused("ratio:80%", "plain decimal");
  refused("ratio:0.1234567890123456", "at most 15 decimals");
  refused("ratio:", "plain decimal");
  refused("rato:0.8", "did you mean ratio?");
  refused("end:ratio:0.8", "of the prompt's tokens alone");
  refused("0.8", "a compression ratio (ratio:0.8)");
  refused("ratio:0.8,ratio:.80", "listed twice");
}

TEST(nothing_left_is_usage) {
  kv_budget b;
  int n;
  works(kv_budget_parse("ratio:0.9", &b, &told));
  fails(kv_budget_entries(&b, 10, &n, &told), KV_USAGE,
        "leaves none of a prompt of 10 tokens");
  works(kv_budget_entries(&b, 20, &n, &told));
  assert_int_equal(n, 1);
}

TEST(in_a_session) {
  const kv_session_shape x = {.abi = KV_SESSION_ABI,
                              .n_layers = 1,
                              .n_heads = 2,
                              .n_kv_heads = 1,
                              .d = 8,
                              .d_v = 8,
                              .n_tokens = 50,
                              .dtype = KV_F16};
  kv_session *s = NULL;
  works(kv_session_open(&x, "h2o", "ratio:0.8", 40, &s, &told));
  assert_non_null(strstr(kv_session_spec(s), ":budget=7:")); /* 20%: 8 */
  kv_session_close(s);
  fails(kv_session_open(&x, "h2o", "ratio:1", 40, &s, &told), KV_USAGE,
        "below 1");
}

int main(void) { return tests_run("budget", scratch_make, scratch_remove); }
