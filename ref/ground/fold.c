/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH64 of words: ref/ground/fold.h. Primes, steps and names are those of the
 * algorithm's specification.
 */
#include "ref/ground/fold.h"
#include <string.h>

static const uint64_t prime_1 = 0x9e3779b185ebca87u;
static const uint64_t prime_2 = 0xc2b2ae3d27d4eb4fu;
static const uint64_t prime_3 = 0x165667b19e3779f9u;
static const uint64_t prime_4 = 0x85ebca77c2b2ae63u;
static const uint64_t prime_5 = 0x27d4eb2f165667c5u;

static uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t round_of(uint64_t part, uint64_t word) {
  return turn(part + word * prime_2, 31) * prime_1;
}

static uint64_t two_words(const void *from) {
  uint64_t x;
  memcpy(&x, from, sizeof x);
  return x;
}

void kv_fold_begin(kv_fold *f) {
  *f = (kv_fold){.part = {prime_1 + prime_2, prime_2, 0, 0 - prime_1}};
}

static void take(kv_fold *f, const char *from) {
  for (int i = 0; i < 4; i++)
    f->part[i] = round_of(f->part[i], two_words(from + 8 * i));
}

void kv_fold_add(kv_fold *f, const void *words, size_t n) {
  const char *from = words;
  size_t held = f->words % KV_FOLD_WORDS;
  f->words += n;
  if (held) {
    size_t some = KV_FOLD_WORDS - held < n ? KV_FOLD_WORDS - held : n;
    memcpy(f->tail + held, from, some * sizeof *f->tail);
    if (held + some < KV_FOLD_WORDS) return;
    take(f, (const char *)f->tail);
    from += some * sizeof *f->tail;
    n -= some;
  }
  for (; n >= KV_FOLD_WORDS; n -= KV_FOLD_WORDS, from += sizeof f->tail)
    take(f, from);
  memcpy(f->tail, from, n * sizeof *f->tail);
}

static uint64_t joined(const kv_fold *f) {
  const uint64_t *v = f->part;
  if (f->words < KV_FOLD_WORDS) return prime_5;
  uint64_t h = turn(v[0], 1) + turn(v[1], 7) + turn(v[2], 12) + turn(v[3], 18);
  for (int i = 0; i < 4; i++) h = (h ^ round_of(0, v[i])) * prime_1 + prime_4;
  return h;
}

uint64_t kv_fold_end(const kv_fold *f) {
  uint64_t h = joined(f) + f->words * sizeof *f->tail;
  size_t left = f->words % KV_FOLD_WORDS, i = 0;
  for (; i + 2 <= left; i += 2)
    h = turn(h ^ round_of(0, two_words(f->tail + i)), 27) * prime_1 + prime_4;
  if (i < left)
    h = turn(h ^ (uint64_t)f->tail[i] * prime_1, 23) * prime_2 + prime_3;
  h = (h ^ h >> 33) * prime_2;
  h = (h ^ h >> 29) * prime_3;
  return h ^ h >> 32;
}
