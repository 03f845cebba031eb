/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_session_fork: a fork and its origin go on as two sessions do that were fed
 * all of it themselves, by digests and ledger. Every method of the registry,
 * those that read a file, compositions and methods made up for tests, forked
 * within the prompt, at its end and after some steps, the fork again after
 * steps of its own; with one layer ahead; while lanes of `replay` are told what
 * stays; after the digests. What was read of the origin is read of the fork.
 * Refused is a method that asks for something else when it is opened again;
 * without memory, whichever allocation fails, nothing is made and the origin
 * goes on.
 */
#include "ref/lane/lane.h"
#include "sim/run/session/session_part.h"
#include "tests/made/made_up.h"
#include "tests/support/bundled.h"
#include "tests/support/feed.h"
#include "tests/support/rig.h"
#include "tests/support/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(kv_rc rc, const kv_err *e) {
  if (rc) fail_msg("%s", e ? e->text : "a call failed");
}

/* --- memory that ends ---------------------------------------------------- */

static int failing; /* the so-many-th allocation from now on; 0: none */
void *aligned_alloc(size_t align, size_t n) {
  void *p = NULL;
  if (failing && --failing == 0) return NULL;
  return posix_memalign(&p, align, n) ? NULL : p;
}

/* --- sessions ------------------------------------------------------------ */

/* The made-up ones, and replay, which is in no list of all methods. */
static const kv_method *known_at(int i) {
  return i ? made_up_at(i - 1) : kv_method_named("replay");
}

/* Tokens that are fed: of a prompt, and of some steps. */
enum { PROMPT = 150, MOST = PROMPT + 45 };

static kv_session *start(const kv_trace *t, const char *text,
                         const char *budget) {
  kv_session_shape x = feed_shape(t);
  kv_spec spec = {0};
  kv_session *s = NULL;
  x.n_tokens = MOST;
  works(kv_spec_parse(known_at, text, &spec, &told));
  works(kv_session_open_spec(&x, &spec, budget, PROMPT, NULL, &s, &told));
  kv_spec_free(&spec);
  feed_free(&x);
  return s;
}

static kv_session *forked(const kv_session *s) {
  kv_session *to = NULL;
  works(kv_session_fork(s, &to, &told));
  assert_string_equal(kv_session_spec(to), kv_session_spec(s));
  assert_int_equal(kv_session_lanes(to), kv_session_lanes(s));
  return to;
}

/* Two ways to go on: the recorded tokens, or from the end of the prompt on
 * those of the prompt's beginning. */
typedef enum way { RECORDED, OTHERS } way;

static int row_of(way w, int token) {
  return w == OTHERS && token >= PROMPT ? token - PROMPT : token;
}

/* Feeds tokens from..to-1 of layers first..last-1, the prompt in pieces of 29,
 * and closes no step. */
static void feed_some(kv_session *s, const kv_trace *t, way w, int first,
                      int last, int from, int to) {
  for (int at = from, n; at < to; at += n) {
    int left = (at < PROMPT && PROMPT < to ? PROMPT : to) - at;
    n = at >= PROMPT ? 1 : left < 29 ? left : 29;
    for (int l = first; l < last; l++)
      works(feed_rows(s, t, l, row_of(w, at), at, n, NULL, &told));
  }
}

/* Of all layers, and closes the last step. */
static void feed(kv_session *s, const kv_trace *t, way w, int from, int to) {
  feed_some(s, t, w, 0, t->n_layers, from, to);
  if (to >= PROMPT) works(kv_session_end_step(s, to, &told));
}

/* What a session gives in the end. */
typedef struct given {
  kv_session_digests digests;
  kv_session_bytes bytes;
} given;

static given end(kv_session *s) {
  given g;
  memset(&g, 0, sizeof g);
  works(kv_session_ledger(s, &g.bytes, &told));
  works(kv_session_digest(s, &g.digests, &told));
  kv_session_close(s);
  return g;
}

static given alone(const kv_trace *t, const char *text, way w) {
  kv_session *s = start(t, text, "20%");
  feed(s, t, w, 0, MOST);
  return end(s);
}

static void same(const given *a, const given *b, const char *text, int at) {
  if (memcmp(&a->digests, &b->digests, sizeof a->digests) != 0)
    fail_msg("%s, forked at %d: other digests", text, at);
  if (memcmp(&a->bytes.now, &b->bytes.now, sizeof a->bytes.now) != 0 ||
      a->bytes.peak != b->bytes.peak || a->bytes.mean != b->bytes.mean)
    fail_msg("%s, forked at %d: other bytes", text, at);
}

/* --- what can be read ---------------------------------------------------- */

enum { ROOM = 256 };
typedef struct reading {
  uint32_t id[ROOM], weight[ROOM], seen[ROOM];
  float k[ROOM * 64], v[ROOM * 64], lse[64];
  int n, m;
  kv_rc rc[4];
} reading;

