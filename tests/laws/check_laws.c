/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of sim/run/laws/law.h over every method of the registry:
 *   - on every geometry of the table below: GQA groups 1, 4, 7 and 8, head
 *     dimensions 32 to 256, three element types, a prompt shorter than window
 *     and budget, a prompt of one token, no decode step, one layer; at a
 *     small, a middling and a full budget;
 *   - with every value of every choice parameter, and integers away from
 *     their defaults, on one geometry of full mantissas;
 *   - within a sliding window (windowed=compress), of methods that bear one;
 *   - but for "full", for a made-up method that uses every verb at random, and
 *     for one that adds a chunk of its own to attention.
 * No method is named but in the table of further parameters. KV_TEST_BACKEND
 * names another backend than ref, which is asked about the methods that it
 * has; on emu (tests/support/backend/probe.h) all of it has a meaning, on
 * others the rows of observation are not counted and the made-up method has no
 * twin. KV_HALF=0 or 1: every second method and variant alone, where both
 * halves take turns.
 */
#include "ref/formats/minmax.h"
#include "sim/ask/param.h"
#include "sim/replay/engine/replay.h"
#include "sim/run/laws/law.h"
#include "tests/laws/cells.h"
#include "tests/laws/further.h"
#include "tests/made/mad.h"
#include "tests/made/made_up.h"
#include "tests/support/backend/probe.h"
#include "tests/support/rig.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"
#include "traces/trace/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kv_small places[] = {
    {"group1_d32", 3, 2, 2, 32, KV_F32, 96, 64},
    {"group4_d64", 2, 8, 2, 64, KV_F16, 96, 70},
    {"group7_d80", 1, 7, 1, 80, KV_BF16, 80, 60},
    {"group8_d96", 1, 8, 1, 96, KV_F32, 80, 61},
    {"group1_d128", 1, 2, 2, 128, KV_BF16, 72, 50},
    {"group4_d256", 1, 4, 1, 256, KV_F32, 64, 50},
    {"group7_d128", 1, 14, 2, 128, KV_F16, 64, 40},
    {"group8_d32", 2, 8, 1, 32, KV_F16, 150, 140},
    {"group4_d80", 1, 4, 1, 80, KV_F32, 72, 50},
    {"group1_d256", 1, 1, 1, 256, KV_F16, 64, 48},
    {"group4_d96", 1, 4, 1, 96, KV_BF16, 64, 48},
    {"group1_d64", 1, 2, 2, 64, KV_F32, 200, 180},
    {"short_prompt", 2, 4, 2, 32, KV_F32, 60, 7},
    {"one_token", 2, 4, 1, 32, KV_F32, 40, 1},
    {"no_decode", 2, 4, 2, 32, KV_F32, 50, 50},
    {"only_token", 1, 2, 1, 32, KV_F32, 1, 1}};
enum { PLACES = sizeof places / sizeof *places, FOR_OPTIONS = 8 };

static kv_trace *trace[PLACES];
static kv_digest dense[PLACES]; /* its outputs */
static const kv_backend *backend;
static int64_t (*rows)(void);

typedef struct tally {
  int held, refused, lacked; /* lacked: no twin on this backend */
} tally;

/* --- traces ------------------------------------------------------------- */

static void choose_backend(void) {
  backend = rig_backend();
  if (strcmp(backend->name, "emu") != 0) return;
  backend = probe_backend();
  rows = probe_rows;
}

static int open_traces(void **state) {
  choose_backend();
  if (opened_make(state, PLACES, places, 5, kv_law_open, trace)) return 1;
  for (int i = 0; i < PLACES; i++) {
    kv_law_case c = {.backend = backend, .trace = trace[i]};
    works(kv_law_dense(&c, &dense[i], &told));
  }
  return 0;
}

static int close_traces(void **state) {
  return opened_close(state, PLACES, trace);
}

/* --- asking ------------------------------------------------------------- */

/* Every law but one. */
static uint32_t all_but(const char *law) {
  int index = kv_law_named(law);
  assert_true(index >= 0);
  return ~(1u << index);
}

static bool counts_rows(void) { return backend == &kv_backend_ref || rows; }

/* Every law that can be asked here. */
static uint32_t all_laws(void) {
  return counts_rows() ? UINT32_MAX : all_but("observation");
}

static kv_rc asked(const kv_law_case *c, const char *text, uint32_t laws) {
  int broken;
  kv_rc rc = kv_law_ask(c, laws, &broken, &told);
  if (rc && rc != KV_REFUSED)
    fail_msg("law %s, %s, %s, budget %d: %s", kv_law_at(broken)->name,
             c->trace->name, text, c->entries, told.text);
  return rc;
}

static void ask(int at, const char *text, int entries, uint32_t laws,
                tally *n) {
  kv_spec spec = {0};
  if (kv_spec_parse(kv_method_at, text, &spec, &told))
    fail_msg("%s: %s", text, told.text);
  if (!kv_backend_has(backend, spec.method)) {
    n->lacked++;
    kv_spec_free(&spec);
    return;
  }
  kv_law_case c = {.backend = backend,
                   .trace = trace[at],
                   .spec = &spec,
                   .entries = entries,
                   .dense = &dense[at],
                   .rows = rows};
  kv_rc rc = asked(&c, text, laws);
  n->held += rc == KV_OK;
  n->refused += rc == KV_REFUSED;
  kv_spec_free(&spec);
}

