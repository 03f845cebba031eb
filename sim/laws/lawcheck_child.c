/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of a child of lawcheck: it writes an answer into the memory that it
 * shares with its parent, and leaves.
 */
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#include "sim/laws/lawcheck_part.h"

#include "traces/trace/trace.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MADE = 5 /* strlen("made:") */, PAGE = 4096 };

static kv_lawcheck_page *page;

_Noreturn static void answer(const char *law, kv_rc rc, const char *text) {
  snprintf(page->said.law, sizeof page->said.law, "%s", law);
  page->said.e.rc = rc;
  snprintf(page->said.e.text, sizeof page->said.e.text, "%s", text);
  kv_child_leave();
}

static void broken(const char *law, const char *text) {
  answer(law, KV_DIFFERENT, text);
}

/* --- crashes ------------------------------------------------------------ */

static const struct {
  int number;
  const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"},
             {SIGBUS, "SIGBUS"},
             {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},
             {SIGABRT, "SIGABRT"}};
enum { FATAL = sizeof fatal / sizeof *fatal };

static void crashed(int number, siginfo_t *info, void *context) {
  const char *name = "a signal";
  bool placed = number == SIGSEGV || number == SIGBUS;
  (void)context;
  for (int i = 0; i < FATAL; i++)
    if (fatal[i].number == number) name = fatal[i].name;
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
}

/* --- limits ------------------------------------------------------------- */

/* Limits memory, so that a method that allocates without end does not take the
 * machine's. */
static void limit_memory(void) {
  const rlim_t most = (rlim_t)2 << 30;
  unsigned long all, resident, shared, text, library, data = 0;
  struct rlimit r = {0, 0}, none = {0, 0};
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return;
  int n = fscanf(f, "%lu %lu %lu %lu %lu %lu", &all, &resident, &shared, &text,
                 &library, &data);
  fclose(f);
  setrlimit(RLIMIT_CORE, &none);
  if (n != 6 || getrlimit(RLIMIT_DATA, &r)) return;
  rlim_t limit = (rlim_t)data * PAGE + most;
  if (r.rlim_cur != RLIM_INFINITY && r.rlim_cur < limit) return;
  r.rlim_cur = limit;
  setrlimit(RLIMIT_DATA, &r);
}

/* Allocates some blocks that are never freed, so that heap and maps begin at
 * other addresses. */
static void move_away(void) {
  enum { BLOCKS = 5, PAGES = 37 };
  for (int i = 0; i < BLOCKS; i++) {
    volatile char *block = malloc((size_t)(BLOCKS + i) * PAGE * 3);
    if (block) *block = 1;
  }
  mmap(NULL, (size_t)PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
       0);
}

/* --- the work ----------------------------------------------------------- */

static void ask(const kv_lawcheck *c) {
  kv_trace *t = NULL;
  kv_err e = {0};
  kv_rc rc =
      c->file ? kv_law_open(c->file, &t, &e) : kv_trace_open(c->trace, &t, &e);
  if (rc) answer(c->law, rc, e.text);
  kv_spec spec = *c->spec;
  spec.method = kv_fence_around(c->spec->method, &page->post, broken);
  kv_law_case what = {.backend = &kv_backend_ref,
                      .trace = t,
                      .spec = &spec,
                      .entries = c->entries,
                      .prompt_len = c->prompt_len};
  rc = kv_lawcheck_holds(kv_lawcheck_index(c->law), &what, &page->run, &e);
  answer(c->law, rc, rc ? e.text : "");
}

static void make(const kv_lawcheck_place *p, const char *file) {
  kv_small bare = p->small;
  kv_err e = {0};
  bare.name += MADE;
  kv_rc rc = kv_small_write_scaled(&bare, 5, p->exponent, file, &e);
  answer("make", rc, rc ? e.text : "");
}

void kv_lawcheck_work(void *self) {
  const kv_lawcheck_task *t = self;
  page = t->page;
  if (t->make) make(t->make, t->file);
  catch_crashes();
  limit_memory();
  pthread_atfork(kv_fence_forks, NULL, NULL);
  if (t->elsewhere) move_away();
  ask(t->ask);
}