/* Of a query head and its lane. */
static void read(const kv_session *s, int layer, int lane, int h, reading *r) {
  memset(r, 0, sizeof *r);
  r->rc[0] =
      kv_session_lane(s, layer, lane, ROOM, r->id, r->weight, &r->n, NULL);
  r->rc[1] = kv_session_held(s, layer, lane, ROOM, r->k, r->v, NULL);
  r->rc[2] = kv_session_view(s, layer, h, ROOM, r->seen, &r->m, NULL);
  r->rc[3] = kv_session_lse(s, layer, r->lse, NULL);
}

static void read_alike(const kv_trace *t, const kv_session *a,
                       const kv_session *b) {
  static reading x, y;
  int heads = t->shape.n_heads, per = heads / kv_session_lanes(a);
  for (int i = 0; i < t->n_layers * heads; i++) {
    int layer = t->layer[i / heads].data.layer, h = i % heads;
    read(a, layer, h / per, h, &x), read(b, layer, h / per, h, &y);
    assert_memory_equal(&x, &y, sizeof x);
    assert_int_equal(x.rc[0], KV_OK);
  }
}

/* --- forks --------------------------------------------------------------- */

/* A session fed `at` tokens, its fork, and that one's fork after some steps of
 * its own way. */
static void check_at(const kv_trace *t, const char *text, int at,
                     const given *recorded, const given *others) {
  int p = PROMPT, n = MOST;
  kv_session *s = start(t, text, "20%");
  feed(s, t, RECORDED, 0, at);
  kv_session *a = forked(s), *b = forked(a);
  read_alike(t, s, a);
  if (at <= p) { /* there both ways are one */
    feed(a, t, OTHERS, at, p + 5);
    kv_session *c = forked(a);
    read_alike(t, a, c);
    feed(c, t, OTHERS, p + 5, n);
    given g = end(c);
    same(&g, others, text, p + 5);
  }
  feed(s, t, RECORDED, at, n);
  kv_session_close(a);
  feed(b, t, RECORDED, at, n);
  given g = end(s), h = end(b);
  same(&g, recorded, text, at);
  same(&h, recorded, text, at);
}

static void check(const kv_trace *t, const char *text) {
  given recorded = alone(t, text, RECORDED), others = alone(t, text, OTHERS);
  assert_memory_not_equal(&recorded, &others, sizeof others);
  check_at(t, text, PROMPT / 2, &recorded, &others);
  check_at(t, text, PROMPT, &recorded, &others);
  check_at(t, text, (PROMPT + MOST) / 2, &recorded, &others);
}

static const char *const variants[] = {
    "snapkv:budget=34/9/20/60:grow=no:every=40",
    "h2o:group=query_head",
    "kivi:group=8:residual=16:variant=code",
    "int4:key_bias=mean",
    "fp8_e4m3-nvfp4:scale=tensor",
    "quest:page=8:skip=0",
    "leankv:variant=code",
    "snapkv+int4:prefill=64",
    "quest:page=8:skip=0+twilight",
    "h2o+kivi:group=8:residual=8",
    "mad",
    "sieve",
    "rest+kivi:group=8:residual=8"};

TEST(every_method_goes_on) {
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  for (int i = 0; kv_method_at(i); i++)
    if (rig_in_session(kv_method_at(i))) check(t, kv_method_at(i)->name);
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
    check(t, variants[i]);
  kv_trace_close(t);
}

/* The first layer has published what those below have not read yet. */
TEST(layers_apart) {
  static const char *const specs[] = {"sieve", "h2o"};
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  for (int i = 0; i < 2; i++) {
    given whole = alone(t, specs[i], RECORDED);
    kv_session *s = start(t, specs[i], "20%");
    feed(s, t, RECORDED, 0, PROMPT);
    feed_some(s, t, RECORDED, 0, 1, PROMPT, MOST);
    kv_session *f = forked(s);
    kv_session_close(s);
    feed_some(f, t, RECORDED, 1, t->n_layers, PROMPT, MOST);
    must(kv_session_end_step(f, MOST, NULL), NULL);
    given g = end(f);
    same(&g, &whole, specs[i], PROMPT);
  }
  kv_trace_close(t);
}

/* Weights are read once, and shared by the forks. */
TEST(with_a_file_of_its_own) {
  static const char *const reads[][2] = {{"deltakv", "compressor"},
                                         {"duoattention", "table"},
                                         {"less", "weights"},
                                         {"palu", "bases"}};
  kv_trace *t = bundled_open("text_400.safetensors");
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    char name[64], spec[1200];
    snprintf(name, sizeof name, "assets/%s.kvtiny-6l.safetensors", reads[i][0]);
    char *path = bundled_path(name);
    snprintf(spec, sizeof spec, "%s:%s=%s", reads[i][0], reads[i][1], path);
    check(t, spec);
    free(path);
  }
  kv_trace_close(t);
}

/* --- what the program keeps ----------------------------------------------- */

/* Every third token, the last first, stays in lanes from..to-1 of each layer.
 */
static void keep(kv_session *s, const kv_trace *t, int from, int to) {
  uint32_t id[PROMPT];
  int n = 0;
  for (int i = PROMPT - 1; i >= 0; i -= 3) id[n++] = (uint32_t)i;
  for (int l = 0; l < t->n_layers; l++)
    for (int i = from; i < to; i++)
      works(kv_session_keep(s, t->layer[l].data.layer, i, n, id, &told));
}

