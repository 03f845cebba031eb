/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards: which one a process is, what may be typed, how files of shards are
 * called, and what the environment may say, in any order of its variables. How
 * a run is cut into them: every cell has one, what a shard costs is what its
 * cells cost, the dearest is not much dearer than it need be, and the same
 * costs give the same cut; the batches of all shards together are the batch of
 * the whole run, whatever the kernels.
 */
#include "sim/run/sweep/cut.h"
#include "sim/run/sweep/shard.h"
#include "sim/run/sweep/shares.h"
#include "tests/support/bundled.h"
#include "tests/support/draw.h"
#include "tests/support/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- as typed ----------------------------------------------------------- */

TEST(typed) {
  static const char *const wrong[] = {
      "",     "4",    "/4",    "1/",    "0/4", "5/4",   "1/0",     "-1/4",
      "1/4x", "+1/4", "1 / 4", "1/4/2", "a/b", "1.0/4", "1/10001", "1of4"};
  kv_shard s = {0};
  kv_err e = {0};
  assert_int_equal(kv_shard_parse("2/4", &s, &e), KV_OK);
  assert_true(s.index == 2 && s.count == 4);
  assert_int_equal(kv_shard_parse("10000/10000", &s, &e), KV_OK);
  assert_true(s.index == 10000 && s.count == 10000);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    e = (kv_err){0};
    s = (kv_shard){7, 7};
    if (kv_shard_parse(wrong[i], &s, &e) != KV_USAGE)
      fail_msg("'%s' was taken", wrong[i]);
    assert_non_null(strstr(e.text, "--shard"));
    assert_true(s.index == 7 && s.count == 7);
  }
}

TEST(names) {
  static const struct {
    const char *pattern, *path;
    bool tells;
  } of[] = {{"r.%.db", "r.2-of-16.db", true},
            {"%", "2-of-16", true},
            {"a%b%", "a2-of-16b2-of-16", true},
            {"r.db", "r.db", false},
            {"r%%.db", "r%.db", false},
            {"%%%", "%2-of-16", true},
            {"", "", false}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char *path = kv_shard_path(of[i].pattern, (kv_shard){2, 16});
    assert_string_equal(path, of[i].path);
    assert_int_equal(kv_shard_distinct(of[i].pattern), of[i].tells);
    free(path);
  }
}

/* --- from the environment ----------------------------------------------- */

enum { VARIABLES = 8 };
static const char *set[VARIABLES]; /* "NAME=VALUE", or NULL */

static char *lookup(const char *name) {
  size_t n = strlen(name);
  for (int i = 0; i < VARIABLES; i++)
    if (set[i] && !strncmp(set[i], name, n) && set[i][n] == '=')
      return (char *)set[i] + n + 1;
  return NULL;
}

/* An environment, and the shard that it means: 0: it is refused, by a sentence
 * that has `said`. */
typedef struct world {
  int shards, shard;
  const char *said;
  const char *set[VARIABLES];
} world;

#define SLURM(id, count, min)                                                  \
  "SLURM_ARRAY_TASK_ID=" id, "SLURM_ARRAY_TASK_COUNT=" count,                  \
      "SLURM_ARRAY_TASK_MIN=" min
#define OMPI(rank, size)                                                       \
  "OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=" size
#define PMI(rank, size) "PMI_RANK=" rank, "PMI_SIZE=" size

