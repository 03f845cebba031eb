/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter of keep, merge, recode, move and reclass.
 */
#include "sim/law_shadow.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader { /* one record */
  kv_shadow *s;
  const kv_lane *lane;
  const uint32_t *word; /* payload */
  size_t count;
  kv_err *e;
} reader;

static kv_rc wrong(const reader *r, const char *what) {
  return kv_fail(r->e, KV_DIFFERENT,
                 "layer %d, lane %d, step %d: a record in the journal %s",
                 r->lane->data->layer, r->lane->lane, r->lane->step, what);
}

kv_rc kv_shadow_open(int n_tokens, kv_shadow *s, kv_err *e) {
  size_t t = (size_t)n_tokens;
  *s = (kv_shadow){.entry = kv_zalloc(t, sizeof *s->entry),
                   .spare = kv_zalloc(t, sizeof *s->spare),
                   .owner = kv_zalloc(t, sizeof *s->owner),
                   .room = 4 * n_tokens};
  s->members = kv_zalloc(4 * t, sizeof *s->members);
  if (s->entry && s->spare && s->owner && s->members) return KV_OK;
  return kv_no_memory(e, "a law", t * sizeof *s->entry);
}

void kv_shadow_close(kv_shadow *s) {
  free(s->entry);
  free(s->spare);
  free(s->owner);
  free(s->members);
}

void kv_shadow_begin(kv_shadow *s) {
  s->step = s->n = s->groups = 0;
  s->dropped = 0;
  s->lost = s->gaps = false;
  s->read = 0;
}

static int place_of(const kv_shadow *s, uint32_t id) {
  for (int i = 0; i < s->n; i++)
    if (s->entry[i].id == id) return i;
  return -1;
}

static void enter(kv_shadow *s, int step) {
  if (step != s->step) s->read = 0;
  for (int t = s->step; t < step; t++) {
    s->entry[s->n++] =
        (kv_shadow_entry){(uint32_t)t, 1, KV_RAW, KV_RAW, -1, -1};
    s->owner[t] = t;
  }
  s->step = step;
}

static void give(kv_shadow *s, uint32_t from, int32_t to) {
  for (int t = 0; t < s->step; t++)
    if (s->owner[t] == (int32_t)from) s->owner[t] = to;
}

/* --- keep --------------------------------------------------------------- */

/* The survivors in the order they had, into spare; -1: an id is not there. */
static int survivors(const reader *r, uint32_t m) {
  kv_shadow *s = r->s;
  int n = 0;
  uint32_t next = 0;
  for (int i = 0; i < s->n; i++) {
    bool goes = false;
    for (uint32_t j = 1; j <= m && !goes; j++)
      goes = r->word[j] == s->entry[i].id;
    if (!goes) {
      s->spare[n++] = s->entry[i];
      continue;
    }
    s->dropped += s->entry[i].weight;
    give(s, s->entry[i].id, KV_SHADOW_GONE);
    next++;
  }
  return next == m ? n : -1;
}

/* Puts the survivors in the order of the ids listed. */
static bool reorder(kv_shadow *s, int n, const uint32_t *id) {
  for (int i = 0; i < n; i++) {
    int from = i;
    while (from < n && s->spare[from].id != id[i]) from++;
    if (from == n) return false;
    kv_shadow_entry e = s->spare[from];
    s->spare[from] = s->spare[i];
    s->spare[i] = e;
  }
  return true;
}

static kv_rc keep(const reader *r) {
  kv_shadow *s = r->s;
  if (r->count < 2 || r->word[0] > (uint32_t)s->n || r->count < r->word[0] + 2)
    return wrong(r, "keeps with too few words");
  uint32_t m = r->word[0], flag = r->word[m + 1];
  size_t left = (size_t)s->n - m;
  if (flag > 1 || r->count != m + 2 + (flag ? left : 0))
    return wrong(r, "keeps with a wrong number of words");
  for (uint32_t j = 2; j <= m; j++)
    if (r->word[j] <= r->word[j - 1])
      return wrong(r, "drops ids that do not ascend");
  int n = survivors(r, m);
  if (n < 0) return wrong(r, "drops an id that is not stored");
  if (flag && !reorder(s, n, r->word + m + 2))
    return wrong(r, "orders ids that are not stored");
  bool same = true;
  for (int i = 0; i < n; i++) same = same && s->spare[i].id == s->entry[i].id;
  if (same && m == 0) return wrong(r, "keeps everything as it was");
  memcpy(s->entry, s->spare, (size_t)n * sizeof *s->entry);
  s->n = n;
  s->lost = s->lost || m > 0;
  s->gaps = s->gaps || !same;
  return KV_OK;
}

