/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at a cell whose layers publish messages (tests/made/sieve.h):
 *   - a message that differs is named by the comparison of two backends;
 *   - the comparison of a layer, and its test vectors, go through the layers
 *     above it first;
 *   - rows that layers which follow one choice hold together are in the peak.
 */
#include "ref/backend/store.h"
#include "sim/run/compare/compare.h"
#include "sim/run/look/vectors.h"
#include "tests/laws/cells.h"
#include "tests/made/sieve.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 6, TOKENS = 72, PROMPT = 40 };

static kv_trace *trace;

static int open_trace(void **state) {
  const kv_small t = {"down", LAYERS, 4, 2, 32, KV_F32, TOKENS, PROMPT};
  return opened_make(state, 1, &t, 5, kv_trace_open, &trace);
}

static int close_trace(void **state) { return opened_close(state, 1, &trace); }

/* --- the comparison ------------------------------------------------------- */

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

int main(void) { return tests_run("down_look", open_trace, close_trace); }
