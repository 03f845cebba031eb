/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrapping hooks: contract in sim/run/laws/fence.h. The checks are in
 * fence_take.c, fence_lane.c, fence_guard.c and fence_process.c.
 */
#include "sim/run/laws/fence_part.h"

#include "ref/ground/float.h"
#include "ref/lane/hooks.h"
#include "ref/lane/needs.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NULL_PAGES = 1 << 24 };

static const kv_method *inner;
static kv_around around;
static kv_method fenced;
static kv_fence_tell *tell;
static kv_fence_post *post;
static kv_fence_watch looking;

/* What this thread is doing; hook NULL: it is in no hook of the method. */
static _Thread_local struct {
  const char *hook, *last;
  int layer, lane, step;
  unsigned absent; /* which of KV_Q .. KV_SUM observe does not get */
  bool no_logits;  /* in a view without view_logits */
} now;

/* --- reporting ---------------------------------------------------------- */

static void place(const char *law, const char *said) {
  char text[400];
  snprintf(text, sizeof text, "layer %d, lane %d, step %d: %s", now.layer,
           now.lane, now.step, said);
  tell(law, text);
}

static const char *hook(void) { return now.last ? now.last : "open"; }

void kv_fence_found(const char *law, const char *format, ...) {
  char said[300], what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  snprintf(said, sizeof said, "%s %s", hook(), what);
  place(law, said);
}

static void absent_rows(void) {
  kv_fence_found(
      "observation",
      "reads rows that do not exist: needs.want does not declare%s%s%s%s",
      now.absent & KV_Q ? " q" : "", now.absent & KV_S ? " s" : "",
      now.absent & KV_P ? " p" : "", now.absent & KV_SUM ? " sum" : "");
}

void kv_fence_crashed(const char *signal, uintptr_t at) {
  bool null = at < NULL_PAGES;
  char said[120];
  snprintf(said, sizeof said, "died of %s in the engine, after the hook %s",
           signal, hook());
  if (!now.hook) place("hooks", said);
  if (null && now.absent) absent_rows();
  if (null && now.no_logits)
    kv_fence_found("observation",
                   "reads logits that do not exist: needs.view_logits does not "
                   "declare them (%s)",
                   signal);
  kv_fence_found("hooks", "died of %s", signal);
}

void kv_fence_forks(void) {
  if (now.hook)
    kv_fence_found("hooks", "forks; hooks must not start a process");
}

/* --- a hook's surroundings ---------------------------------------------- */

static void post_it(bool inside) {
  post->hook = hook();
  post->layer = now.layer;
  post->lane = now.lane;
  post->step = now.step;
  post->inside = inside;
  post->calls++;
}

/* Gives a hook's call a workspace of its own, which outlives the call. */
static void enter(kv_call *c, kv_work *work) {
  bool writes = looking == KV_FENCE_WRITES;
  kv_fence_takes_begin(c->at.shape, c->at.work, writes, work);
  c->at.work = work;
  now.last = kv_hook_name(c->hook);
  now.layer = c->at.layer;
  now.lane = c->lanes == 1 ? c->lane[0]->lane : -1;
  now.step = c->at.step;
  if (writes) kv_fence_guard_before(&c->at, c->rows);
  if (writes) kv_fence_process_before();
  post_it(true);
  now.hook = now.last;
}

static void leave(const kv_call *c) {
  bool writes = looking == KV_FENCE_WRITES;
  const char *mode = kv_float_astray();
  now.hook = NULL;
  now.absent = 0;
  now.no_logits = false;
  post_it(false);
  if (mode) kv_float_ground();
  if (mode && looking == KV_FENCE_MODES)
    kv_fence_found("modes", "returns with %s", mode);
  if (writes) kv_fence_process_after();
  kv_fence_takes_end();
  if (writes)
    kv_fence_guard_after(&c->at, (const kv_lane *const *)c->lane, c->lanes,
                         c->rows);
}

/* --- a hook's inputs ----------------------------------------------------- */

/* Fills what a row may not see with junk that changes with every call. */
static void worsen(const kv_rows *rows) {
  static _Thread_local uint32_t turn;
  for (int r = 0; r < rows->rows; r++)
    for (int h = 0; h < rows->heads; h++) {
      size_t at = kv_rows_at(rows, r, h) * rows->stride;
      for (int i = kv_rows_visible(rows, r); i < rows->entries; i++) {
        float junk = (float)(++turn % 8191) - 4000;
        if (rows->s) ((float *)(uintptr_t)rows->s)[at + (size_t)i] = junk;
        if (rows->p) ((float *)(uintptr_t)rows->p)[at + (size_t)i] = junk;
      }
    }
}

static void check_view(const kv_lane *l, const kv_view *v) {
  int end = -1, sum = 0;
  for (int r = 0; r < v->runs; r++) {
    if (v->run[r].count < 1 || v->run[r].first <= end ||
        v->run[r].count > l->n - v->run[r].first)
      kv_fence_found("views", "gives runs that do not ascend, or end past n");
    end = v->run[r].first + v->run[r].count;
    sum += v->run[r].count;
  }
  if (sum < 1 || sum != v->entries)
    kv_fence_found("views", "gives a view that is empty or miscounted");
}

/* Bytes after the memory that a view's runs need; *first: where they begin. */
static size_t behind_view(const kv_call *c, kv_run **first) {
  size_t room = (size_t)c->lane[0]->n / 2 + 1;
  *first = c->view->run + room;
  return ((size_t)c->at.shape->n_tokens / 2 + 1 - room) * sizeof **first;
}

