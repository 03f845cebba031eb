/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages downwards (KV_DOWN of ref/lane/method.h), by the method of
 * tests/made/sieve.h:
 *   - a layer attends what the layer above picked at the same step, worked out
 *     here from the logits of that layer;
 *   - digests are the same in both walks, with any number of threads, beside
 *     other cells, by a session and on the executor, alone and composed;
 *   - a session refuses a layer that is ahead of the one above it;
 *   - what was kept of some layers of a cell is replayed again, what was kept
 *     of all is not;
 *   - of two methods on a lane one may publish;
 *   - a message that differs is named by the comparison of two backends; the
 *     comparison of a layer, and its test vectors, go through the layers above
 *     it first; rows that layers which follow one choice hold together are in
 *     the peak.
 */
#include "ref/backend/store.h"
#include "sim/replay/engine/cell.h"
#include "sim/run/compare/compare.h"
#include "sim/run/look/vectors.h"
#include "sim/run/session/session_part.h"
#include "tests/laws/cells.h"
#include "tests/made/made_up.h"
#include "tests/made/sieve.h"
#include "tests/support/backend/probe.h"
#include "tests/support/feed.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 6, TOKENS = 72, PROMPT = 40, HEADS = 4, KV_HEADS = 2 };

static const char composed[] = "sieve+kivi:group=8:residual=8";
static kv_trace *trace;

static int open_trace(void **state) {
  const kv_small t = {"down", LAYERS, HEADS,  KV_HEADS,
                      32,     KV_F32, TOKENS, PROMPT};
  return opened_make(state, 1, &t, 5, kv_trace_open, &trace);
}

static int close_trace(void **state) { return opened_close(state, 1, &trace); }

/* --- replays ------------------------------------------------------------ */

static void same(const kv_cell *a, const kv_cell *b, const char *how) {
  if (memcmp(a->digest, b->digest, LAYERS * sizeof *a->digest))
    fail_msg("%s: other digests", how);
}

static void must_agree(const char *text, kv_replay_how how, const char *said) {
  kv_cell a = {0}, b = {0};
  cells_run(trace, text, cells_plain, &a);
  cells_run(trace, text, how, &b);
  same(&a, &b, said);
  kv_cell_close(&a);
  kv_cell_close(&b);
}

static const char *const texts[] = {"sieve", composed};

TEST(walks_and_threads_agree) {
  for (int i = 0; i < 2; i++) {
    kv_replay_how how = cells_plain;
    how.by_steps = true;
    must_agree(texts[i], how, "step by step");
    how.threads = 3;
    must_agree(texts[i], how, "step by step, three threads");
    how.by_steps = false;
    must_agree(texts[i], how, "three threads");
    how.threads = 9;
    must_agree(texts[i], how, "more threads than layers");
  }
}

TEST(other_cells_change_nothing) {
  kv_cell alone = {0}, beside = {0}, dense = {0};
  kv_cell *both[] = {&dense, &beside};
  kv_replay_how how = cells_plain;
  how.threads = 2;
  cells_run(trace, "sieve", cells_plain, &alone);
  cells_open(trace, "sieve", &beside);
  cells_open(trace, "dense", &dense);
  cells_replay(trace, 2, both, how);
  same(&alone, &beside, "beside dense");
  kv_cell_close(&alone);
  kv_cell_close(&beside);
  kv_cell_close(&dense);
}

TEST(the_twin_agrees) {
  kv_replay_how how = cells_plain;
  how.backend = probe_backend();
  if (!how.backend) skip();
  for (int i = 0; i < 2; i++) {
    must_agree(texts[i], how, "the twin");
    how.by_steps = !how.by_steps;
  }
}

/* --- what is read -------------------------------------------------------- */

/* Of the sieve gone through last: a flag for each token picked. */
static bool picked[TOKENS + 1][KV_HEADS][TOKENS];
static int read_rows;

static float best(const kv_seen *seen, int i) {
  float most = seen->s[i];
  for (int h = 1; h < seen->queries; h++) {
    float s = seen->s[(size_t)h * seen->stride + (size_t)i];
    if (s > most) most = s;
  }
  return most;
}

/* Those that fewer than SIEVE_PICKS tokens come before. */
static void pick(const kv_seen *seen, bool *out) {
  int n = seen->lane->n;
  for (int i = 0; i < n; i++) {
    int before = 0;
    for (int j = 0; j < n; j++)
      before += best(seen, j) > best(seen, i) ||
                (j < i && best(seen, j) == best(seen, i));
    out[i] = before < SIEVE_PICKS;
  }
}

