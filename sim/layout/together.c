/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of requests that share a pool: sim/layout/together.h.
 */
#include "sim/layout/together_part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what a request does at a step ---------------------------------------- */

static bool arrived(const kv_request *r, int64_t step) {
  return !r->over && r->out->arrives <= step;
}

static bool waits(const kv_request *r, int64_t step) {
  return arrived(r, step) && !r->in;
}

/* Tokens that enter with its next block as a prompt's: all that it has seen
 * where it has none of them in the pool; 0: it decodes one. */
static int enter_with(const kv_request *r) {
  const kv_layouts *l = r->of;
  int seen = kv_layouts_seen(l, r->block);
  if (!r->in || !r->block) return seen;
  return r->block < l->blocks ? seen - kv_layouts_seen(l, r->block - 1) : 0;
}

/* Tokens of every head after its block, in the pool's tiers. */
static void fill(const kv_pool *x, const kv_request *r) {
  for (int layer = 0; layer < x->layers; layer++) {
    const uint8_t *tier = r->tier + layer * KV_TIERS;
    const kv_pages_count *from =
        r->account->count +
        (layer * (int64_t)r->of->points + r->block) * x->lanes;
    for (int i = 0; i < x->lanes; i++) {
      kv_pages_count c = {{0, 0}};
      for (int t = 0; t < KV_TIERS; t++) c.of[tier[t]] += from[i].of[t];
      r->count[layer * x->lanes + i] = c;
    }
  }
}

static int64_t moved_in(const kv_pool *x, const kv_request *r) {
  int64_t n = 0;
  for (int layer = 0; layer < x->layers; layer++)
    n += r->account->moved[layer * (int64_t)r->of->points + r->block];
  return n;
}

/* --- what the tables hold ------------------------------------------------- */

/* Walks the tables of all; the sums are of integers. */
static kv_holding walk(kv_pool *x) {
  int64_t pages = 0, payload = 0, map = 0;
#pragma omp parallel for schedule(static) num_threads(x->how->threads)         \
    reduction(+ : pages, payload, map) if (x->how->threads > 1)
  for (int i = 0; i < x->n; i++) {
    kv_together_result *out = x->request[i].out;
    if (!x->request[i].in) continue;
    kv_holding h = kv_pool_holding(x, i);
    if (h.pages > out->pages_peak) out->pages_peak = h.pages;
    pages += h.pages;
    payload += h.payload;
    map += h.map;
  }
  return (kv_holding){pages, payload, map};
}

static bool agrees(const kv_pool *x, const kv_holding *h) {
  return h->pages == kv_pool_used(x);
}

static bool look(kv_pool *x) {
  kv_holding h = walk(x);
  return agrees(x, &h);
}

static kv_rc remember(kv_pool *x, const kv_pool_step *now, kv_err *e) {
  kv_pool_steps *s = x->steps;
  if (s->n == x->room) {
    int64_t room = x->room ? 2 * x->room : 256;
    kv_pool_step *at = realloc(s->at, (size_t)room * sizeof *at);
    if (!at)
      return kv_no_memory(e, "the steps of a pool", (size_t)room * sizeof *at);
    s->at = at;
    x->room = room;
  }
  s->at[s->n++] = *now;
  return KV_OK;
}

/* After a step. */
static kv_rc book(kv_pool *x, int64_t step, bool *sound, kv_err *e) {
  kv_pool_result *r = &x->result;
  kv_holding h = walk(x);
  kv_pool_step now = {step, x->ran, 0, h.pages, h.pages * x->page - h.payload};
  for (int i = 0; i < x->n; i++) {
    const kv_request *q = &x->request[i];
    if (!waits(q, step) || q->served == step) continue;
    now.waiting++;
    q->out->waited++;
  }
  r->steps++;
  r->held += now.pages;
  r->unused += now.unused;
  r->running += now.running;
  r->waiting += now.waiting;
  r->unused_peak = kv_larger(r->unused_peak, now.unused);
  r->map_peak = kv_larger(r->map_peak, h.map);
  r->running_peak = kv_larger(r->running_peak, now.running);
  r->waiting_peak = kv_larger(r->waiting_peak, now.waiting);
  *sound = *sound && agrees(x, &h);
  return remember(x, &now, e);
}

/* --- who leaves ----------------------------------------------------------- */

static void give_back(kv_pool *x, int at) {
  kv_pages_job leave = {.phase = KV_PAGES_END, .request = at};
  x->request[at].in = false;
  kv_pool_compact(x, 1, &leave);
}

