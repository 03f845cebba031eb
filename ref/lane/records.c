/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of records, the meaning of their words, and the walk over them.
 */
#include "ref/lane/records.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Names of a record's first words; in kinds of fixed length, of all words. */
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

/* Both records agree in the words before i, so both keeps drop as many. */
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

/* --- the replica --------------------------------------------------------- */

typedef struct reader { /* one record, being read */
  kv_replica *s;
  const kv_lane *lane;
  const uint32_t *word; /* payload */
  size_t count;
  kv_err *e;
} reader;

static kv_rc wrong(const reader *r, const char *what) {
  return kv_fail(r->e, KV_DIFFERENT,
                 "layer %d, lane %d, step %d: a journal record %s",
                 r->lane->data->layer, r->lane->lane, r->lane->step, what);
}

size_t kv_row_bytes(const kv_shape *shape, const kv_needs *needs, int side,
                    int format) {
  int width = side == KV_SIDE_K ? shape->d : shape->d_v;
  if (format == KV_RAW) return (size_t)width * kv_dtype_size(shape->dtype);
  if (format == KV_MERGED)
    return (size_t)width * kv_dtype_size(kv_merged_type(needs, shape));
  const kv_coding *c = &needs->coding[format - KV_CODED];
  return kv_coding_size(c, side, 2 * kv_lane_count(needs, shape), 1, width)
      .codes;
}

/* --- life --------------------------------------------------------------- */

kv_rc kv_replica_open(int n_tokens, int codings, kv_replica *s, kv_err *e) {
  size_t t = (size_t)n_tokens;
  size_t nodes = (size_t)KV_SIDES * (size_t)codings * 2 * t;
  *s = (kv_replica){.n_tokens = n_tokens,
                    .codings = codings,
                    .nodes = (int32_t)nodes,
                    .order = kv_zalloc(t, sizeof *s->order),
                    .spare = kv_zalloc(t, sizeof *s->spare),
                    .entry = kv_zalloc(t, sizeof *s->entry),
                    .place = kv_zalloc(t, sizeof *s->place),
                    .into = kv_zalloc(t, sizeof *s->into),
                    .node = kv_zalloc(nodes, sizeof *s->node),
                    .group = kv_zalloc(nodes, sizeof *s->group)};
  if (s->order && s->spare && s->entry && s->place && s->into && s->node &&
      s->group)
    return KV_OK;
  return kv_no_memory(e, "a reader of records", t * sizeof *s->entry);
}

void kv_replica_close(kv_replica *s) {
  free(s->order);
  free(s->spare);
  free(s->entry);
  free(s->place);
  free(s->into);
  free(s->node);
  free(s->group);
}

void kv_replica_begin(kv_replica *s, int lane,
                      const kv_rows_listener *listener) {
  s->listener = listener;
  s->lane = lane;
  s->step = s->n = s->ordered = s->mark = 0;
  s->nodes_used = s->groups_used = 0;
  s->free_node = s->free_group = -1;
  s->dropped = 0;
  s->lost = s->gaps = false;
  s->read = 0;
}

/* --- rows --------------------------------------------------------------- */

static void write_row(const kv_replica *s, int side, int format, int32_t at) {
  if (s->listener)
    s->listener->write(s->listener->self, s->lane, side, format, at);
}

static void leave_row(const kv_replica *s, int side, int format, int32_t at) {
  if (s->listener)
    s->listener->leave(s->listener->self, s->lane, side, format, at);
}

static void end_group(kv_replica *s, int side, int format, int32_t group) {
  kv_replica_group *g = &s->group[group];
  int32_t i = g->first, next;
  for (; i >= 0; i = next) {
    next = s->node[i].next;
    leave_row(s, side, format, s->node[i].place);
    s->node[i].next = s->free_node;
    s->free_node = i;
  }
  g->first = s->free_group;
  s->free_group = group;
}