/* The fork is told the rest. That both follow a file of the same is
 * session_feed.py's to show. */
TEST(forked_while_it_is_told) {
  static const char *const specs[] = {"replay", "replay+int4"};
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  int lanes = t->shape.n_kv_heads, n = 0;
  for (int i = 0; i < 2; i++) {
    kv_session *s = start(t, specs[i], NULL), *all = start(t, specs[i], NULL);
    feed(s, t, RECORDED, 0, PROMPT / 2);
    assert_int_equal(kv_session_keep(s, 0, 0, 1, &(uint32_t){0}, NULL),
                     KV_USAGE);
    feed_some(s, t, RECORDED, 0, t->n_layers, PROMPT / 2, PROMPT);
    feed_some(all, t, RECORDED, 0, t->n_layers, 0, PROMPT);
    keep(s, t, 0, lanes - 1);
    kv_session *f = forked(s);
    keep(f, t, lanes - 1, lanes);
    keep(all, t, 0, lanes);
    must(kv_session_lane(f, 0, 0, 0, NULL, NULL, &n, NULL), NULL);
    assert_int_equal(n, PROMPT / 3); /* the last told lane compresses */
    kv_session *again = forked(f);
    read_alike(t, all, again);
    feed(again, t, OTHERS, PROMPT, MOST);
    feed(all, t, OTHERS, PROMPT, MOST);
    feed(s, t, OTHERS, PROMPT, MOST);
    given a = end(again), b = end(all), c = end(s);
    same(&a, &b, specs[i], PROMPT);
    assert_memory_not_equal(&a.digests, &c.digests, sizeof a.digests);
    kv_session_close(f);
  }
  kv_trace_close(t);
}

/* --- at the end ---------------------------------------------------------- */

TEST(after_the_digests) {
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  kv_session *s = start(t, "h2o", "20%");
  kv_session_digests a, b;
  feed(s, t, RECORDED, 0, MOST);
  works(kv_session_digest(s, &a, &told));
  kv_session *f = forked(s);
  read_alike(t, s, f);
  works(kv_session_digest(f, &b, &told));
  assert_memory_equal(&a, &b, sizeof a);
  assert_int_equal(feed_rows(f, t, 0, 0, MOST - 1, 1, NULL, &told), KV_USAGE);
  kv_session_close(s);
  kv_session_close(f);
  kv_trace_close(t);
}

/* --- refused ------------------------------------------------------------- */

static int columns; /* one more at each open, as a bad plugin might have */
static kv_rc open_more(const kv_shape *shape, void *params, kv_needs *needs,
                       kv_err *e) {
  (void)shape, (void)params, (void)e;
  needs->columns = ++columns;
  return KV_OK;
}

static const kv_param no_params[] = {{.name = NULL}};
static const kv_method fickle = {.abi = KV_METHOD_ABI,
                                 .revision = 1,
                                 .name = "fickle",
                                 .title = "asks for more each time",
                                 .paper = "none: of a test",
                                 .params = no_params,
                                 .open = open_more};

static const kv_method *only_fickle(int i) { return i ? NULL : &fickle; }

TEST(what_is_refused) {
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  kv_session_shape x = feed_shape(t);
  kv_session *s = NULL, *f = (kv_session *)&x;
  kv_spec spec = {0};
  works(kv_spec_parse(only_fickle, "fickle", &spec, &told));
  works(kv_session_open_spec(&x, &spec, NULL, 9, NULL, &s, &told));
  assert_int_equal(kv_session_fork(s, &f, &told), KV_REFUSED);
  assert_null(f);
  must_say("fickle has other needs");
  assert_int_equal(kv_session_fork(s, NULL, &told), KV_USAGE);
  fails(kv_session_fork(NULL, &f, &told), KV_USAGE, "there is no session");
  kv_session_close(s);
  kv_spec_free(&spec);
  feed_free(&x);
  kv_trace_close(t);
}

TEST(without_memory) {
  static const char *const specs[] = {"snapkv", "zsmerge",
                                      "h2o+kivi:group=8:residual=8"};
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  int at = PROMPT + 3, failed = 0;
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    given whole = alone(t, specs[i], RECORDED);
    kv_session *s = start(t, specs[i], "20%");
    feed(s, t, RECORDED, 0, at);
    for (int n = 1;; n += 1 + n / 9) {
      kv_session *f = NULL;
      failing = n;
      kv_rc rc = kv_session_fork(s, &f, &told);
      bool over = failing > 0;
      failing = 0;
      kv_session_close(f);
      if (over) break;
      assert_int_equal(rc, KV_RESOURCE);
      assert_null(f);
      must_say("not enough memory");
      failed++;
    }
    feed(s, t, RECORDED, at, MOST);
    given g = end(s);
    same(&g, &whole, specs[i], at);
  }
  assert_true(failed > 60);
  kv_trace_close(t);
}

int main(void) { return tests_run("session fork", NULL, NULL); }
