/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of lanes and views, checked after every compression and at the end of a
 * layer, beside an interpreter of the journal.
 */
#include "sim/laws/law_lane.h"

#include <string.h>

/* --- tokens ------------------------------------------------------------- */

static kv_rc tokens_hold(const kv_replica *s, const kv_lane *l, kv_err *e) {
  (void)s;
  if (l->n < 1) return kv_law_broken(l, e, "the lane is empty");
  if (l->n > l->step)
    return kv_law_broken(l, e, "%d entries of %d tokens", l->n, l->step);
  for (int i = 0; i < l->n; i++) {
    if (l->id[i] >= (uint32_t)l->step)
      return kv_law_broken(l, e, "token %u has not been seen", l->id[i]);
    for (int j = 0; j < i; j++)
      if (l->id[j] == l->id[i])
        return kv_law_broken(l, e, "token %u is stored twice", l->id[i]);
  }
  return KV_OK;
}

const kv_law_look kv_law_tokens = {.lane = tokens_hold};

/* --- views -------------------------------------------------------------- */

static kv_rc view_holds(const kv_lane *l, int h, const kv_view *v, int step,
                        kv_err *e) {
  int end = -1, sum = 0;
  for (int r = 0; r < v->runs; r++) {
    const kv_run *run = &v->run[r];
    if (run->count < 1 || run->first <= end)
      return kv_law_broken(l, e, "head %d: runs do not ascend or touch", h);
    end = run->first + run->count;
    if (end > l->n)
      return kv_law_broken(l, e, "head %d sees entry %d of %d", h, end - 1,
                           l->n);
    for (int i = run->first; i < end; i++)
      if (l->id[i] >= (uint32_t)step)
        return kv_law_broken(l, e, "head %d sees token %u", h, l->id[i]);
    sum += run->count;
  }
  if (sum >= 1 && sum == v->entries) return KV_OK;
  return kv_law_broken(l, e, "head %d: a view of %d entries has %d", h,
                       v->entries, sum);
}

/* Reads the record at w; *next: the word after it. */
static bool is_recorded(const kv_lane *l, int h, const kv_view *v, int step,
                        const uint32_t *w, size_t *next) {
  size_t n = 2 * (size_t)v->runs;
  const uint32_t head[5] = {KV_VIEW, (uint32_t)l->data->layer, (uint32_t)step,
                            (uint32_t)(l->first_head + h), (uint32_t)n};
  if (*next + 5 + n > l->views.n) return false;
  bool same = memcmp(w + *next, head, sizeof head) == 0;
  for (size_t r = 0; r < (size_t)v->runs; r++)
    same = same && w[*next + 5 + 2 * r] == (uint32_t)v->run[r].first &&
           w[*next + 6 + 2 * r] == (uint32_t)v->run[r].count;
  *next += 5 + n;
  return same;
}

/* Does the view hold what is of a class that is read, and nothing else? */
static bool is_by_class(const kv_lane *l, const kv_view *v) {
  int r = 0;
  for (int i = 0; i < l->n; i++) {
    while (r < v->runs && i >= v->run[r].first + v->run[r].count) r++;
    bool seen = r < v->runs && i >= v->run[r].first;
    if (seen == (l->needs->unread >> kv_class_of(l, i) & 1)) return false;
  }
  return true;
}

static kv_rc views_hold(const kv_seen *seen, int step, kv_err *e) {
  const kv_lane *l = seen->lane;
  size_t next = 0;
  for (int h = 0; h < seen->queries; h++) {
    kv_rc rc = view_holds(l, h, &seen->view[h], step, e);
    if (rc) return rc;
    if (l->needs->unread) {
      if (!is_by_class(l, &seen->view[h]))
        return kv_law_broken(l, e, "head %d: classes say another view", h);
    } else if (!is_recorded(l, h, &seen->view[h], step, l->views.word, &next))
      return kv_law_broken(l, e, "head %d: the journal has another view", h);
  }
  if (next == l->views.n) return KV_OK;
  return kv_law_broken(l, e, "the journal has more views than heads");
}

const kv_law_look kv_law_views = {.row = views_hold};

/* --- weights ------------------------------------------------------------ */

/* Number of members of entry i by the lane's lists; 0 if one does not belong to
 * it. */
static uint32_t count_members(const kv_replica *s, const kv_lane *l, int i) {
  uint32_t n = 0, t = l->id[i];
  for (;; t = l->next[t]) {
    if (t >= (uint32_t)l->step || kv_replica_owner(s, t) != (int32_t)l->id[i])
      return 0;
    n++;
    if (t == l->last[i] || n > l->weight[i]) return n;
  }
}

static kv_rc weights_hold(const kv_replica *s, const kv_lane *l, kv_err *e) {
  int64_t sum = s->dropped;
  for (int i = 0; i < l->n; i++) {
    uint32_t members = l->last ? count_members(s, l, i) : 1;
    sum += l->weight[i];
    if (l->weight[i] < 1 || members != l->weight[i])
      return kv_law_broken(l, e, "token %u has weight %u and %u members",
                           l->id[i], l->weight[i], members);
  }
  if (sum == l->step) return KV_OK;
  return kv_law_broken(l, e, "weights and what was dropped add up to %lld",
                       (long long)sum);
}

const kv_law_look kv_law_weights = {.lane = weights_hold};

/* --- journal ------------------------------------------------------------ */

