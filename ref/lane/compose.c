/* SPDX-License-Identifier: Apache-2.0
 *
 * Two methods on one lane: ref/lane/compose.h. A pair that cannot work is
 * refused at open, when both have stated their needs.
 */
#include "ref/lane/compose.h"
#include "ref/lane/hooks.h"
#include "ref/lane/select.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 96 };

/* A composition, in the list of all compositions. */
typedef struct pair {
  kv_method table;
  kv_around around;
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS]; /* of each part's parameters */
  int asset[KV_MOST_PARTS];     /* index of each part's first tensor */
  kv_param *params;
  char name[NAME], title[2 * NAME], paper[4 * NAME];
  char *names; /* names of the second part's parameters, one after another */
  struct pair *next;
} pair;

/* The header before the parameters. open fills in all but `pair`. */
typedef struct kv_block {
  const pair *pair;
  kv_needs needs[KV_MOST_PARTS];
  int column[KV_MOST_PARTS], coding[KV_MOST_PARTS];
  size_t state[KV_MOST_PARTS];
} kv_block;

/* --- hooks --------------------------------------------------------------- */

/* The rows with only what the part wants. */
static kv_rows rows_for(const kv_needs *needs, const kv_rows *rows) {
  kv_rows own = *rows;
  if (!(needs->want & KV_Q)) own.q = NULL;
  if (!(needs->want & KV_S)) own.s = NULL;
  if (!(needs->want & KV_P)) own.p = NULL;
  if (!(needs->want & KV_SUM)) own.sum = NULL;
  return own;
}

static bool is_due(const kv_needs *needs, const kv_call *c) {
  bool prompt = c->at.step <= c->at.shape->prompt_len;
  if (c->hook == KV_HOOK_observe)
    return prompt ? needs->prompt_rows > 0 : needs->decode_rows;
  if (c->hook == KV_HOOK_arrive) return prompt || !needs->arrive_in_prompt;
  if (c->hook == KV_HOOK_publish) return needs->across == KV_DOWN;
  if (c->hook == KV_HOOK_compress_lane || c->hook == KV_HOOK_compress_layer)
    return kv_compression_due(needs, c->at.shape, c->at.step);
  return true;
}

/* Calls part i's hook as if the part were alone on the lane. Selections of the
 * second part are not observed. */
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
  c.at.work->used = used; /* every hook gets the whole workspace */
}

/* If the first part compresses whole layers, it does so before the second part
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

/* If the second part narrows, it chooses from the first part's view. */
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

/* Joins both tables. A name of the second becomes method.name. -b sets one
 * knob: the second's only if the first has none. */
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
  /* Both revisions in one number: neither reaches 1000. */
  x->table.revision = a->revision + 1000 * b->revision;
  x->table.params_size = x->offset[1] + KV_COMPOSE_ALIGNED(b->params_size);
  x->table.lossless = NULL;
  x->table.open = open;
  x->table.stages = NULL; /* each part has its own */
  x->table.temporary_from = NULL;
}

static pair *made; /* all compositions made so far */
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
                   "%s+%s joins more than two methods; join one that selects "
                   "and one that codes",
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

/* --- what two methods need together --------------------------------------- */

/* KV_REFUSED if both methods need something that a lane has only once. */
static kv_rc check_once(const char *whole,
                        const kv_method *const part[KV_MOST_PARTS],
                        const kv_needs *a, const kv_needs *b, kv_err *e) {
  const struct {
    bool both;
    const char *what;
  } once[] = {
      {a->codings > 0, "code keys and values"}, /* only the second method may */
      {a->classes > 1 && b->classes > 1, "give each entry a class"},
      {part[0]->chunk && part[1]->chunk, "add their own chunk to attention"},
      {a->across == KV_DOWN && b->across == KV_DOWN,
       "publish messages for the layers below"}};
  for (size_t i = 0; i < sizeof once / sizeof *once; i++)
    if (once[i].both)
      return kv_fail(e, KV_REFUSED,
                     "%s: %s and %s both %s; use only one of them", whole,
                     part[0]->name, part[1]->name, once[i].what);
  return KV_OK;
}

/* A method that narrows reads keys as recorded and copies each token's key. */
static kv_rc check_narrowing(const char *whole,
                             const kv_method *const part[KV_MOST_PARTS],
                             const kv_needs *a, kv_err *e) {
  const char *does = a->merges    ? "merges entries"
                     : a->reindex ? "moves entries to other positions"
                     : a->codings ? "codes keys"
                                  : NULL;
  if (!does) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: %s %s, but %s needs the original keys; choose a method "
                 "that leaves keys unchanged",
                 whole, part[0]->name, does, part[1]->name);
}

