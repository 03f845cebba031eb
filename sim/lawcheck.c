/* SPDX-License-Identifier: Apache-2.0
 *
 * Children that ask for laws: sim/lawcheck.h. A child writes what it found to
 * a pipe and leaves; what it, or libc in its name, says to standard error goes
 * to a file that its parent reads where nothing came.
 */
#include "sim/lawcheck.h"

#include "sim/fence.h"
#include "sim/law_guest.h"
#include "traces/small.h"
#include "traces/text.h"
#include "traces/trace.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 60, TICK = 200 /* ms */, MADE = 5 /* strlen("made:") */ };

static const kv_small places[] = {{"made:grouped", 3, 4, 2, 32, KV_F32, 96, 64},
                                  {"made:half", 3, 4, 4, 64, KV_F16, 72, 50},
                                  {"made:seven", 3, 7, 1, 80, KV_BF16, 80, 60},
                                  {"made:short", 3, 4, 2, 32, KV_F32, 60, 7},
                                  {"made:token", 3, 4, 1, 32, KV_F32, 40, 1}};
enum { PLACES = sizeof places / sizeof *places };

const char *kv_lawcheck_made(int i) {
  return i >= 0 && i < PLACES ? places[i].name : NULL;
}

static const kv_small *place_named(const char *name) {
  for (int i = 0; i < PLACES; i++)
    if (!strcmp(places[i].name, name)) return &places[i];
  return NULL;
}

int kv_lawcheck_tokens(const char *name) {
  const kv_small *p = place_named(name);
  return p ? p->n_tokens : 0;
}

/* --- the laws ----------------------------------------------------------- */

/* hooks first: who breaks it cannot be asked the others. */
static int guests(void) {
  int n = 0;
  while (kv_law_guest_at(n)) n++;
  return n;
}

static const kv_law *law_at(int i) {
  int own = guests();
  return i < own ? kv_law_guest_at(i) : kv_law_at(i - own);
}

static int index_of(const char *name) {
  int i = 0;
  while (law_at(i) && strcmp(law_at(i)->name, name) != 0) i++;
  return i;
}

static const kv_law *law_named(const char *name) {
  return law_at(index_of(name));
}

/* KV_OK: it holds. */
static kv_rc ask_law(int i, const kv_law_case *c, kv_err *e) {
  int broken, own = guests();
  return i < own ? kv_law_guest_ask(i, c, e)
                 : kv_law_ask(c, 1u << (i - own), &broken, e);
}

const char *kv_lawcheck_law(int i) {
  return law_at(i) ? law_at(i)->name : NULL;
}

const char *kv_lawcheck_statement(const char *law) {
  return law_named(law) ? law_named(law)->statement : NULL;
}

/* --- in the child ------------------------------------------------------- */

static int answer_to; /* the pipe */

static void answer(const char *law, kv_rc rc, const char *text) {
  kv_lawcheck_said said = {0};
  snprintf(said.law, sizeof said.law, "%s", law);
  said.e.rc = rc;
  snprintf(said.e.text, sizeof said.e.text, "%s", text);
  ssize_t n = write(answer_to, &said, sizeof said);
  _exit(n == (ssize_t)sizeof said ? 0 : 1);
}

static void broken(const char *law, const char *text) {
  answer(law, KV_DIFFERENT, text);
}

static const struct {
  int number;
  const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGALRM, "SIGALRM"}};
enum { FATAL = sizeof fatal / sizeof *fatal };

static void crashed(int number, siginfo_t *info, void *context) {
  const char *name = "a signal";
  bool placed = number == SIGSEGV || number == SIGBUS;
  (void)context;
  for (int i = 0; i < FATAL; i++)
    if (fatal[i].number == number) name = fatal[i].name;
  if (number == SIGALRM)
    broken("hooks", "it does not end: given up after 60 s");
  kv_fence_crashed(name, placed ? (uintptr_t)info->si_addr : UINTPTR_MAX);
  _exit(1);
}

static void catch_crashes(void) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_sigaction = crashed;
  a.sa_flags = SA_SIGINFO | (int)SA_RESETHAND | SA_NODEFER;
  sigemptyset(&a.sa_mask);
  for (int i = 0; i < FATAL; i++) sigaction(fatal[i].number, &a, NULL);
  signal(SIGINT, SIG_DFL); /* an interrupt ends a child at once */
  signal(SIGTERM, SIG_DFL);
  alarm(SECONDS);
}

static void ask_here(const kv_lawcheck *c) {
  kv_trace *t = NULL;
  kv_err e = {0};
  kv_rc rc =
      c->file ? kv_law_open(c->file, &t, &e) : kv_trace_open(c->trace, &t, &e);
  if (rc) answer(c->law, rc, e.text);
  kv_spec spec = *c->spec;
  spec.method = kv_fence_around(c->spec->method, broken);
  kv_law_case what = {.backend = &kv_backend_ref,
                      .trace = t,
                      .spec = &spec,
                      .entries = c->entries,
                      .prompt_len = c->prompt_len};
  rc = ask_law(index_of(c->law), &what, &e);
  answer(c->law, rc, rc ? e.text : "");
}

