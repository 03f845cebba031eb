/* SPDX-License-Identifier: Apache-2.0
 *
 * A sweep in four shards, one after another, against the same in one process:
 * how unevenly the processor time falls on them, which is what a cluster waits
 * for, and what all of them take together, which it pays. The traces are those
 * of ./quickstart, every method, three budgets, one thread, with databases.
 */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <string.h>

enum { SHARDS = 4, FIRST = 15 };

/* Median processor time of a process that runs the shard "I/N" of the list. */
static double seconds(const bench *b, int n, bench_path *path, char *shard) {
  char db[512], *argv[FIRST + BENCH_BUNDLED + 1];
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
  static bench_path path[BENCH_BUNDLED];
  int n = bench_bundled(b, path);
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
