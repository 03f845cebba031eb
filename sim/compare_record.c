/* SPDX-License-Identifier: Apache-2.0
 *
 * Two streams of journal words: the first record that differs, and in it the
 * first word, called by what it means (ref/journal.h).
 */
#include "sim/compare_part.h"

#include <stdio.h>
#include <string.h>

enum { HEAD = 5, KIND = 0, WHO = 3, COUNT = 4, ROOM = 128 };

static const char *const kinds[] = {
    [KV_VIEW] = "view",     [KV_KEEP] = "keep", [KV_MERGE] = "merge",
    [KV_RECODE] = "recode", [KV_MOVE] = "move", [KV_RECLASS] = "reclass"};
static const char *const header[HEAD] = {"kind", "layer", "step", "head",
                                         "count"};

static const char *kind_of(uint32_t kind) {
  size_t n = sizeof kinds / sizeof *kinds;
  return kind < n && kinds[kind] ? kinds[kind] : "no known record";
}

/* What payload word i is: the words before it agree, so what they say (how
 * many a keep drops) holds for both. */
static void name_keep(const uint32_t *payload, size_t i, char out[ROOM]) {
  size_t m = i ? payload[0] : 0;
  if (i == 0)
    snprintf(out, ROOM, "how many it drops");
  else if (i <= m)
    snprintf(out, ROOM, "dropped id %zu of %zu", i, m);
  else if (i == m + 1)
    snprintf(out, ROOM, "the flag of a new order");
  else
    snprintf(out, ROOM, "id at place %zu of the new order", i - m - 2);
}

static void name_word(const uint32_t *record, size_t i, char out[ROOM]) {
  static const char *const merge[] = {"the id merged into", "the id merged",
                                      "the factor a", "the factor b"};
  static const char *const recode[] = {"the K format", "the V format"};
  static const char *const move[] = {"the id moved", "its new place"};
  const uint32_t *payload = record + HEAD;
  switch (record[KIND]) {
  case KV_VIEW:
    snprintf(out, ROOM, "%s of run %zu", i % 2 ? "length" : "first entry",
             i / 2);
    return;
  case KV_KEEP:
    name_keep(payload, i, out);
    return;
  case KV_MERGE:
    snprintf(out, ROOM, "%s", i < 4 ? merge[i] : "a word too many");
    return;
  case KV_RECODE:
    if (i < 2)
      snprintf(out, ROOM, "%s", recode[i]);
    else
      snprintf(out, ROOM, "id %zu of the group", i - 2);
    return;
  case KV_MOVE:
    snprintf(out, ROOM, "%s", i < 2 ? move[i] : "a word too many");
    return;
  default:
    snprintf(out, ROOM, "the id");
  }
}

/* Word i of the record at a and at b is the first that differs. */
static bool tell_word(const kv_look *l, int lane, int nth, const uint32_t *a,
                      const uint32_t *b, size_t i) {
  char name[ROOM];
  bool view = a[KIND] == KV_VIEW;
  kv_look_at at = {.what = kind_of(a[KIND]),
                   .lane = lane,
                   .head = view ? (int)a[WHO] : -1,
                   .index = i < HEAD ? -1 : (int)(i - HEAD),
                   .value = {a[i], b[i]},
                   .digits = {8, 8}};
  if (i == KIND)
    return kv_look_tell(l, &at, "record %d is a %s and a %s", nth,
                        kind_of(a[KIND]), kind_of(b[KIND]));
  if (i < HEAD)
    snprintf(name, sizeof name, "%s", header[i]);
  else
    name_word(a, i - HEAD, name);
  return kv_look_tell(l, &at, "record %d, %s: %s", nth, at.what, name);
}

/* One stream ends where the other goes on. */
static bool tell_more(const kv_look *l, int lane, int nth, const kv_words *a,
                      const kv_words *b, size_t from) {
  int longer = a->n < b->n;
  const kv_words *w = longer ? b : a;
  const uint32_t *r = w->word + from;
  kv_look_at at = {.what = "journal",
                   .lane = lane,
                   .head = -1,
                   .index = -1,
                   .none = "no such record"};
  if (from + HEAD < w->n) {
    at.what = kind_of(r[KIND]);
    at.head = r[KIND] == KV_VIEW ? (int)r[WHO] : -1;
    at.value[longer] = r[HEAD];
    at.digits[longer] = 8;
  }
  return kv_look_tell(l, &at, "record %d, %s: its first word", nth, at.what);
}

bool kv_look_records(const kv_look *l, int lane, const kv_words *a,
                     const kv_words *b) {
  size_t least = a->n < b->n ? a->n : b->n, at = 0;
  if (a->n == b->n && !memcmp(a->word, b->word, a->n * sizeof *a->word))
    return false;
  for (int nth = 0;; nth++) {
    if (at + HEAD > least) return tell_more(l, lane, nth, a, b, at);
    const uint32_t *x = a->word + at, *y = b->word + at;
    size_t words = (size_t)HEAD + x[COUNT];
    if (at + words > least) words = least - at; /* a count that lies */
    for (size_t i = 0; i < words; i++)
      if (x[i] != y[i]) return tell_word(l, lane, nth, x, y, i);
    at += words;
  }
}
