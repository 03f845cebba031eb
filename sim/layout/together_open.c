/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a pool: may these requests share one, and of pages what is high and
 * what is low in it, and the memory of its manager (sim/layout/together.h).
 */
#include "sim/layout/together_part.h"

#include "ref/pages/geometry.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

kv_rc kv_together_pages(const kv_together *how, const kv_shape *shape,
                        int layers, int64_t *pages, kv_err *e) {
  int64_t pool = how->pool;
  int64_t page = kv_page_bytes(shape->d, shape->d_v);
  int64_t heads = (int64_t)layers * shape->n_kv_heads;
  *pages = how->bytes ? pool : page ? pool / page : 0;
  if (how->bytes || !page || *pages >= heads) return KV_OK;
  return kv_fail(
      e, KV_USAGE,
      "--pool %" PRId64 " holds %" PRId64 " pages of %" PRId64
      " bytes, and a request has one at least for each of its %" PRId64
      " heads: give %" PRId64 " bytes or more",
      pool, *pages, page, heads, heads * page);
}

/* --- tiers ---------------------------------------------------------------- */

static bool alike(const kv_layout_tier *a, const kv_layout_tier *b) {
  return a->format[0] == b->format[0] && a->format[1] == b->format[1] &&
         a->payload == b->payload && a->tokens == b->tokens;
}

/* The pool's tier that is like t, or that became it; -1: there is no room. */
static int tier_of(kv_pool *x, const kv_layout_tier *t) {
  for (int i = 0; i < KV_TIERS; i++) {
    if (!x->tier[i].tokens) x->tier[i] = *t;
    if (alike(&x->tier[i], t)) return i;
  }
  return -1;
}

/* The one of which a page holds fewer tokens is the high one. */
static void order(kv_pool *x) {
  kv_layout_tier t = x->tier[KV_LOW];
  if (!t.tokens || t.tokens >= x->tier[KV_HIGH].tokens) return;
  x->tier[KV_LOW] = x->tier[KV_HIGH];
  x->tier[KV_HIGH] = t;
}

static kv_rc join_tiers(kv_pool *x, kv_err *e) {
  for (int i = 0; i < x->n; i++) {
    const kv_request *r = &x->request[i];
    for (int t = 0; r->of && t < x->layers * KV_TIERS; t++)
      if (r->account->tier[t].tokens && tier_of(x, &r->account->tier[t]) < 0)
        return kv_fail(e, KV_REFUSED,
                       "requests that store entries in three pairs of formats "
                       "cannot share a pool, which has two tiers");
  }
  order(x);
  for (int i = 0; i < x->n; i++) {
    const kv_request *r = &x->request[i];
    for (int t = 0; r->of && t < x->layers * KV_TIERS; t++)
      if (r->account->tier[t].tokens)
        r->tier[t] = (uint8_t)tier_of(x, &r->account->tier[t]);
  }
  return KV_OK;
}

/* --- requests ------------------------------------------------------------- */

static const kv_layout_account *recorded(const kv_layouts *l) {
  const kv_layout_account *a = NULL;
  for (int i = 0; i < l->n && !a; i++)
    if (l->of[i].asked->record) a = &l->of[i];
  return a;
}

static bool same_model(const kv_layouts *a, const kv_layouts *b) {
  return a->layers == b->layers && a->lanes == b->lanes &&
         a->shape->d == b->shape->d && a->shape->d_v == b->shape->d_v &&
         a->shape->dtype == b->shape->dtype;
}

static kv_rc open_request(kv_pool *x, const kv_layouts *first, int i,
                          const kv_layouts *of, kv_together_result *out,
                          kv_err *e) {
  kv_request *r = &x->request[i];
  *out = (kv_together_result){.there = true,
                              .place = i,
                              .arrives = x->arrives[i],
                              .refused = -1,
                              .admitted = -1,
                              .first = -1};
  *r = (kv_request){
      .of = of, .out = out, .over = !of, .served = -1, .lacked = -1};
  if (!of) return KV_OK;
  r->points = of->points;
  if (x->how->arrive.n && x->how->arrive.at[i].output &&
      x->how->arrive.at[i].output < of->points - of->blocks)
    r->points = of->blocks + x->how->arrive.at[i].output;
  out->blocks = r->points;
  if (!same_model(of, first))
    return kv_fail(e, KV_REFUSED,
                   "requests share a pool if they have the same layers, heads "
                   "and rows, and these have not");
  x->result.requests++;
  r->account = recorded(of);
  r->need = kv_zalloc((size_t)of->points, sizeof *r->need);
  if (!r->need)
    return kv_no_memory(e, "a request", (size_t)of->points * sizeof *r->need);
  if (x->how->bytes) return KV_OK;
  r->tier = kv_zalloc((size_t)x->layers, KV_TIERS);
  r->count = kv_zalloc((size_t)x->heads, sizeof *r->count);
  if (r->tier && r->count) return KV_OK;
  return kv_no_memory(e, "a request", (size_t)x->heads * sizeof *r->count);
}