static void refuse(kv_pool *x, const kv_pages_job *j, int64_t step) {
  kv_request *r = &x->request[j->request];
  r->out->refused = r->out->ends = step;
  r->out->holds = kv_pool_holding(x, j->request).pages;
  r->out->wanted = j->wanted;
  r->out->spare = kv_pool_spare(x);
  r->over = true;
  give_back(x, j->request);
}

static void put_back(kv_pool *x, int at) {
  kv_request *r = &x->request[at];
  r->out->put_back++;
  r->lacked = -1;
  x->made_room = true;
  give_back(x, at);
}

/* The last of those that have a place; -1: none has. */
static int last_of(const kv_pool *x) {
  int i = x->n - 1;
  while (i >= 0 && !x->request[i].in) i--;
  return i;
}

static bool alone(const kv_pool *x) {
  int n = 0;
  for (int i = 0; i < x->n; i++) n += x->request[i].in;
  return n == 1;
}

/* The first n jobs found too few pages: one request leaves, or is put back.
 * Returns how many of the jobs are left to ask again. */
static int make_room(kv_pool *x, int n, int64_t step) {
  int last = last_of(x);
  if (!x->how->wait || alone(x)) {
    refuse(x, &x->job[n - 1], step);
    return n - 1;
  }
  put_back(x, last);
  return n - (x->job[n - 1].request == last);
}

/* --- a step --------------------------------------------------------------- */

static void ask(kv_pool *x, int at, kv_pages_phase phase, int tokens) {
  x->job[x->jobs++] = (kv_pages_job){.phase = phase,
                                     .request = at,
                                     .tokens = tokens,
                                     .count = x->request[at].count};
}

/* Its block is done: with the prompt's last it has its first token. */
static void serve(kv_pool *x, const kv_pages_job *j, int64_t step) {
  kv_request *r = &x->request[j->request];
  if (j->phase != KV_PAGES_COMPRESSED && j->phase != KV_PAGES_STEP) return;
  if (!x->how->bytes) x->result.moved += moved_in(x, r);
  x->ran++;
  if (r->out->admitted < 0) r->out->admitted = step;
  if (r->block == r->of->blocks - 1) r->out->first = step;
  r->served = step;
  r->block++;
}

/* One compaction; a further one where one of those that found too few pages has
 * left and others may find pages now. */
static void call(kv_pool *x, int64_t step) {
  int n = x->jobs;
  while (n) {
    int refused = kv_pool_compact(x, n, x->job), left = 0;
    for (int i = 0; i < n; i++)
      if (x->job[i].refused)
        x->job[left++] = x->job[i];
      else
        serve(x, &x->job[i], step);
    n = refused ? make_room(x, left, step) : 0;
  }
}

/* Those that are over leave, and prompts reserve. */
static bool come_and_go(kv_pool *x, int64_t step) {
  x->jobs = 0;
  for (int i = 0; i < x->n; i++) {
    kv_request *r = &x->request[i];
    if (!arrived(r, step) || (x->how->wait && !r->in)) continue;
    r->over = r->in && r->block >= r->points;
    r->enters = r->over ? 0 : enter_with(r);
    if (r->over) {
      ask(x, i, KV_PAGES_END, 0);
      r->in = false;
      r->out->ends = step;
    } else if (r->enters) {
      ask(x, i, KV_PAGES_PROMPT, r->enters);
      r->in = true;
    }
  }
  if (!x->jobs) return true;
  call(x, step);
  return look(x);
}

/* The compaction of those that have a place from the first-th request on. */
static void compress(kv_pool *x, int first, int64_t step) {
  x->jobs = 0;
  for (int i = first; i < x->n; i++) {
    const kv_request *r = &x->request[i];
    if (!r->in) continue;
    if (!x->how->bytes) fill(x, r);
    ask(x, i, r->enters ? KV_PAGES_COMPRESSED : KV_PAGES_STEP, 0);
  }
  x->asked += x->jobs;
  call(x, step);
}

/* r->need of a request that takes all its blocks alone. */
static void weigh(kv_pool *x, int at) {
  kv_request *r = &x->request[at];
  bool lacks = false;
  for (r->block = 0; r->block < r->points && !lacks; r->block++) {
    x->jobs = 0;
    x->peak = kv_pool_used(x);
    r->enters = enter_with(r);
    r->in = true;
    if (r->enters) ask(x, at, KV_PAGES_PROMPT, r->enters);
    lacks = x->jobs && kv_pool_compact(x, 1, x->job);
    x->jobs = 0;
    if (!x->how->bytes) fill(x, r);
    ask(x, at, r->enters ? KV_PAGES_COMPRESSED : KV_PAGES_STEP, 0);
    lacks = lacks || kv_pool_compact(x, 1, x->job);
    r->need[r->block] = lacks ? x->result.pages + 1 : x->peak;
  }
  r->in = false;
  r->block = 0;
  r->bytes = 0;
  kv_pool_reset(x);
}

