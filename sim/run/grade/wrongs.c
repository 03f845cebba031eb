/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong decisions, packed: sim/run/grade/wrongs.h. The fixed part of a
 * kv_judged, then the runs taken, then those left.
 */
#include "sim/run/grade/wrongs.h"

#include <stdlib.h>
#include <string.h>

enum { FIXED = offsetof(kv_judged, taken) };

static size_t runs(int n) {
  return (size_t)(n < KV_MOST_APART ? n : KV_MOST_APART) * sizeof(kv_apart);
}

static bool make_room(kv_wrongs *w, size_t more) {
  size_t room = w->room ? w->room : 4096;
  while (room - w->used < more) room *= 2;
  if (room == w->room) return true;
  char *bytes = realloc(w->bytes, room);
  if (!bytes) return false;
  w->bytes = bytes;
  w->room = room;
  return true;
}

static void put(kv_wrongs *w, const void *from, size_t n) {
  memcpy(w->bytes + w->used, from, n);
  w->used += n;
}

void kv_wrongs_add(kv_wrongs *w, const kv_judged *j) {
  if (w->no_memory) return;
  w->no_memory = !make_room(w, FIXED + runs(j->took) + runs(j->left));
  if (w->no_memory) return;
  put(w, j, FIXED);
  put(w, j->taken, runs(j->took));
  put(w, j->missed, runs(j->left));
}

static void get(const kv_wrongs *w, size_t *at, void *to, size_t n) {
  memcpy(to, w->bytes + *at, n);
  *at += n;
}

bool kv_wrongs_next(const kv_wrongs *w, size_t *at, kv_judged *out) {
  if (*at == w->used) return false;
  get(w, at, out, FIXED);
  get(w, at, out->taken, runs(out->took));
  get(w, at, out->missed, runs(out->left));
  return true;
}

void kv_wrongs_free(kv_wrongs *w) {
  free(w->bytes);
  *w = (kv_wrongs){0};
}