/* The entry at a place releases this side's row. */
static void leave(kv_replica *s, int32_t at, int side) {
  kv_replica_entry *x = &s->entry[at];
  if (x->format[side] < KV_CODED)
    leave_row(s, side, x->format[side], at);
  else if (--s->group[x->group[side]].live == 0)
    end_group(s, side, x->format[side], x->group[side]);
  x->group[side] = -1;
}

static void put(kv_replica *s, int32_t at, int side, int format) {
  s->entry[at].format[side] = (int16_t)format;
  s->entry[at].group[side] = -1;
  write_row(s, side, format, at);
}

/* Takes a node, one that was given back if there is any. Every group has a
 * node, so there are never more groups than nodes. -1: none is left. */
static int32_t take_node(kv_replica *s) {
  int32_t i = s->free_node;
  if (i >= 0)
    s->free_node = s->node[i].next;
  else if (s->nodes_used < s->nodes)
    i = s->nodes_used++;
  return i;
}

static int32_t new_group(kv_replica *s, int members) {
  int32_t g = s->free_group;
  if (g >= 0)
    s->free_group = s->group[g].first;
  else
    g = s->groups_used++;
  s->group[g] = (kv_replica_group){members, members, -1};
  return g;
}

static void join_group(kv_replica *s, int32_t at, int side, int format,
                       int32_t group, int32_t node) {
  put(s, at, side, format);
  s->entry[at].group[side] = group;
  s->node[node] = (kv_replica_node){at, s->group[group].first};
  s->group[group].first = node;
}

/* --- entries ------------------------------------------------------------ */

/* The place of the entry with that id; -1: no such entry. */
static int32_t place_of(const kv_replica *s, uint32_t id) {
  return id < (uint32_t)s->step ? s->place[id] : -1;
}

static bool is_live(const kv_replica *s, int32_t at) {
  return s->entry[at].weight != 0;
}

/* The entry at a place is gone: dropped, or merged into another. */
static void end_entry(kv_replica *s, int32_t at) {
  leave(s, at, KV_SIDE_K);
  leave(s, at, KV_SIDE_V);
  s->place[s->entry[at].id] = -1;
  s->entry[at].weight = 0;
  s->n--;
}

/* Closes the gaps that merges left in the order. */
static void sweep(kv_replica *s) {
  int n = 0;
  if (s->ordered == s->n) return;
  for (int i = 0; i < s->ordered; i++)
    if (is_live(s, s->order[i])) s->order[n++] = s->order[i];
  s->ordered = n;
}

void kv_replica_enter(kv_replica *s, int step) {
  assert(step <= s->n_tokens && "a lane holds at most T");
  if (step <= s->step) return;
  s->read = 0;
  for (int32_t t = s->step; t < step; t++) {
    s->entry[t] = (kv_replica_entry){.id = (uint32_t)t, .weight = 1};
    s->place[t] = s->into[t] = s->order[s->ordered++] = t;
    put(s, t, KV_SIDE_K, KV_RAW);
    put(s, t, KV_SIDE_V, KV_RAW);
    s->n++;
  }
  s->step = step;
}

int32_t kv_replica_owner(const kv_replica *s, uint32_t token) {
  int32_t at = (int32_t)token;
  while (s->into[at] != at) at = s->into[at];
  return is_live(s, at) ? (int32_t)s->entry[at].id : KV_RECORDS_GONE;
}

/* --- keep --------------------------------------------------------------- */

/* Drops ids[0..m), ascending; false: one of them is not stored. */
static bool drop(kv_replica *s, size_t m, const uint32_t *id) {
  for (size_t j = 0; j < m; j++) {
    int32_t at = place_of(s, id[j]);
    if (at < 0) return false;
    s->dropped += s->entry[at].weight;
    end_entry(s, at);
  }
  return true;
}

/* Puts the survivors into spare, in the order of the listed ids. False: the ids
 * are not those of the survivors. */