/* KV_REFUSED says why the two named methods cannot share a lane. */
static kv_rc check(const char *whole,
                   const kv_method *const part[KV_MOST_PARTS],
                   const kv_needs *a, const kv_needs *b, kv_err *e) {
  const char *first = part[0]->name, *second = part[1]->name;
  if (b->narrows) {
    kv_rc rc = check_narrowing(whole, part, a, e);
    if (rc) return rc;
  } else if (b->codings == 0 || part[1]->view)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s codes nothing, so it cannot store what %s keeps; "
                   "name a format second, such as kivi, or a method that "
                   "narrows a selection, such as twilight",
                   whole, second, first);
  for (int i = 0; i < b->codings; i++)
    if (b->coding[i].format->layered)
      return kv_fail(e, KV_REFUSED,
                     "%s: %s codes a token of all KV heads together, but %s "
                     "may keep other tokens in each head; use %s alone",
                     whole, second, first, second);
  if (a->merges)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s merges entries, and merged entries cannot be coded; "
                   "choose a method that drops entries",
                   whole, first);
  if (a->block && b->block && a->block != b->block)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s reads the prompt %d tokens at a time, but %s %d; "
                   "make them equal",
                   whole, first, a->block, second, b->block);
  bool rows = a->prompt_rows > 0 && b->prompt_rows > 0;
  if (rows && a->prompt_rows != b->prompt_rows)
    return kv_fail(
        e, KV_REFUSED,
        "%s: %s observes the last %d prompt rows, but %s %d; make them equal",
        whole, first, a->prompt_rows, second, b->prompt_rows);
  if (a->metas + b->metas > KV_MAX_META)
    return kv_fail(
        e, KV_REFUSED,
        "%s: the two methods declare %d kinds of memory; the limit is %d",
        whole, a->metas + b->metas, (int)KV_MAX_META);
  if (b->lanes == QUERY_HEAD && a->lanes == KV_HEAD)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s keeps tokens for each query head, but %s for each "
                   "KV head; make them agree",
                   whole, second, first);
  if (a->columns + b->columns > KV_MAX_COLUMNS)
    return kv_fail(e, KV_REFUSED,
                   "%s: the two methods need %d columns; the limit is %d",
                   whole, a->columns + b->columns, (int)KV_MAX_COLUMNS);
  return check_once(whole, part, a, b, e);
}

static int common(int a, int b) { return b == 0 ? a : common(b, a % b); }
static int most(int a, int b) { return a > b ? a : b; }

/* The longest period whose compressions include those of both. */
static void add_rhythm(kv_needs *sum, const kv_needs *b) {
  if (b->every == 0) return;
  if (sum->every == 0)
    sum->phase = b->phase;
  else
    sum->every = common(sum->every, abs(sum->phase - b->phase));
  sum->every = common(sum->every, b->every);
}

/* Adds meta m of the second method. If that method narrows, it reads only what
 * the first chose for each of the lane's `queries` query heads. */
static void add_meta(kv_needs *sum, const kv_needs *b, int m, int queries) {
  kv_meta *to = &sum->meta[sum->metas++];
  *to = b->meta[m];
  if (!b->narrows || to->per != KV_PER_ENTRY || !sum->viewed) return;
  int64_t most_of_all = (int64_t)sum->viewed * queries;
  to->most = most_of_all < INT32_MAX ? (int)most_of_all : INT32_MAX;
}

/* Adds the second method's needs to *sum, the first's. */
static void add(kv_needs *sum, const kv_needs *b, int queries) {
  sum->block = most(sum->block, b->block);
  sum->prompt_rows = most(sum->prompt_rows, b->prompt_rows);
  sum->decode_rows |= b->decode_rows;
  sum->want |= b->want;
  for (int c = 0; c < b->columns; c++)
    sum->column[sum->columns++] = b->column[c];
  add_rhythm(sum, b);
  sum->merges = b->merges; /* check refuses a first method that merges */
  sum->merged = b->merged;
  sum->merge_bias = b->merge_bias;
  sum->classes = most(sum->classes, b->classes);
  if (b->narrows) sum->unread = 0; /* each step chooses what is read */
  sum->host |= b->host;
  sum->reindex |= b->reindex;
  sum->rope |= b->rope;
  sum->key_bias |= b->key_bias;
  sum->ahead = most(sum->ahead, b->ahead);
  if (b->across == KV_DOWN) {
    sum->across = b->across;
    sum->message = b->message;
  }
  for (int c = 0; c < b->codings; c++) {
    kv_coding *to = &sum->coding[sum->codings++];
    *to = b->coding[c];
    to->shift += KV_COMPOSE_ALIGNED(sum->lane_state);
    to->own_at += KV_COMPOSE_ALIGNED(sum->lane_state);
  }
  sum->tiers = b->tiers;
  if (sum->changes || b->changes)
    sum->changes = kv_needs_changes(sum) + kv_needs_changes(b);
  sum->lane_state = KV_COMPOSE_ALIGNED(sum->lane_state) + b->lane_state;
  for (int m = 0; m < b->metas; m++) add_meta(sum, b, m, queries);
  sum->view_logits |= b->view_logits;
  if (b->work > sum->work) sum->work = b->work;
  sum->slides &= b->slides;
  sum->chunks &= b->chunks;
  sum->arrive_in_prompt &= b->arrive_in_prompt;
  sum->future |= b->future;
  sum->lengths &= b->lengths;
  sum->lanes_apart &= b->lanes_apart;
}

kv_rc kv_compose_needs(const char *whole,
                       const kv_method *const part[KV_MOST_PARTS],
                       const kv_shape *shape, kv_needs *sum, const kv_needs *b,
                       kv_err *e) {
  kv_rc rc = check(whole, part, sum, b, e);
  if (!rc) add(sum, b, sum->lanes == QUERY_HEAD ? 1 : kv_group(shape));
  return rc;
}
