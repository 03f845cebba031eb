/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranking: top, top over lanes, top-p, argmin and argmax. All by radix over
 * keys, no sort: the k-th key is found digit by digit, then everything above
 * it is in and of its equals the first ones by entry index.
 */
#include "ref/parts/parts.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "ref/lane/select.h"
#include <assert.h>
#include <string.h>

_Thread_local const kv_selecting *kv_selecting_now;

static void show(const kv_selection *s) {
  kv_selecting_now->selected(kv_selecting_now->self, s);
}

/* Three digits of a key, the first: sign, exponent, two bits of mantissa. */
enum { DIGITS = 3, BUCKETS = 1 << 11 };
static const struct {
  int shift;
  uint32_t mask;
} digit[DIGITS] = {{21, 0x7ff}, {10, 0x7ff}, {0, 0x3ff}};

/* The key of rank k (1-based, from the largest) among lanes' scores, and how
 * many of that key itself are in. 1 <= k <= total. */
static uint32_t nth_key(const float *const *score, const int *n, int lanes,
                        int k, int *equals) {
  uint32_t prefix = 0, mask = 0;
  for (int j = 0; j < DIGITS; j++) {
    int count[BUCKETS] = {0}, b = BUCKETS - 1, shift = digit[j].shift;
    for (int l = 0; l < lanes; l++)
      for (int i = 0; i < n[l]; i++) {
        uint32_t key = kv_key(score[l][i]);
        if ((key & mask) == prefix) count[key >> shift & digit[j].mask]++;
      }
    for (; count[b] < k; b--) k -= count[b];
    prefix |= (uint32_t)b << shift;
    mask |= digit[j].mask << shift;
  }
  *equals = k;
  return prefix;
}

uint32_t kv_nth_key(const float *score, int n, int k, int *equals) {
  return nth_key(&score, &n, 1, k, equals);
}

static void top(const float *const *score, const int *n, int lanes, int k,
                bool *const *keep) {
  int total = 0, longest = 0, equals;
  for (int l = 0; l < lanes; l++) {
    total += n[l];
    if (n[l] > longest) longest = n[l];
  }
  if (k <= 0 || k >= total) {
    for (int l = 0; l < lanes; l++) memset(keep[l], k > 0, (size_t)n[l]);
    return;
  }
  uint32_t cut = nth_key(score, n, lanes, k, &equals);
  for (int l = 0; l < lanes; l++)
    for (int i = 0; i < n[l]; i++) keep[l][i] = kv_key(score[l][i]) > cut;
  for (int i = 0; i < longest && equals > 0; i++)
    for (int l = 0; l < lanes && equals > 0; l++)
      if (i < n[l] && kv_key(score[l][i]) == cut) {
        keep[l][i] = true;
        equals--;
      }
}

void kv_top_shared(const float *const *score, const int *n, int lanes, int k,
                   bool *const *keep) {
  top(score, n, lanes, k, keep);
  if (kv_selecting_now)
    show(&(kv_selection){KV_CHOSE_K, lanes, n, score, keep, NULL, -1});
}

void kv_top(const float *score, int n, int k, bool *keep) {
  kv_top_shared(&score, &n, 1, k, &keep);
}

static void show_one(const float *score, int n, const bool *in, int one) {
  if (one >= 0)
    show(&(kv_selection){KV_CHOSE_ONE, 1, &n, &score, NULL, in, one});
}

int kv_argmin(const float *score, int n, const bool *in) {
  int best = -1;
  for (int i = 0; i < n; i++)
    if ((!in || in[i]) && (best < 0 || kv_key(score[i]) < kv_key(score[best])))
      best = i;
  if (kv_selecting_now) show_one(score, n, in, best);
  return best;
}

int kv_argmax(const float *score, int n, const bool *in) {
  int best = -1;
  for (int i = 0; i < n; i++)
    if ((!in || in[i]) && (best < 0 || kv_key(score[i]) > kv_key(score[best])))
      best = i;
  return best;
}

uint32_t kv_mass_key(const float *s, const int64_t *w, int n, int64_t target,
                     int64_t *above) {
  uint32_t prefix = 0, mask = 0;
  *above = 0;
  for (int j = 0; j < DIGITS; j++) {
    int64_t sum[BUCKETS] = {0};
    bool seen[BUCKETS] = {false};
    int b = BUCKETS - 1, lowest = -1, shift = digit[j].shift;
    for (int i = 0; i < n; i++) {
      uint32_t key = kv_key(s[i]);
      if ((key & mask) != prefix) continue;
      sum[key >> shift & digit[j].mask] += w[i];
      seen[key >> shift & digit[j].mask] = true;
    }
    while (!seen[b]) b--;
    for (int next = b; next >= 0; next--) {
      if (!seen[next]) continue;
      lowest = next;
      if (*above + sum[next] >= target) break;
      *above += sum[next];
    }
    assert(lowest >= 0 && *above < target + (target == 0));
    prefix |= (uint32_t)lowest << shift;
    mask |= digit[j].mask << shift;
  }
  return prefix;
}

int kv_top_p(const kv_at *at, const float *s, int n, int32_t p20, bool *keep) {
  const kv_kernels *kernel = at->kernels;
  float *e = KV_TAKE(at->work, float, n);
  int64_t *w = KV_TAKE(at->work, int64_t, n);
  memset(w, 0, (size_t)n * sizeof *w);
  /* The largest by rank, which NaN does not hide: no exponential exceeds 1. */
  int64_t above, mass = kernel->exp_sum(s, s[kv_argmax(s, n, NULL)], n, e);
  if (mass == 0) { /* a logit is not finite: the cell fails at it */
    memset(keep, true, (size_t)n);
    return n;
  }
  int64_t target = kv_share_of(mass, p20);
  kernel->fix_add(e, n, w);
  uint32_t cut = kv_mass_key(s, w, n, target, &above);
  int kept = 0;
  for (int i = 0; i < n; i++) kept += keep[i] = kv_key(s[i]) > cut;
  for (int i = 0; i < n && (above < target || kept == 0); i++)
    if (kv_key(s[i]) == cut) {
      keep[i] = true;
      kept++;
      above += w[i];
    }
  if (kv_selecting_now)
    show(&(kv_selection){KV_CHOSE_MASS, 1, &n, &s, &keep, NULL, -1});
  return kept;
}

float kv_dot(const float *a, const float *b, int d) {
  float acc = 0;
  for (int x = 0; x < d; x++) acc = kv_fma(a[x], b[x], acc);
  return acc;
}

int kv_first_full(const kv_cell_ref *side, int end) {
  while (end > 0 && side[end - 1].format == KV_RAW) end--;
  return end > 0 ? end : 0;
}
