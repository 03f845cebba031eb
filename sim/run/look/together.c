/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that share a pool: sim/run/look/together.h. A pool of pages or
 * bytes, opening one, and its steps. Called by one thread; the page manager and
 * the walk over tables use how->threads.
 */
#include "sim/run/look/together.h"

#include "ref/pages/geometry.h"
#include "ref/pages/pages.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One request: a cell that was replayed before, and what its lanes held. */
typedef struct kv_request {
  kv_layout_record of;     /* zeroed: its cell did not run */
  kv_together_result *out; /* what the pool did to it */
  uint8_t *tier; /* [layers][KV_TIERS] which of the pool's two precisions each
                    kv_layout_tier of a layer is stored in */
  kv_pages_count *count; /* [heads] tokens of each head by precision, for
                            kv_pages_* in the current step */
  int64_t bytes;         /* in a pool of bytes: that it holds */
  bool in;               /* it is running: admitted, and not put back */
  bool over;             /* finished or refused, or its cell did not run */
  int block, points;     /* its next block; how many it has */
  int enters;            /* tokens that enter with this block as a prompt's; 0:
                            it decodes one */
  int64_t served;        /* the last step in which it took a block; -1: none */
  int64_t *need;         /* [points] for KV_POOL_STAY: most pages that it has in
                            the step of each block; more than the pool has if it
                            lacks pages even alone */
  int64_t lacked;        /* pages that it last lacked for it; -1: none */
} kv_request;

typedef struct kv_pool {
  const kv_together *how;
  int n, lanes, layers; /* requests; lanes of a layer; recorded layers */
  int heads;            /* layers * lanes: what the page manager calls a head */
  int64_t page;         /* bytes of a page */
  kv_layout_tier tier[KV_TIERS]; /* high, then low precision */
  kv_request *request;           /* [n] */
  kv_pages_job *job;             /* [n] for one call of the manager */
  int64_t *arrives;              /* [n] the steps at which requests arrive */
  int jobs;                      /* jobs in use */
  kv_pages p;                    /* the manager (ref/pages); zeroed for bytes */
  int64_t used, peak;            /* bytes in use; most in use, of any pool */
  int64_t kept;                  /* in use in this step before waiting requests
                                    were admitted */
  int64_t *ahead;                /* [most points of a request] scratch for STAY:
                                    pages of all in coming steps */
  int asked, ran;                /* in this step: requests that needed a step;
                                    requests that took one */
  bool made_room;                /* a request was put back in this step */
  kv_pool_steps *steps;          /* the caller's */
  int64_t room;                  /* elements that steps->at has memory for */
  kv_pool_result result;         /* over the steps so far */
} kv_pool;

/* What a request holds in a pool. */
typedef struct kv_holding {
  int64_t pages;        /* or bytes */
  int64_t payload, map; /* bytes that hold tokens; bytes of its tables */
} kv_holding;

static int64_t pool_used(const kv_pool *x);
static int64_t pool_spare(const kv_pool *x);

/* --- a pool of bytes ----------------------------------------------------- */

static const kv_layout_point *point_of(const kv_request *r, int block) {
  return &r->of.point[block];
}

/* Bytes that a request holds in its current block after this job. */
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

/* Memory is returned before it is taken, as with pages. */
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
      j->refused = j->wanted > pool_spare(x);
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

/* --- any pool ------------------------------------------------------------ */

/* Like kv_pages_compact, for either pool. */
static int pool_compact(kv_pool *x, int n, kv_pages_job *job) {
  int refused = x->how->bytes ? compact_bytes(x, n, job)
                              : kv_pages_compact(&x->p, n, job);
  x->peak = kv_larger(x->peak, pool_used(x));
  return refused;
}

static int64_t pool_used(const kv_pool *x) {
  return x->how->bytes ? x->used : kv_pages_used(&x->p);
}

static int64_t pool_spare(const kv_pool *x) {
  return x->how->bytes ? x->result.pages - x->used : x->p.count;
}

