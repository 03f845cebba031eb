/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws can fail: each of sim/run/laws/law.h is shown replays that break it, and
 * says so, alone and among the others, in the words that belong to the fault.
 */
#include "sim/run/laws/law.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <string.h>

static kv_trace *trace;

/* A backend that breaks what it is told to: a lane after every compression, a
 * view before it is measured, the prompt's rows. */
static kv_backend tampering;
static void (*tamper)(kv_lane *l);
static int turn;

static void tampered_compress(kv_store *s, int lane, kv_scratch *x) {
  kv_backend_ref.compress(s, lane, x);
  tamper((kv_lane *)(uintptr_t)kv_backend_ref.lane(s, lane));
}

static kv_seen longer_view(const kv_store *s, int lane, const kv_scratch *x) {
  kv_seen seen = kv_backend_ref.seen(s, lane, x);
  ((kv_view *)(uintptr_t)seen.view)->run[0].count++;
  return seen;
}

static kv_seen unlike_journal(const kv_store *s, int lane,
                              const kv_scratch *x) {
  kv_seen seen = kv_backend_ref.seen(s, lane, x);
  ((kv_view *)(uintptr_t)seen.view)->run[0].count--;
  ((kv_view *)(uintptr_t)seen.view)->entries--;
  return seen;
}

static void rows_twice(kv_store *const *s, int n, int g, int first, int count,
                       kv_scratch *x) {
  kv_backend_ref.observation(s, n, g, first, count, x);
  kv_backend_ref.observation(s, n, g, first, count, x);
}

static void twice(kv_lane *l) { l->id[l->n - 1] = l->id[0]; }
static void future(kv_lane *l) { l->id[l->n - 1] = (uint32_t)l->step; }
static void heavier(kv_lane *l) { l->weight[0]++; }
static void other_class(kv_lane *l) { l->tier[0] ^= 1; }
static void silent(kv_lane *l) { l->n -= l->n > 4; }
static void costly(kv_lane *l) { l->dropped = !l->dropped; }
static void dearer(kv_lane *l) { l->holes = true; }
static void moody(kv_lane *l) {
  if (turn++ % 7 == 0 && l->n > 20) kv_keep(l, 2, (int32_t[]){0, l->n - 1});
}

typedef struct broken {
  const char *law, *method;
  int budget;
  void (*lane)(kv_lane *l); /* or one of the others */
  kv_seen (*seen)(const kv_store *s, int lane, const kv_scratch *x);
  bool rows;
  const char *said;
} broken;

static const broken faults[] = {
    {"tokens", "window", 30, .lane = twice, .said = "stored twice"},
    {"tokens", "window", 30, .lane = future, .said = "has not been seen"},
    {"views", "window", 30, .seen = longer_view, .said = "sees entry"},
    {"views", "window", 30, .seen = unlike_journal, .said = "another view"},
    {"weights", "window", 30, .lane = heavier, .said = "has weight 2"},
    {"weights", "window", 30, .lane = silent, .said = "add up to"},
    {"journal", "window", 30, .lane = silent, .said = "by the journal"},
    {"journal", "window", 30, .lane = heavier, .said = "of weight"},
    {"journal", "zsmerge", 30, .lane = other_class, .said = "class"},
    {"bytes", "window", 30, .lane = costly, .said = "metadata"},
    {"bytes", "window", 96, .lane = dearer, .said = "metadata"},
    {"full", "window", 30, .lane = moody, .said = "output of dense"},
    {"repeat", "window", 30, .lane = moody, .said = "differs from run 0"},
    {"observation", "snapkv", 30, .rows = true, .said = "but declared"},
    {"lengths", "window", 30, .lane = costly, .said = "no output is computed"}};

static void must_see(const broken *b) {
  kv_spec spec = {0};
  tampering = kv_backend_ref;
  tamper = b->lane;
  if (b->lane) tampering.compress = tampered_compress;
  if (b->seen) tampering.seen = b->seen;
  if (b->rows) tampering.observation = rows_twice;
  works(kv_spec_parse(kv_method_at, b->method, &spec, &told));
  kv_law_case c = {.backend = &tampering,
                   .trace = trace,
                   .spec = &spec,
                   .entries = b->budget};
  int alone, among;
  int law = kv_law_named(b->law);
  assert_true(law >= 0);
  kv_rc rc = kv_law_ask(&c, 1u << law, &alone, &told);
  if (rc != KV_DIFFERENT || alone != law || !strstr(told.text, b->said))
    fail_msg("law %s is blind: rc %d, %s", b->law, rc, told.text);
  turn = 0;
  rc = kv_law_ask(&c, UINT32_MAX, &among, &told);
  if (rc != KV_DIFFERENT || among < 0)
    fail_msg("laws together are blind to what %s sees", b->law);
  kv_spec_free(&spec);
}

TEST(test_broken) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    must_see(&faults[i]);
}

static int open_trace(void **state) {
  const kv_small small = {"faults", 3, 2, 2, 32, KV_F32, 96, 64};
  return opened_make(state, 1, &small, 5, kv_law_open, &trace);
}

static int close_trace(void **state) { return opened_close(state, 1, &trace); }

int main(void) { return tests_run("law faults", open_trace, close_trace); }
