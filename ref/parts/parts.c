/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranking: top, top over lanes, top-p, argmin and argmax. Keys are not sorted:
 * radix finds the k-th key digit by digit. Every larger key is in, and of keys
 * equal to it the first ones by entry index.
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

/* A key as three digits; the first is sign, exponent, two bits of mantissa. */
enum { DIGITS = 3, BUCKETS = 1 << 11 };
static const struct {
  int shift;
  uint32_t mask;
} digit[DIGITS] = {{21, 0x7ff}, {10, 0x7ff}, {0, 0x3ff}};

/* The key of rank k (1-based, from the largest) among the lanes' scores, and
 * how many entries with that key are in. 1 <= k <= total. */
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
  /* The largest by rank, which no NaN hides: no exponential exceeds 1. */
  int64_t above, mass = kernel->exp_sum(s, s[kv_argmax(s, n, NULL)], n, e);
  if (mass == 0) { /* a logit is not finite, which fails the cell */
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

/* Scores: fixed-point sums, group rules, pooling and the observation window's
 * sums; and the two ways of keeping that nearly all evicting methods share. */

void kv_scores(const int64_t *sum, int n, float *out) {
  for (int i = 0; i < n; i++) out[i] = kv_unfix(sum[i]);
}

void kv_scores_seen(int step, const uint32_t *id, int n, float *score) {
  for (int i = 0; i < n; i++)
    score[i] = kv_div(score[i], (float)(step - (int)id[i]));
}

/* --- pooling ------------------------------------------------------------ */

static int low(int i, int half) { return i < half ? 0 : i - half; }
static int high(int i, int half, int n) {
  return i + half < n ? i + half : n - 1;
}

/* Bits of a float as an integer of the same order (arithmetic 2), and back. */
static int32_t signed_key(float x) {
  int32_t u = (int32_t)kv_bits(x);
  return u ^ (u >> 31 & INT32_MAX);
}
static float of_signed_key(int32_t u) {
  return kv_float((uint32_t)(u ^ (u >> 31 & INT32_MAX)));
}

/* x[i] = the largest of x[i .. i + width - 1], for i + width - 1 < n. A run of
 * a power of two is made from two of half its length; the last two overlap. */
static void run_max(int n, int width, int32_t *x) {
  int have = 1;
  for (int by; have < width; have += by) {
    by = have <= width - have ? have : width - have;
    for (int i = 0; i + have + by <= n; i++)
      x[i] = x[i] > x[i + by] ? x[i] : x[i + by];
  }
}

/* Outputs from `first` on, at most POOLED. Values past an end have a key below
 * every number's and so are never the largest. */
enum { POOLED = 1024, WIDEST = 1023 };
static void pool_some(const float *in, int n, int kernel, int first, int count,
                      float *out) {
  int32_t x[POOLED + WIDEST];
  int from = first - kernel / 2;
  for (int i = 0; i < count + kernel - 1; i++) {
    int j = from + i;
    x[i] = j >= 0 && j < n ? signed_key(in[j]) : INT32_MIN;
  }
  run_max(count + kernel - 1, kernel, x);
  for (int i = 0; i < count; i++) out[first + i] = of_signed_key(x[i]);
}

void kv_pool_max(const float *in, int n, int kernel, float *out) {
  assert(kernel <= WIDEST);
  for (int i = 0; i < n; i += POOLED)
    pool_some(in, n, kernel, i, n - i < POOLED ? n - i : POOLED, out);
}

void kv_pool_sum(const int64_t *in, int n, int kernel, int64_t *out) {
  for (int i = 0; i < n; i++) {
    int64_t sum = 0;
    for (int j = low(i, kernel / 2); j <= high(i, kernel / 2, n); j++)
      sum += in[j];
    out[i] = sum;
  }
}

void kv_pool_avg(const float *in, int n, int kernel, float *out) {
  for (int i = 0; i < n; i++) {
    float sum = 0;
    for (int j = low(i, kernel / 2); j <= high(i, kernel / 2, n); j++)
      sum = sum + in[j];
    out[i] = sum / (float)kernel;
  }
}

/* --- the observation window's sums ---------------------------------------- */

size_t kv_window_state(const kv_shape *s, kv_group_rule group) {
  size_t n = (size_t)kv_window_planes(s, group);
  return n * (size_t)s->n_tokens * sizeof(int64_t);
}

void kv_window_add(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                   kv_group_rule group) {
  int64_t *own = kv_own(at, lane);
  for (int h = 0; h < rows->heads; h++) {
    int plane = kv_window_planes(at->shape, group) > 1 ? h : 0;
    int64_t *sum = own + (size_t)plane * (size_t)at->shape->n_tokens;
    const int64_t *add = rows->sum + (size_t)h * rows->stride;
    for (int i = 0; i < rows->entries; i++) sum[i] += add[i];
  }
}

static void max_over(const float *x, int n, float *out) {
  for (int i = 0; i < n; i++)
    if (kv_key(x[i]) > kv_key(out[i])) out[i] = x[i];
}

/* A sum stays a sum under average pooling (arithmetic 4). */
static void score_sums(const kv_at *at, const int64_t *sum, kv_pooling pooling,
                       int kernel, int n, float *out) {
  if (pooling == KV_POOL_AVG) {
    int64_t *pooled = KV_TAKE(at->work, int64_t, n);
    kv_pool_sum(sum, n, kernel, pooled);
    kv_scores(pooled, n, out);
    return;
  }
  if (pooling == KV_POOL_NONE) {
    kv_scores(sum, n, out);
    return;
  }
  float *f = KV_TAKE(at->work, float, n);
  kv_scores(sum, n, f);
  kv_pool_max(f, n, kernel, out);
}

void kv_window_score_from(const kv_at *at, const kv_lane *lane,
                          kv_group_rule group, kv_pooling pooling, int kernel,
                          int first, int n, float *out) {
  const int64_t *own = (const int64_t *)kv_own(at, lane) + first;
  int p = kv_window_planes(at->shape, group);
  if (p == 1) {
    score_sums(at, own, pooling, kernel, n, out);
    return;
  }
  size_t used = at->work->used;
  float *f = KV_TAKE(at->work, float, n), *best = KV_TAKE(at->work, float, n);
  kv_scores(own, n, best);
  for (int h = 1; h < p; h++) {
    kv_scores(own + (size_t)h * (size_t)at->shape->n_tokens, n, f);
    max_over(f, n, best);
  }
  if (pooling == KV_POOL_MAX)
    kv_pool_max(best, n, kernel, out);
  else if (pooling == KV_POOL_AVG)
    kv_pool_avg(best, n, kernel, out);
  else
    memcpy(out, best, (size_t)n * sizeof *out);
  at->work->used = used;
}

void kv_window_score(const kv_at *at, const kv_lane *lane, kv_group_rule group,
                     kv_pooling pooling, int kernel, int n, float *out) {
  kv_window_score_from(at, lane, group, pooling, kernel, 0, n, out);
}

void kv_column_add(const kv_at *at, kv_lane *lane, int c, const kv_rows *rows) {
  int64_t *column = kv_column_int64(at, lane, c);
  for (int h = 0; h < rows->heads; h++) {
    const int64_t *add = rows->sum + (size_t)h * rows->stride;
    for (int i = 0; i < rows->entries; i++) column[i] += add[i];
  }
}

/* --- keeping ------------------------------------------------------------ */

void kv_keep_ends(kv_lane *lane, int sink, int recent) {
  if (lane->n <= sink + recent) return;
  int n = 0;
  for (int i = 0; i < sink; i++) lane->room.list[n++] = i;
  for (int i = lane->n - recent; i < lane->n; i++) lane->room.list[n++] = i;
  kv_keep(lane, n, lane->room.list);
}

void kv_keep_top(const kv_at *at, kv_lane *lane, const float *score, int first,
                 int n, int k) {
  bool *keep = KV_TAKE(at->work, bool, lane->n);
  memset(keep, true, (size_t)lane->n);
  kv_top(score, n, k, keep + first);
  kv_keep_mask(lane, keep);
}

void kv_keep_top_recent(const kv_at *at, kv_lane *lane, const float *score,
                        int heavy, int recent) {
  if (lane->n > heavy + recent)
    kv_keep_top(at, lane, score, 0, lane->n - recent, heavy);
}

/* --- hashes --------------------------------------------------------------- */

/* The k-th largest hash, 1 <= k <= n, and how many of the k equal it. */
static uint64_t nth(const uint64_t *hash, int n, int k, int *equals) {
  uint64_t prefix = 0, mask = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    int count[256] = {0}, b = 255;
    for (int i = 0; i < n; i++)
      if ((hash[i] & mask) == prefix) count[hash[i] >> shift & 255]++;
    for (; count[b] < k; b--) k -= count[b];
    prefix |= (uint64_t)b << shift;
    mask |= (uint64_t)255 << shift;
  }
  *equals = k;
  return prefix;
}

