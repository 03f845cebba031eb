/* SPDX-License-Identifier: Apache-2.0
 *
 * All methods in one pass over a trace against the dearest of them alone, and
 * on two threads; the replay of ./quickstart. The oracle's exact attention is
 * in every run. What is timed is compared first: alone, together and on two
 * threads every digest is the same.
 * The list of ./quickstart in four shards, one after another, against the same
 * in one process: how unevenly the processor time falls on them, which is what
 * a cluster waits for, and what all of them take together, which it pays.
 */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <string.h>

void theme_pass(const bench *b) {
  static row_set all, one;
  int prompt = b->small ? 1024 : 8192, steps = b->small ? 64 : 256;
  double dearest = 0;
  char name[64];
  bench_synth(b, "8,24", prompt, steps);
  bench_theme(b, "a trace of 2 layers, -b 10%, one thread", "dearest");
  child pass = bench_replay(b, (replay){.methods = "all", .threads = 1}, &all);
  for (int i = 0; i < all.n; i++) {
    const char *spec = all.row[i].spec;
    child c = bench_replay(b, (replay){.methods = spec, .threads = 1}, &one);
    bench_same(&all, &one.row[0]);
    snprintf(name, sizeof name, "%.*s alone", (int)strcspn(spec, ":"), spec);
    bench_line(b, (line){.what = name, .unit = "s", .value = c.cpu});
    if (c.cpu > dearest) dearest = c.cpu;
  }
  bench_line(b, (line){.what = "all in one pass, against the dearest alone",
                       .unit = "s",
                       .value = pass.cpu,
                       .peer = dearest,
                       .high = 3});
  bench_theme(b, "the same pass on two threads, wall clock", "");
  child two = bench_replay(b, (replay){.methods = "all", .threads = 2}, &one);
  for (int i = 0; i < one.n; i++) bench_same(&all, &one.row[i]);
  bench_line(b, (line){.what = "one thread", .unit = "s", .value = pass.wall});
  bench_line(b, (line){.what = "two threads", .unit = "s", .value = two.wall});
  bench_line(b, (line){.what = "speedup on two idle cores",
                       .unit = "x",
                       .value = pass.wall / two.wall,
                       .low = 1.8});
}

/* The traces that ./quickstart replays (of one small trace if b->small) into
 * path[BUNDLED]; returns how many. */
enum { BUNDLED = 8 };
typedef struct path_text {
  char text[512];
} path_text;

static int bundled(const bench *b, path_text *path) {
  char list[512], name[256];
  int n = 0;
  snprintf(list, sizeof list, "%s/traces/quick.txt", b->source);
  FILE *f = b->small ? NULL : fopen(list, "r");
  if (b->small) {
    snprintf(path[n++].text, sizeof path->text,
             "%s/traces/tiny/retrieval_8_small.safetensors", b->source);
    return n;
  }
  if (!f) bench_fail("the list of traces is not at %s", list);
  while (n < BUNDLED && fgets(name, sizeof name, f)) {
    name[strcspn(name, "\n")] = 0;
    if (name[0] && name[0] != '#')
      snprintf(path[n++].text, sizeof path->text, "%s/traces/%s", b->source,
               name);
  }
  fclose(f);
  return n;
}

/* Seconds by the clock of the replay of ./quickstart at these budgets, into a
 * new database, or, twice, of the second one in the same; the small one is of
 * one trace at 20 %. */
static double replayed(const bench *b, const char *budgets, bool twice) {
  enum { FIRST = 11 };
  static path_text path[BUNDLED];
  char db[512], list[128], *argv[FIRST + BUNDLED + 1];
  char *fixed[FIRST] = {"sim/kvreplay", "run", "--methods", "all",
                        "--budget",     list,  "--db",      db,
                        "--quiet",      "--",  NULL};
  int n = bundled(b, path);
  memcpy(argv, fixed, sizeof fixed);
  snprintf(db, sizeof db, "%s/bundled.db", b->folder);
  snprintf(list, sizeof list, "%s", b->small ? "20%" : budgets);
  if (twice)
    argv[FIRST - 2] = "--twice";
  else
    remove(db);
  for (int i = 0; i < n; i++) argv[FIRST - 1 + i] = path[i].text;
  argv[FIRST - 1 + n] = NULL;
  return bench_command(b, argv).wall;
}

void theme_bundled(const bench *b) {
  bench_theme(b, "the traces of ./quickstart, every method", "");
  double once =
      replayed(b, "mean:10%,mean:20%,mean:40%,traffic:20%,traffic:40%", false);
  double again = replayed(b, "mean:10%", true);
  bench_line(b, (line){.what = b->small ? "one trace, -b 20%"
                                        : "its list, as ./quickstart does",
                       .unit = "s",
                       .value = once});
  bench_line(b, (line){.what = "and the first budget once more",
                       .unit = "s",
                       .value = once + again,
                       .high = 180});
}

/* --- in shards ----------------------------------------------------------- */

enum { SHARDS = 4, FIRST = 15 };

/* Median processor time of a process that runs the shard "I/N" of the list. */
static double seconds(const bench *b, int n, path_text *path, char *shard) {
  char db[512], *argv[FIRST + BUNDLED + 1];
  char *fixed[FIRST] = {"sim/kvreplay", "run",         "--methods", "all",
                        "--budget",     "10%,20%,40%", "--jobs",    "1",
                        "--quiet",      "--db",        db,          "--shard",
                        shard,          "--",          NULL};
  double cpu[BENCH_MOST_RUNS];
  memcpy(argv, fixed, sizeof fixed);
  for (int i = 0; i < n; i++) argv[FIRST - 1 + i] = path[i].text;
  argv[FIRST - 1 + n] = NULL;
  snprintf(db, sizeof db, "%s/shard.db", b->folder);
  for (int i = 0; i < b->runs; i++) {
    remove(db);
    cpu[i] = bench_command(b, argv).cpu;
  }
  remove(db);
  return bench_median(b->runs, cpu);
}

void theme_shards(const bench *b) {
  static path_text path[BUNDLED];
  int n = bundled(b, path);
  double most = 0, sum = 0;
  char name[32], alone[] = "1/1";
  bench_theme(b, "the list of ./quickstart in four shards, processor time",
              "peer");
  for (int i = 1; i <= SHARDS; i++) {
    char shard[16];
    snprintf(shard, sizeof shard, "%d/%d", i, SHARDS);
    snprintf(name, sizeof name, "shard %s", shard);
    double s = seconds(b, n, path, shard);
    bench_line(b, (line){.what = name, .unit = "s", .value = s});
    sum += s;
    if (s > most) most = s;
  }
  double mean = sum / SHARDS, one = seconds(b, n, path, alone);
  bench_line(b, (line){.what = "imbalance: (largest - mean) / mean",
                       .unit = "%",
                       .value = 100 * (most - mean) / mean,
                       .high = 5});
  bench_line(b, (line){.what = "all shards, against one process",
                       .unit = "s",
                       .value = sum,
                       .peer = one});
}