static kv_rc open_manager(kv_pool *x, int most_tokens, kv_err *e) {
  static const kv_page_config largest = {{8, 8}, {1, 1}};
  const kv_request *r = x->request;
  while (!r->of) r++;
  kv_page_token t =
      kv_page_token_of(r->of->shape->d, r->of->shape->d_v, &largest);
  int32_t fewest = kv_page_map_of(x->page, &t).tokens;
  kv_pages_shape s = {
      .variant = r->account->asked->variant ? KV_PAGES_CODE : KV_PAGES_PAPER,
      .requests = x->n,
      .heads = x->heads,
      .tokens = {x->tier[KV_HIGH].tokens, x->tier[KV_LOW].tokens}};
  if (!s.tokens[KV_HIGH]) s.tokens[KV_HIGH] = 1; /* nothing was ever stored */
  if (!fewest || s.tokens[KV_HIGH] < fewest) fewest = s.tokens[KV_HIGH];
  s.table = kv_pages_table(s.variant, most_tokens, s.tokens, fewest);
  int64_t most = (int64_t)x->n * x->heads * s.table; /* that could be asked */
  if (x->result.pages < most) most = x->result.pages;
  if (most > INT32_MAX)
    return kv_fail(e, KV_REFUSED,
                   "a pool has %d pages at most, and these requests could use "
                   "%" PRId64 ": give a smaller --pool",
                   INT32_MAX, most);
  s.pages = (int32_t)most;
  x->result.entries = (int64_t)x->n * x->heads * s.table;
  return kv_pages_open(&s, x->how->threads, &x->p, e);
}

kv_rc kv_pool_open(const kv_together *how, int n,
                   const kv_layouts *const *request,
                   kv_together_result *const *out, kv_pool *x, kv_err *e) {
  const kv_layouts *first = NULL;
  int most_tokens = 0, most_points = 0;
  kv_rc rc = KV_OK;
  for (int i = 0; i < n; i++) {
    if (!request[i]) continue;
    if (!first) first = request[i];
    if (request[i]->points > most_points) most_points = request[i]->points;
  }
  *x = (kv_pool){
      .how = how,
      .n = n,
      .layers = first->layers,
      .lanes = first->lanes,
      .heads = first->layers * first->lanes,
      .page =
          how->bytes ? 1 : kv_page_bytes(first->shape->d, first->shape->d_v),
      .request = kv_zalloc((size_t)n, sizeof *x->request),
      .job = kv_zalloc((size_t)n, sizeof *x->job),
      .ahead = kv_zalloc((size_t)most_points, sizeof *x->ahead),
      .arrives = kv_zalloc((size_t)n, sizeof *x->arrives)};
  x->result = (kv_pool_result){.bytes = how->pool,
                               .page = x->page,
                               .pages = how->pool / x->page,
                               .every = how->arrive.every,
                               .wait = how->wait};
  memcpy(x->result.arrive, how->arrive.name, sizeof x->result.arrive);
  if (!x->request || !x->job || !x->ahead || !x->arrives)
    rc = kv_no_memory(e, "requests", (size_t)n * sizeof *x->request);
  else
    kv_arrivals_steps(&how->arrive, n, x->arrives);
  for (int i = 0; !rc && i < n; i++) {
    rc = open_request(x, first, i, request[i], out[i], e);
    if (!rc && request[i] && request[i]->shape->n_tokens > most_tokens)
      most_tokens = request[i]->shape->n_tokens;
  }
  if (!rc && !how->bytes) rc = join_tiers(x, e);
  if (!rc && !how->bytes) rc = open_manager(x, most_tokens, e);
  if (!rc)
    memcpy(x->result.layout, recorded(first)->asked->name,
           sizeof x->result.layout);
  return rc;
}

void kv_pool_close(kv_pool *x) {
  for (int i = 0; x->request && i < x->n; i++) {
    free(x->request[i].need);
    free(x->request[i].tier);
    free(x->request[i].count);
  }
  free(x->request);
  free(x->job);
  free(x->ahead);
  free(x->arrives);
  kv_pages_close(&x->p);
}