void kv_top_hash(const uint64_t *hash, int n, int k, bool *keep) {
  int equals = 0;
  uint64_t cut = k > 0 && k < n ? nth(hash, n, k, &equals) : 0;
  for (int i = 0; i < n; i++) {
    if (k <= 0 || k >= n)
      keep[i] = k > 0;
    else
      keep[i] = hash[i] > cut || (hash[i] == cut && equals-- > 0);
  }
}

/* --- a whole ranking ------------------------------------------------------ */

/* Ranks all entries, for a new stored order: a stable radix sort over the keys
 * of rule 2, so equal scores keep their order. */

enum { DIGIT = 8, VALUES = 1 << DIGIT };

/* One pass by a digit of the inverted key: larger scores come first. */
static void pass(const float *score, int n, int shift, const int32_t *from,
                 int32_t *to) {
  int start[VALUES + 1] = {0};
  for (int i = 0; i < n; i++)
    start[(~kv_key(score[from[i]]) >> shift & (VALUES - 1)) + 1]++;
  for (int b = 0; b < VALUES; b++) start[b + 1] += start[b];
  for (int i = 0; i < n; i++)
    to[start[~kv_key(score[from[i]]) >> shift & (VALUES - 1)]++] = from[i];
}

void kv_order(const float *score, int n, int32_t *list, int32_t *spare) {
  for (int shift = 0; shift < 32; shift += 2 * DIGIT) {
    pass(score, n, shift, list, spare);
    pass(score, n, shift + DIGIT, spare, list);
  }
}

