/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of requests that share a pool: sim/layout/together.h.
 */
#include "sim/layout/together_part.h"

#include <inttypes.h>
#include <stdio.h>

/* --- what a request does at a step ---------------------------------------- */

/* Its block: below 0 before it arrives, `points` once it is over. */
static int64_t block_at(const kv_request *r, int64_t step) {
  return step - r->out->arrives;
}

static bool ends_at(const kv_request *r, int64_t step) {
  return block_at(r, step) >= r->of->points;
}

static bool is_there(const kv_request *r, int64_t step) {
  return !r->over && block_at(r, step) >= 0;
}

/* Tokens that enter with a block of the prompt; 0: it is a decode step. */
static int enter_with(const kv_request *r, int64_t block) {
  const kv_layouts *l = r->of;
  if (block >= l->blocks) return 0;
  int seen = block ? kv_layouts_seen(l, (int)block - 1) : 0;
  return kv_layouts_seen(l, (int)block) - seen;
}

/* Tokens of every head after a block, in the pool's tiers. */
static void fill(const kv_pool *x, const kv_request *r, int64_t block) {
  for (int layer = 0; layer < x->layers; layer++) {
    const uint8_t *tier = r->tier + layer * KV_TIERS;
    const kv_pages_count *from =
        r->account->count + (layer * (int64_t)r->of->points + block) * x->lanes;
    for (int i = 0; i < x->lanes; i++) {
      kv_pages_count c = {{0, 0}};
      for (int t = 0; t < KV_TIERS; t++) c.of[tier[t]] += from[i].of[t];
      r->count[layer * x->lanes + i] = c;
    }
  }
}

static int64_t moved_in(const kv_pool *x, const kv_request *r, int64_t block) {
  int64_t n = 0;
  for (int layer = 0; layer < x->layers; layer++)
    n += r->account->moved[layer * (int64_t)r->of->points + block];
  return n;
}

/* --- what the tables hold ------------------------------------------------- */

typedef struct holding {
  int64_t pages, tokens[KV_TIERS];
} holding;

static holding of_request(const kv_pool *x, int at) {
  const int64_t first = (int64_t)at * x->heads;
  holding h = {0, {0, 0}};
  for (int64_t i = first; i < first + x->heads; i++)
    for (int t = 0; t < KV_TIERS; t++) {
      h.pages += x->p.held[i].of[t];
      h.tokens[t] += x->p.store[i].of[t];
    }
  return h;
}

/* Walks the tables of all; the sums are of integers. */
static holding walk(kv_pool *x) {
  int64_t pages = 0, high = 0, low = 0;
#pragma omp parallel for schedule(static) num_threads(x->how->threads)         \
    reduction(+ : pages, high, low) if (x->how->threads > 1)
  for (int i = 0; i < x->n; i++) {
    kv_together_result *out = x->request[i].out;
    if (x->request[i].over) continue;
    holding h = of_request(x, i);
    if (h.pages > out->pages_peak) out->pages_peak = h.pages;
    pages += h.pages;
    high += h.tokens[KV_HIGH];
    low += h.tokens[KV_LOW];
  }
  return (holding){pages, {high, low}};
}

static bool agrees(const kv_pool *x, const holding *h) {
  return h->pages == kv_pages_used(&x->p);
}

/* After a step. */
static bool book(kv_pool *x) {
  kv_pool_result *r = &x->result;
  holding h = walk(x);
  int64_t unused = h.pages * x->page;
  for (int t = 0; t < KV_TIERS; t++) unused -= h.tokens[t] * x->tier[t].payload;
  r->steps++;
  r->held += h.pages;
  r->unused += unused;
  if (unused > r->unused_peak) r->unused_peak = unused;
  return agrees(x, &h);
}

/* --- a step --------------------------------------------------------------- */

static void ask(kv_pool *x, int at, kv_pages_phase phase, int tokens) {
  x->job[x->jobs++] = (kv_pages_job){.phase = phase,
                                     .request = at,
                                     .tokens = tokens,
                                     .count = x->request[at].count};
}

static void refuse(kv_pool *x, const kv_pages_job *j, int64_t step) {
  kv_pages_job leave = {.phase = KV_PAGES_END, .request = j->request};
  kv_together_result *out = x->request[j->request].out;
  out->refused = out->ends = step;
  out->holds = of_request(x, j->request).pages;
  out->wanted = j->wanted;
  out->spare = x->p.count;
  x->request[j->request].over = true;
  kv_pages_compact(&x->p, 1, &leave);
}