static const world worlds[] = {
    {4, 0, "no task index", {"HOME=/"}},
    {4, 1, "", {SLURM("1", "4", "1")}},
    {4, 4, "", {SLURM("4", "4", "1")}},
    {4, 1, "", {SLURM("0", "4", "0")}},
    {4, 4, "", {SLURM("3", "4", "0")}},
    {4, 3, "", {SLURM("12", "4", "10")}},
    {4, 3, "", {SLURM("7", "4", "3"), "SLURM_ARRAY_TASK_STEP=2"}},
    {4, 0, "_ID is 6", {SLURM("6", "4", "3"), "SLURM_ARRAY_TASK_STEP=2"}},
    {4, 0, "_ID is 0", {SLURM("0", "4", "1")}},
    {4, 0, "--array=1-4", {SLURM("9", "4", "1")}},
    {4, 0, "_COUNT is 8", {SLURM("1", "8", "1")}},
    {4, 0, "_COUNT is 1", {SLURM("2", "1", "2")}},
    {4, 0, "_ID is x", {SLURM("x", "4", "1")}},
    {4, 0, "_ID is empty", {SLURM("", "4", "1")}},
    {4, 0, "_ID is -1", {SLURM("-1", "4", "1")}},
    {4, 1, "", {"PBS_ARRAY_INDEX=1"}},
    {4, 4, "", {"PBS_ARRAY_INDEX=4"}},
    {4, 0, "qsub -J 1-4", {"PBS_ARRAY_INDEX=0"}},
    {4, 0, "qsub -J 1-4", {"PBS_ARRAY_INDEX=5"}},
    {4, 1, "", {OMPI("0", "4")}},
    {4, 4, "", {OMPI("3", "4")}},
    {4, 0, "OMPI_COMM_WORLD_SIZE is 3", {OMPI("0", "3")}},
    {4, 0, "OMPI_COMM_WORLD_SIZE is 1", {OMPI("0", "1")}},
    {4, 2, "", {PMI("1", "4")}},
    {4, 0, "PMI_SIZE is 5", {PMI("1", "5")}},
    {4, 1, "", {"JOB_COMPLETION_INDEX=0"}},
    {4, 4, "", {"JOB_COMPLETION_INDEX=3"}},
    {4, 0, "completions: 4 of", {"JOB_COMPLETION_INDEX=4"}},
    {1, 1, "", {OMPI("0", "1"), PMI("0", "1")}},
    /* Two that agree, two that do not, and one that counts a single task. */
    {4, 2, "", {OMPI("1", "4"), PMI("1", "4")}},
    {4,
     0,
     "means shard 2 but PMI_RANK shard 3",
     {PMI("2", "4"), OMPI("1", "4")}},
    {4, 3, "", {SLURM("3", "4", "1"), PMI("0", "1")}},
    {4, 3, "", {PMI("0", "1"), SLURM("3", "4", "1")}},
    {4, 0, "PMI_SIZE is 2", {SLURM("3", "4", "1"), PMI("0", "2")}},
    {4, 0, "means shard", {SLURM("3", "4", "1"), "JOB_COMPLETION_INDEX=0"}}};

TEST(environments) {
  for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
    const world *w = &worlds[i];
    for (int turn = 0; turn < VARIABLES; turn++) { /* in any order */
      kv_shard s = {0};
      for (int j = 0; j < VARIABLES; j++)
        set[(j + turn) % VARIABLES] = w->set[j];
      kv_rc rc = kv_shard_find(w->shards, lookup, &s, &told);
      if (rc != (w->shard ? KV_OK : KV_USAGE) || s.index != w->shard)
        fail_msg("world %zu: %d, shard %d: %s", i, rc, s.index, told.text);
      must_say(w->said);
    }
  }
}

/* --- cuts --------------------------------------------------------------- */

/* --- the cut ------------------------------------------------------------ */

enum { CELLS = 120, TRACES = 6, SHARDS = 160 };

typedef struct sweep {
  int cells, traces;
  kv_cut_cell cell[CELLS];
  int64_t shared[TRACES];
} sweep;

static sweep drawn(uint64_t *seed, int cells, int traces, int most_shared) {
  sweep s = {.cells = cells, .traces = traces};
  for (int i = 0; i < traces; i++)
    s.shared[i] = draw_below(seed, most_shared + 1);
  for (int i = 0; i < cells; i++)
    s.cell[i] = (kv_cut_cell){draw_below(seed, traces), draw_below(seed, 1000),
                              draw_below(seed, most_shared + 1)};
  return s;
}

