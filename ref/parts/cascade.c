/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/parts/cascade.h"
#include <string.h>

/* Sorts the smallest first; ties: the lower entry. */
static void order_rising(int n, int32_t *list, float *a, int32_t *spare) {
  for (int i = 0; i < n; i++) a[list[i]] = -a[list[i]];
  kv_order(a, n, list, spare);
  for (int i = 0; i < n; i++) a[list[i]] = -a[list[i]];
}

int kv_condense(kv_lane *lane, int n, int32_t *stays, int m, int32_t *goes,
                float *a, int32_t *spare) {
  int done = 0;
  if (n == 0) return 0;
  kv_order(a, n, stays, spare);
  order_rising(m, goes, a, spare);
  for (int i = 0; i < m; i++) {
    int into = stays[i % n], from = goes[i];
    if (!(a[from] > 0)) continue;
    kv_merge(lane, into, from, a[into], a[from]);
    a[into] = kv_add(a[into], a[from]);
    done++;
  }
  return done;
}

enum { READ = KV_CASCADE_READ, HIDDEN = KV_CASCADE_HIDDEN };

void kv_cascade_view(const kv_at *at, const kv_lane *lane, kv_view *out) {
  bool *in = KV_TAKE(at->work, bool, lane->n);
  for (int i = 0; i < lane->n; i++) in[i] = kv_class_of(lane, i) == READ;
  kv_view_mask(out, lane->n, in);
}

int kv_cascade_asked(const kv_cascade *c, const kv_lane *lane, int32_t *entry) {
  int n = 0;
  for (int i = 0; i < lane->n; i++)
    if (c->as_shipped || kv_class_of(lane, i) == READ) entry[n++] = i;
  return n;
}

/* A poll with its votes counted. */
typedef struct counted {
  const kv_at *at;
  kv_lane *lane;
  const kv_cascade *c;
  const kv_poll *p;
  bool *protects, *chosen; /* [p->n] */
  int n;                   /* chosen */
} counted;

static counted count(const kv_at *at, kv_lane *lane, const kv_cascade *c,
                     const kv_poll *p) {
  counted x = {at,
               lane,
               c,
               p,
               KV_TAKE(at->work, bool, p->n),
               KV_TAKE(at->work, bool, p->n),
               0};
  for (int i = 0; i < p->n; i++) {
    int place = p->entry[i], token = (int)lane->id[place];
    x.protects[i] = kv_cascade_protects(c, at->step, lane->n, place, token);
    x.chosen[i] = x.protects[i] || p->votes[i] > 0;
    x.n += x.chosen[i];
  }
  return x;
}

/* Drops the worst unprotected of n chosen entries until upper are left. */
static void cut(counted *x) {
  const kv_poll *p = x->p;
  int over = x->n - x->c->upper, loose = 0;
  if (over <= 0) return;
  for (int i = p->n - 1; i >= 0; i--) /* the youngest first */
    if (x->chosen[i] && !x->protects[i]) p->order[loose++] = i;
  kv_scores(p->mass, p->n, p->g);
  kv_order(p->g, loose, p->order, p->spare);
  for (int i = 0; i < p->n; i++) p->g[i] = (float)p->votes[i];
  kv_order(p->g, loose, p->order, p->spare);
  for (int i = 0; i < over; i++) x->chosen[p->order[loose - 1 - i]] = false;
}

/* Moves the poll's flagged entries to class `to`, unless they are in it. */
static void tell(const counted *x, const bool *flag, bool is, int to) {
  int32_t *list = x->p->spare;
  int n = 0;
  for (int i = 0; i < x->p->n; i++) {
    int entry = x->p->entry[i];
    if (flag[i] == is && kv_class_of(x->lane, entry) != to) list[n++] = entry;
  }
  kv_retier(x->lane, n, list, to);
}

static void condense(const counted *x) {
  const kv_poll *p = x->p;
  float *a = KV_TAKE(x->at->work, float, x->lane->n);
  int32_t *stays = KV_TAKE(x->at->work, int32_t, p->n);
  int32_t *goes = KV_TAKE(x->at->work, int32_t, p->n);
  int n = 0, m = 0;
  for (int i = 0; i < p->n; i++) {
    a[p->entry[i]] = kv_unfix(p->share[i]);
    if (!x->chosen[i])
      goes[m++] = p->entry[i];
    else if (!x->protects[i])
      stays[n++] = p->entry[i];
  }
  kv_condense(x->lane, n, stays, m, goes, a, p->spare);
}

static void rewrite(counted *x) {
  bool *keep = KV_TAKE(x->at->work, bool, x->lane->n);
  memset(keep, 0, (size_t)x->lane->n);
  cut(x);
  for (int i = 0; i < x->p->n; i++) keep[x->p->entry[i]] = x->chosen[i];
  if (x->c->merge) condense(x);
  kv_keep_mask(x->lane, keep);
}

/* Lists all entries by priority. Entries that stay are chosen; returns how many
 * they are. */
static int by_priority(counted *x, int32_t *list) {
  int n = 0, all = x->p->n, last = all - x->c->last;
  for (int i = 0; i < x->c->sinks; i++) list[n++] = i;
  for (int i = all - 1; i >= last; i--) list[n++] = i;
  for (int voted = 1; voted >= 0; voted--)
    for (int i = 0; i < all; i++)
      if (!x->protects[i] && x->chosen[i] == voted) list[n++] = i;
  if (n > x->c->upper) n = x->c->upper;
  memset(x->chosen, 0, (size_t)all);
  for (int i = 0; i < n; i++) x->chosen[list[i]] = true;
  return n;
}

static void rewrite_as_shipped(counted *x) {
  int32_t *list = x->p->order;
  int n = by_priority(x, list);
  tell(x, x->chosen, true, READ);
  if (x->c->merge) condense(x);
  kv_keep(x->lane, n, list);
}

void kv_cascade_compress(const kv_at *at, kv_lane *lane, const kv_cascade *c,
                         const kv_poll *p) {
  counted x = count(at, lane, c, p);
  if (lane->n > c->upper) {
    if (c->as_shipped)
      rewrite_as_shipped(&x);
    else
      rewrite(&x);
    return;
  }
  tell(&x, x.chosen, false, HIDDEN);
  tell(&x, x.chosen, true, READ);
}