static void ask_all(int at, const char *text, int entries, tally *n) {
  ask(at, text, entries, all_laws(), n);
}

/* A method whose cells are all refused would keep every law. */
static void must_run(const char *what, const tally *n) {
  if (n->held == 0 && n->lacked == 0)
    fail_msg("%s: every cell was refused", what);
}

/* Is the law not asked about this one of a list now? */
static int left_out(int n) {
  const char *half = getenv("KV_HALF");
  return half && *half && (n ^ atoi(half)) & 1;
}

static int has_turn(int m) {
  return !left_out(m) && !rig_wants_file(kv_method_at(m));
}

TEST(test_geometries) {
  for (int m = 0; kv_method_at(m); m++)
    for (int i = 0; i < PLACES && has_turn(m); i++) {
      const char *name = kv_method_at(m)->name;
      const uint32_t others = all_laws() & all_but("full"); /* has its own */
      tally n = {0};
      ask(i, name, 6, others, &n);
      ask_all(i, name, 24, &n);
      if (i % 4 == 0) ask(i, name, places[i].n_tokens, others, &n);
      if (places[i].n_tokens > 4) must_run(name, &n);
    }
}

/* --- within a window ------------------------------------------------------ */

/* Two layers, the first with a window of 24 tokens. */
static kv_trace *open_windows(void) {
  const kv_synth s = {.like = {"windows", 2, 4, 2, 32, 10000, KV_ROPE_PLAIN,
                               KV_F32, .window = 24, .full_every = 2},
                      .n_tokens = 90,
                      .prompt_len = 70};
  const char *path = scratch_path("windows.safetensors");
  kv_trace *t = NULL;
  if (kv_synth_write(&s, kv_kernels_best(), path, NULL) ||
      kv_law_open(path, &t, NULL))
    fail_msg("%s", path);
  return t;
}

TEST(test_windows) {
  kv_trace *t = open_windows();
  kv_law_case c = {.backend = backend, .trace = t, .rows = rows};
  kv_digest exact;
  char text[128];
  int held = 0;
  assert_int_equal(kv_law_dense(&c, &exact, NULL), KV_OK);
  c.dense = &exact;
  for (int m = 0; kv_method_at(m); m++) {
    kv_spec spec = {0};
    if (!has_turn(m) || !kv_backend_has(backend, kv_method_at(m))) continue;
    snprintf(text, sizeof text, "%s:windowed=compress", kv_method_at(m)->name);
    assert_int_equal(kv_spec_parse(kv_method_at, text, &spec, NULL), KV_OK);
    c.spec = &spec;
    for (int b = 0; b < 2; b++) {
      c.entries = b ? 90 : 12;
      held += asked(&c, text, all_laws()) == KV_OK;
    }
    kv_spec_free(&spec);
  }
  assert_true(held >= (getenv("KV_HALF") ? 14 : 30));
  kv_trace_close(t);
}

/* --- options ------------------------------------------------------------ */

static int cut(const char *choices, int i, char *out, size_t room) {
  while (i-- > 0 && choices) {
    choices = strchr(choices, '|');
    if (choices) choices++;
  }
  if (!choices) return 0;
  snprintf(out, room, "%.*s", (int)strcspn(choices, "|"), choices);
  return 1;
}

static void each_choice(const kv_method *m, const kv_param *p) {
  char value[64], text[256];
  for (int i = 0; cut(p->choices, i, value, sizeof value); i++) {
    tally n = {0};
    if (strcmp(value, "file") == 0) continue; /* methods/topk.txt has it */
    int len = snprintf(text, sizeof text, "%s:%s=%s", m->name, p->name, value);
    /* A tier between two needs an alpha, more above it and less below. */
    if (strncmp(p->name, "middle_", 7) == 0 && strcmp(value, "none") != 0)
      snprintf(text + len, sizeof text - (size_t)len,
               ":alpha_%s=0.5:high=k16v16:low=k1v1", p->name + 7);
    if (strncmp(text, "quant:scale=", 12) == 0) /* a format that has one */
      snprintf(text + len, sizeof text - (size_t)len, ":k=nvfp4");
    ask_all(FOR_OPTIONS, text, 16, &n);
    /* h2o's group=max has a variant of its own, in `further`; these traces
     * have no key bias, methods/quant.txt has. */
    if (strcmp(text, "h2o:group=max") != 0 &&
        strcmp(text, "quant:key_bias=subtract") != 0)
      must_run(text, &n);
  }
}

TEST(test_choices) {
  int choices = 0;
  for (int m = 0; kv_method_at(m); m++)
    for (const kv_param *p = kv_method_at(m)->params; p && p->name; p++)
      if (p->kind == KV_CHOICE && has_turn(m))
        each_choice(kv_method_at(m), p), choices++;
  assert_true(choices >= 10);
}

