/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws for methods from outside: sim/run/laws/law_guest.h.
 */
#include "sim/run/laws/law_guest.h"

#include "ref/lane/needs.h"
#include "sim/ask/door.h"
#include "sim/run/laws/fence.h"
#include "sim/run/laws/law_walk.h"
#include <stdlib.h>
#include <string.h>

/* Replays the case; the fences check it. */
static kv_rc look(const kv_law_case *c, kv_fence_watch what, kv_err *e) {
  kv_cell cell = {0};
  kv_rc rc = kv_fence_look(what, e);
  if (!rc) rc = kv_law_replay(c, &(kv_law_how){.threads = 1}, &cell, e);
  kv_cell_close(&cell);
  return rc;
}

static kv_rc hooks_hold(const kv_law_case *c, kv_err *e) {
  return look(c, KV_FENCE_WRITES, e);
}

static kv_rc modes_hold(const kv_law_case *c, kv_err *e) {
  const char *mode = kv_door_mode(kv_fence_inner());
  if (mode)
    return kv_fail(e, KV_DIFFERENT,
                   "loading it leaves %s; a constructor causes that, for "
                   "example by linking with -ffast-math",
                   mode);
  return look(c, KV_FENCE_MODES, e);
}

static kv_rc open_one(const kv_law_case *c, kv_cell *cell, kv_err *e) {
  kv_asked_cell asked = {.spec = c->spec, .entries = c->entries};
  kv_rc rc =
      kv_cell_open(c->trace, c->prompt_len, kv_kernels_best(), &asked, cell, e);
  if (rc || cell->runs) return rc;
  return kv_fail(e, KV_REFUSED, "%s", cell->result.reason);
}

static kv_rc needs_hold(const kv_law_case *c, kv_err *e) {
  enum { TIMES = 3 };
  kv_cell cell[TIMES] = {{0}};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < TIMES; i++) {
    kv_err why = {0};
    rc = open_one(c, &cell[i], &why);
    if (rc && i && cell[i].plan.method)
      rc = kv_fail(e, KV_DIFFERENT, "open fails on call %d: %s", i + 1,
                   why.text);
    else if (rc)
      kv_fail(e, rc, "%s", why.text);
    if (rc || !i) continue;
    const char *what =
        kv_needs_unlike(&cell[0].plan.needs, &cell[i].plan.needs);
    if (!what && strcmp(cell[0].result.params, cell[i].result.params))
      what = "the parameters";
    if (what)
      rc = kv_fail(e, KV_DIFFERENT,
                   "open fills %s differently when it is called again", what);
  }
  for (int i = 0; i < TIMES; i++) kv_cell_close(&cell[i]);
  return rc;
}

enum { GRAIN = 48 };

/* Counts of the current layer, and the least mean of each over the layers. */
typedef struct counts {
  int prompt_len, layer;
  double stored, lanes, attended, views;
  double least_stored, least_attended;
} counts;

static double mean(double sum, double n) { return n > 0 ? sum / n : 1e30; }

static void close_layer(counts *n) {
  double s = mean(n->stored, n->lanes), a = mean(n->attended, n->views);
  if (s < n->least_stored) n->least_stored = s;
  if (a < n->least_attended) n->least_attended = a;
  n->stored = n->lanes = n->attended = n->views = 0;
}

static void turn(counts *n, int layer) {
  if (layer != n->layer) close_layer(n);
  n->layer = layer;
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  counts *n = self;
  turn(n, layer);
  if (step != n->prompt_len) return;
  n->stored += l->n;
  n->lanes++;
}

static void seen(void *self, int layer, int step, const kv_seen *row) {
  counts *n = self;
  (void)step;
  turn(n, layer);
  for (int h = 0; h < row->queries; h++) n->attended += row->view[h].entries;
  n->views += row->queries;
}

static kv_rc budget_holds(const kv_law_case *c, kv_err *e) {
  counts n = {.prompt_len =
                  c->prompt_len ? c->prompt_len : c->trace->shape.prompt_len,
              .least_stored = 1e30,
              .least_attended = 1e30};
  kv_watch watch = {.self = &n, .compressed = compressed, .seen = seen};
  kv_cell cell = {0};
  kv_rc rc =
      kv_law_replay(c, &(kv_law_how){.threads = 1, .watch = &watch}, &cell, e);
  int budget = cell.result.budget;
  close_layer(&n);
  if (!rc && budget < GRAIN)
    rc = kv_fail(e, KV_REFUSED, "no budget, or a small one");
  if (!rc && n.least_stored > budget && n.least_attended > budget + 1)
    rc = kv_fail(e, KV_DIFFERENT,
                 "with a budget of %d, every layer stores %.1f or more entries "
                 "a lane after the prompt and attends to %.1f or more",
                 budget, n.least_stored, n.least_attended);
  kv_cell_close(&cell);
  return rc;
}

static const struct {
  kv_law law;
  kv_rc (*holds)(const kv_law_case *c, kv_err *e);
} list[] = {
    {{"hooks", "hooks return, use verbs as allowed, write only memory of their "
               "own, and keep no memory, thread or process"},
     hooks_hold},
    {{"modes", "hooks, and loading, leave the floating-point mode unchanged: "
               "rounding to nearest, nothing flushed to zero, no traps"},
     modes_hold},
    {{"needs", "open gives the same result again for the same parameters"},
     needs_hold},
    {{"budget", "some layer stores, after the prompt, or attends to at most a "
                "budget of entries a lane"},
     budget_holds}};

const kv_law *kv_law_guest_at(int index) {
  int count = (int)(sizeof list / sizeof *list);
  return index >= 0 && index < count ? &list[index].law : NULL;
}

kv_rc kv_law_guest_ask(int index, const kv_law_case *c, kv_err *e) {
  return list[index].holds(c, e);
}