static void check_view(int step, const kv_lane *l, const kv_view *v) {
  bool in[TOKENS] = {false};
  for (int r = 0; r < v->runs; r++)
    for (int j = 0; j < v->run[r].count; j++) in[v->run[r].first + j] = true;
  for (int i = 0; i < l->n; i++) {
    bool wanted = i == l->n - 1 || picked[step][l->lane][l->id[i]];
    if (in[i] != wanted)
      fail_msg("step %d, token %u: in view %d, picked %d", step, l->id[i],
               in[i], wanted);
  }
}

static void look(void *self, int layer, int step, const kv_seen *seen) {
  const kv_lane *l = seen->lane;
  (void)self;
  if (sieve_is(layer))
    pick(seen, picked[step][l->lane]);
  else
    for (int h = 0; h < seen->queries; h++, read_rows++)
      check_view(step, l, &seen->view[h]);
}

TEST(layers_read_the_same_step) {
  kv_watch watch = {.seen = look};
  kv_replay_how how = cells_plain;
  kv_cell cell = {0};
  how.watch = &watch;
  how.fidelity = true;
  cells_run(trace, "sieve", how, &cell);
  kv_cell_close(&cell);
  assert_int_equal(read_rows, 4 * HEADS * (TOKENS - PROMPT));
}

/* --- sessions ------------------------------------------------------------ */

static kv_session *start(const char *text) {
  kv_session_shape shape = feed_shape(trace);
  kv_session *s = NULL;
  kv_spec spec = {0};
  if (kv_spec_parse(made_up_at, text, &spec, &told) ||
      kv_session_open_spec(&shape, &spec, NULL, PROMPT, NULL, &s, &told))
    fail_msg("%s", told.text);
  kv_spec_free(&spec);
  feed_free(&shape);
  return s;
}

static void feed(kv_session *s, int layer, int first, int n) {
  works(feed_block(s, trace, layer, first, n, NULL, &told));
}

static void must_end_alike(kv_session *s, const kv_cell *cell) {
  kv_session_digests d;
  works(kv_session_digest(s, &d, &told));
  assert_memory_equal(&d.journal, &cell->result.journal, sizeof d.journal);
  assert_memory_equal(&d.output, &cell->result.output, sizeof d.output);
  kv_session_close(s);
}

TEST(sessions_agree) {
  kv_cell cell = {0};
  cells_run(trace, composed, cells_plain, &cell);
  kv_session *by_layers = start(composed), *by_steps = start(composed);
  works(feed_all(by_layers, trace, 0, &told));
  must_end_alike(by_layers, &cell);
  for (int l = 0; l < LAYERS; l++) feed(by_steps, l, 0, 7);
  for (int l = 0; l < LAYERS; l++) feed(by_steps, l, 7, PROMPT - 7);
  for (int t = PROMPT; t < TOKENS; t++)
    for (int l = 0; l < LAYERS; l++) feed(by_steps, l, t, 1);
  must_end_alike(by_steps, &cell);
  kv_cell_close(&cell);
}

TEST(sessions_keep_the_order) {
  kv_session *s = start("sieve");
  fails(feed_block(s, trace, 1, 0, PROMPT, NULL, &told), KV_USAGE,
        "layer 1: step 40 was fed before layer 0");
  feed(s, 0, 0, PROMPT);
  feed(s, 1, 0, PROMPT);
  feed(s, 0, PROMPT, 1);
  works(feed_block(s, trace, 2, 0, PROMPT, NULL, &told));
  fails(feed_block(s, trace, 2, PROMPT, 1, NULL, &told), KV_USAGE,
        "from first to last");
  kv_session_close(s);
}

/* --- resuming ------------------------------------------------------------ */

static int keeps, replayed; /* so many layers are kept; so many ended */
static char *parts;

static kv_rc begin(void *self, int n, kv_cell *const *cell, bool *there,
                   kv_err *e) {
  size_t size = kv_partial_size(cell[0]);
  (void)self, (void)e;
  assert_int_equal(n, 1);
  for (int i = 0; i < keeps; i++)
    there[i] = kv_partial_read(cell[0], i, size, parts + (size_t)i * size);
  return KV_OK;
}
static void ended(void *self, int n, const int *at, int layer, double seconds) {
  (void)self, (void)n, (void)at, (void)layer, (void)seconds;
  replayed++;
}
static void slow(void *self, const kv_cell *first, int n, double seconds) {
  (void)self, (void)first, (void)n, (void)seconds;
}
static void end(void *self, bool cut) { (void)self, (void)cut; }

