/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws and synthetic traces by name, and checking: contract in
 * sim/run/laws/lawcheck.h. Laws are checked in child processes, so that a
 * method that crashes or hangs ends only a child: lawcheck_hear in the parent
 * starts one and waits, lawcheck_work runs in it, and its answer returns in
 * shared memory.
 */
#include "sim/run/laws/lawcheck.h"

#include "ref/ground/child.h"
#include "ref/ground/text.h"
#include "sim/run/laws/fence.h"
#include "sim/run/laws/law_guest.h"
#include "sim/run/laws/law_walk.h"
#include "traces/trace/small.h"
#include "traces/trace/trace.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* The result of a replay, which another process must reproduce to the bit. */
typedef struct kv_lawcheck_run {
  kv_law_run digests;
  int64_t peak; /* bytes of the cell, as kv_totals counts them */
  kv_bytes end; /* bytes by kind at the last step */
} kv_lawcheck_run;

/* What parent and child share: written by the child, and read by the parent
 * when the child has ended or its time is up. */
typedef struct kv_lawcheck_page {
  kv_lawcheck_said said; /* law "": no answer yet */
  kv_fence_post post;    /* the method's current or last hook */
  kv_lawcheck_run run;   /* for the law "process" */
} kv_lawcheck_page;

/* A synthetic trace. */
typedef struct kv_lawcheck_place {
  kv_small small; /* its name, made:NAME, and shape */
  int exponent;   /* its values are multiplied by 2^exponent */
} kv_lawcheck_place;

/* One child's task. */
typedef struct kv_lawcheck_task {
  const kv_lawcheck *ask; /* the law to check; NULL with make */
  const kv_lawcheck_place
      *make; /* a trace to write to `file` instead; or NULL */
  const char *file;
  bool elsewhere; /* allocate first, so that memory has other addresses */
  kv_lawcheck_page *page; /* shared (kv_child_memory), owned by the caller */
} kv_lawcheck_task;

static void lawcheck_work(void *self);
static int lawcheck_index(const char *law);
static kv_rc lawcheck_holds(int i, const kv_law_case *c, kv_lawcheck_run *run,
                            kv_err *e);

/* The engine may take this long between two hooks. */
enum { ENGINE = 600 /* s */ };

typedef struct patience {
  kv_lawcheck_task task; /* first: passed to the child */
  int seconds;
} patience;

static unsigned beat(const void *self, int *seconds) {
  const patience *p = self;
  *seconds = p->task.page->post.inside ? p->seconds : ENGINE;
  return p->task.page->post.calls;
}

/* An assertion's message from its function's name on; before it is our file's.
 */
static const char *trimmed(const char *line) {
  const char *mark = strstr(line, "Assertion `");
  if (!mark) return line;
  for (const char *c = mark - 2; c > line; c--)
    if (c[-1] == ' ') return c;
  return line;
}

/* Writes "layer 0, lane 1, step 70: compress_lane WORDS" for the last hook. */
static void blame(const kv_fence_post *p, const char *words,
                  kv_lawcheck_said *out) {
  const char *hook = p->hook ? p->hook : "open";
  *out = (kv_lawcheck_said){.law = "hooks"};
  kv_fail(&out->e, KV_DIFFERENT, "layer %d, lane %d, step %d: %s%s %s",
          p->layer, p->lane, p->step, p->inside ? "" : "the engine, after ",
          hook, words);
}

static void say_died(const kv_lawcheck_task *t, const kv_child_end *end,
                     kv_lawcheck_said *out) {
  char words[500];
  snprintf(words, sizeof words, "ended the process (%s %d)%s%s",
           end->signal ? "signal" : "exit code",
           end->signal ? end->signal : end->code, *end->said ? ": " : "",
           end->said);
  blame(&t->page->post, words, out);
}

static void say_stuck(const patience *p, kv_lawcheck_said *out) {
  char words[120];
  snprintf(words, sizeof words, "did not return within %d s",
           p->task.page->post.inside ? p->seconds : ENGINE);
  blame(&p->task.page->post, words, out);
}

static void say_done(const kv_lawcheck_task *t, const kv_child_end *end,
                     kv_lawcheck_said *out) {
  char all[sizeof out->e.text];
  *out = t->page->said;
  if (out->e.rc != KV_DIFFERENT || !strstr(out->e.text, "SIGABRT") ||
      !*end->said)
    return;
  snprintf(all, sizeof all, "%.300s: %.200s", out->e.text, trimmed(end->said));
  snprintf(out->e.text, sizeof out->e.text, "%s", all);
}

static void say_left(const kv_child_end *end, kv_lawcheck_said *out) {
  *out = (kv_lawcheck_said){.law = "hooks"};
  kv_fail(&out->e, KV_DIFFERENT,
          "left %d process%s running, which had to be ended; hooks must not "
          "start any",
          end->left, end->left == 1 ? "" : "es");
}