static bool reorder(kv_replica *s, const uint32_t *id) {
  s->mark++;
  for (int i = 0; i < s->n; i++) {
    int32_t at = place_of(s, id[i]);
    if (at < 0 || s->entry[at].mark == s->mark) return false;
    s->entry[at].mark = s->mark;
    s->spare[i] = at;
  }
  return true;
}

static kv_rc read_view(const reader *r) {
  return wrong(r, "is a view where verbs are expected");
}

static kv_rc read_keep(const reader *r) {
  kv_replica *s = r->s;
  size_t m = r->word[0];
  if (m > (size_t)s->n || r->count < m + 2)
    return wrong(r, "keeps with too few words");
  uint32_t flag = r->word[m + 1];
  size_t left = (size_t)s->n - m;
  if (flag > 1 || r->count != m + 2 + (flag ? left : 0))
    return wrong(r, "keeps with a wrong number of words");
  for (size_t j = 2; j <= m; j++)
    if (r->word[j] <= r->word[j - 1])
      return wrong(r, "drops ids that do not ascend");
  sweep(s);
  if (!drop(s, m, r->word + 1))
    return wrong(r, "drops an id that is not stored");
  int n = 0;
  for (int i = 0; i < s->ordered; i++)
    if (is_live(s, s->order[i])) s->spare[n++] = s->order[i];
  if (flag && !reorder(s, r->word + m + 2))
    return wrong(r, "orders ids that are not stored");
  size_t bytes = (size_t)n * sizeof *s->order;
  bool same = memcmp(s->spare, s->order, bytes) == 0;
  if (same && m == 0) return wrong(r, "keeps everything unchanged");
  memcpy(s->order, s->spare, bytes);
  s->ordered = n;
  s->lost = s->lost || m > 0;
  s->gaps = s->gaps || !same;
  return KV_OK;
}

/* --- merge, recode, retier, move ----------------------------------------- */

/* A row that keeps its format stays where it is. */
static void rewrite(kv_replica *s, int32_t at, int side, int format) {
  if (s->entry[at].format[side] == format) return;
  leave(s, at, side);
  put(s, at, side, format);
}

/* One side of `into` becomes a mean. */
static void become_mean(const reader *r, int32_t at, int side) {
  kv_replica_entry *x = &r->s->entry[at];
  bool in_place = kv_means_in_place(r->lane->shape, r->lane->needs);
  if (in_place && x->format[side] == KV_RAW)
    x->format[side] = KV_MERGED;
  else
    rewrite(r->s, at, side, KV_MERGED);
}

static kv_rc read_merge(const reader *r) {
  kv_replica *s = r->s;
  int32_t into = place_of(s, r->word[0]), from = place_of(s, r->word[1]);
  if (into < 0 || from < 0 || into == from)
    return wrong(r, "merges an id that is not stored");
  kv_replica_entry *a = &s->entry[into], *b = &s->entry[from];
  uint32_t id = a->id < b->id ? a->id : b->id, weight = b->weight;
  s->place[a->id] = -1;
  end_entry(s, from);
  s->into[from] = into;
  a->id = id;
  a->weight += weight;
  s->place[id] = into;
  become_mean(r, into, KV_SIDE_K);
  become_mean(r, into, KV_SIDE_V);
  s->lost = true;
  s->gaps = s->gaps || s->order[s->ordered - 1] != from;
  while (s->ordered && !is_live(s, s->order[s->ordered - 1])) s->ordered--;
  return KV_OK;
}

/* Makes one side of the listed entries one group. */
static kv_rc recode_side(const reader *r, int side, int format) {
  kv_replica *s = r->s;
  int members = (int)r->count - 2;
  for (int j = 0; j < members; j++) {
    int32_t at = place_of(s, r->word[2 + j]);
    if (at < 0) return wrong(r, "recodes an id that is not stored");
    leave(s, at, side);
  }
  int32_t group = new_group(s, members);
  for (int j = 0; j < members; j++) {
    int32_t node = take_node(s);
    if (node < 0) return wrong(r, "is beyond the most recodes of a step");
    join_group(s, place_of(s, r->word[2 + j]), side, format, group, node);
  }
  return KV_OK;
}