/* May a request that waits stay until its end: does the pool have room, at each
 * of its steps, for it and for all requests that have a place? Requests that
 * were served in this step hold no more than x->kept in it. */
static bool stays(const kv_pool *x, const kv_request *r, int64_t step) {
  const int left = r->points - r->block;
  if (x->how->wait != KV_POOL_STAY) return true;
  memcpy(x->ahead, r->need + r->block, (size_t)left * sizeof *x->ahead);
  x->ahead[0] += x->kept;
  for (int i = 0; i < x->n; i++) {
    const kv_request *o = &x->request[i];
    int had = o->served == step, first = o->block - had;
    if (!o->in) continue;
    for (int k = had; k < left && first + k < o->points; k++)
      x->ahead[k] += o->need[first + k];
  }
  for (int k = 0; k < left; k++)
    if (x->ahead[k] > x->result.pages) return false;
  return true;
}

/* Reserves for one that waits. False: there are too few pages, and some will
 * come back. It is asked again when there are as many as it lacked. */
static bool reserve(kv_pool *x, int at, bool alone, int64_t step) {
  kv_request *r = &x->request[at];
  if (!alone && (r->lacked > kv_pool_spare(x) || !stays(x, r, step)))
    return false;
  r->enters = enter_with(r);
  x->jobs = 0;
  ask(x, at, KV_PAGES_PROMPT, r->enters);
  r->in = !kv_pool_compact(x, 1, x->job);
  if (r->in) return true;
  r->lacked = x->job[0].wanted;
  if (alone) refuse(x, &x->job[0], step);
  return alone;
}

/* Lets in who waits, in the order of arrival, while there are pages. All that
 * run arrived before. */
static bool admit(kv_pool *x, int64_t step) {
  int first = last_of(x) + 1;
  if (x->made_room) return true;
  x->kept = kv_pool_used(x);
  for (int i = first; i < x->n; i++)
    if (waits(&x->request[i], step) && !reserve(x, i, last_of(x) < 0, step))
      break;
  if (last_of(x) < first) return true;
  bool sound = look(x);
  compress(x, first, step);
  return sound;
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
  kv_rc rc = KV_OK;
  for (int64_t s = next_step(x, 0); sound && !rc && s >= 0;
       s = next_step(x, s + 1)) {
    x->asked = x->ran = 0;
    x->made_room = false;
    sound = come_and_go(x, s);
    compress(x, 0, s);
    if (x->how->wait) sound = admit(x, s) && sound;
    /* The step at which the last one leaves is nobody's. */
    if (x->asked) rc = book(x, s, &sound, e);
  }
  x->result.peak = x->peak;
  x->result.operations = x->p.books.taken + x->p.books.given;
  if (rc ||
      (sound && !kv_pool_used(x) && (x->how->bytes || kv_pages_sound(&x->p))))
    return rc;
  return kv_fail(e, KV_INTERNAL, "the books of a pool of pages do not agree");
}

kv_rc kv_together_run(const kv_together *how, int n,
                      const kv_layouts *const *request,
                      kv_together_result *const *out, kv_pool_steps *steps,
                      kv_err *e) {
  kv_pool x;
  bool any = false;
  for (int i = 0; i < n; i++) {
    any = any || request[i];
    *out[i] = (kv_together_result){.there = true, .place = i, .refused = -1};
  }
  if (!any) return KV_OK;
  kv_rc rc = kv_pool_open(how, n, request, out, &x, e);
  x.steps = steps;
  for (int i = 0; !rc && how->wait == KV_POOL_STAY && i < n; i++)
    if (request[i]) weigh(&x, i);
  if (!rc) rc = run(&x, e);
  for (int i = 0; !rc && i < n; i++) out[i]->pool = x.result;
  kv_pool_close(&x);
  return rc;
}

void kv_together_say(const kv_together_result *r, size_t size, char *out) {
  int64_t needs = r->holds + r->wanted, pages = r->pool.pages;
  int at = snprintf(out, size,
                    "refused at step %" PRId64 ": it holds %" PRId64
                    " %s and asks for %" PRId64 ", and %" PRId64
                    " of the pool's %" PRId64 " are free; ",
                    r->refused, r->holds, r->pool.page > 1 ? "pages" : "bytes",
                    r->wanted, r->spare, pages);
  if (at < 0 || (size_t)at >= size) return;
  if (needs > pages)
    snprintf(out + at, size - (size_t)at,
             "the pool is too small for it alone: give --pool %" PRId64
             " or more",
             needs * r->pool.page);
  else
    snprintf(out + at, size - (size_t)at,
             "give --pool more, let requests --arrive later, or --wait");
}