/* Logits that a method computes itself, for queries it chooses, apart from
 * observation: filters of other layers, and estimates. */

static bool is_raw(const kv_lane *l, int i) {
  return !l->k || l->k[i].format == KV_RAW;
}

/* Names the keys of entry i and of the following entries that are stored alike,
 * at most n; returns how many. */
static int name_keys(const kv_lane *l, int i, int n, const void **key,
                     float *rows, kv_dtype *type) {
  bool raw = is_raw(l, i);
  int count = 0;
  *type = raw ? l->shape->dtype : KV_F32;
  for (; count < n && is_raw(l, i + count) == raw; count++) {
    float *row = rows + (size_t)count * (size_t)l->shape->d;
    if (!raw) kv_lane_key(l, i + count, row);
    key[count] = raw ? kv_lane_raw_key(l, l->id[i + count]) : row;
  }
  return count;
}

void kv_key_logits(const kv_at *at, const kv_lane *lane, int m, const float *q,
                   int first, int n, float scale, float *s, size_t lds) {
  assert(!lane->needs->reindex && "keys are read where they were recorded");
  size_t used = at->work->used, d = (size_t)lane->shape->d;
  const void **key = KV_TAKE(at->work, const void *, KV_PACK);
  float *pack = KV_TAKE(at->work, float, KV_PACK *d);
  float *rows = KV_TAKE(at->work, float, KV_PACK *d);
  for (int i = 0, count; i < n; i += count) {
    kv_dtype type;
    int most = n - i < KV_PACK ? n - i : KV_PACK;
    count = name_keys(lane, first + i, most, key, rows, &type);
    at->kernels->logits(m, count, (int)d, q, d, key, type, scale, s + i, lds,
                        pack);
  }
  at->work->used = used;
}

void kv_logits_finite(const kv_at *at, int n, float *s) {
  bool finite;
  at->kernels->max_finite(s, n, &finite);
  for (int i = 0; !finite && i < n; i++)
    if (!kv_finite(s[i])) s[i] = 0;
}

void kv_probabilities(const kv_at *at, int n, float *s) {
  float most = at->kernels->max(s, n);
  int64_t mass = at->kernels->exp_sum(s, most, n, s);
  float each = 1.0f / kv_unfix(mass);
  for (int i = 0; i < n; i++) s[i] = s[i] * each;
}

