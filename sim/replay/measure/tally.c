/* SPDX-License-Identifier: Apache-2.0
 *
 * Aggregates of values: kv_stat_of, for values in memory, and kv_tally, for
 * values passed once a pass. What both compute is in one function, so that the
 * bits are the same.
 *
 * Pass 0 counts, sums and finds the maximum; pass 1 adds the squares about the
 * mean. Passes 1 to 4 find the percentiles. A value's bits are turned into a
 * key that sorts as the value does. Each pass counts the next 16 bits of the
 * keys whose upper bits equal those already found of the percentile. After pass
 * 4 all 64 bits are known.
 */
#include "sim/replay/measure/measure.h"
#include <math.h>
#include <string.h>

/* Index of the percentile by nearest rank among n > 0 values in ascending
 * order: ceil(percent * n / 100) - 1, percent 1..100. */
static inline int64_t kv_rank_of(int64_t n, int64_t percent) {
  return (n * percent + 99) / 100 - 1;
}

/* x * x, rounded once; the build forbids fusing it into a sum. */
static inline double kv_square(double x) { return x * x; }

static void swap(double *a, double *b) {
  double t = *a;
  *a = *b;
  *b = t;
}

static double middle(double a, double b, double c) {
  if (a > b) swap(&a, &b);
  if (b > c) swap(&b, &c);
  return a > b ? a : b;
}

/* Partitions v[from..n) so that v[k] is the k-th smallest (k counts from v[0]),
 * with no larger value before it and no smaller one after it. */
static double select_rank(double *v, int64_t from, int64_t n, int64_t k) {
  int64_t low = from, high = n - 1;
  while (low < high) {
    double pivot = middle(v[low], v[low + (high - low) / 2], v[high]);
    int64_t i = low, j = high;
    while (i <= j) {
      while (v[i] < pivot) i++;
      while (v[j] > pivot) j--;
      if (i <= j) swap(&v[i++], &v[j--]);
    }
    if (k <= j)
      high = j;
    else if (k >= i)
      low = i;
    else
      break;
  }
  return v[k];
}

kv_stat kv_stat_of(double *value, int64_t n) {
  kv_stat s = {0};
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = value[i];
    if (isnan(x)) continue;
    if (s.count == 0 || x > s.max) s.max = x;
    sum += x;
    value[s.count++] = x;
  }
  if (s.count == 0) return s;
  s.mean = sum / (double)s.count;
  for (int64_t i = 0; i < s.count; i++)
    s.squares += kv_square(value[i] - s.mean);
  int64_t a = kv_rank_of(s.count, 50), b = kv_rank_of(s.count, 95);
  s.p50 = select_rank(value, 0, s.count, a);
  s.p95 = select_rank(value, a, s.count, b);
  s.p99 = select_rank(value, b, s.count, kv_rank_of(s.count, 99));
  return s;
}

enum { BITS = 16, LAST = 64 / BITS };

static const int percent[KV_TALLY_RANKS] = {50, 95, 99};

/* Keys sort, as unsigned numbers, as the values do; -0 counts as 0. */
static uint64_t key_of(double x) {
  uint64_t bits;
  x += 0.0;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static double value_of(uint64_t key) {
  uint64_t bits = key >> 63 ? key & ~((uint64_t)1 << 63) : ~key;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Bits of a key that pass 1, 2, .. counts; prefix_of: the bits above them. */
static uint64_t digit_of(uint64_t key, int pass) {
  return key >> (64 - BITS * pass) & (KV_TALLY_DIGITS - 1);
}

static uint64_t above(uint64_t key, int pass) {
  return pass == 1 ? 0 : key >> (64 - BITS * (pass - 1));
}

void kv_tally_begin(kv_tally *t) {
  t->stat = (kv_stat){0};
  t->pass = -1;
  t->sum = 0;
}

static void find_digits(kv_tally *t) {
  for (int r = 0; r < KV_TALLY_RANKS; r++) {
    uint64_t digit = 0;
    while (t->rank[r] >= t->at[r][digit]) t->rank[r] -= t->at[r][digit++];
    t->prefix[r] = t->prefix[r] << BITS | digit;
  }
}

static void begin_ranks(kv_tally *t) {
  t->stat.mean = t->sum / (double)t->stat.count;
  for (int r = 0; r < KV_TALLY_RANKS; r++) {
    t->rank[r] = kv_rank_of(t->stat.count, percent[r]);
    t->prefix[r] = 0;
  }
}

bool kv_tally_pass(kv_tally *t) {
  int ended = t->pass++;
  if (ended >= 0 && t->stat.count == 0) return false;
  if (ended == 0) begin_ranks(t);
  if (ended > 0) find_digits(t);
  memset(t->at, 0, sizeof t->at);
  if (ended < LAST) return true;
  t->stat.p50 = value_of(t->prefix[0]);
  t->stat.p95 = value_of(t->prefix[1]);
  t->stat.p99 = value_of(t->prefix[2]);
  return false;
}

void kv_tally_add(kv_tally *t, double x) {
  if (isnan(x)) return;
  if (t->pass == 0) {
    if (t->stat.count++ == 0 || x > t->stat.max) t->stat.max = x;
    t->sum += x;
    return;
  }
  uint64_t key = key_of(x), digit = digit_of(key, t->pass);
  if (t->pass == 1) t->stat.squares += kv_square(x - t->stat.mean);
  for (int r = 0; r < KV_TALLY_RANKS; r++)
    if (above(key, t->pass) == t->prefix[r]) t->at[r][digit]++;
}