static kv_rc read_recode(const reader *r) {
  int k = (int)r->word[0], v = (int)r->word[1];
  int last = KV_CODED + r->lane->needs->codings;
  if (last > KV_CODED + r->s->codings) last = KV_CODED + r->s->codings;
  if (k >= last || v >= last || (k != KV_SAME && k < KV_CODED) ||
      (v != KV_SAME && v < KV_CODED))
    return wrong(r, "recodes into a format that the method did not declare");
  kv_rc rc = k == KV_SAME ? KV_OK : recode_side(r, KV_SIDE_K, k);
  return rc || v == KV_SAME ? rc : recode_side(r, KV_SIDE_V, v);
}

static kv_rc read_move(const reader *r) {
  kv_replica *s = r->s;
  int32_t at = place_of(s, r->word[0]);
  int from = 0, to = (int)r->word[1];
  if (at < 0 || r->word[1] >= (uint32_t)s->n)
    return wrong(r, "moves an id that is not stored, or to an invalid place");
  sweep(s);
  while (s->order[from] != at) from++;
  int low = from < to ? from : to, high = from < to ? to : from;
  size_t shifted = (size_t)(high - low) * sizeof *s->order;
  if (from < to)
    memmove(s->order + low, s->order + low + 1, shifted);
  else
    memmove(s->order + low + 1, s->order + low, shifted);
  s->order[to] = at;
  s->gaps = true;
  return KV_OK;
}

static void tell_class(const kv_replica *s, int32_t at, int to) {
  if (s->listener && s->listener->retier)
    s->listener->retier(s->listener->self, s->lane, at, to);
}

static kv_rc read_retier(const reader *r) {
  if (r->word[0] >= (uint32_t)r->lane->needs->classes)
    return wrong(r, "names a class that the method did not declare");
  for (size_t j = 1; j < r->count; j++) {
    int32_t at = place_of(r->s, r->word[j]);
    if (at < 0)
      return wrong(r, "changes the class of an id that is not stored");
    r->s->entry[at].tier = (int)r->word[0];
    tell_class(r->s, at, (int)r->word[0]);
  }
  return KV_OK;
}

#define READ(symbol, number, name, least, most) [symbol] = read_##name,
static kv_rc (*const reads[])(const reader *r) = {KV_RECORD_KINDS(READ)};

static kv_rc interpret(const reader *r, uint32_t kind) {
  const kv_record_kind *k = kv_record_kind_of(kind);
  if (!k) return wrong(r, "has an unknown kind");
  if (r->count < k->least || r->count > k->most)
    return kv_fail(r->e, KV_DIFFERENT,
                   "layer %d, lane %d, step %d: a journal %s has %zu words",
                   r->lane->data->layer, r->lane->lane, r->lane->step, k->name,
                   r->count);
  return reads[kind](r);
}

kv_rc kv_replica_follow(kv_replica *s, const kv_lane *l, kv_err *e) {
  kv_rc rc = KV_OK;
  kv_record_at at;
  kv_replica_enter(s, l->step);
  while (!rc && kv_records_next(&l->verbs, &s->read, &at)) {
    reader r = {s, l, at.payload, at.count, e};
    if (at.head[1] != (uint32_t)l->data->layer ||
        at.head[2] != (uint32_t)l->step || at.head[3] != (uint32_t)l->lane)
      return wrong(&r, "names another layer, step or lane");
    rc = interpret(&r, at.head[0]);
  }
  if (!rc && s->read != l->verbs.n)
    return wrong(&(reader){.lane = l, .e = e}, "is cut short");
  sweep(s);
  return rc;
}
