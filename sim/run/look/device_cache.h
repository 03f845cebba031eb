/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache on the device for what a lane has in the host's memory: N entries of
 * it, by the policy that says which ones stay. Empty at first; then step by
 * step the tokens that are looked up, each once:
 *
 *   those in the cache are hits, the others are fetched
 *   of all of these and what else is cached the N stay that
 *     lru: were looked up last
 *     lfu: were looked up at the most steps; equal: last
 *   and of equal ones those of lower tokens
 *
 * So a step's own tokens are there for it, however many, and a cache of 0 never
 * hits. What left the lane is looked up no more, and goes in its turn.
 *
 * Cost: a step sorts what it looks up and what is cached, where these are more
 * than N; 21 bytes a token.
 */
#ifndef KV_SIM_DEVICE_CACHE_H
#define KV_SIM_DEVICE_CACHE_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdint.h>

/* What was asked for. */
enum { KV_CACHES_MOST = 64 };
typedef struct kv_cache_ask {
  char name[32]; /* lru:64 */
  bool often;    /* lfu */
  int entries;   /* N */
} kv_cache_ask;

typedef struct kv_cache_list {
  int n;
  kv_cache_ask of[KV_CACHES_MOST];
} kv_cache_list;

/* Adds those of text, such as lru:64,lfu:64, that are not there. KV_USAGE: one
 * is no cache, or they are more than KV_CACHES_MOST. */
kv_rc kv_cache_parse(const char *text, kv_cache_list *list, kv_err *e);

/* A token, by what ranks it. */
typedef struct kv_cached {
  int32_t steps, last; /* at which it was looked up; the last of these */
  uint32_t token;
} kv_cached;

typedef struct kv_cache {
  kv_cache_ask asked;
  int n;          /* tokens in the cache */
  kv_cached *of;  /* [tokens] they, and room for those looked up */
  int32_t *steps; /* [tokens] as of a kv_cached */
  int32_t *last;
  bool *in; /* [tokens] is it in the cache? */
} kv_cache;

/* Tokens are 0 .. tokens - 1. KV_RESOURCE: memory. Close it, also after a
 * failure. */
kv_rc kv_cache_open(const kv_cache_ask *asked, int tokens, kv_cache *out,
                    kv_err *e);
void kv_cache_close(kv_cache *c); /* accepts zeroed */

/* At the step after which `step` tokens are seen, more each time, n distinct
 * tokens are looked up. Returns how many hit: those that `in` says before. */
int kv_cache_step(kv_cache *c, int step, int n, const uint32_t *token);

#endif