static kv_rc journal_holds(const kv_replica *s, const kv_lane *l, kv_err *e) {
  if (s->n != l->n)
    return kv_law_broken(l, e, "%d entries, %d by the journal", l->n, s->n);
  for (int i = 0; i < l->n; i++) {
    const kv_replica_entry *x = kv_replica_at(s, i);
    int k = l->k ? l->k[i].format : KV_RAW, v = l->v ? l->v[i].format : KV_RAW;
    if (x->id != l->id[i] || x->weight != l->weight[i])
      return kv_law_broken(l, e,
                           "entry %d: token %u of weight %u, by the journal "
                           "%u of %u",
                           i, l->id[i], l->weight[i], x->id, x->weight);
    if (x->format[KV_SIDE_K] != k || x->format[KV_SIDE_V] != v)
      return kv_law_broken(l, e,
                           "entry %d: formats %d, %d, by the journal "
                           "%d, %d",
                           i, k, v, x->format[KV_SIDE_K], x->format[KV_SIDE_V]);
    if (x->tier != kv_class_of(l, i))
      return kv_law_broken(l, e, "entry %d: class %d, by the journal %d", i,
                           kv_class_of(l, i), x->tier);
  }
  return KV_OK;
}

const kv_law_look kv_law_journal = {.lane = journal_holds};

/* --- bytes -------------------------------------------------------------- */

/* Adds entry i's bytes of one side; a group is counted with its first live
 * member. */
static void charge(const kv_replica *s, const kv_lane *l, int i, int side,
                   kv_bytes *sum) {
  const kv_replica_entry *x = kv_replica_at(s, i);
  int width = side == KV_SIDE_K ? l->shape->d : l->shape->d_v;
  int format = x->format[side];
  if (format == KV_RAW)
    sum->payload += width * (l->shape->dtype == KV_F32 ? 4 : 2);
  if (format == KV_MERGED)
    sum->payload +=
        width * (l->shape->dtype == KV_F32 || l->needs->merged == KV_MEANS_FP32
                     ? 4
                     : 2);
  if (format < KV_CODED) return;
  for (int j = 0; j < i; j++)
    if (kv_replica_at(s, j)->group[side] == x->group[side]) return;
  const kv_coding *c = &l->needs->coding[format - KV_CODED];
  int members = s->group[x->group[side]].members;
  kv_coded_size size =
      kv_coding_size(c, 2 * l->lane + (side == KV_SIDE_V),
                     2 * kv_lane_count(l->needs, l->shape), members, width);
  sum->payload += (int64_t)size.codes;
  sum->metadata += (int64_t)size.metadata;
}

/* What entry i has added to `sum`, into its class. */
static void charge_class(const kv_replica *s, int i, const kv_bytes *before,
                         kv_bytes *sum) {
  *kv_bytes_of_tier(sum, kv_replica_at(s, i)->tier) +=
      sum->payload - before->payload + sum->metadata - before->metadata +
      sum->columns - before->columns;
}

/* Is V of entry i a part of its K, so that it costs nothing beside it? */
static bool is_shared(const kv_replica *s, const kv_lane *l, int i) {
  const int16_t *format = kv_replica_at(s, i)->format;
  return l->shape->shared && format[KV_SIDE_K] == format[KV_SIDE_V] &&
         format[KV_SIDE_K] < KV_CODED;
}

/* Is it one run of tokens in a layer with a sliding window, so that no entry
 * needs a position? */
static bool is_run(const kv_replica *s, const kv_lane *l) {
  for (int i = 1; i < s->n; i++)
    if (kv_replica_at(s, i)->id != kv_replica_at(s, 0)->id + (uint32_t)i)
      return false;
  return l->data->window > 0;
}

static kv_bytes cost_of(const kv_replica *s, const kv_lane *l) {
  const kv_needs *need = l->needs;
  int places = is_run(s, l) ? 0 : s->lost + s->gaps;
  kv_bytes sum = {0};
  for (int m = 0; m < need->metas; m++)
    if (need->meta[m].per == KV_PER_LANE)
      sum.side += (int64_t)need->meta[m].bytes;
  for (int i = 0; i < s->n; i++) {
    kv_bytes before = sum;
    charge(s, l, i, KV_SIDE_K, &sum);
    if (!is_shared(s, l, i)) charge(s, l, i, KV_SIDE_V, &sum);
    sum.metadata += 4 * (places + need->merges);
    sum.metadata += need->classes > 1 && !need->unread;
    for (int c = 0; c < need->columns; c++)
      sum.columns += need->column[c] == KV_INT64 ? 8 : 4;
    for (int m = 0; m < need->metas; m++)
      if (need->meta[m].per == KV_PER_ENTRY ||
          (need->meta[m].per == KV_PER_PAGE && i % need->meta[m].page == 0))
        sum.side += (int64_t)need->meta[m].bytes;
    if (need->classes > 1) charge_class(s, i, &before, &sum);
  }
  return sum;
}

static kv_rc bytes_hold(const kv_replica *s, const kv_lane *l, kv_err *e) {
  kv_bytes a = {0}, b = cost_of(s, l);
  kv_lane_bytes(l, &a);
  for (int i = 0; i < KV_N_BYTE_KINDS; i++) {
    int64_t held = kv_bytes_get(&a, i), cost = kv_bytes_get(&b, i);
    if (held != cost)
      return kv_law_broken(l, e, "%s is %lld bytes, and its entries cost %lld",
                           kv_byte_kind_at(i)->name, (long long)held,
                           (long long)cost);
  }
  return KV_OK;
}

const kv_law_look kv_law_bytes = {.lane = bytes_hold};
