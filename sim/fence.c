/* SPDX-License-Identifier: Apache-2.0
 *
 * Fences: sim/fence.h.
 */
#include "sim/fence.h"

#include "ref/lane.h"
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE = 64, MARK = 0xa5, NULL_PAGES = 1 << 24 };

static const kv_method *inner;
static kv_method fenced;
static kv_fence_tell *tell;
static bool counting;

/* What this thread is in the middle of; hook NULL: nothing of the method's. */
static _Thread_local struct {
  const char *hook, *last;
  int layer, lane, step;
  unsigned absent; /* of KV_Q .. KV_SUM, not shown to observe */
  bool no_logits;  /* a view without view_logits */
} now;

static void found(const char *law, const char *format, const char *what) {
  char text[400], said[256];
  snprintf(said, sizeof said, format, now.last ? now.last : "open", what);
  snprintf(text, sizeof text, "layer %d, lane %d, step %d: %s", now.layer,
           now.lane, now.step, said);
  tell(law, text);
}

void kv_fence_crashed(const char *signal, uintptr_t at) {
  bool null = at < NULL_PAGES;
  if (!now.hook) {
    found("hooks", "died of %2$s in the engine, after the hook %1$s", signal);
  } else if (null && now.absent) {
    char what[80];
    snprintf(what, sizeof what, "%s%s%s%s", now.absent & KV_Q ? " q" : "",
             now.absent & KV_S ? " s" : "", now.absent & KV_P ? " p" : "",
             now.absent & KV_SUM ? " sum" : "");
    found("evidence",
          "%s reads rows that are not there: needs.want does not ask for%s",
          what);
  } else if (null && now.no_logits) {
    found("evidence",
          "%s reads logits that are not there: needs.view_logits does not ask "
          "for them (%s)",
          signal);
  } else {
    found("hooks", "%s died of %s", signal);
  }
}

/* --- memory ------------------------------------------------------------- */

static size_t state_of(const kv_needs *n) { return n->lane_state - FENCE; }

static bool is_marked(const void *at, size_t n) {
  const unsigned char *c = at;
  for (size_t i = 0; i < n; i++)
    if (c[i] != MARK) return false;
  return true;
}

/* The part of a column that no entry has. */
static void *spare(const kv_lane *l, int c, int n, size_t *bytes) {
  size_t size = l->needs->column[c] == KV_INT64 ? 8 : 4;
  *bytes = (size_t)(l->shape->n_tokens - n) * size;
  return (char *)l->column[c].i + (size_t)n * size;
}

static void fill(kv_lane *l) {
  size_t bytes;
  memset((char *)l->own + state_of(l->needs), MARK, FENCE);
  for (int c = 0; c < l->needs->columns; c++) {
    void *at = spare(l, c, l->n, &bytes);
    memset(at, MARK, bytes);
  }
}

/* n: entries when it was filled. */
static void look(const kv_lane *l, int n) {
  size_t bytes;
  if (!is_marked((char *)l->own + state_of(l->needs), FENCE))
    found("hooks", "%s writes outside of %s", "the lane_state it asked for");
  for (int c = 0; c < l->needs->columns; c++) {
    const void *at = spare(l, c, n, &bytes);
    if (!is_marked(at, bytes))
      found("hooks", "%s writes %s beyond the lane's entries", "a column");
  }
}

static size_t held(void) {
#if defined __GLIBC__ && __GLIBC_PREREQ(2, 33)
  struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
#else
  return 0;
#endif
}

/* --- a hook's surroundings ---------------------------------------------- */

typedef struct visit {
  kv_at at;
  kv_work work;
  kv_work *outer;
  size_t held;
} visit;

static void enter(visit *v, const char *hook, const kv_at *at, int lane) {
  v->at = *at;
  v->work = *at->work;
  v->outer = at->work;
  v->work.size -= FENCE;
  v->at.work = &v->work;
  memset(v->work.base + v->work.size, MARK, FENCE);
  now.last = hook;
  now.layer = at->layer;
  now.lane = lane;
  now.step = at->step;
  v->held = counting ? held() : 0;
  now.hook = hook;
}

static void leave(visit *v) {
  now.hook = NULL;
  now.absent = 0;
  now.no_logits = false;
  if (counting && held() > v->held)
    found("hooks",
          "%s allocates memory and keeps %s; hooks take it from at->work, or "
          "ask for lane_state",
          "it");
  if (!is_marked(v->work.base + v->work.size, FENCE))
    found("hooks", "%s writes outside of %s", "the workspace it asked for");
  v->outer->used = v->work.used;
}

/* --- hooks -------------------------------------------------------------- */

static void arrive(const kv_at *at, kv_lane *l, int first) {
  visit v;
  int n = l->n;
  fill(l);
  enter(&v, "arrive", at, l->lane);
  inner->arrive(&v.at, l, first);
  leave(&v);
  look(l, n);
}

