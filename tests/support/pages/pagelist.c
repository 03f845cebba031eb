/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: tests/support/pages/pagelist.h.
 */
#include "tests/support/pages/pagelist.h"

#include <stdlib.h>

typedef struct list {
  int32_t n, tokens; /* pages, tokens in them */
  int32_t want;      /* pages after this step */
  int32_t *id;       /* [shape.table] */
} list;

struct pagelist {
  kv_pages_shape of;
  int32_t *queue; /* [pages] */
  int32_t begin, free;
  list *tier[KV_TIERS]; /* [requests * heads] */
  int32_t *ids;
  int64_t *back; /* [requests] pages that the jobs of a call give */
};

pagelist *pagelist_open(const kv_pages_shape *shape) {
  size_t heads = (size_t)shape->requests * (size_t)shape->heads;
  pagelist *l = kv_zalloc(1, sizeof *l);
  if (!l) return NULL;
  l->of = *shape;
  l->free = shape->pages;
  l->queue = kv_zalloc((size_t)shape->pages, sizeof *l->queue);
  l->ids = kv_zalloc(KV_TIERS * heads * (size_t)shape->table, sizeof *l->ids);
  for (int t = 0; t < KV_TIERS; t++)
    l->tier[t] = kv_zalloc(heads, sizeof *l->tier[t]);
  l->back = kv_zalloc((size_t)shape->requests, sizeof *l->back);
  if (!l->queue || !l->ids || !l->back || !l->tier[0] || !l->tier[1]) {
    pagelist_close(l);
    return NULL;
  }
  for (int32_t i = 0; i < shape->pages; i++) l->queue[i] = i;
  int32_t *id = l->ids;
  for (int t = 0; t < KV_TIERS; t++)
    for (size_t h = 0; h < heads; h++, id += shape->table)
      l->tier[t][h].id = id;
  return l;
}

void pagelist_close(pagelist *l) {
  if (!l) return;
  free(l->queue);
  free(l->ids);
  free(l->back);
  for (int t = 0; t < KV_TIERS; t++) free(l->tier[t]);
  free(l);
}

/* --- one page ------------------------------------------------------------- */

static int32_t pop(pagelist *l) {
  int32_t id = l->queue[l->begin];
  l->begin = l->begin + 1 < l->of.pages ? l->begin + 1 : 0;
  l->free--;
  return id;
}

static void push(pagelist *l, int32_t id) {
  int32_t at = l->begin + l->free++;
  l->queue[at < l->of.pages ? at : at - l->of.pages] = id;
}

