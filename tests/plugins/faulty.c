/* SPDX-License-Identifier: Apache-2.0
 *
 * A sliding window as a plugin, with one fault of choice: what lawcheck must
 * name (tests/cases/plugins.cases). fault=none keeps every law.
 */
#include "ref/parts/parts.h"
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
  NONE,
  OUTSIDE,   /* writes past its lane_state */
  WILD,      /* writes where nothing is */
  COLUMN,    /* writes a column of an entry that is not there */
  GREEDY,    /* takes more workspace than it asked for */
  LEAKS,     /* allocates, and keeps it */
  TWICE,     /* keeps a token twice */
  DROPPED,   /* keeps an entry that is gone */
  DIRECT,    /* writes ids without a verb */
  REMEMBERS, /* state between lanes */
  THREAD,    /* state of the thread */
  CLOCK,     /* the time of day */
  JUNK,      /* what lies beyond the entries that a row sees */
  EXCEEDS,   /* more than its budget */
  ROWS,      /* rows that it did not ask for */
  LOSSY,     /* not exact at a full budget */
  FICKLE,    /* other needs every time */
  FAR_VIEW,  /* a view past the last entry */
  PROMISES,  /* says that lengths decide, and looks at sums */
  HANGS,     /* does not end */
  BEYOND,    /* writes past one take, where the next begins */
  BEFORE,    /* writes before its first take */
  FAR,       /* writes a hundred kilobytes past a take */
  UNSET,     /* reads a take before it has written it */
  LAST,      /* writes an id past the last that can be */
  SPARE,     /* writes an id past the lane's entries */
  OTHERS,    /* writes another lane */
  PARAMS,    /* writes its parameters */
  SHOWN,     /* writes the rows it is shown */
  STEPS,     /* writes the lane's step */
  ROUNDS,    /* leaves another rounding mode */
  FLUSHES,   /* leaves subnormals flushed to zero */
  OPENS,     /* the same as ROUNDS, in open */
  LATE,      /* does not end, where 100 tokens have been seen */
  IGNORES,   /* ignores signals, and crashes */
  EXITS,     /* leaves the process, as if all were well */
  CLOSES,    /* closes all files */
  MAPS,      /* maps memory, and keeps it */
  THREADS,   /* begins a thread that stays */
  FORKS,     /* forks */
  SPAWNS,    /* begins a program in a session of its own */
  PROCESS,   /* its number decides */
  ADDRESS,   /* where memory lies decides */
  LOOKS      /* views by the query, and declares no look */
};

typedef struct params {
  int budget, fault;
} params;

static const kv_param table[] = {
    KV_INT_PARAM("budget", params, budget, NULL, 1, 1 << 30, NULL, "entries",
                 .knob = KV_KNOB_ENTRIES),
    KV_CHOICE_PARAM(
        "fault", params, fault, "none",
        "none|outside|wild|column|greedy|leaks|twice|dropped|direct|"
        "remembers|thread|clock|junk|exceeds|rows|lossy|fickle|"
        "far_view|promises|hangs|beyond|before|far|unset|last|spare|"
        "others|params|shown|steps|rounds|flushes|opens|late|ignores|"
        "exits|closes|maps|threads|forks|spawns|process|address|"
        "looks",
        "what is wrong with it"),
    {.name = NULL}};

enum { STATE = 24 };
static void *volatile kept;
static int calls;
static _Thread_local int calls_here;

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  (void)shape;
  needs->every = 1;
  needs->columns = 1;
  needs->column[0] = KV_FLOAT;
  needs->lane_state = STATE;
  needs->prompt_rows = 8;
  needs->want = o->fault == JUNK ? KV_P : KV_SUM;
  needs->lengths = o->fault == PROMISES;
  if (o->fault == OPENS) fesetround(FE_UPWARD);
  if (o->fault == FICKLE) needs->metas = ++calls % 2;
  return kv_open_budget("faulty", o->budget, e);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  float *column = kv_column_float(at, lane, 0);
  if (o->fault == ROWS) column[0] += rows->p[0];
  if (o->fault == PROMISES && rows->sum[0] > 0) column[0] = 1;
  if (o->fault == SHOWN) ((int64_t *)(uintptr_t)rows->sum)[0]++;
  if (o->fault != JUNK) return;
  for (int i = 0; i < lane->n; i++) column[i] += rows->p[i];
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const params *o = at->params;
  int from = o->fault == LOOKS && q->q[0] > 0 ? lane->n / 2 : 0;
  kv_view_add(out, from, lane->n - from + (o->fault == FAR_VIEW));
}

