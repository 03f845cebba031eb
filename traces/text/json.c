/* SPDX-License-Identifier: Apache-2.0
 *
 * Jansson's memory: traces/text/json.h. After the first failed allocation the
 * reader gets no more text and allocates from a reserve, so that it ends in
 * order; its result is freed before the reserve is.
 */
#include "traces/text/json.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Smallest size of the reserve: jansson reads 1024 bytes at a time, each of
 * which may open a list of some hundred bytes. */
enum { RESERVE = 1 << 18, ALIGN = 16 };

typedef struct watch {
  char *reserve;
  size_t size, used;
  bool failed;
} watch;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static json_malloc_t host_malloc;
static json_free_t host_free;
static _Thread_local watch *mine;

static void *take(size_t n) {
  void *p = mine && mine->failed ? NULL : host_malloc(n);
  if (p || !mine) return p;
  mine->failed = true;
  if (n + ALIGN > mine->size - mine->used) return NULL;
  p = mine->reserve + mine->used;
  mine->used += (n + ALIGN - 1) / ALIGN * ALIGN;
  return p;
}

static void give(void *p) {
  const char *at = p;
  if (mine && mine->reserve && at >= mine->reserve &&
      at < mine->reserve + mine->size)
    return;
  host_free(p);
}

static void begin(watch *w) {
  assert(!mine && "one watch at a time");
  pthread_mutex_lock(&lock);
  json_get_alloc_funcs(&host_malloc, &host_free);
  json_set_alloc_funcs(take, give);
  mine = w;
}

static void end(void) {
  mine = NULL;
  json_set_alloc_funcs(host_malloc, host_free);
  pthread_mutex_unlock(&lock);
}

typedef struct source {
  const unsigned char *text;
  size_t left;
} source;

static size_t feed(void *to, size_t room, void *self) {
  source *s = self;
  size_t n = s->left < room ? s->left : room;
  if (mine->failed) return (size_t)-1;
  memcpy(to, s->text, n);
  s->text += n;
  s->left -= n;
  return n;
}

json_t *kv_json_load(size_t n, const unsigned char *text, bool *no_memory,
                     json_error_t *why) {
  watch w = {.size = 4 * n + RESERVE};
  source s = {text, n};
  *no_memory = true;
  w.reserve = malloc(w.size);
  if (!w.reserve) return NULL;
  begin(&w);
  json_t *root = json_load_callback(feed, &s, JSON_REJECT_DUPLICATES, why);
  if (w.failed && root) {
    json_decref(root);
    root = NULL;
  }
  end();
  free(w.reserve);
  *no_memory = w.failed;
  return root;
}

static _Thread_local watch building;

void kv_json_begin(void) {
  building = (watch){0};
  begin(&building);
}

bool kv_json_end(void) {
  end();
  return !building.failed;
}

json_t *kv_json_found(double x) {
  if (isfinite(x)) return json_real(x);
  return json_string(isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

char *kv_json_print(const json_t *root, size_t flags) {
  kv_json_begin();
  char *text = json_dumps(root, flags);
  if (kv_json_end()) return text;
  free(text);
  return NULL;
}
