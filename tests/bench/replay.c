/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole replays under the clock, as processes: how much dearer all methods in
 * one pass are than the dearest alone, two threads against one, anonymous
 * memory against its bound, how time grows with tokens, and the replay of
 * ./quickstart. Traces are synthetic, made in a temporary folder that goes
 * when the program ends. Goals are printed, not enforced: a busy machine gives
 * no verdict, so every theme prints the load that it found.
 *
 * usage: replay [--csv] [--small] [--runs N] [--theme NAME] BUILD SOURCE
 *   --csv     one line a number: what,value,unit,peer,ratio,low,high,verdict
 *   --small   short traces, one run: under a minute
 *   --runs N  medians are of N runs (3)
 *   --theme   one of pass, attend, growth, compress, memory, serial,
 *             session, shards, bundled, compact, codes, trigger, latents,
 *             pack, slim, queue, chunked
 *   BUILD     top folder of the build, SOURCE: of the sources
 * TMPDIR (/tmp) must have 2 GiB free, 300 MiB with --small.
 */
#include "tests/bench/bench.h"

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include <dirent.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static bench b = {.runs = 3};

static void remove_folder(void) {
  char path[sizeof b.folder + 256];
  DIR *d = b.folder[0] ? opendir(b.folder) : NULL;
  for (struct dirent *f; d && (f = readdir(d)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", b.folder, f->d_name);
    if (f->d_name[0] != '.') remove(path);
  }
  if (d) closedir(d);
  if (b.folder[0]) rmdir(b.folder);
}

static void make_folder(void) {
  const char *parent = getenv("TMPDIR");
  struct statvfs disk;
  double need = b.small ? 0.3 : 2.0;
  if (!parent || !*parent) parent = "/tmp";
  if (statvfs(parent, &disk) != 0) bench_fail("there is no folder %s", parent);
  double have = (double)disk.f_bavail * (double)disk.f_frsize / 0x1p30;
  if (have < need)
    bench_fail("%s has %.1f GiB free and the traces need %.1f; free some or "
               "set TMPDIR",
               parent, have, need);
  if ((size_t)snprintf(b.folder, sizeof b.folder, "%s/kvbench.XXXXXX",
                       parent) >= sizeof b.folder ||
      !mkdtemp(b.folder)) {
    b.folder[0] = 0;
    bench_fail("cannot make a folder in %s", parent);
  }
  atexit(remove_folder);
}

static const struct {
  const char *name;
  void (*run)(const bench *b);
} theme[] = {{"pass", theme_pass},       {"attend", theme_attend},
             {"growth", theme_growth},   {"compress", theme_compress},
             {"memory", theme_memory},   {"serial", theme_serial},
             {"session", theme_session}, {"shards", theme_shards},
             {"bundled", theme_bundled}, {"compact", theme_compact},
             {"codes", theme_codes},     {"trigger", theme_trigger},
             {"latents", theme_latents}, {"pack", theme_pack},
             {"slim", theme_slim},       {"queue", theme_queue},
             {"chunked", theme_chunked}};
enum { THEMES = sizeof theme / sizeof *theme };

static int usage(void) {
  fputs("usage: replay [--csv] [--small] [--runs N] [--theme NAME] BUILD "
        "SOURCE\n",
        stderr);
  return KV_USAGE;
}

int main(int argc, char **argv) {
  static const struct option option[] = {
      {"csv", no_argument, NULL, 'c'},
      {"small", no_argument, NULL, 's'},
      {"runs", required_argument, NULL, 'r'},
      {"theme", required_argument, NULL, 't'},
      {NULL, 0, NULL, 0}};
  const char *only = NULL;
  bool known = false;
  for (int o; (o = getopt_long(argc, argv, "", option, NULL)) != -1;) {
    if (o == 'c') b.csv = true;
    if (o == 's') b.small = true, b.runs = 1;
    if (o == 'r') b.runs = atoi(optarg);
    if (o == 't') only = optarg;
    if (o == '?') return usage();
  }
  for (int i = 0; i < THEMES; i++)
    known = known || !only || strcmp(only, theme[i].name) == 0;
  if (argc - optind != 2 || b.runs < 1 || b.runs > 15 || !known) return usage();
  b.build = argv[optind];
  b.source = argv[optind + 1];
  kv_float_ground();
  signal(SIGINT, SIG_IGN); /* the process that runs takes it, and we clean up */
  make_folder();
  if (b.csv) puts("what,value,unit,peer,ratio,low,high,verdict");
  for (int i = 0; i < THEMES; i++)
    if (!only || strcmp(only, theme[i].name) == 0) theme[i].run(&b);
  return KV_OK;
}
