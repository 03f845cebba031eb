/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/layout/together*.c: the requests of a pool.
 */
#ifndef KV_SIM_TOGETHER_PART_H
#define KV_SIM_TOGETHER_PART_H

#include "sim/layout/layouts_part.h"
#include "sim/layout/together.h"

typedef struct kv_request {
  const kv_layouts *of;
  const kv_layout_account *account;
  kv_together_result *out;
  uint8_t *tier;         /* [layers][KV_TIERS] the pool's, by the layer's own */
  kv_pages_count *count; /* [heads] what the manager is told */
  bool over;             /* or it never was */
} kv_request;

typedef struct kv_pool {
  const kv_together *how;
  int n, heads, lanes, layers;
  int64_t page; /* bytes */
  kv_layout_tier tier[KV_TIERS];
  kv_request *request; /* [n] */
  kv_pages_job *job;   /* [n] of a call */
  int jobs;
  kv_pages p;
  kv_pool_result result;
} kv_pool;

/* Takes memory, and compresses what is a tier of the pool. At least one request
 * is there. */
kv_rc kv_pool_open(const kv_together *how, int n,
                   const kv_layouts *const *request,
                   kv_together_result *const *out, kv_pool *x, kv_err *e);
void kv_pool_close(kv_pool *x); /* accepts zeroed */

#endif