/* What shard `at` costs, by the definition. */
static int64_t cost_of(const sweep *s, const int *shard, int at) {
  int64_t cost = 0;
  for (int t = 0; t < s->traces; t++) {
    int64_t most = -1;
    for (int i = 0; i < s->cells; i++) {
      const kv_cut_cell *c = &s->cell[i];
      if (c->trace != t || shard[i] != at) continue;
      cost += c->own;
      if (c->shared > most) most = c->shared;
    }
    if (most >= 0) cost += s->shared[t] + most;
  }
  return cost;
}

static int64_t largest(int n, const int64_t *cost) {
  int64_t most = 0;
  for (int i = 0; i < n; i++)
    if (cost[i] > most) most = cost[i];
  return most;
}

static int64_t cut(const sweep *s, int shards, int *shard, int64_t *cost) {
  works(kv_cut(s->cells, s->cell, s->traces, s->shared, shards, shard, cost,
               &told));
  return largest(shards, cost);
}

TEST(a_cut_is_a_partition) {
  uint64_t seed = 11;
  int shard[CELLS], twice[CELLS];
  int64_t cost[SHARDS], again[SHARDS];
  for (int round = 0; round < 200; round++) {
    int cells = draw_below(&seed, CELLS) + 1, n = draw_below(&seed, SHARDS) + 1;
    sweep s = drawn(&seed, cells, draw_below(&seed, TRACES) + 1, round * 5);
    for (int i = 0; i < CELLS; i++) shard[i] = twice[i] = -1;
    cut(&s, n, shard, cost);
    cut(&s, n, twice, again);
    assert_memory_equal(shard, twice, sizeof shard);
    for (int i = 0; i < CELLS; i++)
      assert_true(i < cells ? shard[i] >= 0 && shard[i] < n : shard[i] == -1);
    for (int i = 0; i < n; i++)
      assert_int_equal(cost[i], cost_of(&s, shard, i));
  }
}

/* Every way to deal few cells out: the least that the dearest shard costs. */
static int64_t best(const sweep *s, int shards, int at, int *shard) {
  int64_t least = INT64_MAX, most = 0;
  if (at == s->cells) {
    for (int i = 0; i < shards; i++) {
      int64_t cost = cost_of(s, shard, i);
      if (cost > most) most = cost;
    }
    return most;
  }
  for (int i = 0; i < shards; i++) {
    shard[at] = i;
    int64_t cost = best(s, shards, at + 1, shard);
    if (cost < least) least = cost;
  }
  return least;
}

TEST(a_cut_is_near_the_best) {
  uint64_t seed = 5;
  int64_t found = 0, least = 0;
  for (int round = 0; round < 60; round++) {
    int shard[CELLS], n = 2 + round % 2;
    int64_t cost[SHARDS];
    sweep s = drawn(&seed, 7, 1 + round % 3, round % 4 * 200);
    int64_t got = cut(&s, n, shard, cost), can = best(&s, n, 0, shard);
    assert_true(got >= can && got <= can + can / 3);
    found += got;
    least += can;
  }
  assert_true(found <= least + least / 25);
}

/* Many cells: all shards cost alike, and little is paid more than once. */
TEST(many_cells_are_even) {
  uint64_t seed = 3;
  int shard[CELLS];
  int64_t cost[SHARDS], all = 0;
  sweep s = drawn(&seed, CELLS, 4, 300);
  cut(&s, 1, shard, cost);
  int64_t alone = cost[0], most = cut(&s, 4, shard, cost);
  for (int i = 0; i < 4; i++) all += cost[i];
  assert_true(most * 4 <= all + all / 50);
  assert_true(all <= alone + alone / 20);
  /* More shards than cells: as dear as the dearest cell, some without any. */
  most = cut(&s, SHARDS, shard, cost);
  int64_t dearest = 0;
  for (int i = 0; i < CELLS; i++) {
    const kv_cut_cell *c = &s.cell[i];
    int64_t one = c->own + c->shared + s.shared[c->trace];
    if (one > dearest) dearest = one;
  }
  assert_int_equal(most, dearest);
}