/* Opening: checks and defaults that methods share, so that the same
 * contradiction gives the same sentence everywhere. */

kv_rc kv_open_budget(const char *method, int budget, kv_err *e) {
  if (budget != KV_UNSET) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s needs a budget; write %s:budget=N, or set one for all "
                 "methods with -b",
                 method, method);
}

kv_rc kv_open_part(const char *method, const char *name, int part, int budget,
                   kv_err *e) {
  if (part <= budget) return KV_OK;
  return kv_fail(
      e, KV_REFUSED,
      "%s: %s=%d exceeds the budget of %d; lower %s or raise the budget",
      method, name, part, budget, name);
}

kv_rc kv_open_kernel(const char *method, int kernel, kv_err *e) {
  if (kernel % 2) return KV_OK;
  return kv_fail(e, KV_USAGE, "%s: kernel=%d must be odd; use %d or %d", method,
                 kernel, kernel - 1, kernel + 1);
}

kv_rc kv_open_sums(const char *method, int rows, int heads, int kernel,
                   kv_err *e) {
  int64_t terms = (int64_t)rows * heads * kernel;
  if (terms <= KV_MOST_TERMS) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: a score would sum %lld probabilities (%d rows, %d heads, "
                 "kernel %d), but only %d are exact; replay a shorter trace or "
                 "select per query head",
                 method, (long long)terms, rows, heads, kernel, KV_MOST_TERMS);
}

/* The nearest binary32 of a decimal can be too small by its rounding, which is
 * added back: 0.2 of 1000 tokens are 200. */
int kv_open_share(float share, int prompt_len) {
  double tokens = (double)share * prompt_len;
  int whole = (int)(tokens + tokens * 0x1p-24);
  return whole > 1 ? whole : 1;
}

int kv_score_heads(const kv_shape *s, kv_group_rule group) {
  return group == KV_GROUP_QUERY_HEAD ? 1 : kv_group(s);
}

kv_lanes kv_group_lanes(kv_group_rule group) {
  return group == KV_GROUP_QUERY_HEAD ? QUERY_HEAD : KV_HEAD;
}

/* --- window methods ------------------------------------------------------- */

int kv_fallback_window(int budget) {
  int half = budget / 2 > 1 ? budget / 2 : 1;
  return half < 32 ? half : 32;
}

kv_rc kv_open_window(const kv_shape *shape, const char *method, int budget,
                     kv_window_options *o, kv_needs *needs, kv_err *e) {
  kv_rc rc = kv_open_budget(method, budget, e);
  if (rc) return rc;
  if (o->window == KV_UNSET) o->window = kv_fallback_window(budget);
  if (o->window < 1)
    return kv_fail(e, KV_USAGE,
                   "%s: window=0 leaves no query to vote; use window=1 or more",
                   method);
  rc = kv_open_part(method, "window", o->window, budget, e);
  if (!rc) rc = kv_open_kernel(method, o->kernel, e);
  if (rc) return rc;
  kv_group_rule group = (kv_group_rule)o->group;
  int rows = o->window < shape->prompt_len ? o->window : shape->prompt_len;
  needs->prompt_rows = rows;
  needs->want = KV_SUM;
  needs->lanes = kv_group_lanes(group);
  needs->lane_state = kv_window_state(shape, group);
  needs->slides = needs->chunks = true;
  needs->slid = kv_window_planes(shape, group);
  return kv_open_sums(method, o->window, kv_score_heads(shape, group),
                      o->kernel, e);
}

void kv_window_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                       const kv_window_options *o) {
  kv_window_add(at, lane, rows, (kv_group_rule)o->group);
}

float *kv_window_past(const kv_at *at, const kv_lane *lane,
                      const kv_window_options *o) {
  int n = lane->n - o->window;
  float *score = KV_TAKE(at->work, float, n);
  size_t used = at->work->used;
  kv_window_score(at, lane, (kv_group_rule)o->group, (kv_pooling)o->pooling,
                  o->kernel, n, score);
  at->work->used = used;
  return score;
}

void kv_window_keep(const kv_at *at, kv_lane *lane, const kv_window_options *o,
                    int past) {
  if (lane->n <= past + o->window) return;
  const float *score = kv_window_past(at, lane, o);
  kv_keep_top_recent(at, lane, score, past, o->window);
}
