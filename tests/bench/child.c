/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a process, looking at it while it runs. Contract:
 * tests/bench/child.h.
 */
#include "tests/bench/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(struct timeval t) {
  return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Bytes of anonymous memory that pid holds; 0 where it has gone. */
static double anonymous(pid_t pid) {
  char path[64], line[256];
  unsigned long kib = 0;
  snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "RssAnon: %lu", &kib) == 1) break;
  fclose(f);
  return (double)kib * 1024;
}

static bool redirect(const char *path, int to) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  return fd >= 0 && dup2(fd, to) >= 0;
}

/* In the child: never returns. */
static void become(char *const *argv, const char *out, const char *err) {
  signal(SIGINT, SIG_DFL);
  if (redirect(out, STDOUT_FILENO) && redirect(err, STDERR_FILENO))
    execv(argv[0], argv);
  perror(argv[0]);
  _exit(127);
}

bool child_run(char *const *argv, const char *out, const char *err, child *c) {
  const struct timespec pause = {.tv_nsec = 2000000};
  struct rusage use;
  int status = 0;
  double start = now();
  pid_t pid = fork(), ended;
  *c = (child){0};
  if (pid < 0) return false;
  if (pid == 0) become(argv, out, err);
  while ((ended = wait4(pid, &status, WNOHANG, &use)) == 0) {
    double anon = anonymous(pid);
    if (anon > c->anon) c->anon = anon;
    nanosleep(&pause, NULL);
  }
  if (ended != pid) return false;
  c->wall = now() - start;
  c->cpu = seconds(use.ru_utime) + seconds(use.ru_stime);
  c->resident = (double)use.ru_maxrss * 1024;
  c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}