static const kv_replay_keeper keeper = {
    .most = 1e-9, .begin = begin, .ended = ended, .slow = slow, .end = end};

static void resume_whole(const char *text) {
  static const int kept[] = {0, 2, LAYERS};
  kv_cell first = {0}, again = {0};
  kv_replay_how how = cells_plain;
  how.fidelity = true;
  how.keep = &keeper;
  for (int i = 0; i < 3; i++) {
    kv_cell *out = i == 0 ? &first : &again;
    keeps = kept[i];
    replayed = 0;
    cells_run(trace, text, how, out);
    assert_int_equal(replayed, kept[i] == LAYERS ? 0 : LAYERS);
    if (i == 0) {
      size_t size = kv_partial_size(&first);
      parts = malloc(LAYERS * size);
      for (int l = 0; l < LAYERS; l++)
        kv_partial_write(&first, l, parts + (size_t)l * size);
      continue;
    }
    same(&first, &again, "resumed");
    assert_memory_equal(&first.result.totals, &again.result.totals,
                        sizeof first.result.totals);
    assert_memory_equal(first.result.stat, again.result.stat,
                        sizeof first.result.stat);
    kv_cell_close(&again);
  }
  free(parts);
  kv_cell_close(&first);
}

/* Also where rows of the prompt attend by what the layer above says. */
TEST(a_cell_is_resumed_whole) {
  resume_whole("sieve");
  resume_whole("omnikv:layers=2:k=5:prefill=16");
}

/* --- compositions --------------------------------------------------------- */

static kv_method coding; /* of kivi, and says that it publishes */

static kv_rc open_coding(const kv_shape *shape, void *params, kv_needs *needs,
                         kv_err *e) {
  needs->across = KV_DOWN;
  needs->message = 8;
  return kv_method_named("kivi")->open(shape, params, needs, e);
}

static const kv_method *with_coding(int i) {
  return i == 0 ? &coding : made_up_at(i - 1);
}

TEST(two_that_publish_are_refused) {
  kv_cell cell = {0};
  coding = *kv_method_named("kivi");
  coding.name = "coding";
  coding.open = open_coding;
  cells_ask(with_coding, trace, 0, "sieve+coding", -1, &cell);
  assert_int_equal(cell.result.status, KV_CELL_REFUSED);
  assert_non_null(strstr(cell.result.reason, "both publish messages"));
  kv_cell_close(&cell);
}

/* --- who looks at a cell ------------------------------------------------ */

/* The eighth byte, of layer 3 at step 60: how many lanes, which nobody reads.
 */
static const kv_message *twist(kv_store *s, kv_scratch *x) {
  const kv_message *said = kv_backend_ref.publish(s, x);
  const kv_lane *l = kv_backend_ref.lane(s, 0);
  if (!said || l->data->layer != 3 || l->step != 60) return said;
  ((char *)(uintptr_t)said->data)[7] ^= 1;
  return said;
}

static void compare(const kv_backend *odd, kv_difference *d) {
  kv_cell a = {0}, b = {0};
  kv_replay_how how = cells_plain;
  bool stopped;
  cells_run(trace, "sieve", how, &a);
  how.backend = odd;
  cells_run(trace, "sieve", how, &b);
  if (kv_compare_cells(&(kv_compared){&a, &kv_backend_ref},
                       &(kv_compared){&b, odd}, NULL, &stopped, d, &told))
    fail_msg("%s", told.text);
  if (!d->found) fail_msg("no difference is found");
  kv_cell_close(&a);
  kv_cell_close(&b);
}

TEST(a_message_that_differs_is_named) {
  kv_backend odd = kv_backend_ref;
  kv_difference d;
  odd.name = "odd";
  odd.publish = twist;
  compare(&odd, &d);
  if (strcmp(d.what, "message") || d.layer != 3 || d.step != 60 || d.index != 7)
    fail_msg("%s", d.sentence);
}
/* One bit of an output, where a layer below a sieve attends what was picked and
 * nothing else: layer 4, from step 60 on. */