static void make_here(const kv_small *p, const char *file) {
  kv_small bare = *p;
  kv_err e = {0};
  bare.name += MADE;
  kv_rc rc = kv_small_write(&bare, 5, file, &e);
  answer("make", rc, rc ? e.text : "");
}

/* --- the parent --------------------------------------------------------- */

/* The last line with a word in it that the child left; "" if none. */
static void last_line(FILE *f, size_t size, char *out) {
  char line[400];
  *out = 0;
  rewind(f);
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    if (*line) snprintf(out, size, "%s", line);
  }
}

/* An assertion is one line; what stands before its function is our file. */
static const char *trimmed(const char *line) {
  const char *mark = strstr(line, "Assertion `");
  if (!mark) return line;
  for (const char *c = mark - 2; c > line; c--)
    if (c[-1] == ' ') return c;
  return line;
}

typedef struct child {
  pid_t id;
  int pipe;
  FILE *noise;
  kv_lawcheck_stop *stop;
} child;

/* How much of an answer came. A signal may be caught just before the wait, so
 * that is never long. */
static size_t listen_to(const child *c, size_t size, char *answer) {
  size_t n = 0;
  while (n < size) {
    struct pollfd from = {.fd = c->pipe, .events = POLLIN};
    if (c->stop()) {
      kill(c->id, SIGKILL);
      break;
    }
    if (poll(&from, 1, TICK) <= 0) continue;
    ssize_t got = read(c->pipe, answer + n, size - n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    n += (size_t)got;
  }
  return n;
}

static kv_rc hear(const child *c, kv_lawcheck_said *out, kv_err *e) {
  size_t n = listen_to(c, sizeof *out, (char *)out);
  int status = 0;
  char line[400], all[sizeof out->e.text];
  while (waitpid(c->id, &status, 0) < 0 && errno == EINTR) continue;
  last_line(c->noise, sizeof line, line);
  if (c->stop()) return kv_fail(e, KV_RESOURCE, "interrupted");
  if (n < sizeof *out) {
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number == SIGINT || number == SIGTERM) {
      raise(number); /* a terminal tells all of us, the child first perhaps */
      return kv_fail(e, KV_RESOURCE, "interrupted");
    }
    *out = (kv_lawcheck_said){.law = "hooks"};
    kv_fail(&out->e, KV_DIFFERENT, "the process ended (%s %d)%s%s",
            number ? "signal" : "exit code",
            number ? number : WEXITSTATUS(status), *line ? ": " : "", line);
  } else if (out->e.rc == KV_DIFFERENT && strstr(out->e.text, "SIGABRT")) {
    snprintf(all, sizeof all, "%.300s: %.200s", out->e.text, trimmed(line));
    snprintf(out->e.text, sizeof out->e.text, "%s", all);
  }
  return KV_OK;
}

typedef void work(const void *what, const char *file);

static kv_rc in_child(work *f, const void *what, const char *file,
                      kv_lawcheck_stop *stop, kv_lawcheck_said *out,
                      kv_err *e) {
  int end[2];
  FILE *noise = tmpfile();
  if (!noise || pipe(end)) {
    if (noise) fclose(noise);
    return kv_fail(e, KV_RESOURCE, "no pipe to a child: %s", strerror(errno));
  }
  fflush(NULL);
  child c = {fork(), end[0], noise, stop};
  if (c.id == 0) {
    close(end[0]);
    answer_to = end[1];
    dup2(fileno(noise), STDERR_FILENO);
    catch_crashes();
    f(what, file);
    _exit(1);
  }
  close(end[1]);
  kv_rc rc = c.id < 0 ? kv_fail(e, KV_RESOURCE, "no child process: %s",
                                strerror(errno))
                      : hear(&c, out, e);
  close(end[0]);
  fclose(noise);
  return rc;
}

static void ask_work(const void *what, const char *file) {
  (void)file;
  ask_here(what);
}

static void make_work(const void *what, const char *file) {
  make_here(what, file);
}

kv_rc kv_lawcheck_make(const char *name, const char *file,
                       kv_lawcheck_stop *stop, kv_err *e) {
  kv_lawcheck_said said;
  const kv_small *p = place_named(name);
  if (!p) {
    char names[256] = "", show[KV_SHOW];
    for (int i = 0; i < PLACES; i++) {
      size_t n = strlen(names);
      snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
               places[i].name);
    }
    return kv_fail(e, KV_USAGE, "no made trace is called %s; there are %s",
                   kv_show(name, show), names);
  }
  kv_rc rc = in_child(make_work, p, file, stop, &said, e);
  return rc || !said.e.rc ? rc : kv_fail(e, said.e.rc, "%s", said.e.text);
}

kv_rc kv_lawcheck_ask(const kv_lawcheck *c, kv_lawcheck_said *out, kv_err *e) {
  return in_child(ask_work, c, NULL, c->stop, out, e);
}
