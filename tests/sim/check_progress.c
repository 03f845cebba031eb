/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of progress: on a terminal a bar with what is done and its part,
 * cleared at the end; many short works one after the other are told of as one
 * long work is; nothing when quiet, and nothing at once elsewhere.
 */
#define _GNU_SOURCE 1
#include "tests/support/test.h"
#include "traces/text/progress.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>
#include <poll.h>

static int ours;        /* the end of the terminal that is read */
static FILE *theirs;    /* the end that is written */
static char said[4096]; /* what was */

static int open_terminal(void **state) {
  (void)state;
  ours = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (ours < 0 || grantpt(ours) || unlockpt(ours)) return -1;
  theirs = fopen(ptsname(ours), "w");
  return theirs ? 0 : -1;
}

static int close_terminal(void **state) {
  (void)state;
  return fclose(theirs) || close(ours);
}

/* In pieces, and some time after they were written. */
static void listen_in(void) {
  size_t at = 0;
  while (at + 1 < sizeof said &&
         poll(&(struct pollfd){.fd = ours, .events = POLLIN}, 1, 200) == 1) {
    ssize_t n = read(ours, said + at, sizeof said - 1 - at);
    if (n <= 0) break;
    at += (size_t)n;
  }
  said[at] = 0;
}

static void wait_ms(long ms) {
  nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

TEST(one_work) {
  kv_progress p;
  kv_progress_start(&p, theirs, "halving", "rows", 10, false);
  wait_ms(150);
  kv_progress_add(&p, 5);
  kv_progress_end(&p);
  listen_in();
  assert_non_null(strstr(said, "halving [##########.........."));
  assert_non_null(strstr(said, "rows/s "));
  assert_memory_equal(said + strlen(said) - 4, "\r\033[K", 4);
}

/* Each is over before a bar would be drawn, were the wait to begin anew. */
TEST(short_works) {
  kv_progress p;
  char name[] = "work a";
  kv_progress_start(&p, theirs, name, "rows", 1, false);
  for (; name[5] < 'f'; name[5]++) {
    kv_progress_next(&p, 4);
    wait_ms(40);
    kv_progress_add(&p, 1);
  }
  kv_progress_end(&p);
  listen_in();
  assert_null(strstr(said, "work a"));
  assert_non_null(strstr(said, "work "));
  assert_non_null(strstr(said, "]  25% "));
}

static void silent(bool quiet, FILE *out) {
  kv_progress p;
  kv_progress_start(&p, out, "silent", "rows", 2, quiet);
  wait_ms(110);
  kv_progress_next(&p, 2);
  kv_progress_add(&p, 1);
  kv_progress_end(&p);
}

TEST(nothing_said) {
  FILE *file = tmpfile();
  assert_non_null(file);
  silent(true, theirs);
  silent(false, file);
  listen_in();
  assert_int_equal(strlen(said), 0);
  assert_int_equal(ftell(file), 0);
  fclose(file);
}

int main(void) { return tests_run("progress", open_terminal, close_terminal); }
