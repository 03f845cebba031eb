/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/hard_account.h"

#include <math.h>

/* What a window says of the hard_store's entries. */
typedef struct said {
  int votes[HARD_MOST];
  double mean[HARD_MOST], share[HARD_MOST];
} said;

static double dot(const rig_case *c, const double *a, const double *b) {
  double s = 0;
  for (int x = 0; x < c->d; x++) s += a[x] * b[x];
  return s;
}

static double logit(const rig_case *c, int t, const hard_entry *e) {
  double best = -1e300, q[HARD_WIDEST];
  for (int h = 0; h < c->heads; h++) {
    for (int x = 0; x < c->d; x++)
      q[x] = c->q[(h * c->n_tokens + t) * c->d + x];
    best = fmax(best, dot(c, q, e->key) / sqrt(c->d));
  }
  return best;
}

/* R-KV's score of the first n of the entries that t sees, all of s counted for
 * what is there twice, or those that are read. */
static void rkv_score(const rig_case *c, const hard_store *s, bool read, int n,
                      const int *seen, const double *z, double *g) {
  static double cosine[HARD_MOST][HARD_MOST];
  double norm[HARD_MOST], r[HARD_MOST], all = 0, sum = 0, top = -1e300,
                                        least = 1e300;
  int of[HARD_MOST], m = 0;
  for (int i = 0; i < s->n; i++)
    if (!read || s->of[i].read) of[m++] = i;
  for (int i = 0; i < m; i++)
    norm[i] = sqrt(dot(c, s->of[of[i]].key, s->of[of[i]].key)) + 1e-8;
  for (int i = 0; i < m; i++) {
    int last = -1;
    for (int j = 0; j < m; j++) {
      double cos = dot(c, s->of[of[i]].key, s->of[of[j]].key);
      cosine[i][j] = i == j ? 0 : cos / norm[i] / norm[j];
      if (cosine[i][j] > .5) last = j;
    }
    if (last >= 0) cosine[i][last] = 0;
  }
  for (int j = 0; j < m; j++) {
    double mean = 0;
    for (int i = 0; i < m; i++) mean += cosine[i][j] / m;
    r[of[j]] = exp(mean);
    all += r[of[j]];
  }
  for (int i = 0; i < n; i++) top = fmax(top, z[i]);
  for (int i = 0; i < n; i++) sum += exp(z[i] - top);
  for (int i = 0; i < n; i++) {
    g[i] = .07 * exp(z[i] - top) / sum - .93 * r[seen[i]] / all;
    least = fmin(least, g[i]);
  }
  sum = 0;
  for (int i = 0; i < n; i++) sum += g[i] -= least;
  for (int i = 0; i < n; i++) g[i] = log(g[i] / sum + 1e-10);
}

