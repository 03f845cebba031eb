/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain account of LeanKV. Contract: tests/support/lean_account.h.
 */
#include "tests/support/lean_account.h"
#include "ref/parts/tiers.h"
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

/* The tier of token t by its score alone, among n tokens. */
static int fits(const lean_account *a, int t, double n) {
  int tier = 0;
  while (tier < a->tiers && mean(a, t) < at_most_1(a->alpha[tier] / n)) tier++;
  return tier < a->tiers ? tier : ACCOUNT_GONE;
}

static void sort_prompt(lean_account *a) {
  int n = a->c->prompt_len;
  for (int j = 0; j < n; j++)
    a->tier[j] = j < n - a->window ? fits(a, j, a->code ? n : j + 1) : 0;
}

/* Of tokens 0..end-1 of a tier the one of least score. */
static int worst(const lean_account *a, int end, int tier) {
  int best = -1;
  for (int j = 0; j < end; j++)
    if (a->tier[j] == tier && (best < 0 || mean(a, j) < mean(a, best)))
      best = j;
  return best;
}

/* One entry leaves the high tier for the one below. Where that has one that is
 * no longer of it, either goes on down: the entry itself, past the tier, if it
 * belongs further down and is the worse of the two. */
static void judge_by_code(lean_account *a, int n) {
  int end = 0, x, before[ACCOUNT_TIERS] = {0};
  while (end < n && a->count[end] >= a->window) end++;
  for (int t = 0; t < a->tiers; t++) before[t] = worst(a, end, t);
  x = before[0];
  if (x < 0 || fits(a, x, n) == 0) return;
  for (int t = 1; t < a->tiers; t++) {
    int l = before[t];
    bool past = fits(a, x, n) > t && (l < 0 || mean(a, x) < mean(a, l));
    if (past) continue;
    a->tier[x] = t;
    if (l < 0 || fits(a, l, n) <= t) return;
    x = l;
  }
  a->tier[x] = ACCOUNT_GONE;
}

/* The token that leaves the window goes where it fits, and the worst of that
 * tier where that fits. */
static void judge_by_paper(lean_account *a, int n) {
  int c = n - a->window - 1, v;
  if (c < 0) return;
  a->tier[c] = fits(a, c, n);
  if (a->tier[c] == ACCOUNT_GONE) return;
  v = worst(a, c + 1, a->tier[c]);
  if (fits(a, v, n) > a->tier[v]) a->tier[v] = fits(a, v, n);
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
  a->tier[n - 1] = 0;
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

/* --- beside a replay -------------------------------------------------- */

void account_weigh(account_weights *w, int layers, int heads, int tiers) {
  w->layer[0] = 0, w->layer[1] = 1;
  w->tensor[0] = (kv_tensor){
      w->weight, (int64_t)layers * heads * tiers, {layers, heads, tiers}};
  w->tensor[1] = w->tensor[0];
  w->asset = (kv_asset){.path = "weights.safetensors",
                        .ask = kv_alphas_kind.tensors,
                        .asked = 1,
                        .layers = layers,
                        .layer = w->layer,
                        .tensor = w->tensor,
                        .bytes = sizeof w->weight};
}

/* Formats of K and V by tier of k16v16, k16v8, k8v8 and k4v4. */
static const int formats[][2] = {{KV_RAW, KV_RAW},
                                 {KV_RAW, KV_CODED},
                                 {KV_CODED + 1, KV_CODED},
                                 {KV_CODED + 2, KV_CODED + 3}};

static void agrees(const lean_account *a, const kv_lane *l, int n) {
  int i = 0;
  for (int t = 0; t < n; t++) {
    if (a->tier[t] == ACCOUNT_GONE) continue;
    assert_true(i < l->n);
    assert_int_equal(l->id[i], t);
    if (a->tiers > 1) {
      assert_int_equal(l->k[i].format, formats[a->tier[t]][0]);
      assert_int_equal(l->v[i].format, formats[a->tier[t]][1]);
    }
    assert_true(fabs((double)l->column[0].f[i] - a->sum[t]) < 1e-5);
    i++;
  }
  assert_int_equal(i, l->n);
}

void account_follow(lean_account a, const char *spec, int *moved) {
  uint32_t id[ACCOUNT_MOST];
  float key[ACCOUNT_MOST * 8];
  int held = 0;
  rig *r = rig_open(a.c, spec);
  const kv_lane *l = rig_lane(r, 0);
  account_prompt(&a);
  for (int n = a.c->prompt_len;; n++) {
    account_judge(&a, n);
    agrees(&a, l, n);
    for (int t = 0; t < n; t++) moved[a.tier[t]]++;
    if (n == a.c->n_tokens) break;
    held = account_keys(l, id, key);
    rig_to(r, n + 1);
    account_step(&a, n + 1, held, id, key);
  }
  rig_close(r);
}
