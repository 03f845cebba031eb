/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of records, what their words mean, and the walk over them.
 */
#include "ref/lane/records.h"

#include <stdio.h>

#define KIND(symbol, number, called, fewest, many)                             \
  [symbol] = {.name = #called, .least = fewest, .most = many},
static const kv_record_kind kinds[] = {KV_RECORD_KINDS(KIND)};

const kv_record_kind *kv_record_kind_of(uint32_t kind) {
  bool known = kind < sizeof kinds / sizeof *kinds && kinds[kind].name;
  return known ? &kinds[kind] : NULL;
}

bool kv_records_next(const kv_words *w, size_t *at, kv_record_at *out) {
  if (*at + KV_RECORD_HEAD > w->n) return false;
  const uint32_t *head = w->word + *at;
  size_t count = head[4];
  if (count > w->n - *at - KV_RECORD_HEAD) return false;
  *out = (kv_record_at){head, head + KV_RECORD_HEAD, count};
  *at += KV_RECORD_HEAD + count;
  return true;
}

/* --- what words mean ---------------------------------------------------- */

/* Words that have a name; of kinds of one length every word has. */
typedef struct words {
  int n;
  const char *word[4];
} words;

static void say(const words *w, size_t i, const char *more, size_t past,
                char *out) {
  if (i < (size_t)w->n)
    snprintf(out, KV_RECORD_MEANING, "%s", w->word[i]);
  else if (more)
    snprintf(out, KV_RECORD_MEANING, "%s %zu of the group", more, i - past);
  else
    snprintf(out, KV_RECORD_MEANING, "a word too many");
}

static void say_view(const uint32_t *payload, size_t i, char *out) {
  (void)payload;
  snprintf(out, KV_RECORD_MEANING, "%s of run %zu",
           i % 2 ? "length" : "first entry", i / 2);
}

/* The words before i agree, so how many a keep drops holds for both. */
static void say_keep(const uint32_t *payload, size_t i, char *out) {
  size_t m = i ? payload[0] : 0;
  if (i == 0)
    snprintf(out, KV_RECORD_MEANING, "how many it drops");
  else if (i <= m)
    snprintf(out, KV_RECORD_MEANING, "dropped id %zu of %zu", i, m);
  else if (i == m + 1)
    snprintf(out, KV_RECORD_MEANING, "the flag of a new order");
  else
    snprintf(out, KV_RECORD_MEANING, "id at place %zu of the new order",
             i - m - 2);
}

static void say_merge(const uint32_t *payload, size_t i, char *out) {
  static const words w = {
      4,
      {"the id merged into", "the id merged", "the factor a", "the factor b"}};
  (void)payload;
  say(&w, i, NULL, 0, out);
}

static void say_recode(const uint32_t *payload, size_t i, char *out) {
  static const words w = {2, {"the K format", "the V format"}};
  (void)payload;
  say(&w, i, "id", 2, out);
}

static void say_move(const uint32_t *payload, size_t i, char *out) {
  static const words w = {2, {"the id moved", "its new place"}};
  (void)payload;
  say(&w, i, NULL, 0, out);
}

static void say_retier(const uint32_t *payload, size_t i, char *out) {
  static const words w = {1, {"the class"}};
  (void)payload;
  say(&w, i, "id", 1, out);
}

#define SAY(symbol, number, called, least, most) [symbol] = say_##called,
static void (*const says[])(const uint32_t *payload, size_t i,
                            char *out) = {KV_RECORD_KINDS(SAY)};

void kv_record_word(const uint32_t *record, size_t i,
                    char out[KV_RECORD_MEANING]) {
  if (kv_record_kind_of(record[0]))
    says[record[0]](record + KV_RECORD_HEAD, i, out);
  else
    snprintf(out, KV_RECORD_MEANING, "word %zu", i);
}