/* Equal cells: the order of the command line decides, not the sort. */
TEST(equal_cells_keep_their_order) {
  int shard[CELLS];
  int64_t cost[SHARDS];
  sweep s = {.cells = 12, .traces = 2, .shared = {5, 5}};
  for (int i = 0; i < 12; i++) s.cell[i] = (kv_cut_cell){i / 6, 10, 0};
  cut(&s, 2, shard, cost);
  for (int i = 0; i < 12; i++) assert_int_equal(shard[i], i / 6);
}

/* A small cell goes where its trace is, not where there is more room. */
TEST(a_trace_is_paid_once) {
  int shard[CELLS];
  int64_t cost[SHARDS];
  sweep s = {
      .cells = 5,
      .traces = 2,
      .shared = {0, 20},
      .cell = {{0, 100, 0}, {0, 60, 0}, {1, 70, 0}, {1, 5, 0}, {1, 5, 0}}};
  assert_int_equal(cut(&s, 3, shard, cost), 100);
  assert_int_equal(cost[0] + cost[1] + cost[2], 260);
}

/* Of few cells the dearest are dealt first: 6 + 1, 5 + 2 and 4 + 3 hundred. */
TEST(few_cells_are_even) {
  int shard[CELLS];
  int64_t cost[SHARDS];
  sweep s = {.cells = 6, .traces = 1};
  for (int i = 0; i < 6; i++) s.cell[i] = (kv_cut_cell){0, 100 + 100 * i, 0};
  assert_int_equal(cut(&s, 3, shard, cost), 700);
}

/* Of many cells the dear ones fall on all shards alike: none has all that are
 * predicted badly. */
TEST(dear_cells_are_spread) {
  int shard[CELLS], dear[4] = {0}, half = CELLS / 2;
  int64_t cost[SHARDS];
  sweep s = {.cells = CELLS, .traces = 1};
  for (int i = 0; i < CELLS; i++) s.cell[i] = (kv_cut_cell){0, 100 + i, 0};
  int64_t most = cut(&s, 4, shard, cost), all = 0;
  for (int i = 0; i < 4; i++) all += cost[i];
  for (int i = half; i < CELLS; i++) dear[shard[i]]++;
  for (int i = 0; i < 4; i++) assert_true(dear[i] >= 12 && dear[i] <= 18);
  assert_true(4 * most <= all + all / 50);
}

/* --- of a trace --------------------------------------------------------- */

static char *path, *other; /* of bundled traces */

static void parsed(const char *methods, const char *budgets, kv_specs *specs,
                   kv_budgets *list) {
  if (kv_specs_add(kv_method_at, methods, specs, &told) ||
      (*budgets && kv_budgets_add(budgets, list, &told)))
    fail_msg("%s", told.text);
}

static kv_batch_ask ask_of(const kv_specs *specs, const kv_budgets *budgets,
                           const char *kernels) {
  kv_batch_ask ask = {.path = path, .specs = specs, .budgets = budgets};
  ask.how = (kv_replay_how){.backend = &kv_backend_ref, .threads = 1};
  works(kv_kernels_named(kernels, &ask.how.kernels, NULL, &told));
  return ask;
}

/* Opens the batches of all shards: together the cells of `whole`, each once and
 * in its order. */
static void together(kv_batch_ask ask, const kv_shares *s,
                     const kv_batch *whole) {
  int *next = calloc((size_t)s->shards + 1, sizeof *next), seen = 0;
  kv_batch *part = calloc((size_t)s->shards + 1, sizeof *part);
  assert_true(next && part);
  ask.shard = s->shard;
  for (int i = 1; i <= s->shards; i++) {
    ask.mine = i;
    works(kv_batch_open(&ask, &part[i], &told));
    assert_int_equal(part[i].cells, kv_shares_count(s, 0, i));
    seen += part[i].cells;
  }
  assert_int_equal(seen, whole->cells);
  assert_int_equal(seen, s->cells);
  for (int c = 0; c < whole->cells; c++) {
    const kv_result *r = &part[s->shard[c]].cell[next[s->shard[c]]++].result;
    assert_string_equal(r->spec, whole->cell[c].result.spec);
    assert_string_equal(r->target, whole->cell[c].result.target);
  }
  for (int i = 1; i <= s->shards; i++) kv_batch_close(&part[i]);
  free(next);
  free(part);
}

