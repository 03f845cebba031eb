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
 * What a search for a budget in bytes probes and costs, and on how many threads
 * a replay is: a method that refuses every budget below half the trace is
 * opened no more often than the logarithm of the tokens says, and threads are a
 * field of the backend, taken away by a watch that must be told in order. And
 * what a cell is predicted to cost: more work is never predicted to be cheaper.
 */
#include "sim/ask/budget.h"
#include "sim/ask/spec.h"
#include "sim/cli/commands.h"
#include "sim/cli/options_run.h"
#include "sim/run/session/session.h"
#include "sim/run/sweep/batch.h"
#include "sim/run/sweep/effort.h"
#include "tests/laws/cells.h"
#include "tests/support/bundled.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"

#include <stdio.h>
#include <stdlib.h>
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
  refused("mean:512", "needs a percentage");
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
  refused("64/", "layer 1: a budget in the list is empty");
  refused("64/0", "layer 1: budget 0: must be at least 1");
  refused("64/mean:5%", "budget in bytes");
  refused("64/layers", "layer 1: budget layers");
  refused("64/32,entries:64/32", "listed twice");
  refused("20%/10%,prompt:20.0%/10%", "listed twice");
  bad_file("layers:", "cannot open ");
  bad_file("layers:/dev/null", "must be a regular file");
  bad_file(file_of(""), "has no budget");
  bad_file(file_of("[]"), "has no budget");
  bad_file(file_of("64\nfoo"), ", line 2: budget foo: write");
  bad_file(file_of("layers:x"), ", line 1: layers:x is a list within a list");
  bad_file(file_of("64/32"), ", line 1: 64/32 is a list within a list");
  bad_file(file_of("[64, 0.5]"), ", layer 1: must be a whole number");
  bad_file(file_of("[64, -1]"), ", layer 1: budget -1: write");
  bad_file(file_of("[64, \"read:5%\"]"),
           ", layer 1: read:5% is a budget in bytes");
  bad_file(file_of("[64"), "line 1 is not JSON; ");
  bad_file(file_of("[64,\n]"), "line 2 is not JSON; ");
  bad_file(file_of("[64] 32"), "line 1 is not JSON; ");
  bad_file(file_of("[64 32]"), "line 1 is not JSON; ");
  bad_file(file_of("[\"64]"), "line 1 is not JSON; ");
  bad_file(file_of("[[64]]"), ", layer 0: must be a whole number");
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
  line("run t -m dense --backend cud", "choose ref, emu or cuda", NULL);
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
  assert_int_equal(line("run --help=all", NULL, NULL), KV_ASKED_ALL);
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
  refused("ratio:-0.1", "from 0 to below 1");
  refused("ratio:80%", "decimal from 0");
  refused("ratio:0.1234567890123456", "at most 15 decimals");
  refused("ratio:", "decimal from 0");
  refused("rato:0.8", "did you mean ratio?");
  refused("end:ratio:0.8", "to the prompt's tokens");
  refused("0.8", "a compression ratio (ratio:0.8)");
  refused("ratio:0.8,ratio:.80", "listed twice");
}