static void flip(kv_store *s, int lane, kv_scratch *x) {
  const kv_lane *l = kv_backend_ref.lane(s, lane);
  kv_backend_ref.attend(s, lane, x);
  if (l->data->layer != 4 || l->step < 60 || lane != 0) return;
  if (x->view[0].entries > SIEVE_PICKS + 1) return;
  ((uint32_t *)(void *)x->out)[3] ^= 1;
  ((uint32_t *)(void *)s->out)[3] ^= 1;
}

TEST(the_comparison_goes_through_the_layers_above) {
  kv_backend odd = kv_backend_ref;
  kv_difference d;
  odd.name = "odd";
  odd.attend = flip;
  compare(&odd, &d);
  if (strcmp(d.what, "output") || d.layer != 4 || d.step != 60 || d.index != 3)
    fail_msg("%s", d.sentence);
}

/* --- vectors -------------------------------------------------------------- */

static void write_vectors(int layers, const int *layer, const char *dir) {
  static const int step[] = {PROMPT + 1, PROMPT + 9};
  kv_cell cell = {0};
  bool stopped = false;
  cells_open(trace, "sieve", &cell);
  kv_vectors_ask ask = {.cell = &cell,
                        .steps = 2,
                        .step = step,
                        .layers = layers,
                        .layer = layer,
                        .raw = true,
                        .dir = dir};
  works(kv_vectors_write(&ask, &stopped, &told));
  kv_cell_close(&cell);
}

static size_t read_all(const char *dir, const char *name, char *out,
                       size_t most) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s is missing", path);
  size_t n = fread(out, 1, most, f);
  fclose(f);
  return n;
}

/* The vectors of one layer are the same, whichever others are asked for. */
TEST(vectors_go_through_the_layers_above) {
  enum { MOST = 1 << 16 };
  static char a[MOST], b[MOST];
  char one[256], two[256];
  int files = 0;
  snprintf(one, sizeof one, "%s", scratch_path("one"));
  snprintf(two, sizeof two, "%s", scratch_path("two"));
  write_vectors(1, (const int[]){4}, one);
  write_vectors(2, (const int[]){3, 4}, two);
  DIR *d = opendir(one);
  assert_non_null(d);
  for (struct dirent *f = readdir(d); f; f = readdir(d)) {
    if (!strstr(f->d_name, ".bin")) continue;
    size_t n = read_all(one, f->d_name, a, MOST);
    if (n != read_all(two, f->d_name, b, MOST) || memcmp(a, b, n))
      fail_msg("%s differs", f->d_name);
    files++;
  }
  closedir(d);
  assert_true(files > 10);
}

/* --- temporary rows ------------------------------------------------------ */

static void peak_of(const char *more, kv_cell *cell) {
  char text[160];
  snprintf(text, sizeof text,
           "deltakv:compressor=none:sink=0:recent=28:stride=5:top=99%s", more);
  cells_must(kv_method_at, trace, 60, text, -1, cell);
  cells_replay(trace, 1, &cell, cells_plain);
}

/* Tokens 0 to 27 are coded with the prompt, but for six references, and no more
 * are: each layer that follows makes 22 rows of a lane in each step, and the
 * last step holds most. `layers` of them do so together. */
static void holds(const char *full, int64_t layers) {
  kv_cell alone = {0}, group = {0};
  int64_t made = 22 * 2 * (32 + 32) * (int64_t)sizeof(float);
  char more[80];
  peak_of(full, &alone);
  snprintf(more, sizeof more, "%s:temporary=group", full);
  peak_of(more, &group);
  kv_totals *a = &alone.result.totals, *b = &group.result.totals;
  assert_int_equal(a->peak, kv_bytes_total(&a->end) + made);
  assert_int_equal(b->peak, kv_bytes_total(&b->end) + layers * made);
  b->peak = a->peak;
  assert_memory_equal(a, b, sizeof *a);
  assert_memory_equal(alone.digest, group.digest,
                      LAYERS * sizeof *alone.digest);
  kv_cell_close(&alone);
  kv_cell_close(&group);
}

TEST(layers_that_follow_one_choice_hold_rows_together) {
  holds(":full=0/2", 3);
  holds(":full=0/1/3", 2); /* 0 is whole, 1 chooses */
  holds(":full=0/2/4", 1);
  holds(":full=0/3:retrieve=all", 1); /* nobody chooses */
}

int main(void) { return tests_run("down", open_trace, close_trace); }
