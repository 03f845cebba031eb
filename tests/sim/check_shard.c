/* SPDX-License-Identifier: Apache-2.0
 *
 * Which shard a process is: what may be typed, how files of shards are called,
 * and what the environment may say, in any order of its variables.
 */
#include "sim/run/sweep/shard.h"
#include "tests/support/test.h"

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
     "means shard 2 and PMI_RANK shard 3",
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
      kv_err e = {0};
      for (int j = 0; j < VARIABLES; j++)
        set[(j + turn) % VARIABLES] = w->set[j];
      kv_rc rc = kv_shard_find(w->shards, lookup, &s, &e);
      if (rc != (w->shard ? KV_OK : KV_USAGE) || s.index != w->shard)
        fail_msg("world %zu: %d, shard %d: %s", i, rc, s.index, e.text);
      if (!strstr(e.text, w->said)) fail_msg("world %zu: %s", i, e.text);
    }
  }
}

int main(void) { return tests_run("shard", NULL, NULL); }