/* Empties the pool, as after open. */
static void pool_reset(kv_pool *x) {
  x->used = x->peak = 0;
  if (!x->how->bytes) kv_pages_reset(&x->p);
}

static kv_holding pool_holding(const kv_pool *x, int at) {
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

/* --- opening a pool ------------------------------------------------------ */

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
      " bytes, but a request needs at least one for each of its %" PRId64
      " heads; give %" PRId64 " bytes or more",
      pool, *pages, page, heads, heads * page);
}

/* --- tiers --------------------------------------------------------------- */

static bool alike(const kv_layout_tier *a, const kv_layout_tier *b) {
  return a->format[0] == b->format[0] && a->format[1] == b->format[1] &&
         a->payload == b->payload && a->tokens == b->tokens;
}

/* The pool's tier that equals t, added if necessary; -1: there are too many. */
static int tier_of(kv_pool *x, const kv_layout_tier *t) {
  for (int i = 0; i < KV_TIERS; i++) {
    if (!x->tier[i].tokens) x->tier[i] = *t;
    if (alike(&x->tier[i], t)) return i;
  }
  return -1;
}

/* The tier with fewer tokens a page becomes the high one. */
static void order(kv_pool *x) {
  kv_layout_tier t = x->tier[KV_LOW];
  if (!t.tokens || t.tokens >= x->tier[KV_HIGH].tokens) return;
  x->tier[KV_LOW] = x->tier[KV_HIGH];
  x->tier[KV_HIGH] = t;
}

static kv_rc join_tiers(kv_pool *x, kv_err *e) {
  for (int i = 0; i < x->n; i++) {
    const kv_request *r = &x->request[i];
    for (int t = 0; r->of.asked && t < x->layers * KV_TIERS; t++)
      if (r->of.tier[t].tokens && tier_of(x, &r->of.tier[t]) < 0)
        return kv_fail(e, KV_REFUSED,
                       "requests that store entries in three pairs of formats "
                       "cannot share a pool, which has two tiers");
  }
  order(x);
  for (int i = 0; i < x->n; i++) {
    const kv_request *r = &x->request[i];
    for (int t = 0; r->of.asked && t < x->layers * KV_TIERS; t++)
      if (r->of.tier[t].tokens)
        r->tier[t] = (uint8_t)tier_of(x, &r->of.tier[t]);
  }
  return KV_OK;
}

/* --- requests ------------------------------------------------------------ */

static bool same_model(const kv_layout_record *a, const kv_layout_record *b) {
  return a->layers == b->layers && a->lanes == b->lanes &&
         a->shape->d == b->shape->d && a->shape->d_v == b->shape->d_v &&
         a->shape->dtype == b->shape->dtype;
}