/* The window, one entry shorter where the moment says so. */
static int moody(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  struct timespec now = {0};
  timespec_get(&now, TIME_UTC);
  if (o->fault == PROCESS)
    return (uint32_t)getpid() * 2654435761u >> at->step % 31 & 1;
  if (o->fault == ADDRESS)
    return (uint32_t)((uintptr_t)lane->id / 4096) * 2654435761u >>
               at->step % 31 &
           1;
  if (o->fault == UNSET) return *KV_TAKE(at->work, unsigned char, 8) % 2;
  if (o->fault == REMEMBERS) return ++calls % 7 == 0;
  if (o->fault == THREAD) return ++calls_here % 7 == 0;
  if (o->fault == CLOCK) return now.tv_nsec / 100 % 2 == 0;
  return 0;
}

static void flush_to_zero(void) {
#ifdef __x86_64__
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#else
  fesetround(FE_UPWARD);
#endif
}

static void *stay(void *self) {
  pause();
  return self;
}

static void begin_program(void) {
  extern char **environ;
  char *const words[] = {(char *)"sleep", (char *)"4321", NULL};
  posix_spawnattr_t how;
  pid_t id;
  posix_spawnattr_init(&how);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID);
  if (calls++ == 0) posix_spawnp(&id, *words, NULL, &how, words, environ);
  posix_spawnattr_destroy(&how);
}

/* What a hook leaves of its process, and what it leaves behind. */
static void disturb(const kv_at *at) {
  int fault = ((const params *)at->params)->fault;
  pthread_t thread;
  if (fault == ROUNDS) fesetround(FE_UPWARD);
  if (fault == FLUSHES) flush_to_zero();
  while (fault == LATE && at->step == 100) pause();
  if (fault == EXITS) exit(0);
  if (fault == MAPS)
    kept = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fault == THREADS) pthread_create(&thread, NULL, stay, NULL);
  if (fault == FORKS && fork() == 0) _exit(0);
  if (fault == SPAWNS) begin_program();
  for (int f = 0; fault == CLOSES && f < 64; f++) close(f);
  if (fault != IGNORES) return;
  signal(SIGSEGV, SIG_IGN);
  *(volatile char *)kept = 1;
}

/* Where workspace, lanes and what belongs to all end. */
static void trespass(const kv_at *at, kv_lane *lane) {
  int fault = ((const params *)at->params)->fault;
  if (fault < BEYOND || fault > STEPS || fault == UNSET) return;
  char *one = KV_TAKE(at->work, char, 100), *two = KV_TAKE(at->work, char, 100);
  memset(two, 0, 100);
  if (fault == BEYOND) one[100] = 1;
  if (fault == BEFORE) one[-1] = 1;
  if (fault == FAR) two[100000] = 1;
  if (fault == LAST) lane->id[at->shape->n_tokens] = 1;
  if (fault == SPARE) lane->id[lane->n + 1] = 1;
  if (fault == OTHERS && lane->lane > 0) lane[-1].id[0]++;
  if (fault == PARAMS) ((params *)(uintptr_t)at->params)->budget = 3;
  if (fault == STEPS) lane->step++;
}

static void misbehave(const kv_at *at, kv_lane *lane, int32_t *list, int n) {
  const params *o = at->params;
  if (o->fault == OUTSIDE) memset((char *)kv_own(at, lane) + STATE, 1, 4);
  if (o->fault == WILD) *((volatile char *)kv_own(at, lane) + (1ll << 44)) = 1;
  if (o->fault == COLUMN) kv_column_float(at, lane, 0)[lane->n] = 1;
  if (o->fault == GREEDY) (void)KV_TAKE(at->work, char, 1 << 24);
  if (o->fault == LEAKS) kept = malloc(1000);
  if (o->fault == DIRECT) lane->id[0] = lane->id[lane->n - 1];
  if (o->fault == TWICE) list[0] = list[n - 1];
  if (o->fault == DROPPED) list[n - 1] = lane->n;
  while (o->fault == HANGS) pause();
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int budget = o->budget + (o->fault == EXCEEDS ? 8 : 0);
  if (o->fault == LOSSY && lane->n > 1) budget = lane->n - 1;
  if (lane->n <= budget) return;
  budget -= budget > 1 ? moody(at, lane) : 0;
  int32_t *list = KV_TAKE(at->work, int32_t, budget);
  for (int i = 0; i < budget; i++) list[i] = lane->n - budget + i;
  if (kv_column_float(at, lane, 0)[0] > 0 && budget > 1) list++, budget--;
  misbehave(at, lane, list, budget);
  trespass(at, lane);
  disturb(at);
  kv_keep(lane, budget, list);
}

const kv_method kv_plugin = {.abi = KV_METHOD_ABI,
                             .revision = 1,
                             .name = "faulty",
                             .title = "a window with a fault",
                             .paper = "none",
                             .params = table,
                             .params_size = sizeof(params),
                             .open = open,
                             .view = view,
                             .observe = observe,
                             .compress_lane = compress_lane};