TEST(batches_of_shards) {
  static const int shards[] = {1, 2, 3, 7, 200};
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_batch whole;
  const char *const paths[] = {path};
  parsed("all", "20,10%,64/32/16/8", &specs, &budgets);
  kv_batch_ask ask = ask_of(&specs, &budgets, "portable");
  works(kv_batch_open(&ask, &whole, &told));
  for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
    kv_shares s, same;
    kv_batch_ask best = ask;
    best.how.kernels = kv_kernels_best();
    if (kv_shares_open(&ask, 1, paths, shards[i], &s, &told) ||
        kv_shares_open(&best, 1, paths, shards[i], &same, &told))
      fail_msg("%s", told.text);
    assert_string_equal(s.name, same.name);
    assert_int_equal(strlen(s.name), 8);
    together(ask, &s, &whole);
    kv_shares_close(&s);
    kv_shares_close(&same);
  }
  kv_batch_close(&whole);
  kv_specs_free(&specs);
  kv_budgets_free(&budgets);
}

/* A search for bytes is weighed, not made; a cell that is refused is dealt out
 * and costs nothing. */
TEST(searches_and_refusals) {
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_shares s;
  const char *const paths[] = {path, path};
  parsed("h2o,snapkv:window=32", "24,mean:30%", &specs, &budgets);
  kv_batch_ask ask = ask_of(&specs, &budgets, "portable");
  works(kv_shares_open(&ask, 2, paths, 2, &s, &told));
  assert_int_equal(s.cells, 8);
  assert_true(s.own[1] > s.own[0] && s.own[0] > 0); /* h2o: found, typed */
  assert_int_equal(s.own[2], 0); /* 24 entries, 32 of window */
  assert_true(s.own[3] > 0);
  assert_int_equal(s.can[0] + s.can[1], 6);
  assert_true(s.alone > 0 && s.cost[0] + s.cost[1] >= s.alone);
  kv_shares_close(&s);
  const char *const bad[] = {path, "/nowhere/at.all"};
  fails(kv_shares_open(&ask, 2, bad, 2, &s, &told), KV_INPUT,
        "split into shards");
  kv_shares_close(&s);
  kv_specs_free(&specs);
  kv_budgets_free(&budgets);
}

/* A pattern of the shell lists files as the locale has it: the cut does not
 * hang on it. */
TEST(any_order_of_traces) {
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_shares s, turned;
  const char *const paths[] = {path, other}, *const back[] = {other, path};
  parsed("all", "20,40", &specs, &budgets);
  kv_batch_ask ask = ask_of(&specs, &budgets, "portable");
  if (kv_shares_open(&ask, 2, paths, 3, &s, &told) ||
      kv_shares_open(&ask, 2, back, 3, &turned, &told))
    fail_msg("%s", told.text);
  assert_string_equal(s.name, turned.name);
  assert_memory_equal(s.cost, turned.cost, 3 * sizeof *s.cost);
  size_t half = (size_t)s.first[1] * sizeof *s.shard;
  assert_memory_equal(s.shard, turned.shard + turned.first[1], half);
  assert_memory_equal(s.shard + s.first[1], turned.shard, half);
  kv_shares_close(&s);
  kv_shares_close(&turned);
  kv_specs_free(&specs);
  kv_budgets_free(&budgets);
}

static int open_trace(void **state) {
  path = bundled_path(BUNDLED_SMALL);
  other = bundled_path("retrieval_8_small.f32.safetensors");
  return bundled_setup(state);
}

static int close_trace(void **state) {
  free(path);
  free(other);
  return bundled_teardown(state);
}

int main(void) { return tests_run("shard", open_trace, close_trace); }
