/* SPDX-License-Identifier: Apache-2.0
 *
 * Two methods on one lane: ref/lane/compose.h. What cannot be is refused at
 * open, when both have said what they need.
 */
#include "ref/lane/compose.h"
#include "ref/lane/hooks.h"
#include "ref/lane/select.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 96 };

/* A composition, in the list of all that were made. */
typedef struct pair {
  kv_method table;
  kv_around around;
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS]; /* of each one's parameters */
  int asset[KV_MOST_PARTS];     /* .. and of its files' tensors */
  kv_param *params;
  char name[NAME], title[2 * NAME], paper[4 * NAME];
  char *names; /* of the second's parameters, one after another */
  struct pair *next;
} pair;

/* What stands before the parameters; open fills all but `pair`. */
typedef struct kv_block {
  const pair *pair;
  kv_needs needs[KV_MOST_PARTS];
  int column[KV_MOST_PARTS], coding[KV_MOST_PARTS];
  size_t state[KV_MOST_PARTS];
} kv_block;

/* --- hooks --------------------------------------------------------------- */

/* The rows as the part asked for them. */
static kv_rows rows_for(const kv_needs *needs, const kv_rows *rows) {
  kv_rows own = *rows;
  if (!(needs->want & KV_Q)) own.q = NULL;
  if (!(needs->want & KV_S)) own.s = NULL;
  if (!(needs->want & KV_P)) own.p = NULL;
  if (!(needs->want & KV_SUM)) own.sum = NULL;
  return own;
}

/* Is the part's hook due? */
static bool is_due(const kv_needs *needs, const kv_call *c) {
  bool prompt = c->at.step <= c->at.shape->prompt_len;
  if (c->hook == KV_HOOK_observe)
    return prompt ? needs->prompt_rows > 0 : needs->decode_rows;
  if (c->hook == KV_HOOK_publish) return needs->across == KV_DOWN;
  if (c->hook == KV_HOOK_compress_lane || c->hook == KV_HOOK_compress_layer)
    return kv_compression_due(needs, c->at.shape, c->at.step);
  return true;
}

/* The hook of part i, as if it were alone; what is selected is the first's. */
static void run(const pair *x, int i, kv_call *whole) {
  kv_call c = *whole;
  const kv_block *b = c.at.params;
  const kv_needs *needs = &b->needs[i];
  const kv_selecting *looking = kv_selecting_now;
  size_t used = c.at.work->used;
  kv_rows rows;
  kv_query query;
  if (!is_due(needs, &c)) return;
  if (c.query) {
    query = *c.query;
    if (!needs->view_logits) query.s = NULL;
    c.query = &query;
  }
  if (c.rows) {
    rows = rows_for(needs, c.rows);
    c.rows = &rows;
  }
  c.at.params = (const char *)b + x->offset[i];
  c.at.needs = needs;
  c.at.column += b->column[i];
  c.at.coding += b->coding[i];
  c.at.state += b->state[i];
  if (c.at.asset) c.at.asset += x->asset[i];
  if (needs->across != KV_DOWN) c.at.above = NULL;
  if (i > 0) kv_selecting_now = NULL;
  kv_hook_call(x->part[i], &c);
  kv_selecting_now = looking;
  whole->there |= c.there;
  c.at.work->used = used; /* every hook finds all of the workspace */
}

/* A first that compresses the whole layer has done so before the second
 * compresses a lane. */
static void compress_lane(const pair *x, kv_call *c) {
  run(x, 0, c);
  if (!x->part[0]->compress_layer) run(x, 1, c);
}

static void compress_layer(const pair *x, kv_call *c) {
  run(x, 0, c);
  for (int i = 0; x->part[0]->compress_layer && i < c->lanes; i++) {
    kv_call one = *c;
    one.hook = KV_HOOK_compress_lane;
    one.lane = &c->lane[i];
    one.lanes = 1;
    run(x, 1, &one);
  }
  run(x, 1, c);
}

/* A second that narrows chooses among what the first chose. */
static void view(const pair *x, kv_call *c) {
  const kv_block *b = c->at.params;
  kv_query query = *c->query;
  kv_view first;
  run(x, 0, c);
  if (b->needs[1].narrows && x->part[0]->view) {
    first = *c->view;
    first.run = KV_TAKE(c->at.work, kv_run, first.runs);
    memcpy(first.run, c->view->run, (size_t)first.runs * sizeof *first.run);
    c->view->runs = c->view->entries = 0;
    query.within = &first;
    c->query = &query;
  }
  run(x, 1, c);
}

static void call(const kv_around *around, kv_call *c) {
  const pair *x = around->self;
  if (c->hook == KV_HOOK_compress_lane)
    compress_lane(x, c);
  else if (c->hook == KV_HOOK_compress_layer)
    compress_layer(x, c);
  else if (c->hook == KV_HOOK_view)
    view(x, c);
  else
    for (int i = 0; i < KV_MOST_PARTS; i++) run(x, i, c);
}

/* --- open ---------------------------------------------------------------- */

static kv_rc open(const kv_shape *shape, void *params, kv_needs *needs,
                  kv_err *e) {
  kv_block *b = params;
  const pair *x = b->pair;
  for (int i = 0; i < KV_MOST_PARTS; i++) {
    b->needs[i] = (kv_needs){0};
    kv_rc rc =
        x->part[i]->open(shape, (char *)params + x->offset[i], &b->needs[i], e);
    if (rc) return rc;
  }
  const kv_needs *first = &b->needs[0];
  *needs = *first;
  kv_rc rc = kv_compose_needs(x->name, x->part, shape, needs, &b->needs[1], e);
  if (rc) return rc;
  b->column[1] = first->columns;
  b->coding[1] = first->codings;
  b->state[1] = KV_COMPOSE_ALIGNED(first->lane_state);
  return KV_OK;
}

