/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows at other positions. Contract: ref/ground/places.h.
 *
 * The first thread that needs a row of a table makes it. A thread that needs it
 * in the meantime computes the same numbers for itself and does not wait. If
 * the new positions equal those of the tokens, as without gaps, both share one
 * table.
 */
#include "ref/ground/places.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NONE, IN_HAND, THERE };

typedef struct table {
  float *sc;                   /* [n][d] of kv_rope_table, where THERE */
  _Atomic unsigned char *made; /* [n] */
} table;

struct kv_places {
  const kv_rope *rope;
  int n, d;
  table token, place; /* by token, and by place; place's sc is NULL if both are
                         the same */
  int users;
  struct kv_places *next;
};

static kv_places *opened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int32_t place_of(const kv_places *p, int i) {
  return kv_rope_position(p->rope, 0) + i;
}

static bool has_gaps(const kv_places *p) {
  for (int i = 0; i < p->n; i++)
    if (kv_rope_position(p->rope, (uint32_t)i) != place_of(p, i)) return true;
  return false;
}

static bool take(const kv_places *p, table *x) {
  size_t n = (size_t)p->n;
  x->sc = kv_zalloc(n, (size_t)p->d * sizeof *x->sc);
  x->made = kv_zalloc(n, sizeof *x->made);
  return x->sc && x->made;
}

static void give(kv_places *p) {
  free(p->token.sc);
  free(p->token.made);
  free(p->place.sc);
  free(p->place.made);
  free(p);
}

static kv_rc make(const kv_rope *rope, int n_tokens, int d, kv_places **out,
                  kv_err *e) {
  size_t size = (size_t)n_tokens * (size_t)d * sizeof(float);
  kv_places *p = kv_zalloc(1, sizeof *p);
  if (!p) return kv_no_memory(e, "rotations of keys", sizeof *p);
  *p = (kv_places){.rope = rope, .n = n_tokens, .d = d};
  if (!take(p, &p->token) || (has_gaps(p) && !take(p, &p->place))) {
    give(p);
    return kv_no_memory(e, "rotations of keys", size);
  }
  p->next = opened;
  *out = opened = p;
  return KV_OK;
}

kv_rc kv_places_open(const kv_rope *rope, int n_tokens, int d, kv_places **out,
                     kv_err *e) {
  pthread_mutex_lock(&lock);
  kv_places *p = opened;
  while (p && (p->rope != rope || p->n != n_tokens || p->d != d)) p = p->next;
  kv_rc rc = p ? KV_OK : make(rope, n_tokens, d, &p, e);
  if (!rc) p->users++;
  pthread_mutex_unlock(&lock);
  *out = p;
  return rc;
}

void kv_places_close(kv_places *p) {
  if (!p) return;
  pthread_mutex_lock(&lock);
  kv_places **at = &opened;
  if (--p->users == 0) {
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    give(p);
  }
  pthread_mutex_unlock(&lock);
}

/* Sines and cosines of a position, row i of the table; own: a buffer. */
static const float *row_of(const kv_places *p, const table *x, int i,
                           int32_t position, float *own) {
  float *row = x->sc + (size_t)i * (size_t)p->d;
  unsigned char is = atomic_load_explicit(&x->made[i], memory_order_acquire);
  if (is == THERE) return row;
  if (is != NONE || !atomic_compare_exchange_strong(&x->made[i], &is, IN_HAND))
    row = own;
  kv_rope_table(p->rope->inv_freq, p->d, position, row);
  if (row != own)
    atomic_store_explicit(&x->made[i], THERE, memory_order_release);
  return row;
}

void kv_place_row(kv_places *p, uint32_t t, int i, float *room, float *row) {
  int32_t from = kv_rope_position(p->rope, t), to = place_of(p, i);
  size_t d = (size_t)p->d;
  if (from == to) return;
  const table *places = p->place.sc ? &p->place : &p->token;
  const float *back = row_of(p, &p->token, (int)t, from, room);
  const float *forth = row_of(p, places, i, to, room + d);
  memcpy(room + 2 * d, row, d * sizeof *row);
  kv_rope_move(p->d, p->rope->interleaved, back, forth, room + 2 * d, row);
}
