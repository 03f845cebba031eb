/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/verbs.h"
#include "analysis/say.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const kv_flag kv_flags[] = {
    {'f', "format", "FORMAT", "table, csv, json or jsonl"},
    {'w', "where", "NAME=VALUE,...",
     "only rows whose column has that value: trace, method, asked, ..."},
    {'o', "output", "FILE", "write there, - for standard output"},
    {'h', "help", NULL, "this text"},
    {'V', "version", NULL, "version, commit and compiler"},
    {0, NULL, NULL, NULL}};

const kv_verb kv_verbs[] = {
    {"table", "DB [--format FORMAT] [--where NAME=VALUE,...]",
     "what every cell gave: asked, kept, bytes, error", "fwo",
     "kvreport table results.db --where trace=retrieval_28", 1, 1,
     kv_verb_table},
    {"html", "DB -o FILE", "one page with figures, tables and their data", "o",
     "kvreport html results.db -o report.html", 1, 1, kv_verb_html},
    {"export", "DB [--format csv|jsonl] [-o FOLDER]",
     "every view as a file, or the cells to stdout", "fo",
     "kvreport export results.db --format csv -o data", 1, 1, kv_verb_export},
    {"history", "DB [--format FORMAT]",
     "every run there was, superseded ones and conflicts too", "fwo",
     "kvreport history results.db", 1, 1, kv_verb_history},
    {"merge", "OUT DB...",
     "all results in one database; refuses what contradicts", "",
     "kvreport merge all.db machine-a.db machine-b.db", 2, 1 << 20,
     kv_verb_merge},
    {NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

bool kv_output_is_stdout(const char *path) {
  return !path || !strcmp(path, "-");
}

/* Where a file is written until it is whole: beside it. NULL for what is
 * there and no regular file (a device, a pipe, a link such as /dev/stdout,
 * which a rename would replace): it is written to as it is and never
 * removed. */
static char *beside(const char *path, char part[PATH_MAX]) {
  struct stat st;
  if (!lstat(path, &st) && !S_ISREG(st.st_mode)) return NULL;
  snprintf(part, PATH_MAX, "%s.%ld.part", path, (long)getpid());
  return part;
}

FILE *kv_output_open(const char *path) {
  char part[PATH_MAX];
  const char *to;
  FILE *f;
  if (kv_output_is_stdout(path)) return stdout;
  to = beside(path, part);
  f = fopen(to ? to : path, "w");
  if (!f)
    kv_say(KV_EXIT_RESOURCE, "cannot write %s: %s", path, strerror(errno));
  return f;
}

static int close_file(FILE *f, const char *path) {
  char part[PATH_MAX];
  const char *from = beside(path, part);
  int bad = ferror(f) || fflush(f) || (from && fsync(fileno(f)));
  bad |= fclose(f);
  if (!from) return bad;
  if (!bad && !kv_said()) bad = rename(from, path);
  if (bad || kv_said()) unlink(from);
  return bad;
}

int kv_output_close(FILE *f, const char *path) {
  bool whole = !kv_output_is_stdout(path);
  int bad = whole ? close_file(f, path) : fflush(f) || ferror(f);
  if (!bad) return kv_said();
  return kv_say(KV_EXIT_RESOURCE, "cannot write all of %s: %s",
                whole ? path : "stdout", strerror(errno));
}
