/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two lanes, and two attended rows: finds the first word that differs
 * and writes the sentence about it. Also records the scores that the selections
 * of two backends saw in a step, to find the first that differs, and its
 * selection.
 */
#include "sim/run/compare/compare_part.h"

#include "ref/lane/records.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- sentences ---------------------------------------------------------- */

static void place(const kv_look *l, const kv_look_at *at, size_t size,
                  char *out) {
  char when[32] = "", which[32] = "all layers", who[48] = "";
  if (l->step >= 0) snprintf(when, sizeof when, "step %d, ", l->step);
  if (l->layer >= 0) snprintf(which, sizeof which, "layer %d", l->layer);
  if (at->head >= 0)
    snprintf(who, sizeof who, ", query head %d", at->head);
  else if (at->lane >= 0)
    snprintf(who, sizeof who, ", lane %d", at->lane);
  snprintf(out, size, "%s%s%s", when, which, who);
}

static void hex(const kv_look_at *at, int i, char out[KV_DIFFERENCE_TEXT]) {
  out[0] = 0;
  if (at->digits[i])
    snprintf(out, KV_DIFFERENCE_TEXT, "0x%0*llx", at->digits[i],
             (unsigned long long)at->value[i]);
}

static void fill(const kv_look *l, const kv_look_at *at, const char *what,
                 int width) {
  kv_difference *d = l->out;
  char where[128];
  place(l, at, sizeof where, where);
  d->found = true;
  d->what = at->what;
  d->layer = l->layer;
  d->step = l->step;
  d->lane = at->lane;
  d->head = at->head;
  d->index = at->index;
  snprintf(d->sentence, sizeof d->sentence,
           "%s: %.200s: %.*s in %.24s, %.*s in %.24s", where, what, width,
           d->a[0] ? d->a : at->none, l->name[0], width,
           d->b[0] ? d->b : at->none, l->name[1]);
}

bool kv_look_tell(const kv_look *l, const kv_look_at *at, const char *format,
                  ...) {
  char what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  hex(at, 0, l->out->a);
  hex(at, 1, l->out->b);
  fill(l, at, what, KV_DIFFERENCE_TEXT);
  return true;
}

bool kv_look_digests(const kv_look *l, const kv_look_at *at, const kv_digest *a,
                     const kv_digest *b, const char *format, ...) {
  enum { ENOUGH = 2 + 16 }; /* digits shown of a digest */
  char what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  memcpy(l->out->a, "0x", 2);
  memcpy(l->out->b, "0x", 2);
  kv_digest_hex(a, l->out->a + 2);
  kv_digest_hex(b, l->out->b + 2);
  fill(l, at, what, ENOUGH);
  return true;
}

/* --- lanes -------------------------------------------------------------- */

static int format_of(const kv_cell_ref *r, int i) {
  return r ? r[i].format : KV_RAW;
}

static bool tell_entry(const kv_look *l, const kv_lane *a, const char *what,
                       int i, uint64_t x, uint64_t y, int digits) {
  kv_look_at at = {.what = what,
                   .lane = a->lane,
                   .head = -1,
                   .index = i,
                   .value = {x, y},
                   .digits = {digits, digits}};
  return kv_look_tell(l, &at, "%s of entry %d (token %u)", what, i,
                      (unsigned)a->id[i]);
}

static bool look_columns(const kv_look *l, const kv_lane *a, const kv_lane *b,
                         int i) {
  for (int c = 0; c < a->needs->columns; c++) {
    bool real = a->needs->column[c] == KV_FLOAT;
    uint64_t x =
        real ? kv_bits_of(a->column[c].f[i]) : (uint64_t)a->column[c].i[i];
    uint64_t y =
        real ? kv_bits_of(b->column[c].f[i]) : (uint64_t)b->column[c].i[i];
    kv_look_at at = {.what = "column",
                     .lane = a->lane,
                     .head = -1,
                     .index = i,
                     .value = {x, y},
                     .digits = {real ? 8 : 16, real ? 8 : 16}};
    if (x != y)
      return kv_look_tell(l, &at, "column %d of entry %d (token %u)", c, i,
                          (unsigned)a->id[i]);
  }
  return false;
}

static bool look_entry(const kv_look *l, const kv_lane *a, const kv_lane *b,
                       int i) {
  if (a->id[i] != b->id[i])
    return tell_entry(l, a, "id", i, a->id[i], b->id[i], 8);
  if (a->weight[i] != b->weight[i])
    return tell_entry(l, a, "weight", i, a->weight[i], b->weight[i], 8);
  int x = kv_class_of(a, i), y = kv_class_of(b, i);
  if (x != y) return tell_entry(l, a, "class", i, (uint64_t)x, (uint64_t)y, 2);
  x = format_of(a->k, i), y = format_of(b->k, i);
  if (x != y)
    return tell_entry(l, a, "k_format", i, (uint64_t)x, (uint64_t)y, 4);
  x = format_of(a->v, i), y = format_of(b->v, i);
  if (x != y)
    return tell_entry(l, a, "v_format", i, (uint64_t)x, (uint64_t)y, 4);
  return l->columns && look_columns(l, a, b, i);
}