/* Places by falling g, of equals the lower. */
static void rank(int n, const double *g, int *order) {
  for (int i = 0; i < n; i++) {
    int at = i;
    for (; at > 0 && g[order[at - 1]] < g[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
}

static double mass_of(int n, const double *g, const int *order, double t,
                      int k) {
  double all = 0, sum = 0, top = -1e300;
  for (int i = 0; i < n; i++) top = fmax(top, g[i]);
  for (int i = 0; i < n; i++) {
    double e = exp((g[order[i]] - top) / t);
    all += e;
    if (i < k) sum += e;
  }
  return sum / all;
}

static int prefix_of(const hard_rule *o, int n, const double *g,
                     const int *order, double t) {
  int k = 1;
  while (k < n && mass_of(n, g, order, t, k) < o->p) k++;
  while (o->shipped && k < n && g[order[k]] == g[order[k - 1]]) k++;
  return k;
}

/* Halves of [.001, 1], the first k by place, p itself. */
static double shipped_temperature(const hard_rule *o, int n, const double *g,
                                  int k) {
  double low = 1e-3, high = 1, t = .5005;
  int place[HARD_MOST];
  for (int i = 0; i < n; i++) place[i] = i;
  if (k == n) return 1;
  for (int i = 0; i < 59; i++, t = (low + high) / 2) {
    double over = mass_of(n, g, place, t, k) - o->p;
    if (fabs(over) <= .01) return t;
    if (over > 0)
      low = t;
    else
      high = t;
  }
  return t;
}

static double temperature(const hard_rule *o, int n, const double *z,
                          const double *g) {
  int by_z[HARD_MOST] = {0}, by_g[HARD_MOST] = {0};
  double low = 1e-3, high = 1e3;
  rank(n, z, by_z);
  rank(n, g, by_g);
  int k = prefix_of(o, n, z, by_z, 1);
  if (o->shipped) return shipped_temperature(o, n, g, k);
  double want = mass_of(n, z, by_z, 1, k);
  if (k == n || g[by_g[0]] == g[by_g[n - 1]]) return 1;
  for (int i = 0; i < 200; i++) {
    double t = sqrt(low * high);
    if (mass_of(n, g, by_g, t, k) > want)
      low = t;
    else
      high = t;
  }
  return sqrt(low * high);
}

static void vote(const rig_case *c, hard_rule *o, const hard_store *s, int t,
                 said *to) {
  double z[HARD_MOST], g[HARD_MOST];
  int seen[HARD_MOST], order[HARD_MOST] = {0}, n = 0;
  for (int i = 0; i < s->n; i++)
    if (o->shipped || (s->of[i].read && s->of[i].id <= t)) seen[n++] = i;
  for (int i = 0; i < n; i++) z[i] = logit(c, t, &s->of[seen[i]]);
  for (int i = 0; i < n; i++) {
    g[i] = z[i];
    for (int j = i - o->kernel / 2; j <= i + o->kernel / 2 && o->pooled; j++)
      if (j >= 0 && j < n) g[i] = fmax(g[i], z[j]);
  }
  if (o->rkv) rkv_score(c, s, o->read, n, seen, z, g);
  double *own = &o->t[t % o->window];
  bool calibrated = (o->pooled || o->rkv) && o->bisect;
  double fixed =
      o->shipped && (o->pooled || o->rkv) ? .5 : 1; /* a gradient's */
  if (*own == 0) *own = calibrated ? temperature(o, n, z, g) : fixed;
  rank(n, z, order);
  for (int i = 0; i < n; i++)
    to->share[seen[order[i]]] +=
        mass_of(n, z, order, 1, i + 1) - (i ? mass_of(n, z, order, 1, i) : 0);
  rank(n, g, order);
  int k = prefix_of(o, n, g, order, *own);
  for (int i = 0; i < k; i++) to->votes[seen[order[i]]]++;
  for (int i = 0; i < n; i++)
    to->mean[seen[order[i]]] += mass_of(n, g, order, *own, i + 1) -
                                (i ? mass_of(n, g, order, *own, i) : 0);
}

/* i of the hard_store's entries goes into j. */
static void merge(const rig_case *c, hard_store *s, double *share, int j,
                  int i) {
  hard_entry *into = &s->of[j], *from = &s->of[i];
  for (int x = 0; x < c->d; x++)
    into->key[x] = (share[j] * into->key[x] + share[i] * from->key[x]) /
                   (share[j] + share[i]);
  if (from->id < into->id) into->id = from->id;
  share[j] += share[i];
}

/* What was read and goes is merged into what stays, of `loose` ones. */
static void condense(const rig_case *c, hard_store *s, double *share,
                     const bool *chosen, const bool *forced) {
  int stays[HARD_MOST], goes[HARD_MOST], n = 0, m = 0;
  double key[HARD_MOST];
  for (int i = 0; i < s->n; i++) {
    if (!s->of[i].read || forced[i]) continue;
    if (chosen[i])
      stays[n++] = i;
    else
      goes[m++] = i;
  }
  int by[HARD_MOST] = {0}, rising[HARD_MOST] = {0};
  for (int i = 0; i < n; i++) key[i] = share[stays[i]];
  rank(n, key, by);
  for (int i = 0; i < m; i++) key[i] = -share[goes[i]];
  rank(m, key, rising);
  for (int i = 0; i < m && n; i++)
    if (share[goes[rising[i]]] > 0x1p-41)
      merge(c, s, share, stays[by[i % n]], goes[rising[i]]);
}

static void cut(const hard_rule *o, const hard_store *s, const said *what,
                bool *chosen, const bool *forced, int n) {
  for (; n > o->upper; n--) {
    int worst = -1;
    for (int i = 0; i < s->n; i++)
      if (chosen[i] && !forced[i] &&
          (worst < 0 || what->votes[i] < what->votes[worst] ||
           (what->votes[i] == what->votes[worst] &&
            what->mean[i] < what->mean[worst])))
        worst = i;
    chosen[worst] = false;
  }
}

static void keep(hard_store *s, int n, const int *list) {
  hard_store old = *s;
  s->n = n;
  for (int i = 0; i < n; i++) s->of[i] = old.of[list[i]];
}

/* Sinks, the last ones from the newest on, what has a vote, the rest. */
static void keep_by_priority(const hard_rule *o, hard_store *s,
                             const bool *chosen, const bool *forced) {
  int list[HARD_MOST], n = 0;
  for (int i = 0; i < o->sinks; i++) list[n++] = i;
  for (int i = s->n - 1; i >= s->n - o->local; i--) list[n++] = i;
  for (int voted = 1; voted >= 0; voted--)
    for (int i = 0; i < s->n; i++)
      if (!forced[i] && chosen[i] == voted) list[n++] = i;
  for (int i = 0; i < s->n; i++) s->of[i].read = true;
  keep(s, n < o->upper ? n : o->upper, list);
}

void hard_compress(const rig_case *c, hard_rule *o, int step, hard_store *s) {
  said what = {0};
  int n = 0, left = 0, list[HARD_MOST];
  bool chosen[HARD_MOST] = {false}, forced[HARD_MOST] = {false};
  if (s->n <= o->lower) return;
  for (int r = 0; r < o->window; r++)
    if (step - 1 - r >= 0) vote(c, o, s, step - 1 - r, &what);
  for (int i = 0; i < s->n; i++) {
    int id = s->of[i].id;
    forced[i] = id < o->sinks || id >= step - o->window;
    if (o->shipped) forced[i] = i < o->sinks || i >= s->n - o->local;
    chosen[i] =
        (o->shipped || s->of[i].read) && (forced[i] || what.votes[i] > 0);
    n += chosen[i];
  }
  if (s->n <= o->upper) {
    for (int i = 0; i < s->n; i++) s->of[i].read = chosen[i];
    return;
  }
  if (o->shipped) {
    keep_by_priority(o, s, chosen, forced);
    return;
  }
  cut(o, s, &what, chosen, forced, n);
  if (o->merges) condense(c, s, what.share, chosen, forced);
  for (int i = 0; i < s->n; i++)
    if (chosen[i]) list[left++] = i;
  keep(s, left, list);
}

void hard_enter(const rig_case *c, hard_store *s, int token) {
  hard_entry *e = &s->of[s->n++];
  e->id = token;
  e->read = true;
  for (int x = 0; x < c->d; x++) e->key[x] = c->k[token * c->d + x];
}
