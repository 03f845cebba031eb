/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes: contract in ref/ground/child.h. The child holds the only
 * write end of a pipe, so the parent wakes up when it ends instead of at the
 * next tick. Whether the work was finished is a flag in shared memory, not in
 * the pipe, which the code that runs in the child could close.
 */
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#include "ref/ground/child.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICK = 50 /* ms */, PATIENCE = 5000 /* ms, for orphans to end */ };

static atomic_bool *done; /* in the child */

void *kv_child_memory(size_t size) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void kv_child_forget(void *memory, size_t size) {
  if (memory) munmap(memory, size);
}

_Noreturn void kv_child_leave(void) {
  atomic_store(done, true);
  _exit(0);
}

static void last_line(FILE *f, size_t size, char *out) {
  char line[400];
  *out = 0;
  rewind(f);
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    if (*line) snprintf(out, size, "%s", line);
  }
}

static pid_t parent_of(const char *id) {
  char path[300], text[512];
  snprintf(path, sizeof path, "/proc/%s/stat", id);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  const char *name = strrchr(text, ')'); /* then state and parent */
  return name && strlen(name) > 4 ? (pid_t)strtol(name + 4, NULL, 10) : 0;
}

static void kill_children(void) {
  DIR *d = opendir("/proc");
  for (struct dirent *f; d && (f = readdir(d));)
    if (isdigit((unsigned char)*f->d_name) && parent_of(f->d_name) == getpid())
      kill((pid_t)strtol(f->d_name, NULL, 10), SIGKILL);
  if (d) closedir(d);
}

/* Orphans of the child become children of this process
 * (PR_SET_CHILD_SUBREAPER). Kills them until none is left, for at most
 * PATIENCE, and returns how many ended. */
static int end_orphans(void) {
  int n = 0;
  for (int waited = 0; waited < PATIENCE;) {
    pid_t id = waitpid(-1, NULL, WNOHANG);
    if (id < 0 && errno == ECHILD) break;
    n += id > 0;
    if (id != 0) continue;
    kill_children();
    poll(NULL, 0, 1);
    waited++;
  }
  return n;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits until the child's pipe closes or a tick passes. Without a pipe it
 * polls, at first in short intervals and then in longer ones. */
static void wait_a_little(int *pipe, int *tick) {
  struct pollfd from = {.fd = *pipe, .events = POLLIN};
  char byte;
  if (*pipe < 0)
    poll(NULL, 0, *tick);
  else if (poll(&from, 1, TICK) > 0 && read(*pipe, &byte, 1) <= 0)
    *pipe = -1;
  if (*pipe < 0) *tick = *tick < TICK / 2 ? 2 * *tick : TICK;
}

/* True once the child has ended. If the program was started with SIGCHLD
 * ignored, the kernel reaps children itself and waitpid finds none: that counts
 * as ended. */
static bool has_ended(pid_t id, int *status) {
  pid_t got = waitpid(id, status, WNOHANG);
  return got == id || (got < 0 && errno == ECHILD);
}

/* Waits for the child. True: it ended by itself. False: it must be killed, and
 * *why says why. */
static bool attend(const kv_child *c, pid_t id, int pipe, int *status,
                   kv_child_fate *why) {
  unsigned beat = 0;
  double since = now();
  int tick = 1;
  while (!has_ended(id, status)) {
    int seconds = 0;
    unsigned b = c->beat ? c->beat(c->self, &seconds) : 0;
    if (b != beat) since = now();
    beat = b;
    if (c->stop && c->stop()) *why = KV_CHILD_STOPPED;
    if (seconds && now() - since > seconds) *why = KV_CHILD_STUCK;
    if (*why != KV_CHILD_DIED) return false;
    wait_a_little(&pipe, &tick);
  }
  return true;
}

static void hear(const kv_child *c, pid_t id, int pipe, const atomic_bool *ok,
                 kv_child_end *out) {
  int status = 0;
  kv_child_fate why = KV_CHILD_DIED;
  bool over = attend(c, id, pipe, &status, &why);
  kill(-id, SIGKILL); /* the others of its group */
  if (!over) {
    kill(id, SIGKILL);
    while (waitpid(id, &status, 0) < 0 && errno == EINTR) continue;
  }
  out->fate = why;
  if (over && atomic_load(ok) && WIFEXITED(status)) out->fate = KV_CHILD_DONE;
  out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  out->code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (c->adopts) out->left = end_orphans();
}

static _Noreturn void begin(const kv_child *c, FILE *noise) {
  int nothing = open("/dev/null", O_RDONLY);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  signal(SIGINT, SIG_IGN); /* the parent gets it too, and ends the child */
  signal(SIGTERM, SIG_DFL);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(fileno(noise), STDOUT_FILENO);
  dup2(fileno(noise), STDERR_FILENO);
  c->work(c->self);
  fflush(NULL);
  kv_child_leave();
}

static kv_rc run(const kv_child *c, FILE *noise, atomic_bool *ok,
                 kv_child_end *out, kv_err *e) {
  int end[2];
  if (pipe(end))
    return kv_fail(e, KV_RESOURCE, "cannot make a pipe to a child process: %s",
                   strerror(errno));
  fflush(NULL);
  if (c->adopts) prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_t id = fork();
  if (id == 0) {
    close(end[0]);
    done = ok;
    begin(c, noise);
  }
  int why = errno;
  close(end[1]);
  if (id > 0) {
    setpgid(id, id);
    hear(c, id, end[0], ok, out);
  }
  close(end[0]);
  if (id > 0) return KV_OK;
  return kv_fail(e, KV_RESOURCE, "cannot start a child process: %s",
                 strerror(why));
}

kv_rc kv_child_run(const kv_child *c, kv_child_end *out, kv_err *e) {
  FILE *noise = tmpfile();
  atomic_bool *ok = kv_child_memory(sizeof *ok);
  kv_rc rc = KV_OK;
  memset(out, 0, sizeof *out);
  if (!noise || !ok)
    rc = kv_fail(e, KV_RESOURCE,
                 "not enough memory to read from a child process: %s",
                 strerror(errno));
  if (!rc) rc = run(c, noise, ok, out, e);
  if (!rc) last_line(noise, sizeof out->said, out->said);
  if (noise) fclose(noise);
  kv_child_forget(ok, sizeof *ok);
  return rc;
}
