/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain account of LeanKV. Contract: tests/support/lean_account.h.
 */
#include "tests/support/lean_account.h"
#include <math.h>
#include <string.h>

static double mean(const lean_account *a, int t) {
  return a->sum[t] / a->count[t];
}

static double at_most_1(double x) { return x < 1 ? x : 1; }

static void count_prompt(lean_account *a) {
  int n = a->c->prompt_len, heads = a->c->heads;
  double p[ACCOUNT_MOST], sum[ACCOUNT_MOST];
  for (int j = 0; j < n; j++) a->sum[j] = a->count[j] = 0;
  for (int h = 0; h < heads; h++) {
    memset(sum, 0, sizeof sum);
    for (int t = a->queries && n > a->queries ? n - a->queries : 0; t < n;
         t++) {
      rig_exact(a->c, h, t, NULL, p);
      for (int j = 0; j <= t - !a->code; j++) {
        sum[j] += p[j];
        a->count[j] += h == 0;
      }
    }
    for (int j = 0; j < n; j++) a->sum[j] = fmax(a->sum[j], sum[j]);
  }
}

static void sort_prompt(lean_account *a) {
  int n = a->c->prompt_len;
  for (int j = 0; j < n; j++) {
    double of = a->code ? n : j + 1;
    double low = at_most_1(a->alpha_l / of), high = at_most_1(a->alpha_h / of);
    a->tier[j] = ACCOUNT_HIGH;
    if (j >= n - a->window) continue;
    if (mean(a, j) < low)
      a->tier[j] = ACCOUNT_GONE;
    else if (!a->one_tier && mean(a, j) < high)
      a->tier[j] = ACCOUNT_LOW;
  }
}

/* Of tokens 0..end-1 of a tier the one of least score. */
static int worst(const lean_account *a, int end, int tier) {
  int best = -1;
  for (int j = 0; j < end; j++)
    if (a->tier[j] == tier && (best < 0 || mean(a, j) < mean(a, best)))
      best = j;
  return best;
}

static void judge_by_code(lean_account *a, int n) {
  double low = at_most_1(a->alpha_l / n), high = at_most_1(a->alpha_h / n);
  int end = 0, h, l;
  while (end < n && a->count[end] >= a->window) end++;
  h = worst(a, end, ACCOUNT_HIGH);
  l = worst(a, end, ACCOUNT_LOW);
  if (a->one_tier) high = low;
  if (h < 0 || mean(a, h) >= high) return;
  bool below = mean(a, h) < low && (l < 0 || mean(a, h) < mean(a, l));
  a->tier[h] = below ? ACCOUNT_GONE : ACCOUNT_LOW;
  if (!below && l >= 0 && mean(a, l) < low) a->tier[l] = ACCOUNT_GONE;
}

static void judge_by_paper(lean_account *a, int n) {
  double low = at_most_1(a->alpha_l / n), high = at_most_1(a->alpha_h / n);
  int c = n - a->window - 1;
  if (c < 0) return;
  if (a->one_tier) high = low;
  if (mean(a, c) < low) {
    a->tier[c] = ACCOUNT_GONE;
  } else if (mean(a, c) < high) {
    int v = worst(a, c + 1, ACCOUNT_LOW);
    a->tier[c] = ACCOUNT_LOW;
    if (v >= 0 && mean(a, v) < low) a->tier[v] = ACCOUNT_GONE;
  } else {
    int v = worst(a, c + 1, ACCOUNT_HIGH);
    if (mean(a, v) < high)
      a->tier[v] = mean(a, v) < low ? ACCOUNT_GONE : ACCOUNT_LOW;
  }
}

void account_step(lean_account *a, int n, int held, const uint32_t *id,
                  const float *key) {
  const rig_case *c = a->c;
  double most[ACCOUNT_MOST] = {0};
  for (int h = 0; h < c->heads; h++) {
    const float *q =
        c->q + ((size_t)h * (size_t)c->n_tokens + (size_t)n - 1) * (size_t)c->d;
    double s[ACCOUNT_MOST], sum = 0;
    for (int i = 0; i <= held; i++) {
      const float *k = i < held ? key + i * c->d : c->k + (n - 1) * c->d;
      s[i] = 0;
      for (int x = 0; x < c->d; x++) s[i] += (double)q[x] * (double)k[x];
      s[i] = exp(s[i] / sqrt(c->d));
      sum += s[i];
    }
    for (int i = 0; i <= held; i++) most[i] = fmax(most[i], s[i] / sum);
  }
  for (int i = 0; i < held; i++) {
    a->sum[id[i]] += most[i];
    a->count[id[i]]++;
  }
  a->sum[n - 1] = a->code ? most[held] : 0;
  a->count[n - 1] = a->code;
  a->tier[n - 1] = ACCOUNT_HIGH;
}

int account_keys(const kv_lane *l, uint32_t *id, float *key) {
  for (int i = 0; i < l->n; i++) {
    id[i] = l->id[i];
    kv_lane_key(l, i, key + i * l->shape->d);
  }
  return l->n;
}

void account_prompt(lean_account *a) {
  count_prompt(a);
  sort_prompt(a);
}

void account_judge(lean_account *a, int n) {
  if (a->code) judge_by_code(a, n);
  if (!a->code && n > a->c->prompt_len) judge_by_paper(a, n);
}
