/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache on the device for a lane's entries in host memory. It holds up to N
 * of them; its policy says which. It is empty at first. At each step some
 * tokens are looked up, each once:
 *
 *   tokens in the cache are hits, the others are fetched
 *   of these and all other cached tokens N stay:
 *     lru: those looked up last
 *     lfu: those looked up at most steps; among equals, last
 *   and among equal ones the lower tokens
 *
 * So a step can use all its tokens, however many, and a cache of 0 never hits.
 * Entries that left the lane are not looked up again, and leave the cache in
 * their turn.
 *
 * Cost: a step sorts what it looks up and what is cached, if these are more
 * than N; 21 bytes a token.
 */
#ifndef KV_SIM_DEVICE_CACHE_H
#define KV_SIM_DEVICE_CACHE_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdint.h>

/* A requested cache. */
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

/* Adds the caches in text, such as lru:64,lfu:64, that are not in the list.
 * KV_USAGE: one is malformed, or there are more than KV_CACHES_MOST. */
kv_rc kv_cache_parse(const char *text, kv_cache_list *list, kv_err *e);

/* A token and its rank. */
typedef struct kv_cached {
  int32_t steps, last; /* how many steps looked it up; the last such step */
  uint32_t token;
} kv_cached;

typedef struct kv_cache {
  kv_cache_ask asked;
  int n;          /* tokens in the cache */
  kv_cached *of;  /* [tokens] these, and scratch for tokens looked up */
  int32_t *steps; /* [tokens] as in kv_cached */
  int32_t *last;
  bool *in; /* [tokens] is it in the cache? */
} kv_cache;

/* Tokens are 0 .. tokens - 1. KV_RESOURCE: memory. Always close it. */
kv_rc kv_cache_open(const kv_cache_ask *asked, int tokens, kv_cache *out,
                    kv_err *e);
void kv_cache_close(kv_cache *c); /* accepts zeroed */

/* Looks up n distinct tokens at the step after which `step` tokens are seen;
 * `step` must rise. Returns the number of hits: tokens with `in` set before. */
int kv_cache_step(kv_cache *c, int step, int n, const uint32_t *token);

#endif