/* Runs the task in a child and waits for its end. Kills it when a call of a
 * hook takes `seconds`, when nothing is called for ten minutes, or when stop
 * (may be NULL) returns true. *out: its answer, or what is known of how it
 * ended. KV_RESOURCE: no child could be made, or stopped. */
static kv_rc lawcheck_hear(const kv_lawcheck_task *t, kv_lawcheck_stop *stop,
                           int seconds, kv_lawcheck_said *out, kv_err *e) {
  patience p = {*t, seconds};
  kv_child c = {.work = lawcheck_work,
                .self = &p,
                .beat = beat,
                .stop = stop,
                .adopts = true};
  kv_child_end end;
  memset(&t->page->said, 0, sizeof t->page->said);
  t->page->post.hook = NULL;
  t->page->post.inside = false;
  kv_rc rc = kv_child_run(&c, &end, e);
  if (rc) return rc;
  switch (end.fate) {
  case KV_CHILD_STOPPED:
    return kv_fail(e, KV_RESOURCE, "interrupted");
  case KV_CHILD_STUCK:
    say_stuck(&p, out);
    break;
  case KV_CHILD_DIED:
    say_died(t, &end, out);
    break;
  case KV_CHILD_DONE:
    say_done(t, &end, out);
    break;
  }
  if (end.left && out->e.rc != KV_DIFFERENT) say_left(&end, out);
  return KV_OK;
}

/* --- child --------------------------------------------------------------- */

#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */

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

/* Limits memory: a method that allocates without end must not use up all. */
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

/* Allocates blocks, never freed, so that heap and maps have other addresses. */
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
  rc = lawcheck_holds(lawcheck_index(c->law), &what, &page->run, &e);
  answer(c->law, rc, rc ? e.text : "");
}

static void make(const kv_lawcheck_place *p, const char *file) {
  kv_small bare = p->small;
  kv_err e = {0};
  bare.name += MADE;
  kv_rc rc = kv_small_write_scaled(&bare, 5, p->exponent, file, &e);
  answer("make", rc, rc ? e.text : "");
}

/* Does the task, in the child; self is a kv_lawcheck_task. Leaves its answer in
 * the task's page and ends the process. */
static void lawcheck_work(void *self) {
  const kv_lawcheck_task *t = self;
  page = t->page;
  if (t->make) make(t->make, t->file);
  catch_crashes();
  limit_memory();
  pthread_atfork(kv_fence_forks, NULL, NULL);
  if (t->elsewhere) move_away();
  ask(t->ask);
}

/* --- lawcheck ------------------------------------------------------------ */

/* The synthetic traces. One has subnormal values; one is long, with little else
 * to compute, for faults that only appear late. */
static const kv_lawcheck_place places[] = {
    {{"made:grouped", 3, 4, 2, 32, KV_F32, 96, 64}, 0},
    {{"made:half", 3, 4, 4, 64, KV_F16, 72, 50}, 0},
    {{"made:seven", 3, 7, 1, 80, KV_BF16, 80, 60}, 0},
    {{"made:short", 3, 4, 2, 32, KV_F32, 60, 7}, 0},
    {{"made:token", 3, 4, 1, 32, KV_F32, 40, 1}, 0},
    {{"made:tiny", 2, 2, 2, 32, KV_F32, 48, 20}, -130},
    {{"made:long", 1, 2, 1, 16, KV_F32, 1100, 60}, 0}};
enum { PLACES = sizeof places / sizeof *places };

const char *kv_lawcheck_synthetic(int i) {
  return i >= 0 && i < PLACES ? places[i].small.name : NULL;
}

static const kv_lawcheck_place *place_named(const char *name) {
  for (int i = 0; i < PLACES; i++)
    if (!strcmp(places[i].small.name, name)) return &places[i];
  return NULL;
}

int kv_lawcheck_tokens(const char *name) {
  const kv_lawcheck_place *p = place_named(name);
  return p ? p->small.n_tokens : 0;
}

/* --- the laws ----------------------------------------------------------- */

static const kv_law process = {
    "process",
    "digests and bytes are the same in another process, at other addresses"};

/* Number of laws for plugins. The law `hooks` comes first: a plugin that breaks
 * it may crash the checks of the others. */
static int guests(void) {
  int n = 0;
  while (kv_law_guest_at(n)) n++;
  return n;
}

static int all_but_process(void) {
  int n = guests();
  while (kv_law_at(n - guests())) n++;
  return n;
}

static const kv_law *law_at(int i) {
  int own = guests(), last = all_but_process();
  if (i == last) return &process;
  return i < own ? kv_law_guest_at(i) : kv_law_at(i - own);
}