/* One compaction; a further one where the last of those who were refused has
 * left and others may find pages now. */
static void call(kv_pool *x, int64_t step) {
  int n = x->jobs;
  while (n && kv_pages_compact(&x->p, n, x->job)) {
    int refused = 0;
    for (int i = 0; i < n; i++)
      if (x->job[i].refused) x->job[refused++] = x->job[i];
    n = refused - 1;
    refuse(x, &x->job[n], step);
  }
}

/* Those that are over leave, and prompts reserve. */
static bool come_and_go(kv_pool *x, int64_t step) {
  x->jobs = 0;
  for (int i = 0; i < x->n; i++) {
    kv_request *r = &x->request[i];
    if (!is_there(r, step)) continue;
    int tokens = ends_at(r, step) ? 0 : enter_with(r, block_at(r, step));
    if (ends_at(r, step)) {
      ask(x, i, KV_PAGES_END, 0);
      r->over = true;
      r->out->ends = step;
    } else if (tokens) {
      ask(x, i, KV_PAGES_PROMPT, tokens);
    }
  }
  if (!x->jobs) return true;
  call(x, step);
  holding h = walk(x);
  return agrees(x, &h);
}

/* The compaction of a step. */
static void compress(kv_pool *x, int64_t step) {
  x->jobs = 0;
  for (int i = 0; i < x->n; i++) {
    const kv_request *r = &x->request[i];
    if (!is_there(r, step)) continue;
    int64_t block = block_at(r, step);
    fill(x, r, block);
    ask(x, i, enter_with(r, block) ? KV_PAGES_COMPRESSED : KV_PAGES_STEP, 0);
  }
  call(x, step);
  for (int i = 0; i < x->n; i++) {
    const kv_request *r = &x->request[i];
    if (is_there(r, step)) x->result.moved += moved_in(x, r, block_at(r, step));
  }
}

/* The next step from `from` on at which anybody is there; -1: none is left. */
static int64_t next_step(const kv_pool *x, int64_t from) {
  int64_t next = -1;
  for (int i = 0; i < x->n; i++) {
    const kv_request *r = &x->request[i];
    int64_t at = r->out->arrives > from ? r->out->arrives : from;
    if (!r->over && (next < 0 || at < next)) next = at;
  }
  return next;
}

static kv_rc run(kv_pool *x, kv_err *e) {
  bool sound = true;
  for (int64_t s = next_step(x, 0); sound && s >= 0; s = next_step(x, s + 1)) {
    sound = come_and_go(x, s);
    compress(x, s);
    /* The step at which the last one leaves is nobody's. */
    if (x->jobs) sound = book(x) && sound;
  }
  x->result.peak = x->p.books.peak;
  x->result.operations = x->p.books.taken + x->p.books.given;
  if (sound && !kv_pages_used(&x->p) && kv_pages_sound(&x->p)) return KV_OK;
  return kv_fail(e, KV_INTERNAL, "the books of a pool of pages do not agree");
}

kv_rc kv_together_run(const kv_together *how, int n,
                      const kv_layouts *const *request,
                      kv_together_result *const *out, kv_err *e) {
  kv_pool x;
  bool any = false;
  for (int i = 0; i < n; i++) {
    any = any || request[i];
    *out[i] = (kv_together_result){.there = true, .place = i, .refused = -1};
  }
  if (!any) return KV_OK;
  kv_rc rc = kv_pool_open(how, n, request, out, &x, e);
  if (!rc) rc = run(&x, e);
  for (int i = 0; !rc && i < n; i++) out[i]->pool = x.result;
  kv_pool_close(&x);
  return rc;
}

void kv_together_say(const kv_together_result *r, size_t size, char *out) {
  int64_t needs = r->holds + r->wanted, pages = r->pool.pages;
  int at = snprintf(out, size,
                    "refused at step %" PRId64 ": it holds %" PRId64
                    " pages and asks for %" PRId64 ", and %" PRId64
                    " of the pool's %" PRId64 " are free; ",
                    r->refused, r->holds, r->wanted, r->spare, pages);
  if (at < 0 || (size_t)at >= size) return;
  if (needs > pages)
    snprintf(out + at, size - (size_t)at,
             "the pool is too small for it alone: give --pool %" PRId64
             " or more",
             needs * r->pool.page);
  else
    snprintf(out + at, size - (size_t)at,
             "give --pool more, or let requests --arrive later");
}