/* The first memory operation of the step that rewrote rows. */
static void name_writer(const kv_words *w, size_t size, char *out) {
  int n = 0;
  size_t i = 0;
  kv_record_at r;
  out[0] = 0;
  while (kv_records_next(w, &i, &r)) {
    bool merge = r.head[0] == KV_MERGE;
    bool recode = r.head[0] == KV_RECODE && r.count > 2;
    if (!merge && !recode) continue;
    if (n++ == 0)
      snprintf(out, size, " by the %s token %u",
               merge ? "merge into" : "recode of",
               (unsigned)r.payload[merge ? 0 : 2]);
  }
  size_t used = strlen(out);
  if (n > 1)
    snprintf(out + used, size - used, " or the %d verbs after it", n - 1);
}

/* Compares one side of an entry as attention reads it. */
static bool look_row(const kv_look *l, const kv_lane *a, const kv_lane *b,
                     int i, bool key, const char *by) {
  int n = key ? a->shape->d : a->shape->d_v;
  if (format_of(key ? a->k : a->v, i) == KV_RAW) return false;
  (key ? kv_lane_key : kv_lane_value)(a, i, l->row[0]);
  (key ? kv_lane_key : kv_lane_value)(b, i, l->row[1]);
  for (int x = 0; x < n; x++) {
    kv_look_at at = {
        .what = key ? "key" : "value",
        .lane = a->lane,
        .head = -1,
        .index = x,
        .value = {kv_bits_of(l->row[0][x]), kv_bits_of(l->row[1][x])},
        .digits = {8, 8}};
    if (at.value[0] != at.value[1])
      return kv_look_tell(l, &at, "element %d of %s of token %u as rewritten%s",
                          x, key ? "K" : "V", (unsigned)a->id[i], by);
  }
  return false;
}

/* The digest of rewritten rows covers all steps so far, and it was equal
 * before. So a memory operation of this step wrote other rows, which may have
 * been dropped since. */
static bool look_rewrites(const kv_look *l, const kv_lane *a,
                          const kv_lane *b) {
  char by[96];
  if (!memcmp(&a->rewrites, &b->rewrites, sizeof a->rewrites)) return false;
  name_writer(&a->verbs, sizeof by, by);
  for (int i = 0; i < a->n; i++)
    if (look_row(l, a, b, i, true, by) || look_row(l, a, b, i, false, by))
      return true;
  kv_look_at at = {"rewritten", a->lane, -1, -1, {0}, {0}, NULL};
  return kv_look_digests(l, &at, &a->rewrites, &b->rewrites,
                         "K and V as rewritten%s", by);
}

bool kv_look_state(const kv_look *l, const kv_lane *a, const kv_lane *b) {
  int n = a->n < b->n ? a->n : b->n;
  for (int i = 0; i < n; i++)
    if (look_entry(l, a, b, i)) return true;
  if (a->n != b->n) {
    kv_look_at at = {
        "entries", a->lane, -1, n, {(uint64_t)a->n, (uint64_t)b->n},
        {8, 8},    NULL};
    return kv_look_tell(l, &at, "entries");
  }
  return look_rewrites(l, a, b);
}

/* --- rows --------------------------------------------------------------- */

bool kv_look_seen(const kv_look *l, int d_v, const kv_seen *a,
                  const kv_seen *b) {
  for (int h = 0; h < a->queries; h++) {
    const float *x = a->out + (size_t)h * (size_t)d_v;
    const float *y = b->out + (size_t)h * (size_t)d_v;
    kv_look_at at = {.what = "output",
                     .lane = a->lane->lane,
                     .head = a->lane->first_head + h,
                     .digits = {8, 8}};
    for (int i = 0; i < d_v; i++) {
      at.index = i;
      at.value[0] = kv_bits_of(x[i]);
      at.value[1] = kv_bits_of(y[i]);
      if (at.value[0] != at.value[1])
        return kv_look_tell(l, &at, "element %d of the output", i);
    }
    at.what = "lse";
    at.index = -1;
    at.value[0] = kv_bits_of(a->lse[h]);
    at.value[1] = kv_bits_of(b->lse[h]);
    if (at.value[0] != at.value[1]) return kv_look_tell(l, &at, "the LSE");
  }
  return false;
}

enum { HEAD = 5, CHOSE = 0, WHO, LIST, LISTS, COUNT };

/* --- recording ----------------------------------------------------------- */

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

/* Names a selection: what it chose, and in how many lists. */
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

/* Whose scores a selection ranked: a lane's, or the layer's, with a list for
 * each lane or one for all. */
static kv_look_at scores_place(const kv_look_shown *x, int lane,
                               const uint32_t *r) {
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
  kv_look_at at = scores_place(x, lane, a);
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

/* Describes two selections of different kinds: number of scores, head, or rule.
 */
static bool tell_kind(const kv_look *l, const kv_look_shown *x, int lane,
                      int nth, const uint32_t *a, const uint32_t *b) {
  static const char *const what[HEAD] = {"how it chooses", "its query head",
                                         "the list's number", "its lists",
                                         "its scores"};
  char name[112];
  kv_look_at at = scores_place(x, lane, a);
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
  kv_look_at at = scores_place(x, lane, r);
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
      -1; /* counts the selections of the compression, or of this query head */
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