static int32_t pages_of(int32_t tokens, int32_t page) {
  return page ? tokens / page + (tokens % page > 0) : 0;
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* --- one head ------------------------------------------------------------- */

/* Pages of a tier after a step: none goes back; variant code wants room for
 * one token more than there were. */
static int32_t step_of(const pagelist *l, const list *now, int32_t tokens,
                       int32_t page) {
  int32_t n = larger(now->n, pages_of(tokens, page));
  if (l->of.variant == KV_PAGES_CODE && page)
    n = larger(n, now->tokens / page + 1);
  return n;
}

static int32_t prompt_of(const pagelist *l, const list *now, int32_t tokens,
                         int32_t room) {
  int32_t n = pages_of(now->tokens + tokens, l->of.tokens[KV_HIGH]);
  if (l->of.variant == KV_PAGES_CODE && l->of.tokens[KV_LOW]) n++;
  return larger(n < room ? n : room, now->n);
}

/* Writes down what a head should have after its job. */
static void want(pagelist *l, const kv_pages_job *j, int h) {
  int at = j->request * l->of.heads + h;
  list *high = &l->tier[KV_HIGH][at], *low = &l->tier[KV_LOW][at];
  const int32_t *page = l->of.tokens;
  high->want = low->want = 0;
  if (j->phase == KV_PAGES_PROMPT) {
    high->want = prompt_of(l, high, j->tokens, l->of.table - low->n);
    low->want = low->n;
  }
  if (j->phase == KV_PAGES_STEP) {
    high->want = step_of(l, high, j->count[h].of[KV_HIGH], page[KV_HIGH]);
    low->want = step_of(l, low, j->count[h].of[KV_LOW], page[KV_LOW]);
  }
  if (j->phase == KV_PAGES_COMPRESSED || high->want + low->want > l->of.table) {
    high->want = pages_of(j->count[h].of[KV_HIGH], page[KV_HIGH]);
    low->want = pages_of(j->count[h].of[KV_LOW], page[KV_LOW]);
  }
}

/* How many pages beyond the wanted high ones can become low ones. */
static int32_t moves(const list *high, const list *low) {
  int32_t spare = high->n - high->want, lack = low->want - low->n;
  return larger(0, spare < lack ? spare : lack);
}

static void measure(pagelist *l, const kv_pages_job *j, int64_t *give,
                    int64_t *take) {
  *give = *take = 0;
  for (int h = 0; h < l->of.heads; h++) {
    int at = j->request * l->of.heads + h;
    const list *high = &l->tier[KV_HIGH][at], *low = &l->tier[KV_LOW][at];
    want(l, j, h);
    int32_t m = moves(high, low);
    int32_t more[KV_TIERS] = {high->want - high->n + m, low->want - low->n - m};
    for (int t = 0; t < KV_TIERS; t++)
      *(more[t] > 0 ? take : give) += more[t] > 0 ? more[t] : -more[t];
  }
}

static void give_back(pagelist *l, const kv_pages_job *j, int h) {
  int at = j->request * l->of.heads + h;
  list *high = &l->tier[KV_HIGH][at], *low = &l->tier[KV_LOW][at];
  int32_t m = moves(high, low);
  for (int32_t i = high->want + m; i < high->n; i++) push(l, high->id[i]);
  for (int32_t i = low->want; i < low->n; i++) push(l, low->id[i]);
  for (int32_t i = 0; i < m; i++) low->id[low->n++] = high->id[high->want + i];
  if (high->n > high->want) high->n = high->want;
  if (low->n > low->want) low->n = low->want;
}

static void take_more(pagelist *l, const kv_pages_job *j, int h) {
  int at = j->request * l->of.heads + h;
  for (int t = 0; t < KV_TIERS; t++) {
    list *to = &l->tier[t][at];
    while (to->n < to->want) to->id[to->n++] = pop(l);
    if (j->phase == KV_PAGES_END) to->tokens = 0;
    if (j->phase == KV_PAGES_COMPRESSED || j->phase == KV_PAGES_STEP)
      to->tokens = j->count[h].of[t];
  }
}

/* --- a step -------------------------------------------------------------- */

static int admit(pagelist *l, int n, kv_pages_job *job) {
  int64_t room = l->free;
  int refused = 0;
  for (int j = 0; j < n; j++) {
    measure(l, &job[j], &l->back[j], &job[j].wanted);
    job[j].refused = false;
    if (!job[j].wanted) room += l->back[j];
  }
  for (int j = 0; j < n; j++) {
    if (!job[j].wanted) continue;
    job[j].refused = room + l->back[j] < job[j].wanted;
    refused += job[j].refused;
    if (!job[j].refused) room += l->back[j] - job[j].wanted;
  }
  return refused;
}

int pagelist_compact(pagelist *l, int n, kv_pages_job *job) {
  int refused = admit(l, n, job);
  for (int j = 0; j < n; j++)
    for (int h = 0; !job[j].refused && h < l->of.heads; h++)
      give_back(l, &job[j], h);
  for (int j = 0; j < n; j++)
    for (int h = 0; !job[j].refused && h < l->of.heads; h++)
      take_more(l, &job[j], h);
  return refused;
}

/* --- comparing ----------------------------------------------------------- */

bool pagelist_same(const pagelist *l, const kv_pages *p, int request) {
  for (int h = 0; h < l->of.heads; h++) {
    int at = request * l->of.heads + h;
    const int32_t *row = kv_pages_row(p, request, h);
    for (int t = 0; t < KV_TIERS; t++) {
      const list *x = &l->tier[t][at];
      if (x->n != p->held[at].of[t]) return false;
      for (int32_t i = 0; i < x->n; i++)
        if (x->id[i] != row[t ? l->of.table - 1 - i : i]) return false;
    }
  }
  return true;
}

bool pagelist_same_free(const pagelist *l, const kv_pages *p) {
  if (l->free != p->count) return false;
  for (int32_t i = 0; i < l->free; i++)
    if (l->queue[(l->begin + i) % l->of.pages] !=
        p->ring[(p->start + i) % p->shape.pages])
      return false;
  return true;
}
