/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands in this process: tests/support/program/command.h.
 */
#include "tests/support/program/command.h"

#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 24 };

char heard[COMMAND_LENGTH], said[COMMAND_LENGTH];

/* A stream that goes to a file for a while. */
typedef struct turned {
  FILE *stream;
  int kept; /* where it went before */
  char path[512];
} turned;

static turned turn(FILE *stream, const char *name) {
  turned t = {.stream = stream};
  snprintf(t.path, sizeof t.path, "%s", scratch_path(name));
  int to = open(t.path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  fflush(stream);
  t.kept = dup(fileno(stream));
  assert_true(to >= 0 && t.kept >= 0);
  dup2(to, fileno(stream));
  close(to);
  return t;
}

static void turn_back(const turned *t, char text[COMMAND_LENGTH]) {
  fflush(t->stream);
  dup2(t->kept, fileno(t->stream));
  close(t->kept);
  FILE *f = fopen(t->path, "r");
  assert_non_null(f);
  text[fread(text, 1, COMMAND_LENGTH - 1, f)] = 0;
  fclose(f);
}

int command_call(command *f, const char *const *words) {
  char *argv[MOST + 1] = {NULL};
  int argc = 0;
  for (; argc < MOST && words[argc]; argc++)
    argv[argc] = (char *)(uintptr_t)words[argc];
  assert_null(words[argc]);
  turned out = turn(stdout, "out"), err = turn(stderr, "err");
  int code = f(argc, argv);
  turn_back(&out, heard);
  turn_back(&err, said);
  return code;
}

int command_line(command *f, const char *const *words, const char *format,
                 va_list more) {
  const char *all[MOST + 1] = {NULL};
  char line[4096], *save = NULL;
  int n = 0;
  for (; n < MOST && words[n]; n++) all[n] = words[n];
  assert_in_range(vsnprintf(line, sizeof line, format, more), 0,
                  sizeof line - 1);
  for (char *w = strtok_r(line, " ", &save); w;
       w = strtok_r(NULL, " ", &save)) {
    assert_true(n < MOST);
    all[n++] = w;
  }
  return command_call(f, all);
}

static void wrong(int code, int got, const char *text) {
  fail_msg("exit %d, not %d, or no '%s': %s%s", got, code, text, heard, said);
}

void must(int code, int got, const char *text) {
  if (code != got || !strstr(heard, text)) wrong(code, got, text);
}

void refused(int code, int got, const char *text) {
  if (code != got || heard[0] || !strstr(said, text) ||
      strchr(said, '\n') != said + strlen(said) - 1)
    wrong(code, got, text);
}

int64_t number_in(const char *path, const char *sql) {
  sqlite3 *db = NULL;
  sqlite3_stmt *s = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(s), SQLITE_ROW);
  int64_t n = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  sqlite3_close(db);
  return n;
}
