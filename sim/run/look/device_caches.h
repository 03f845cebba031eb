/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --cache`: what caches on the device would do for cells with
 * entries in host memory (kv_needs.host): deltakv's latent vectors and omnikv's
 * prompts with tier=host. Every lane has its own cache of N entries
 * (sim/run/look/device_cache.h), empty when decoding begins. A decode step
 * looks up what the ledger's `fetched` counts: entries that some query head
 * attends and those that decoding them reads. With N = 0 the same bytes are
 * fetched; with unlimited N each entry is fetched once. An entry that is read
 * in two forms (a reference of deltakv:self=yes) is in the cache when either
 * was fetched.
 *
 * It decides nothing; it only counts what it sees. The replay must be whole.
 * Any number of threads may feed it, each its own lanes. Cost: for each lane
 * and token 22 bytes, and 21 a cache.
 */
#ifndef KV_SIM_DEVICE_CACHES_H
#define KV_SIM_DEVICE_CACHES_H

#include "sim/run/look/device_cache.h"
#include "sim/run/sweep/batch.h"

typedef struct kv_device_caches kv_device_caches;

/* Opens the watch for those cells of the open batch b that run, have entries in
 * host memory and have requested caches. asked: [b->cells] if each, else one
 * list for all. b and asked outlive it. KV_RESOURCE: memory. Close it, also
 * after a failure. */
kv_rc kv_device_caches_open(const kv_batch *b, const kv_cache_list *asked,
                            bool each, kv_device_caches **out, kv_err *e);
/* The watch for the replay, which calls `next` (may be NULL) after its own;
 * valid as long as d. d NULL: next. */
const kv_watch *kv_device_caches_watch(kv_device_caches *d,
                                       const kv_watch *next);
/* After the whole replay: copies the counts to the results of the cells that
 * ran (kv_result.device_cache). KV_RESOURCE: memory. */
kv_rc kv_device_caches_take(const kv_device_caches *d, kv_err *e);
void kv_device_caches_close(kv_device_caches *d); /* accepts NULL */

#endif
