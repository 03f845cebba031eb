/* SPDX-License-Identifier: Apache-2.0
 *
 * A sliding window as a plugin, with one fault of choice: what lawcheck must
 * name (tests/check_plugins.sh). fault=none keeps every law.
 */
#include "ref/parts.h"
#include <stdlib.h>
#include <string.h>
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
  HANGS      /* does not end */
};

typedef struct params {
  int budget, fault;
} params;

static const kv_param table[] = {
    {.name = "budget",
     .kind = KV_INT,
     .offset = offsetof(params, budget),
     .min = 1,
     .max = 1 << 30,
     .help = "entries"},
    {.name = "fault",
     .kind = KV_CHOICE,
     .offset = offsetof(params, fault),
     .fallback = "none",
     .choices = "none|outside|wild|column|greedy|leaks|twice|dropped|direct|"
                "remembers|thread|clock|junk|exceeds|rows|lossy|fickle|"
                "far_view|promises|hangs",
     .help = "what is wrong with it"},
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
  if (o->fault == FICKLE) needs->page = ++calls % 2;
  return kv_open_budget("faulty", o->budget, e);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  if (o->fault == ROWS) lane->column[0].f[0] += rows->p[0];
  if (o->fault == PROMISES && rows->sum[0] > 0) lane->column[0].f[0] = 1;
  if (o->fault != JUNK) return;
  for (int i = 0; i < lane->n; i++) lane->column[0].f[i] += rows->p[i];
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const params *o = at->params;
  (void)q;
  kv_view_add(out, 0, lane->n + (o->fault == FAR_VIEW));
}

/* The window, one entry shorter where the moment says so. */
static int moody(const kv_at *at) {
  const params *o = at->params;
  struct timespec now = {0};
  timespec_get(&now, TIME_UTC);
  if (o->fault == REMEMBERS) return ++calls % 7 == 0;
  if (o->fault == THREAD) return ++calls_here % 7 == 0;
  if (o->fault == CLOCK) return now.tv_nsec / 100 % 2 == 0;
  return 0;
}

static void misbehave(const kv_at *at, kv_lane *lane, int32_t *list, int n) {
  const params *o = at->params;
  if (o->fault == OUTSIDE) memset((char *)kv_lane_own(lane) + STATE, 1, 4);
  if (o->fault == WILD) *((volatile char *)kv_lane_own(lane) + (1ll << 44)) = 1;
  if (o->fault == COLUMN) lane->column[0].f[lane->n] = 1;
  if (o->fault == GREEDY) (void)KV_TAKE(at->work, char, 1 << 24);
  if (o->fault == LEAKS) kept = malloc(1000);
  if (o->fault == DIRECT) lane->id[0] = lane->id[lane->n - 1];
  if (o->fault == TWICE) list[0] = list[n - 1];
  if (o->fault == DROPPED) list[n - 1] = lane->n;
  while (o->fault == HANGS) pause();
}

static void settle_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int budget = o->budget + (o->fault == EXCEEDS ? 8 : 0);
  if (o->fault == LOSSY && lane->n > 1) budget = lane->n - 1;
  if (lane->n <= budget) return;
  budget -= budget > 1 ? moody(at) : 0;
  int32_t *list = KV_TAKE(at->work, int32_t, budget);
  for (int i = 0; i < budget; i++) list[i] = lane->n - budget + i;
  if (lane->column[0].f[0] > 0 && budget > 1) list++, budget--;
  misbehave(at, lane, list, budget);
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
                             .settle_lane = settle_lane};
