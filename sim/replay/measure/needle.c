/* SPDX-License-Identifier: Apache-2.0
 *
 * Needles: which decode row should find which token, and what happened to that
 * token. If two answers claim a row, the first one listed gets it. At the end,
 * how much of dense's attention on them is kept.
 */
#include "sim/replay/measure/fidelity_part.h"
#include <math.h>
#include <stdlib.h>

static int row_count(const kv_needle *a) {
  int out = a->end - a->start, in = a->source_end - a->source_start;
  return out < in ? out : in;
}

/* Writes claim[step] = {token, answer} for the decode rows of one answer. */
static void claim_rows(const kv_shape *s, int answer, const kv_needle *a,
                       kv_search *claim) {
  for (int i = 0; i < row_count(a); i++) {
    int t = a->start - 1 + i, token = a->source_start + i;
    if (t < s->prompt_len || t >= s->n_tokens || token < 0 || token > t)
      continue;
    kv_search *c = &claim[t - s->prompt_len];
    if (c->answer >= 0) continue;
    *c = (kv_search){t - s->prompt_len, token, answer, false};
  }
}

static void mark_last(kv_fidelity *f) {
  for (int i = 0; i < f->searches; i++) {
    bool last = true;
    for (int j = i + 1; j < f->searches && last; j++)
      last = f->search[j].answer != f->search[i].answer;
    f->search[i].last = last;
  }
}

kv_rc kv_search_plan(kv_fidelity *f, int n, const kv_needle *needle,
                     kv_err *e) {
  size_t steps = (size_t)f->steps;
  f->search = kv_zalloc(steps + 1, sizeof *f->search);
  f->search_at = kv_zalloc(steps + 1, sizeof *f->search_at);
  if (!f->search || !f->search_at)
    return kv_no_memory(e, "the needles", (steps + 1) * sizeof *f->search);
  for (int i = 0; i < f->steps; i++) f->search[i].answer = -1;
  for (int i = 0; i < n; i++) claim_rows(f->shape, i, &needle[i], f->search);
  for (int i = 0; i < f->steps; i++) {
    f->search_at[i] = f->search[i].answer < 0 ? -1 : f->searches;
    if (f->search[i].answer >= 0) f->search[f->searches++] = f->search[i];
  }
  mark_last(f);
  return KV_OK;
}

static bool has_member(const kv_lane *l, int i, uint32_t token) {
  uint32_t t = l->id[i];
  while (t != token && l->last && t != l->last[i]) t = l->next[t];
  return t == token;
}

/* The entry that is the token or was merged from it; -1: none. */
static int entry_of(const kv_lane *l, uint32_t token) {
  for (int i = 0; i < l->n; i++)
    if (has_member(l, i, token)) return i;
  return -1;
}

/* Index of an entry in the view; -1: not in the view. */
static int place_of(const kv_view *v, int entry) {
  int before = 0;
  for (int r = 0; r < v->runs; r++) {
    int off = entry - v->run[r].first;
    if (off >= 0 && off < v->run[r].count) return before + off;
    before += v->run[r].count;
  }
  return -1;
}

/* Did the view hold the token in all rows of the answer up to this one? */
static bool all_seen(const kv_fidelity *f, const double *in_view, int at) {
  bool all = true;
  for (int i = at; i >= 0; i--)
    if (f->search[i].answer == f->search[at].answer)
      all = all && in_view[i] == 1;
  return all;
}

void kv_search_row(kv_fidelity *f, int layer, int h, int at,
                   const kv_lane *lane, const kv_view *view, const float *exact,
                   const float *share) {
  int i = entry_of(lane, (uint32_t)f->search[at].token);
  int place = i < 0 ? -1 : place_of(view, i);
  bool merged = i >= 0 && lane->weight[i] > 1;
  double *in_view = kv_fidelity_head(f, KV_NEEDLE_VIEW, layer, h);
  in_view[at] = place >= 0 && !merged;
  kv_fidelity_head(f, KV_NEEDLE_STORED, layer, h)[at] = i >= 0 && !merged;
  kv_fidelity_head(f, KV_NEEDLE_MERGED, layer, h)[at] = merged;
  kv_fidelity_head(f, KV_NEEDLE_MASS, layer, h)[at] =
      place < 0 ? 0 : (double)share[place] / (double)lane->weight[i];
  kv_fidelity_head(f, KV_NEEDLE_DENSE, layer, h)[at] =
      (double)exact[f->search[at].token];
  if (f->search[at].last)
    kv_fidelity_head(f, KV_NEEDLE_ALL, layer, h)[at] = all_seen(f, in_view, at);
}

/* A row that looks for a token behind the layer's window has no values. */
static kv_kept kept_of(const kv_fidelity *f, int layer, int g) {
  int group = kv_group(f->shape);
  kv_kept sum = {0, 0, layer * f->shape->n_kv_heads + g};
  for (int h = g * group; h < (g + 1) * group; h++) {
    const double *in_view = kv_fidelity_head(f, KV_NEEDLE_VIEW, layer, h);
    const double *dense = kv_fidelity_head(f, KV_NEEDLE_DENSE, layer, h);
    for (int i = 0; i < f->searches; i++) {
      if (isnan(dense[i])) continue;
      sum.dense += dense[i];
      sum.kept += in_view[i] == 1 ? dense[i] : 0;
    }
  }
  return sum;
}

kv_rc kv_fidelity_kept(const kv_fidelity *f, kv_totals *t, kv_err *e) {
  int heads = f->shape->n_kv_heads, n = f->layers * heads;
  kv_kept *lane = kv_zalloc((size_t)n, sizeof *lane);
  if (!lane) return kv_no_memory(e, "the needles", (size_t)n * sizeof *lane);
  for (int i = 0; i < n; i++) {
    lane[i] = kept_of(f, i / heads, i % heads);
    if (i % heads == heads - 1) kv_spill_put_away(&f->spill, i / heads);
  }
  t->needle_kept = kv_kept_share(n, lane);
  t->needle_worst = kv_kept_worst(n, lane);
  free(lane);
  return KV_OK;
}