static void show(const kv_call *c) {
  kv_run *rest;
  if (c->rows) worsen(c->rows);
  if (!c->view) return;
  size_t n = behind_view(c, &rest);
  kv_fence_mark(rest, n);
}

static void check_shown(const kv_call *c) {
  kv_run *rest;
  if (!c->view) return;
  size_t n = behind_view(c, &rest);
  if (kv_fence_marked(rest, n) < n)
    kv_fence_found("hooks", "writes outside the memory of its view");
  check_view(c->lane[0], c->view);
}

/* A view that depends on the query must have read stored data to choose, which
 * costs `scanned` bytes. If the method declares none, the negated query must
 * give the same view. c: the original call; given: the view for its query. */
static void check_blind(const kv_method *m, kv_call c, const kv_view *given) {
  const kv_lane *l = c.lane[0];
  size_t d = (size_t)l->shape->d, n = (size_t)c.query->queries * d;
  float *turned = calloc(n, sizeof *turned);
  kv_run *run = calloc((size_t)l->n / 2 + 1, sizeof *run);
  kv_query other = *c.query;
  kv_view again = {.run = run};
  kv_work work;
  bool same = true;
  for (size_t i = 0; turned && i < n; i++) turned[i] = -c.query->group_q[i];
  other.group_q = turned;
  other.q = turned ? turned + (size_t)other.head * d : NULL;
  c.query = &other;
  c.view = &again;
  if (turned && run) {
    enter(&c, &work);
    kv_hook_call(m, &c);
    leave(&c);
    same = again.runs == given->runs &&
           !memcmp(run, given->run, (size_t)again.runs * sizeof *run);
  }
  free(turned);
  free(run);
  if (!same)
    kv_fence_found("views", "depends on the query but declares nothing that it "
                            "looks at (`scanned` of needs.meta)");
}

/* --- hooks -------------------------------------------------------------- */

/* Marks what follows the entries of the lanes; n: entries of each lane. */
static void fill(const kv_call *c, int *n) {
  for (int i = 0; i < c->lanes && n; i++) {
    kv_fence_fill(c->lane[i]);
    n[i] = c->lane[i]->n;
  }
}

/* Memory for a message, with marks after it. */
static void *message_room(const kv_call *c) {
  size_t n = c->at.needs->message;
  char *room = calloc(1, n + KV_FENCE);
  if (room) kv_fence_mark(room + n, KV_FENCE);
  return room ? room : c->message;
}

static void take_message(kv_call *c, void *to) {
  char *room = c->message;
  size_t n = c->at.needs->message;
  c->message = to;
  if (room == to) return;
  if (kv_fence_marked(room + n, KV_FENCE) < KV_FENCE)
    kv_fence_found("hooks", "writes past its message of %zu bytes", n);
  memcpy(to, room, n);
  free(room);
}

/* Runs a hook with the checks around it. Every lane passes through `arrive`, so
 * all are known. Views, chunks and messages only read lanes: no marks. */
static void between(const kv_around *inside, kv_call *c) {
  kv_work work;
  const kv_call came = *c;
  int one, *n = &one, lanes = c->query || c->message ? 0 : c->lanes;
  if (c->hook == KV_HOOK_arrive && looking == KV_FENCE_WRITES)
    kv_fence_guard_lane(c->lane[0]);
  if (!kv_hook_has(inside->inner, c->hook)) return;
  if (lanes > 1)
    n = calloc((size_t)lanes, sizeof *n); /* before allocations are counted */
  if (lanes) fill(c, n);
  void *message = c->message;
  if (message) c->message = message_room(c);
  show(c);
  enter(c, &work);
  if (c->rows) now.absent = ~c->at.needs->want & (KV_Q | KV_S | KV_P | KV_SUM);
  now.no_logits = c->query && !c->at.needs->view_logits;
  kv_hook_call(inside->inner, c);
  leave(c);
  if (message) take_message(c, message);
  for (int i = 0; i < lanes && n; i++) kv_fence_beyond(c->lane[i], n[i]);
  check_shown(c);
  if (c->view && kv_lane_scanned(c->lane[0]) == 0)
    check_blind(inside->inner, came, c->view);
  if (n != &one) free(n);
}

/* --- needs -------------------------------------------------------------- */

static kv_rc open(const kv_shape *shape, void *params, kv_needs *needs,
                  kv_err *e) {
  now.last = "open";
  now.layer = now.lane = now.step = 0;
  post_it(true);
  now.hook = "open";
  kv_rc rc = inner->open(shape, params, needs, e);
  const char *mode = kv_float_astray();
  now.hook = NULL;
  post_it(false);
  if (mode) kv_float_ground();
  if (mode && looking == KV_FENCE_MODES)
    kv_fence_found("modes", "returns with %s", mode);
  if (rc) return rc;
  kv_err wrong = {0};
  if (kv_needs_check(needs, &wrong))
    kv_fence_found("needs", "fills needs with invalid values: %s", wrong.text);
  needs->lane_state += KV_FENCE;
  needs->work = kv_fence_room(shape, needs->work);
  return KV_OK;
}

kv_rc kv_fence_look(kv_fence_watch what, kv_err *e) {
  looking = what;
  if (what != KV_FENCE_WRITES) return KV_OK;
  kv_fence_process_open();
  return kv_fence_guard_open(inner, e);
}

const kv_method *kv_fence_inner(void) { return inner; }

const kv_method *kv_fence_around(const kv_method *method, kv_fence_post *where,
                                 kv_fence_tell *who) {
  inner = method;
  tell = who;
  post = where;
  around = (kv_around){
      .call = between, .inner = method, .also = 1u << KV_HOOK_arrive};
  fenced = kv_method_around(&around);
  fenced.open = open;
  return &fenced;
}