static kv_rc open_request(kv_pool *x, const kv_layout_record *first, int i,
                          const kv_layout_record *of, kv_together_result *out,
                          kv_err *e) {
  kv_request *r = &x->request[i];
  *out = (kv_together_result){.there = true,
                              .place = i,
                              .arrives = x->arrives[i],
                              .refused = -1,
                              .admitted = -1,
                              .first = -1};
  *r = (kv_request){
      .of = *of, .out = out, .over = !of->asked, .served = -1, .lacked = -1};
  if (!of->asked) return KV_OK;
  r->points = of->points;
  if (x->how->arrive.n && x->how->arrive.at[i].output &&
      x->how->arrive.at[i].output < of->points - of->blocks)
    r->points = of->blocks + x->how->arrive.at[i].output;
  out->blocks = r->points;
  if (!same_model(of, first))
    return kv_fail(
        e, KV_REFUSED,
        "requests that share a pool must have the same layers, heads and rows");
  x->result.requests++;
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
  while (!r->of.asked) r++;
  kv_page_token t =
      kv_page_token_of(r->of.shape->d, r->of.shape->d_v, &largest);
  int32_t fewest = kv_page_map_of(x->page, &t).tokens;
  kv_pages_shape s = {
      .variant = r->of.asked->variant ? KV_PAGES_CODE : KV_PAGES_PAPER,
      .requests = x->n,
      .heads = x->heads,
      .tokens = {x->tier[KV_HIGH].tokens, x->tier[KV_LOW].tokens}};
  if (!s.tokens[KV_HIGH]) s.tokens[KV_HIGH] = 1; /* nothing was ever stored */
  if (!fewest || s.tokens[KV_HIGH] < fewest) fewest = s.tokens[KV_HIGH];
  s.table = kv_pages_table(s.variant, most_tokens, s.tokens, fewest);
  int64_t most = (int64_t)x->n * x->heads * s.table; /* could be requested */
  if (x->result.pages < most) most = x->result.pages;
  if (most > INT32_MAX)
    return kv_fail(
        e, KV_REFUSED,
        "a pool has at most %d pages, but these requests could use %" PRId64
        "; give a smaller --pool",
        INT32_MAX, most);
  s.pages = (int32_t)most;
  x->result.entries = (int64_t)x->n * x->heads * s.table;
  return kv_pages_open(&s, x->how->threads, &x->p, e);
}

/* Opens a pool of how->pool bytes for n requests, of which at least one is not
 * NULL: decides which precision of the pool each tier of each layer is stored
 * in, and takes the manager's memory. out: [n] results, filled while the pool
 * runs. KV_REFUSED: the requests store rows of more than two precisions, have
 * other layers, heads or rows, or could use too many pages; KV_RESOURCE:
 * memory. Close it, also after a failure. */
static kv_rc pool_open(const kv_together *how, int n,
                       const kv_layouts *const *request,
                       kv_together_result *const *out, kv_pool *x, kv_err *e) {
  kv_layout_record first = {0}, of;
  int most_tokens = 0, most_points = 0;
  kv_rc rc = KV_OK;
  for (int i = 0; i < n; i++) {
    if (!request[i]) continue;
    if (!first.asked) first = kv_layouts_recorded(request[i]);
    of = kv_layouts_recorded(request[i]);
    if (of.points > most_points) most_points = of.points;
  }
  *x = (kv_pool){
      .how = how,
      .n = n,
      .layers = first.layers,
      .lanes = first.lanes,
      .heads = first.layers * first.lanes,
      .page = how->bytes ? 1 : kv_page_bytes(first.shape->d, first.shape->d_v),
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
    of = request[i] ? kv_layouts_recorded(request[i]) : (kv_layout_record){0};
    rc = open_request(x, &first, i, &of, out[i], e);
    if (!rc && of.asked && of.shape->n_tokens > most_tokens)
      most_tokens = of.shape->n_tokens;
  }
  if (!rc && !how->bytes) rc = join_tiers(x, e);
  if (!rc && !how->bytes) rc = open_manager(x, most_tokens, e);
  if (!rc) memcpy(x->result.layout, first.asked->name, sizeof x->result.layout);
  return rc;
}