/* Junk beyond what a row sees is another junk every time. */
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

static void observe(const kv_at *at, kv_lane *l, const kv_rows *rows) {
  visit v;
  int n = l->n;
  fill(l);
  worsen(rows);
  enter(&v, "observe", at, l->lane);
  now.absent = ~at->needs->want & (KV_Q | KV_S | KV_P | KV_SUM);
  inner->observe(&v.at, l, rows);
  leave(&v);
  look(l, n);
}

static void check_view(const kv_lane *l, const kv_view *v) {
  int end = -1, sum = 0;
  for (int r = 0; r < v->runs; r++) {
    if (v->run[r].count < 1 || v->run[r].first <= end ||
        v->run[r].count > l->n - v->run[r].first)
      found("views", "%s gives runs that do not ascend, or %s", "end past n");
    end = v->run[r].first + v->run[r].count;
    sum += v->run[r].count;
  }
  if (sum < 1 || sum != v->entries)
    found("views", "%s gives a view that is empty or miscounted%s", "");
}

static void view(const kv_at *at, const kv_lane *l, const kv_query *q,
                 kv_view *out) {
  visit v;
  size_t room = (size_t)l->n / 2 + 1, all = (size_t)l->shape->n_tokens / 2 + 1;
  size_t rest = (all - room) * sizeof *out->run;
  memset(out->run + room, MARK, rest);
  enter(&v, "view", at, l->lane);
  now.no_logits = !at->needs->view_logits;
  inner->view(&v.at, l, q, out);
  leave(&v);
  if (!is_marked(out->run + room, rest))
    found("hooks", "%s writes outside of %s", "the room that a view has");
  check_view(l, out);
}

static void settle_lane(const kv_at *at, kv_lane *l) {
  visit v;
  int n = l->n;
  fill(l);
  enter(&v, "settle_lane", at, l->lane);
  inner->settle_lane(&v.at, l);
  leave(&v);
  look(l, n);
}

static void settle_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  visit v;
  int *n = calloc((size_t)lanes, sizeof *n); /* before memory is counted */
  for (int i = 0; i < lanes; i++) {
    fill(lane[i]);
    if (n) n[i] = lane[i]->n;
  }
  enter(&v, "settle_layer", at, -1);
  inner->settle_layer(&v.at, lane, lanes);
  leave(&v);
  for (int i = 0; i < lanes && n; i++) look(lane[i], n[i]);
  free(n);
}

/* --- needs -------------------------------------------------------------- */

static const char *contradiction(const kv_needs *n) {
  if (n->columns < 0 || n->columns > KV_MAX_COLUMNS)
    return "columns are more than KV_MAX_COLUMNS";
  for (int c = 0; c < n->columns; c++)
    if (n->column[c] != KV_INT64 && n->column[c] != KV_FLOAT)
      return "a column has no type";
  if (n->codings < 0 || n->codings > KV_MAX_CODINGS)
    return "codings are more than KV_MAX_CODINGS";
  for (int c = 0; c < n->codings; c++)
    if (!n->coding[c].format) return "a coding has no format";
  if (n->lanes != KV_HEAD && n->lanes != QUERY_HEAD) return "lanes is neither";
  if (n->block < 0 || n->prompt_rows < 0 || n->every < 0 || n->page < 0)
    return "something is below 0";
  if (n->want & ~(unsigned)(KV_Q | KV_S | KV_P | KV_SUM))
    return "want asks for what is unknown";
  if (n->lane_state > (size_t)1 << 40 || n->work > (size_t)1 << 40)
    return "lane_state or work is beyond a terabyte";
  return NULL;
}

static kv_rc open(const kv_shape *shape, void *params, kv_needs *needs,
                  kv_err *e) {
  now.hook = now.last = "open";
  now.layer = now.lane = now.step = 0;
  kv_rc rc = inner->open(shape, params, needs, e);
  now.hook = NULL;
  if (rc) return rc;
  const char *wrong = contradiction(needs);
  if (wrong) found("needs", "%s fills needs that cannot be: %s", wrong);
  needs->lane_state += FENCE;
  needs->work += FENCE;
  return KV_OK;
}

void kv_fence_count(bool on) { counting = on; }

const kv_method *kv_fence_around(const kv_method *method, kv_fence_tell *who) {
  inner = method;
  tell = who;
  fenced = *method;
  fenced.open = open;
  if (inner->arrive) fenced.arrive = arrive;
  if (inner->view) fenced.view = view;
  if (inner->observe) fenced.observe = observe;
  if (inner->settle_lane) fenced.settle_lane = settle_lane;
  if (inner->settle_layer) fenced.settle_layer = settle_layer;
  return &fenced;
}
