/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: sim/run/look/device_cache.h.
 */
#include "sim/run/look/device_cache.h"

#include "ref/lane/method.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_ask(size_t length, const char *text, kv_cache_ask *out) {
  bool often = !strncmp(text, "lfu:", 4);
  char *end;
  if ((!often && strncmp(text, "lru:", 4)) || !isdigit((unsigned char)text[4]))
    return false;
  long n = strtol(text + 4, &end, 10);
  if (end != text + length || n > 1 << 30) return false;
  *out = (kv_cache_ask){.often = often, .entries = (int)n};
  snprintf(out->name, sizeof out->name, "%.4s%ld", text, n);
  return true;
}

static kv_rc add(size_t length, const char *text, kv_cache_list *list,
                 kv_err *e) {
  kv_cache_ask asked;
  if (!read_ask(length, text, &asked))
    return kv_fail(e, KV_USAGE,
                   "--cache must be lru:N or lfu:N with N entries a lane, "
                   "0 to %d, not '%.*s'",
                   1 << 30, length < 60 ? (int)length : 60, text);
  for (int i = 0; i < list->n; i++)
    if (!strcmp(list->of[i].name, asked.name)) return KV_OK;
  if (list->n == KV_CACHES_MOST)
    return kv_fail(e, KV_USAGE,
                   "--cache %s is one too many; give at most %d caches",
                   asked.name, KV_CACHES_MOST);
  list->of[list->n++] = asked;
  return KV_OK;
}

kv_rc kv_cache_parse(const char *text, kv_cache_list *list, kv_err *e) {
  kv_rc rc = KV_OK;
  for (size_t n; !rc && text; text = text[n] ? text + n + 1 : NULL) {
    n = strcspn(text, ",");
    rc = add(n, text, list, e);
  }
  return rc;
}

kv_rc kv_cache_open(const kv_cache_ask *asked, int tokens, kv_cache *c,
                    kv_err *e) {
  size_t n = (size_t)tokens;
  *c = (kv_cache){.asked = *asked};
  c->of = kv_zalloc(n, sizeof *c->of);
  c->steps = kv_zalloc(n, sizeof *c->steps);
  c->last = kv_zalloc(n, sizeof *c->last);
  c->in = kv_zalloc(n, sizeof *c->in);
  if (c->of && c->steps && c->last && c->in) return KV_OK;
  return kv_no_memory(e, "caches", n * (sizeof *c->of + 9));
}

void kv_cache_close(kv_cache *c) {
  free(c->of);
  free(c->steps);
  free(c->last);
  free(c->in);
  *c = (kv_cache){0};
}

static int compare(int64_t a, int64_t b) { return a < b ? 1 : a > b ? -1 : 0; }

/* Orders by which stays longer; steps are 0 for lru. */
static int by_rank(const void *x, const void *y) {
  const kv_cached *a = x, *b = y;
  int most = compare(a->steps, b->steps), last = compare(a->last, b->last);
  return most ? most : last ? last : compare(b->token, a->token);
}

/* Keeps the best N of of[0..n). */
static void keep_best(kv_cache *c, int n) {
  int most = c->asked.entries;
  for (int i = 0; i < n; i++) {
    kv_cached *x = &c->of[i];
    x->steps = c->asked.often ? c->steps[x->token] : 0;
    x->last = c->last[x->token];
  }
  if (n > most) qsort(c->of, (size_t)n, sizeof *c->of, by_rank);
  for (int i = 0; i < n; i++) c->in[c->of[i].token] = i < most;
  c->n = n < most ? n : most;
}

int kv_cache_step(kv_cache *c, int step, int n, const uint32_t *token) {
  int hits = 0, all = c->n;
  for (int i = 0; i < n; i++) {
    uint32_t t = token[i];
    hits += c->in[t];
    c->steps[t]++;
    c->last[t] = step;
    if (!c->in[t]) c->of[all++].token = t;
  }
  keep_best(c, all);
  return hits;
}