/* --- the others --------------------------------------------------------- */

static void take_out(kv_shadow *s, int i) {
  memmove(s->entry + i, s->entry + i + 1,
          (size_t)(s->n - i - 1) * sizeof *s->entry);
  s->n--;
}

static kv_rc merge(const reader *r) {
  kv_shadow *s = r->s;
  if (r->count != 4) return wrong(r, "merges with a wrong number of words");
  int into = place_of(s, r->word[0]), from = place_of(s, r->word[1]);
  if (into < 0 || from < 0 || into == from)
    return wrong(r, "merges an id that is not stored");
  kv_shadow_entry *a = &s->entry[into], b = s->entry[from];
  uint32_t id = a->id < b.id ? a->id : b.id;
  give(s, a->id, (int32_t)id);
  give(s, b.id, (int32_t)id);
  *a =
      (kv_shadow_entry){id, a->weight + b.weight, KV_MERGED, KV_MERGED, -1, -1};
  s->lost = true;
  s->gaps = s->gaps || from != s->n - 1;
  take_out(s, from);
  return KV_OK;
}

static kv_rc recode(const reader *r) {
  kv_shadow *s = r->s;
  if (r->count < 3) return wrong(r, "recodes nothing");
  int k = (int)r->word[0], v = (int)r->word[1], last = r->lane->needs->codings;
  if (k >= KV_CODED + last || v >= KV_CODED + last ||
      (k != KV_SAME && k < KV_CODED) || (v != KV_SAME && v < KV_CODED))
    return wrong(r, "recodes into a format that was not asked for");
  if (s->groups + 2 > s->room) return wrong(r, "is one of too many recodes");
  for (size_t j = 2; j < r->count; j++) {
    int i = place_of(s, r->word[j]);
    if (i < 0) return wrong(r, "recodes an id that is not stored");
    if (k != KV_SAME) s->entry[i].k = k, s->entry[i].k_group = s->groups;
    if (v != KV_SAME) s->entry[i].v = v, s->entry[i].v_group = s->groups;
  }
  s->members[s->groups++] = (int)r->count - 2;
  return KV_OK;
}

static kv_rc move(const reader *r) {
  kv_shadow *s = r->s;
  int from = r->count == 2 ? place_of(s, r->word[0]) : -1;
  if (from < 0 || r->word[1] >= (uint32_t)s->n)
    return wrong(r, "moves an id that is not stored, or to nowhere");
  int to = (int)r->word[1];
  kv_shadow_entry e = s->entry[from];
  take_out(s, from);
  memmove(s->entry + to + 1, s->entry + to,
          (size_t)(s->n - to) * sizeof *s->entry);
  s->entry[to] = e;
  s->n++;
  s->gaps = true;
  return KV_OK;
}

static kv_rc reclass(const reader *r) {
  if (r->count == 1 && place_of(r->s, r->word[0]) >= 0) return KV_OK;
  return wrong(r, "changes the class of an id that is not stored");
}

static kv_rc interpret(const reader *r, uint32_t kind) {
  switch (kind) {
  case KV_KEEP:
    return keep(r);
  case KV_MERGE:
    return merge(r);
  case KV_RECODE:
    return recode(r);
  case KV_MOVE:
    return move(r);
  case KV_RECLASS:
    return reclass(r);
  default:
    return wrong(r, "has an unknown kind");
  }
}

kv_rc kv_shadow_follow(kv_shadow *s, const kv_lane *l, kv_err *e) {
  const uint32_t *w = l->verbs.word;
  enter(s, l->step);
  kv_rc rc = KV_OK;
  while (!rc && s->read < l->verbs.n) {
    const uint32_t *head = w + s->read;
    reader r = {s, l, head + 5, head[4], e};
    if (s->read + 5 + r.count > l->verbs.n) return wrong(&r, "is cut short");
    if (head[1] != (uint32_t)l->data->layer || head[2] != (uint32_t)l->step ||
        head[3] != (uint32_t)l->lane)
      return wrong(&r, "names another layer, step or lane");
    rc = interpret(&r, head[0]);
    s->read += 5 + r.count;
  }
  return rc;
}
