/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores that two backends were shown in a step: records them, and finds the
 * first that differs, and its selection.
 */
#include "sim/compare/compare_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 5, CHOSE = 0, WHO, LIST, LISTS, COUNT };

/* --- what is shown ------------------------------------------------------ */

static uint32_t *take(kv_look_shown *x, int lane, size_t n) {
  struct kv_look_words *w = &x->lane[lane];
  if (w->n + n > w->room) {
    size_t room = 2 * (w->n + n);
    uint32_t *more = realloc(w->word, room * sizeof *more);
    x->no_memory = x->no_memory || !more;
    if (!more) return NULL;
    w->word = more;
    w->room = room;
  }
  w->n += n;
  return w->word + w->n - n;
}

static void shown(void *self, const kv_shown *s) {
  kv_look_shown *x = self;
  int lane = s->lane == KV_SHOWN_LAYER ? x->lanes : s->lane;
  if (!x->looks) return;
  uint32_t *to = take(x, lane, HEAD + (size_t)s->n);
  if (!to) return;
  to[CHOSE] = (uint32_t)s->chose;
  to[WHO] = (uint32_t)s->head;
  to[LIST] = (uint32_t)s->list;
  to[LISTS] = (uint32_t)s->lists;
  to[COUNT] = (uint32_t)s->n;
  for (int i = 0; i < s->n; i++) to[HEAD + i] = kv_shown_word(s, i);
}

kv_rc kv_look_shown_open(int lanes, kv_look_shown *x, kv_err *e) {
  size_t n = (size_t)lanes + 1;
  *x = (kv_look_shown){.to = {x, shown}, .lanes = lanes};
  x->lane = kv_zalloc(n, sizeof *x->lane);
  return x->lane ? KV_OK : kv_no_memory(e, "scores", n * sizeof *x->lane);
}

void kv_look_shown_close(kv_look_shown *x) {
  for (int i = 0; x->lane && i <= x->lanes; i++) free(x->lane[i].word);
  free(x->lane);
  x->lane = NULL;
}

void kv_look_shown_forget(kv_look_shown *x) {
  for (int i = 0; i <= x->lanes; i++) x->lane[i].n = 0;
}

/* --- the first difference ----------------------------------------------- */

/* Names a selection: what it looked for, and in how many lists. */
static void name_selection(const uint32_t *r, int nth, size_t size, char *out) {
  static const char *const sought[] = {
      [KV_CHOSE_K] = "the largest",
      [KV_CHOSE_MASS] = "the largest mass",
      [KV_CHOSE_ONE] = "the smallest",
  };
  size_t known = sizeof sought / sizeof *sought;
  char lists[48] = "";
  if (r[LISTS] > 1)
    snprintf(lists, sizeof lists, ", list %u of %u", (unsigned)r[LIST],
             (unsigned)r[LISTS]);
  snprintf(out, size, "selection %d (%s%s)", nth,
           r[CHOSE] < known ? sought[r[CHOSE]] : "no known one", lists);
}

/* The place of a selection: a lane, or the layer, which ranks a list for each
 * lane or one for all. */
static kv_look_at place(const kv_look_shown *x, int lane, const uint32_t *r) {
  int whose = lane < x->lanes ? lane : -1;
  if (lane == x->lanes && (int)r[LISTS] == x->lanes) whose = (int)r[LIST];
  return (kv_look_at){
      .what = "selection", .lane = whose, .head = (int)r[WHO], .index = -1};
}

static float number(uint32_t word) {
  float f;
  memcpy(&f, &word, sizeof f);
  return f;
}

/* Describes score i of a selection that both made, the first that differs. */
static bool tell_score(const kv_look *l, const kv_look_shown *x, int lane,
                       int nth, const uint32_t *a, const uint32_t *b, int i) {
  char name[112];
  kv_look_at at = place(x, lane, a);
  uint32_t p = a[HEAD + i], q = b[HEAD + i];
  at.what = "score";
  at.index = i;
  at.value[0] = p;
  at.value[1] = q;
  at.digits[0] = at.digits[1] = 8;
  name_selection(a, nth, sizeof name, name);
  if (p == KV_SHOWN_OUT || q == KV_SHOWN_OUT)
    return kv_look_tell(l, &at,
                        "score %d of %u of %s, which takes part on one side "
                        "only",
                        i, (unsigned)a[COUNT], name);
  return kv_look_tell(l, &at, "score %d of %u of %s, %.9g and %.9g", i,
                      (unsigned)a[COUNT], name, (double)number(p),
                      (double)number(q));
}

/* Describes selections of different kinds: number of scores, head, or way to
 * choose. */
static bool tell_kind(const kv_look *l, const kv_look_shown *x, int lane,
                      int nth, const uint32_t *a, const uint32_t *b) {
  static const char *const what[HEAD] = {"how it chooses", "its query head",
                                         "the list's number", "its lists",
                                         "its scores"};
  char name[112];
  kv_look_at at = place(x, lane, a);
  int i = 0;
  while (a[i] == b[i]) i++;
  at.value[0] = a[i];
  at.value[1] = b[i];
  at.digits[0] = at.digits[1] = 8;
  name_selection(a, nth, sizeof name, name);
  return kv_look_tell(l, &at, "%s: %s", name, what[i]);
}

/* Describes a selection that only one of the two made; `r` is its record. */
static bool tell_more(const kv_look *l, const kv_look_shown *x, int lane,
                      int nth, const uint32_t *r, bool second) {
  char name[112];
  kv_look_at at = place(x, lane, r);
  at.value[second] = r[COUNT];
  at.digits[second] = 8;
  at.none = "no such selection";
  name_selection(r, nth, sizeof name, name);
  return kv_look_tell(l, &at, "%s: its scores", name);
}

static bool look_list(const kv_look *l, const kv_look_shown *x, int lane,
                      int nth, const uint32_t *a, const uint32_t *b) {
  if (memcmp(a, b, HEAD * sizeof *a)) return tell_kind(l, x, lane, nth, a, b);
  for (int i = 0; i < (int)a[COUNT]; i++)
    if (a[HEAD + i] != b[HEAD + i]) return tell_score(l, x, lane, nth, a, b, i);
  return false;
}

/* The next record of a query head (views) or of a compression; NULL: none. */
static const uint32_t *next(const struct kv_look_words *w, size_t *at,
                            bool views) {
  while (*at < w->n) {
    const uint32_t *r = w->word + *at;
    *at += HEAD + (size_t)r[COUNT];
    if (((int)r[WHO] >= 0) == views) return r;
  }
  return NULL;
}

static bool look_lane(const kv_look *l, const kv_look_shown *a,
                      const kv_look_shown *b, int lane, bool views) {
  size_t at[2] = {0, 0};
  int nth =
      -1; /* counts selections of the compression, or of this query head */
  for (const uint32_t *last = NULL;;) {
    const uint32_t *x = next(&a->lane[lane], &at[0], views);
    const uint32_t *y = next(&b->lane[lane], &at[1], views);
    const uint32_t *r = x ? x : y;
    if (!r) return false;
    if (last && last[WHO] != r[WHO]) nth = -1;
    nth += r[LIST] == 0;
    last = r;
    if (!x || !y) return tell_more(l, a, lane, nth, r, !x);
    if (look_list(l, a, lane, nth, x, y)) return true;
  }
}

bool kv_look_scores(const kv_look *l, const kv_look_shown *a,
                    const kv_look_shown *b, bool views) {
  for (int i = 0; i <= a->lanes; i++)
    if (look_lane(l, a, b, i, views)) return true;
  return false;
}
