/* SPDX-License-Identifier: Apache-2.0
 *
 * What a pool is made of (sim/layout/together_part.h): unified pages, which a
 * manager hands out (ref/pages), or bytes, of which a request holds as many as
 * its layout held by itself.
 *
 * Of bytes a request asks for what it holds at most while the layers of a block
 * compress one after another, and keeps what is left then. One that comes back
 * asks for the most that it ever held: its tokens enter as a prompt does.
 */
#include "sim/layout/together_part.h"

/* --- bytes ---------------------------------------------------------------- */

static const kv_layout_point *point_of(const kv_request *r, int block) {
  return &r->account->point[block];
}

/* Bytes that a request has with the block that a job is about. */
static int64_t goal_of(const kv_request *r, const kv_pages_job *j) {
  int64_t most = 0;
  if (j->phase == KV_PAGES_END) return 0;
  if (j->phase == KV_PAGES_COMPRESSED) return point_of(r, r->block)->bytes;
  if (r->bytes) return point_of(r, r->block)->most;
  for (int b = 0; b <= r->block; b++)
    most = kv_larger(most, point_of(r, b)->most);
  return most;
}

static void hold(kv_pool *x, kv_request *r, int64_t bytes) {
  x->used += bytes - r->bytes;
  r->bytes = bytes;
}

/* What is given comes first, as of pages. */
static int compact_bytes(kv_pool *x, int n, kv_pages_job *job) {
  int refused = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < n; i++) {
      kv_pages_job *j = &job[i];
      kv_request *r = &x->request[j->request];
      bool gives = j->phase == KV_PAGES_END || j->phase == KV_PAGES_COMPRESSED;
      if (gives == pass) continue;
      int64_t goal = goal_of(r, j), take = goal - r->bytes;
      j->wanted = take > 0 ? take : 0;
      j->refused = j->wanted > kv_pool_spare(x);
      refused += j->refused;
      if (!j->refused) hold(x, r, goal);
    }
  x->peak = kv_larger(x->peak, x->used);
  for (int i = 0; i < n; i++) {
    kv_request *r = &x->request[job[i].request];
    if (job[i].phase == KV_PAGES_STEP && !job[i].refused)
      hold(x, r, point_of(r, r->block)->bytes);
  }
  return refused;
}

/* --- both ----------------------------------------------------------------- */

int kv_pool_compact(kv_pool *x, int n, kv_pages_job *job) {
  int refused = x->how->bytes ? compact_bytes(x, n, job)
                              : kv_pages_compact(&x->p, n, job);
  x->peak = kv_larger(x->peak, kv_pool_used(x));
  return refused;
}

int64_t kv_pool_used(const kv_pool *x) {
  return x->how->bytes ? x->used : kv_pages_used(&x->p);
}

int64_t kv_pool_spare(const kv_pool *x) {
  return x->how->bytes ? x->result.pages - x->used : x->p.count;
}

void kv_pool_reset(kv_pool *x) {
  x->used = x->peak = 0;
  if (!x->how->bytes) kv_pages_reset(&x->p);
}

kv_holding kv_pool_holding(const kv_pool *x, int at) {
  const kv_request *r = &x->request[at];
  kv_holding h = {0};
  if (x->how->bytes) {
    h.pages = r->bytes;
    if (!r->block) return h;
    h.payload = point_of(r, r->block - 1)->payload;
    h.map = point_of(r, r->block - 1)->map;
    return h;
  }
  const int64_t first = (int64_t)at * x->heads;
  h.map = (int64_t)x->heads * x->p.shape.table * KV_MAP_ENTRY;
  for (int64_t i = first; i < first + x->heads; i++)
    for (int t = 0; t < KV_TIERS; t++) {
      h.pages += x->p.held[i].of[t];
      h.payload += x->p.store[i].of[t] * x->tier[t].payload;
    }
  return h;
}