TEST(nothing_left_is_usage) {
  kv_budget b;
  int n;
  works(kv_budget_parse("ratio:0.9", &b, &told));
  fails(kv_budget_entries(&b, 10, &n, &told), KV_USAGE,
        "leaves none of the prompt's 10");
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

/* --- searches ----------------------------------------------------------- */

extern const kv_method kv_method_window;

/* window, but for what its open refuses. */
static kv_method choosy;
static int opens, least;

static kv_rc open_choosy(const kv_shape *shape, void *params, kv_needs *needs,
                         kv_err *e) {
  int32_t budget;
  memcpy(&budget, (char *)params + kv_method_window.params[0].offset,
         sizeof budget);
  opens++;
  if (budget < least)
    return kv_fail(e, KV_REFUSED, "choosy wants %d, not %d", least, budget);
  return kv_method_window.open(shape, params, needs, e);
}

static const kv_method *only_choosy(int i) { return i ? NULL : &choosy; }

static int logarithm(int n) { return n < 2 ? 0 : 1 + logarithm((n + 1) / 2); }

/* The first legal budget costs 2 log2(n) + 1 opens, and the search by the
 * ledger opens a cell a probe. */
TEST_ON(a_search_opens_log_n, bundled_setup, bundled_teardown) {
  const kv_trace *t = *state;
  kv_batch b = {.trace = (kv_trace *)t};
  kv_batch_ask ask = {.how = {.backend = &kv_backend_ref,
                              .kernels = kv_kernels_best(),
                              .threads = 1}};
  kv_spec spec = {0};
  kv_budget budget = {0};
  int n = t->shape.n_tokens, value = -1;
  choosy = kv_method_window;
  choosy.name = "choosy";
  choosy.open = open_choosy;
  least = n / 2;
  if (kv_spec_parse(only_choosy, "choosy", &spec, &told) ||
      kv_budget_parse("end:75%", &budget, &told))
    fail_msg("%s", told.text);
  opens = 0;
  works(kv_batch_search(&ask, &b, &spec, &budget, &value, &told));
  assert_true(value >= least && value < n);
  assert_true(n > 256 && opens > logarithm(n));
  assert_true(opens <= 2 * logarithm(n) + 1 + logarithm(n) + 2);
  kv_spec_free(&spec);
  kv_batch_close(&b);
}

static void unheard(void *self, int layer, const kv_lane *lane) {
  (void)self, (void)layer, (void)lane;
}

TEST(threads_are_a_field) {
  kv_backend serial = kv_backend_ref;
  kv_watch ordered = {.finished = unheard}, free_one = ordered;
  kv_replay_how how = {.backend = &kv_backend_ref, .threads = 2};
  serial.threads = false;
  free_one.concurrent = true;
  assert_true(kv_replay_parallel(&how));
  how.backend = &kv_backend_blind; /* searches, too */
  assert_true(kv_replay_parallel(&how));
  how.watch = &free_one;
  assert_true(kv_replay_parallel(&how));
  free_one.next = &ordered;
  assert_false(kv_replay_parallel(&how));
  how.watch = NULL;
  how.backend = &serial; /* whatever it is called */
  assert_false(kv_replay_parallel(&how));
}

/* --- what is probed --------------------------------------------------------
 */

/* A method whose cost is a table; every probe is written down. */
typedef struct probed {
  int n, at[64];
  int64_t (*cost)(int entries);
} probed;

static kv_rc probe(void *self, int at, int64_t *bytes, int64_t *of_dense,
                   kv_err *e) {
  probed *p = self;
  (void)e;
  p->at[p->n++] = at;
  *bytes = p->cost(at);
  *of_dense = 1000;
  return KV_OK;
}

static int64_t linear(int n) { return 10 * n; }
/* Not steady: 48 and more fit again. */
static int64_t jumps(int n) { return n >= 48 && n < 100 ? 1 : 10 * n; }

static void searched(const char *budget, int from, int most,
                     int64_t (*cost)(int), kv_rc want, int B, int n,
                     const int *sequence) {
  kv_budget b = parsed(budget);
  probed p = {.cost = cost};
  int out = -1;
  assert_int_equal(
      kv_budget_search(&b, from, most, "one", probe, &p, &out, &told), want);
  assert_int_equal(out, B);
  assert_int_equal(p.n, n);
  assert_in_range(kv_budget_probes(from, most), n, most);
  assert_memory_equal(p.at, sequence, (size_t)n * sizeof *sequence);
  if (want) must_say("bytes");
}

TEST(search_sequence) {
  searched("end:20%", 1, 100, linear, KV_OK, 20, 5,
           (int[]){100, 1, 20, 60, 21});
  searched("end:100%", 4, 100, linear, KV_OK, 100, 1, (int[]){100});
  searched("end:1%", 4, 100, linear, KV_REFUSED, -1, 2, (int[]){100, 4});
  searched("end:20%", 1, 100, jumps, KV_OK, 99, 9,
           (int[]){100, 1, 20, 60, 73, 86, 95, 98, 99});
  searched("end:20%", 7, 7, linear, KV_OK, 7, 1, (int[]){7});
  searched("end:1%", 7, 7, linear, KV_REFUSED, -1, 1, (int[]){7});
  searched("end:20%", 9, 7, linear, KV_OK, 9, 1, (int[]){9});
  searched("end:20%", 30, 7, linear, KV_REFUSED, -1, 1, (int[]){30});
}

/* Steps of 32 places, a cost that rises late, and one that rises early. */
static int64_t steps(int n) { return 10 * (n / 32 * 32); }
static int64_t late(int n) { return n * n / 10; }
static int64_t early(int n) { return n < 90 ? n * 11 : 1000; }

/* The bound holds for whatever grows, and a straight line takes few. */
TEST(probes_at_most) {
  int64_t (*const cost[])(int) = {linear, steps, late, early};
  for (int most = 2; most <= 130; most++)
    for (int percent = 1; percent < 130; percent++)
      for (int i = 0; i < 4; i++) {
        kv_budget b = parsed("end:50%");
        int from = 1 + most % 3, out = -1;
        if (from > most) continue;
        b.num = percent;
        b.den = 100;
        probed p = {.cost = cost[i]};
        kv_rc rc =
            kv_budget_search(&b, from, most, "one", probe, &p, &out, &told);
        assert_in_range(p.n, 1, kv_budget_probes(from, most));
        if (i == 0) assert_in_range(p.n, 1, KV_BUDGET_USUAL);
        if (rc) continue;
        assert_true(kv_budget_fits(&b, cost[i](out), 1000));
        assert_true(out == most || !kv_budget_fits(&b, cost[i](out + 1), 1000));
      }
}

/* Sums beyond 2^53 bytes, whose excess over the budget is rounded to none. */
static int64_t vast(int n) { return (INT64_C(1) << 60) + (n > 7); }

static kv_rc vast_probe(void *self, int at, int64_t *bytes, int64_t *of_dense,
                        kv_err *e) {
  (void)self, (void)e;
  *bytes = vast(at);
  *of_dense = vast(1);
  return KV_OK;
}

TEST(search_beyond_doubles) {
  kv_budget b = parsed("end:100%");
  int out = -1;
  assert_true(kv_budget_over(&b, vast(8), vast(1)) == 0);
  assert_int_equal(
      kv_budget_search(&b, 1, 100, "one", vast_probe, NULL, &out, NULL), KV_OK);
  assert_int_equal(out, 7);
}

/* --- predicted costs ---------------------------------------------------------
 */

typedef void count(const kv_cell *c, kv_effort *out);

static int64_t counted(const kv_trace *t, const char *method, int prompt,
                       count *kinds) {
  kv_cell c = {0};
  kv_effort x;
  cells_must(kv_method_at, t, prompt, method, -1, &c);
  kinds(&c, &x);
  kv_cell_close(&c);
  return kv_effort_cost(&x);
}

static int64_t predicted(const kv_trace *t, const char *method, int prompt) {
  return counted(t, method, prompt, kv_effort_cell);
}

static int64_t shared_by(const kv_trace *t, const char *method) {
  return counted(t, method, 0, kv_effort_shared);
}

/* Nor does any shape overflow; what cells share is told apart from their own.
 */
TEST_ON(more_costs_more, bundled_setup, bundled_teardown) {
  const kv_trace *t = *state;
  kv_trace huge = *t;
  kv_effort x = {{0}};
  assert_true(predicted(t, "h2o:budget=20", 0) <
              predicted(t, "h2o:budget=120", 0));
  assert_true(predicted(t, "h2o:budget=20", 280) <
              predicted(t, "h2o:budget=20", 140));
  assert_true(predicted(t, "dense", 0) <
              predicted(t, "oracle-topk:budget=99", 0));
  assert_true(shared_by(t, "dense") < shared_by(t, "window:budget=20"));
  assert_true(shared_by(t, "window:budget=20") < shared_by(t, "h2o:budget=20"));
  kv_effort_trace(t, 0, &x);
  int64_t whole = kv_effort_cost(&x);
  kv_effort_trace(t, t->shape.n_tokens - 1, &x);
  assert_true(whole > kv_effort_cost(&x) && kv_effort_cost(&x) > 0);
  huge.shape.n_tokens = 1 << 30;
  huge.shape.prompt_len = 1 << 29;
  kv_effort_trace(&huge, 0, &x);
  assert_int_equal(kv_effort_cost(&x), KV_EFFORT_MOST);
  assert_int_equal(predicted(&huge, "zsmerge:budget=4096", 0), KV_EFFORT_MOST);
}

int main(void) { return tests_run("budget", scratch_make, scratch_remove); }
