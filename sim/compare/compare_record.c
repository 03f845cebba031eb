/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two streams of journal words: finds the first record that differs
 * and in it the first word, named by its meaning (ref/lane/journal.h).
 */
#include "sim/compare/compare_part.h"

#include "ref/lane/records.h"
#include <stdio.h>
#include <string.h>

enum { HEAD = KV_RECORD_HEAD, KIND = 0, WHO = 3, COUNT = 4 };

static const char *const header[HEAD] = {"kind", "layer", "step", "head",
                                         "count"};

static const char *kind_of(uint32_t kind) {
  const kv_record_kind *k = kv_record_kind_of(kind);
  return k ? k->name : "no known record";
}

/* Describes word i of the records a and b, the first that differs. */
static bool tell_word(const kv_look *l, int lane, int nth, const uint32_t *a,
                      const uint32_t *b, size_t i) {
  char name[KV_RECORD_MEANING];
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
    kv_record_word(a, i - HEAD, name);
  return kv_look_tell(l, &at, "record %d, %s: %s", nth, at.what, name);
}

/* Describes records that only one stream has. */
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
    if (at + words > least)
      words = least - at; /* a count beyond the stream's end */
    for (size_t i = 0; i < words; i++)
      if (x[i] != y[i]) return tell_word(l, lane, nth, x, y, i);
    at += words;
  }
}

bool kv_look_message(const kv_look *l, size_t bytes, const kv_message *a,
                     const kv_message *b) {
  const unsigned char *x = a ? a->data : NULL, *y = b ? b->data : NULL;
  kv_look_at at = {.what = "message",
                   .lane = -1,
                   .head = -1,
                   .index = 0,
                   .digits = {x ? 2 : 0, y ? 2 : 0},
                   .none = "no message"};
  size_t i = 0;
  if (!x && !y) return false;
  while (x && y && i < bytes && x[i] == y[i]) i++;
  if (x && y && i == bytes) return false;
  at.index = (int)i;
  if (x) at.value[0] = x[i];
  if (y) at.value[1] = y[i];
  return kv_look_tell(l, &at, "byte %zu of the message to the layers below", i);
}