TEST(test_further) {
  for (int i = 0; i < FURTHER; i++) {
    tally n = {0};
    if (left_out(i)) continue;
    ask_all(FOR_OPTIONS, further[i], 16, &n);
    ask_all(0, further[i], 12, &n);
    must_run(further[i], &n);
  }
}

/* --- a method that does everything -------------------------------------- */

static void ask_made_up(const char *name) {
  kv_spec spec = {0};
  if (backend != &kv_backend_ref && backend != probe_backend()) skip();
  works(kv_spec_parse(made_up_at, name, &spec, &told));
  for (int t = 0; t < PLACES; t++) {
    kv_law_case c = {.backend = backend,
                     .trace = trace[t],
                     .spec = &spec,
                     .entries = -1,
                     .rows = rows};
    assert_int_equal(asked(&c, name, all_but("full")), KV_OK);
  }
  kv_spec_free(&spec);
}

TEST(test_made_up) {
  ask_made_up("mad");
  ask_made_up("rest");
  ask_made_up("rest+kivi:group=8:residual=8");
  ask_made_up("sieve");
  ask_made_up("sieve+kivi:group=8:residual=8");
}

/* --- replays ------------------------------------------------------------ */

static const kv_method *made_up; /* in no registry */

static const kv_method *only_made_up(int i) { return i == 0 ? made_up : NULL; }

static void replay_on(const kv_backend *b, const kv_method *method, int at,
                      kv_cell *cell) {
  const kv_replay_how how = {.backend = b, .threads = 1};
  made_up = method;
  cells_ask(only_made_up, trace[at], 0, method->name, -1, cell);
  cells_replay(trace[at], 1, &cell, how);
}

/* The twin of a method that is in no registry, to the bit. */
static void same_twin(const kv_method *method) {
  const kv_backend *twin = probe_backend();
  if (!twin) skip();
  for (int t = 0; t < PLACES; t += 3) {
    kv_cell a = {0}, b = {0};
    size_t layers = (size_t)places[t].n_layers;
    replay_on(&kv_backend_ref, method, t, &a);
    replay_on(twin, method, t, &b);
    if (memcmp(a.digest, b.digest, layers * sizeof *a.digest) != 0)
      fail_msg("%s on %s: the twin differs", method->name, places[t].name);
    kv_cell_close(&a);
    kv_cell_close(&b);
  }
}

TEST(test_mad_twin) { same_twin(&mad_method); }

/* --- coded rows are decoded once ---------------------------------------- */

/* Rows decoded outside of verbs, and how many views could be of coded sides:
 * counted once for all heads of a lane. */
static int64_t decoded, in_views;
static kv_format counting[2];

static void channel_counted(const kv_kernels *kernels, const void *c,
                            int members, int width, const void *in, int member,
                            float *out) {
  decoded++;
  kv_format_channel.decode(kernels, c, members, width, in, member, out);
}

static void token_counted(const kv_kernels *kernels, const void *c, int members,
                          int width, const void *in, int member, float *out) {
  decoded++;
  kv_format_token.decode(kernels, c, members, width, in, member, out);
}

static kv_rc counted_open(const kv_shape *shape, void *params, kv_needs *needs,
                          kv_err *e) {
  kv_rc rc = mad_method.open(shape, params, needs, e);
  for (int i = 0; i < 2; i++) needs->coding[i].format = &counting[i];
  return rc;
}

static void counted_view(const kv_at *at, const kv_lane *l, const kv_query *q,
                         kv_view *out) {
  mad_method.view(at, l, q, out);
  for (int i = 0; q->head == 0 && i < l->n; i++) {
    bool seen = i == l->n - 1;
    for (int h = 0; h < l->queries; h++)
      seen = seen || mad_sees(l->first_head + h, at->step, i);
    if (!seen) continue;
    in_views += l->k[i].format >= KV_CODED;
    in_views += l->v[i].format >= KV_CODED;
  }
}

static void counted_compress(const kv_at *at, kv_lane *l) {
  int64_t before = decoded;
  mad_method.compress_lane(at, l);
  decoded = before;
}

TEST(test_decoded_once) {
  kv_method method = mad_method;
  method.open = counted_open;
  method.view = counted_view;
  method.compress_lane = counted_compress;
  counting[0] = kv_format_channel, counting[0].decode = channel_counted;
  counting[1] = kv_format_token, counting[1].decode = token_counted;
  counting[1].in_place = NULL; /* what kernels read as it is stored is not
                                  decoded at all */
  for (int t = 0; t < PLACES; t++) {
    kv_cell cell = {0};
    decoded = in_views = 0;
    replay_on(&kv_backend_ref, &method, t, &cell);
    assert_int_equal(decoded, in_views);
    if (t == 0) assert_true(in_views > 100);
    kv_cell_close(&cell);
  }
}

/* What is not asked above is not passed either. */
TEST(test_rows_are_counted) {
  if (!counts_rows()) skip();
}

int main(void) { return tests_run("laws", open_traces, close_traces); }