/* Accepts zeroed. */
static void pool_close(kv_pool *x) {
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

/* --- what a request does at a step --------------------------------------- */

static bool arrived(const kv_request *r, int64_t step) {
  return !r->over && r->out->arrives <= step;
}

static bool waits(const kv_request *r, int64_t step) {
  return arrived(r, step) && !r->in;
}

/* Tokens that enter with its next block as a prompt's: all that it has seen, if
 * the pool has none of them; 0: it decodes one. */
static int enter_with(const kv_request *r) {
  const kv_layouts *l = r->of.layouts;
  int seen = kv_layouts_seen(l, r->block);
  if (!r->in || !r->block) return seen;
  return r->block < r->of.blocks ? seen - kv_layouts_seen(l, r->block - 1) : 0;
}

/* Tokens of every head after its block, by the pool's tiers. */
static void fill(const kv_pool *x, const kv_request *r) {
  for (int layer = 0; layer < x->layers; layer++) {
    const uint8_t *tier = r->tier + layer * KV_TIERS;
    const kv_pages_count *from =
        r->of.count + (layer * (int64_t)r->of.points + r->block) * x->lanes;
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
    n += r->of.moved[layer * (int64_t)r->of.points + r->block];
  return n;
}

/* --- what the tables contain --------------------------------------------- */

/* Walks all tables; sums of integers are the same for any threads. */
static kv_holding walk(kv_pool *x) {
  int64_t pages = 0, payload = 0, map = 0;
#pragma omp parallel for schedule(static) num_threads(x->how->threads)         \
    reduction(+ : pages, payload, map) if (x->how->threads > 1)
  for (int i = 0; i < x->n; i++) {
    kv_together_result *out = x->request[i].out;
    if (!x->request[i].in) continue;
    kv_holding h = pool_holding(x, i);
    if (h.pages > out->pages_peak) out->pages_peak = h.pages;
    pages += h.pages;
    payload += h.payload;
    map += h.map;
  }
  return (kv_holding){pages, payload, map};
}

static bool agrees(const kv_pool *x, const kv_holding *h) {
  return h->pages == pool_used(x);
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

/* Adds the current step to the results. */
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

/* --- leaving ------------------------------------------------------------- */

static void give_back(kv_pool *x, int at) {
  kv_pages_job leave = {.phase = KV_PAGES_END, .request = at};
  x->request[at].in = false;
  pool_compact(x, 1, &leave);
}

static void refuse(kv_pool *x, const kv_pages_job *j, int64_t step) {
  kv_request *r = &x->request[j->request];
  r->out->refused = r->out->ends = step;
  r->out->holds = pool_holding(x, j->request).pages;
  r->out->wanted = j->wanted;
  r->out->spare = pool_spare(x);
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

/* The last running request; -1: none. */
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
 * Returns how many of the jobs must try again. */
static int make_room(kv_pool *x, int n, int64_t step) {
  int last = last_of(x);
  if (!x->how->wait || alone(x)) {
    refuse(x, &x->job[n - 1], step);
    return n - 1;
  }
  put_back(x, last);
  return n - (x->job[n - 1].request == last);
}

/* --- a step -------------------------------------------------------------- */

static void ask(kv_pool *x, int at, kv_pages_phase phase, int tokens) {
  x->job[x->jobs++] = (kv_pages_job){.phase = phase,
                                     .request = at,
                                     .tokens = tokens,
                                     .count = x->request[at].count};
}

/* Counts a done block; the prompt's last block gives the first token. */
static void serve(kv_pool *x, const kv_pages_job *j, int64_t step) {
  kv_request *r = &x->request[j->request];
  if (j->phase != KV_PAGES_COMPRESSED && j->phase != KV_PAGES_STEP) return;
  if (!x->how->bytes) x->result.moved += moved_in(x, r);
  x->ran++;
  if (r->out->admitted < 0) r->out->admitted = step;
  if (r->block == r->of.blocks - 1) r->out->first = step;
  r->served = step;
  r->block++;
}

/* One compaction. Requests that lack pages try again after one has left. */
static void call(kv_pool *x, int64_t step) {
  int n = x->jobs;
  while (n) {
    int refused = pool_compact(x, n, x->job), left = 0;
    for (int i = 0; i < n; i++)
      if (x->job[i].refused)
        x->job[left++] = x->job[i];
      else
        serve(x, &x->job[i], step);
    n = refused ? make_room(x, left, step) : 0;
  }
}

/* Finished requests leave, and prompts reserve pages. */
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

/* The compaction of running requests, from the first-th request on. */
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

/* Fills in r->need by running the request alone. */
static void weigh(kv_pool *x, int at) {
  kv_request *r = &x->request[at];
  bool lacks = false;
  for (r->block = 0; r->block < r->points && !lacks; r->block++) {
    x->jobs = 0;
    x->peak = pool_used(x);
    r->enters = enter_with(r);
    r->in = true;
    if (r->enters) ask(x, at, KV_PAGES_PROMPT, r->enters);
    lacks = x->jobs && pool_compact(x, 1, x->job);
    x->jobs = 0;
    if (!x->how->bytes) fill(x, r);
    ask(x, at, r->enters ? KV_PAGES_COMPRESSED : KV_PAGES_STEP, 0);
    lacks = lacks || pool_compact(x, 1, x->job);
    r->need[r->block] = lacks ? x->result.pages + 1 : x->peak;
  }
  r->in = false;
  r->block = 0;
  r->bytes = 0;
  pool_reset(x);
}

/* Can a waiting request stay until its end: does the pool have memory, at each
 * of its steps, for it and for all running requests? Requests that took this
 * step already hold no more than x->kept in it. */
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

/* Reserves pages for a waiting request. False: there are too few, and some will
 * be returned. It is tried again when there are as many as it lacked. */
static bool reserve(kv_pool *x, int at, bool alone, int64_t step) {
  kv_request *r = &x->request[at];
  if (!alone && (r->lacked > pool_spare(x) || !stays(x, r, step))) return false;
  r->enters = enter_with(r);
  x->jobs = 0;
  ask(x, at, KV_PAGES_PROMPT, r->enters);
  r->in = !pool_compact(x, 1, x->job);
  if (r->in) return true;
  r->lacked = x->job[0].wanted;
  if (alone) refuse(x, &x->job[0], step);
  return alone;
}

/* Admits waiting requests in the order of arrival while there are pages. All
 * running ones arrived before. */
static bool admit(kv_pool *x, int64_t step) {
  int first = last_of(x) + 1;
  if (x->made_room) return true;
  x->kept = pool_used(x);
  for (int i = first; i < x->n; i++)
    if (waits(&x->request[i], step) && !reserve(x, i, last_of(x) < 0, step))
      break;
  if (last_of(x) < first) return true;
  bool sound = look(x);
  compress(x, first, step);
  return sound;
}

/* The next step from `from` on with a request in the pool; -1: none. */
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
    /* no request takes the step at which the last one leaves */
    if (x->asked) rc = book(x, s, &sound, e);
  }
  x->result.peak = x->peak;
  x->result.operations = x->p.books.taken + x->p.books.given;
  if (rc ||
      (sound && !pool_used(x) && (x->how->bytes || kv_pages_sound(&x->p))))
    return rc;
  return kv_fail(
      e, KV_INTERNAL,
      "the counts of a pool of pages do not add up; please report the command");
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
  kv_rc rc = pool_open(how, n, request, out, &x, e);
  x.steps = steps;
  for (int i = 0; !rc && how->wait == KV_POOL_STAY && i < n; i++)
    if (request[i]) weigh(&x, i);
  if (!rc) rc = run(&x, e);
  for (int i = 0; !rc && i < n; i++) out[i]->pool = x.result;
  pool_close(&x);
  return rc;
}

void kv_together_say(const kv_together_result *r, size_t size, char *out) {
  int64_t needs = r->holds + r->wanted, pages = r->pool.pages;
  int at = snprintf(out, size,
                    "refused at step %" PRId64 ": it holds %" PRId64
                    " %s and needs %" PRId64 " more, but %" PRId64
                    " of the pool's %" PRId64 " are free; ",
                    r->refused, r->holds, r->pool.page > 1 ? "pages" : "bytes",
                    r->wanted, r->spare, pages);
  if (at < 0 || (size_t)at >= size) return;
  if (needs > pages)
    snprintf(out + at, size - (size_t)at,
             "give --pool %" PRId64 " or more, which it needs even alone",
             needs * r->pool.page);
  else
    snprintf(out + at, size - (size_t)at,
             "give a larger --pool, let requests --arrive later, or --wait");
}
