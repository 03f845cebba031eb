/* SPDX-License-Identifier: Apache-2.0
 *
 * Selections of a hook: sim/run/grade/ranked.h.
 */
#include "sim/run/grade/ranked.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ground/err.h"

void kv_ranks_open(int n_tokens, kv_ranks *r) {
  *r = (kv_ranks){.width = (size_t)n_tokens + 1};
}

void kv_ranks_close(kv_ranks *r) {
  for (int i = 0; i < r->room; i++) {
    free(r->ranked[i].score);
    free(r->ranked[i].fate);
  }
  free(r->ranked);
  *r = (kv_ranks){0};
}

void kv_ranks_forget(kv_ranks *r) {
  r->n = 0;
  r->shared = false;
}

/* Appends a selection, zeroed except for its arrays. */
static kv_ranked *next(kv_ranks *r) {
  if (r->n < r->room) return &r->ranked[r->n++];
  kv_ranked *more =
      realloc(r->ranked, (size_t)(r->room + 1) * sizeof *r->ranked);
  if (!more) return NULL;
  r->ranked = more;
  kv_ranked *x = &more[r->room];
  *x = (kv_ranked){.score = kv_zalloc(r->width, sizeof *x->score),
                   .fate = kv_zalloc(r->width, sizeof *x->fate)};
  r->room++;
  if (!x->score || !x->fate) return NULL;
  r->n++;
  return x;
}

static void fill(kv_ranked *x, const kv_selection *s, int lane) {
  x->n = s->n[lane];
  x->unit = 1;
  x->first = 0;
  x->has_cut = false;
  x->flags = s->keep ? s->keep[lane] : NULL;
  x->any_count = s->lanes > 1 || s->chose == KV_CHOSE_MASS;
  memcpy(x->score, s->score[lane], (size_t)x->n * sizeof *x->score);
  for (int i = 0; i < x->n; i++) {
    if (s->chose != KV_CHOSE_ONE)
      x->fate[i] = x->flags[i] ? KV_CHOSEN : KV_LEFT;
    else if (s->in && !s->in[i])
      x->fate[i] = KV_UNRANKED;
    else
      x->fate[i] = i == s->one ? KV_LEFT : KV_CHOSEN;
  }
}

/* Sets the cut: the lowest score that any lane chose, if something was left. */
static void cut(int lanes, kv_ranked *x) {
  bool left = false, chosen = false;
  float least = 0;
  for (int l = 0; l < lanes; l++)
    for (int i = 0; i < x[l].n; i++) {
      left |= x[l].fate[i] == KV_LEFT;
      if (x[l].fate[i] != KV_CHOSEN) continue;
      if (!chosen || x[l].score[i] < least) least = x[l].score[i];
      chosen = true;
    }
  for (int l = 0; l < lanes; l++) {
    x[l].has_cut = left && chosen;
    x[l].cut = least;
  }
}

void kv_ranks_add(kv_ranks *r, const kv_selection *s) {
  int first = r->n;
  r->shared |= s->lanes > 1;
  for (int l = 0; l < s->lanes; l++) {
    if ((size_t)s->n[l] > r->width) return;
    kv_ranked *x = next(r);
    if (!x) {
      r->no_memory = true;
      return;
    }
    fill(x, s, l);
  }
  cut(s->lanes, r->ranked + first);
}

static bool explains(const kv_ranked *x, int unit, int n, const bool *ours) {
  if (unit > 1 && x->n > (n + unit - 1) / unit) return false;
  if (unit == 1 && x->n > n) return false;
  for (int i = 0; i < n && i / unit < x->n; i++) {
    int fate = x->fate[i / unit];
    if (fate != KV_UNRANKED && ours[i] != (fate == KV_CHOSEN)) return false;
  }
  return true;
}

/* Is `flag` the flag of one of n entries? The part that a selection ranked may
 * begin after the entries that stay whatever their scores are. */
static bool among(const bool *flag, const bool *flags, int n) {
  return (uintptr_t)flag >= (uintptr_t)flags &&
         (uintptr_t)flag < (uintptr_t)(flags + n);
}

const kv_ranked *kv_ranks_of_keep(kv_ranks *r, int page, const bool *flags,
                                  int n, const bool *ours) {
  for (int i = r->n - 1; flags && i >= 0; i--) {
    kv_ranked *x = &r->ranked[i];
    if (!among(x->flags, flags, n)) continue;
    x->unit = 1;
    x->first = (int)(x->flags - flags);
    return x;
  }
  for (int i = r->n - 1; i >= 0; i--) {
    kv_ranked *x = &r->ranked[i];
    x->unit = explains(x, 1, n, ours) ? 1 : page;
    if (x->unit == 1 || (page > 1 && explains(x, page, n, ours))) return x;
  }
  return NULL;
}

const kv_ranked *kv_ranks_of_view(kv_ranks *r, int page, int n) {
  if (r->n == 0) return NULL;
  kv_ranked *x = &r->ranked[r->n - 1];
  x->unit = page > 1 && x->n <= (n + page - 1) / page ? page : 1;
  return x;
}