/* --- the table ----------------------------------------------------------- */

static int count(const kv_param *table) {
  int n = 0;
  while (table && table[n].name) n++;
  return n;
}

static bool has_knob(const kv_param *table) {
  bool has = false;
  for (; table && table->name; table++) has |= table->knob != KV_NO_KNOB;
  return has;
}

/* Both tables, the second's names behind its method's and a dot. -b sets one
 * knob: the second's only where the first has none. */
static bool join_params(pair *x) {
  int a = count(x->part[0]->params), b = count(x->part[1]->params);
  size_t room = 1, method = strlen(x->part[1]->name);
  for (int i = 0; i < b; i++)
    room += method + strlen(x->part[1]->params[i].name) + 2;
  x->params = calloc((size_t)(a + b + 1), sizeof *x->params);
  x->names = malloc(room);
  if (!x->params || !x->names) return false;
  char *name = x->names;
  for (int i = 0; i < a + b; i++) {
    int second = i >= a;
    kv_param *p = &x->params[i];
    *p = second ? x->part[1]->params[i - a] : x->part[0]->params[i];
    p->offset += x->offset[second];
    if (!second) continue;
    int n = sprintf(name, "%s.%s", x->part[1]->name, p->name);
    p->name = name;
    if (has_knob(x->part[0]->params)) p->knob = KV_NO_KNOB;
    name += n + 1;
  }
  return true;
}

static unsigned hooks_of(const kv_method *m) {
  unsigned bits = 0;
  for (int h = 0; h < KV_N_HOOKS; h++)
    if (kv_hook_has(m, (kv_hook)h)) bits |= 1u << h;
  return bits;
}

static void fill(pair *x) {
  const kv_method *a = x->part[0], *b = x->part[1];
  x->offset[0] = KV_COMPOSE_ALIGNED(sizeof(kv_block));
  x->offset[1] = x->offset[0] + KV_COMPOSE_ALIGNED(a->params_size);
  x->asset[1] = kv_method_tensors(a);
  x->around =
      (kv_around){.call = call, .self = x, .inner = a, .also = hooks_of(b)};
  x->table = kv_method_around(&x->around);
  snprintf(x->name, sizeof x->name, "%s+%s", a->name, b->name);
  snprintf(x->title, sizeof x->title, "%s; what is kept: %s", a->title,
           b->title);
  snprintf(x->paper, sizeof x->paper, "%s; %s", a->paper, b->paper);
  x->table.name = x->name;
  x->table.title = x->title;
  x->table.paper = x->paper;
  /* Both, in one number: neither reaches 1000. */
  x->table.revision = a->revision + 1000 * b->revision;
  x->table.params_size = x->offset[1] + KV_COMPOSE_ALIGNED(b->params_size);
  x->table.lossless = NULL;
  x->table.open = open;
  x->table.stages = NULL; /* each part has its own */
  x->table.temporary_from = NULL;
}

static pair *made; /* all; grows only */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const pair *pair_of(const kv_method *m) {
  return m->around && m->around->call == call ? m->around->self : NULL;
}

static pair *find(const kv_method *first, const kv_method *second) {
  pair *x = made;
  while (x && (x->part[0] != first || x->part[1] != second)) x = x->next;
  return x;
}

static kv_rc make(const kv_method *first, const kv_method *second, pair **out,
                  kv_err *e) {
  pair *x = calloc(1, sizeof *x);
  if (!x) return kv_no_memory(e, "two methods", sizeof *x);
  x->part[0] = first;
  x->part[1] = second;
  fill(x);
  if (!join_params(x)) {
    free(x->params);
    free(x->names);
    free(x);
    return kv_no_memory(e, "two methods", sizeof *x);
  }
  x->table.params = x->params;
  x->next = made;
  *out = made = x;
  return KV_OK;
}

kv_rc kv_compose(const kv_method *first, const kv_method *second,
                 const kv_method **out, kv_err *e) {
  if (pair_of(first) || pair_of(second))
    return kv_fail(e, KV_USAGE,
                   "%s+%s are more than two methods; one selects, one codes",
                   first->name, second->name);
  pthread_mutex_lock(&lock);
  pair *x = find(first, second);
  kv_rc rc = x ? KV_OK : make(first, second, &x, e);
  pthread_mutex_unlock(&lock);
  if (!rc) *out = &x->table;
  return rc;
}

void kv_compose_begin(const kv_method *m, void *params) {
  const pair *x = pair_of(m);
  if (x) ((kv_block *)params)->pair = x;
}

int kv_parts_of(const kv_method *m, const kv_method *part[KV_MOST_PARTS],
                size_t offset[KV_MOST_PARTS]) {
  const pair *x = pair_of(m);
  part[0] = m;
  offset[0] = 0;
  for (int i = 0; x && i < KV_MOST_PARTS; i++) {
    part[i] = x->part[i];
    offset[i] = x->offset[i];
  }
  return x ? KV_MOST_PARTS : 1;
}

int kv_parts_opened(const kv_method *m, const void *params,
                    const kv_needs *needs, kv_method_part part[KV_MOST_PARTS]) {
  const pair *x = pair_of(m);
  const kv_block *b = params;
  part[0] = (kv_method_part){.method = m, .needs = needs};
  for (int i = 0; x && i < KV_MOST_PARTS; i++)
    part[i] = (kv_method_part){.method = x->part[i],
                               .offset = x->offset[i],
                               .needs = &b->needs[i],
                               .column = b->column[i],
                               .coding = b->coding[i],
                               .asset = x->asset[i],
                               .state = b->state[i]};
  return x ? KV_MOST_PARTS : 1;
}