/* The index of a law by name, in the order of kv_lawcheck_law; if there is
 * none, the number of laws. */
static int lawcheck_index(const char *name) {
  int i = 0;
  while (law_at(i) && strcmp(law_at(i)->name, name) != 0) i++;
  return i;
}

static kv_rc run_again(const kv_law_case *c, kv_lawcheck_run *run, kv_err *e) {
  kv_cell cell = {0};
  kv_rc rc = kv_law_replay(c, &(kv_law_how){.threads = 1}, &cell, e);
  run->digests = kv_law_run_of(&cell);
  run->peak = cell.result.totals.peak;
  run->end = cell.result.totals.end;
  kv_cell_close(&cell);
  return rc;
}

/* In the child: checks law i on the case. For the law "process" it only fills
 * *run; the parent compares the runs of two children. KV_OK: it holds;
 * KV_DIFFERENT: it is broken; KV_REFUSED: the cell cannot run. */
static kv_rc lawcheck_holds(int i, const kv_law_case *c, kv_lawcheck_run *run,
                            kv_err *e) {
  int broken, own = guests();
  if (law_at(i) == &process) return run_again(c, run, e);
  return i < own ? kv_law_guest_ask(i, c, e)
                 : kv_law_ask(c, 1u << (i - own), &broken, e);
}

const char *kv_lawcheck_law(int i) {
  return law_at(i) ? law_at(i)->name : NULL;
}

const char *kv_lawcheck_statement(const char *law) {
  const kv_law *l = law_at(lawcheck_index(law));
  return l ? l->statement : NULL;
}

/* --- checking ------------------------------------------------------------ */

/* What differs between a and b; NULL: nothing. */
static const char *unlike(const kv_lawcheck_run *a, const kv_lawcheck_run *b) {
  const kv_law_run *x = &a->digests, *y = &b->digests;
  if (memcmp(&x->output, &y->output, sizeof x->output) != 0) return "output";
  if (memcmp(&x->state, &y->state, sizeof x->state) != 0) return "state";
  if (memcmp(&x->journal, &y->journal, sizeof x->journal) != 0)
    return "journal";
  if (a->peak != b->peak || memcmp(&a->end, &b->end, sizeof a->end) != 0)
    return "ledger";
  return NULL;
}

static kv_rc hear(kv_lawcheck_task *t, kv_lawcheck_said *out, kv_err *e) {
  const kv_lawcheck *c = t->ask;
  kv_rc rc = lawcheck_hear(t, c->stop, c->seconds, out, e);
  bool ran = !rc && !out->e.rc && !strcmp(c->law, process.name);
  if (!ran || t->elsewhere) return rc;
  kv_lawcheck_run first = t->page->run;
  t->elsewhere = true;
  rc = hear(t, out, e);
  const char *what = rc || out->e.rc ? NULL : unlike(&first, &t->page->run);
  if (what)
    kv_fail(&out->e, KV_DIFFERENT,
            "another process computes another %s; the result depends on the "
            "process, an address or the time",
            what);
  return rc;
}

static kv_rc with_page(kv_lawcheck_task *t, kv_lawcheck_stop *stop,
                       kv_lawcheck_said *out, kv_err *e) {
  enum { MAKING = 60 /* s */ };
  t->page = kv_child_memory(sizeof *t->page);
  if (!t->page) return kv_no_memory(e, "an answer", sizeof *t->page);
  kv_rc rc = t->ask ? hear(t, out, e) : lawcheck_hear(t, stop, MAKING, out, e);
  kv_child_forget(t->page, sizeof *t->page);
  return rc;
}

kv_rc kv_lawcheck_make(const char *name, const char *file,
                       kv_lawcheck_stop *stop, kv_err *e) {
  kv_lawcheck_said said;
  kv_lawcheck_task t = {.make = place_named(name), .file = file};
  if (!t.make) {
    char names[256] = "", show[KV_SHOW];
    for (int i = 0; i < PLACES; i++) {
      size_t n = strlen(names);
      snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
               places[i].small.name);
    }
    return kv_fail(e, KV_USAGE, "no made trace is called %s; choose from %s",
                   kv_show(name, show), names);
  }
  kv_rc rc = with_page(&t, stop, &said, e);
  if (!rc && said.e.rc == KV_DIFFERENT) /* the child died */
    return kv_fail(e, KV_RESOURCE, "cannot make %s: %s", name, said.e.text);
  return rc || !said.e.rc ? rc : kv_fail(e, said.e.rc, "%s", said.e.text);
}

kv_rc kv_lawcheck_ask(const kv_lawcheck *c, kv_lawcheck_said *out, kv_err *e) {
  return with_page(&(kv_lawcheck_task){.ask = c}, c->stop, out, e);
}
