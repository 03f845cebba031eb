/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay train`: a training that was killed, or run on more threads, ends
 * with the same file; what it is given wrongly is one sentence.
 */
#include "sim/commands/commands.h"
#include "sim/inspect/spectrum.h"
#include "tests/support/program/command.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/tracefile.h"
#include "tests/support/traces/training.h"
#include "traces/container/safetensors.h"
#include "traces/trace/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the same file, whatever came between
 * -------------------------------------- */

#define TRAIN                                                                  \
  "train", "-q", "deltakv:latent=4:hidden=6", training_trace[0],               \
      training_trace[1]
#define HOW "--steps", "30", "--tokens", "40", "--keep", "0"

static int train(const char *first, ...) {
  va_list more;
  va_start(more, first);
  const char *words[] = {first, NULL};
  int code = command_with(kv_commands_call, words, more);
  va_end(more);
  return code;
}

static void same_bytes(const char *a, const char *b) {
  char x[8192], y[8192];
  FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
  assert_true(f && g);
  size_t n = fread(x, 1, sizeof x, f), m = fread(y, 1, sizeof y, g);
  assert_true(n > 500 && n < sizeof x && n == m);
  if (memcmp(x, y, n)) fail_msg("%s and %s differ", a, b);
  fclose(f);
  fclose(g);
}

static int at_most;
static void die(void *self, double loss) {
  (void)self, (void)loss;
  if (--at_most == 0) raise(SIGKILL);
}

/* A process of its own, killed after so many steps. */
static int train_and_die(char *const *word) {
  kv_train_ask ask;
  kv_train *x;
  bool stopped;
  at_most = atoi(word[3]);
  for (int i = 0; i < 2; i++) snprintf(training_trace[i], 512, "%s", word[i]);
  training_ask("deltakv:latent=4:hidden=6", word[2], &ask);
  kv_second_setup();
  ask.steps = 30;
  ask.dtype = KV_ST_F16;
  ask.tick = die;
  if (kv_train_open(&ask, &x, NULL)) return 77;
  return kv_train_run(x, NULL, &stopped, NULL) ? 77 : 0;
}

static void kill_at(const char *output, const char *step) {
  int status;
  pid_t child = fork();
  if (!child) {
    execl("/proc/self/exe", "check_training", training_trace[0],
          training_trace[1], output, step, NULL);
    _exit(77);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(killed_trainings_go_on) {
  char whole[512], killed[512], checkpoint[600];
  snprintf(whole, sizeof whole, "%s", scratch_path("whole.safetensors"));
  snprintf(killed, sizeof killed, "%s", scratch_path("killed.safetensors"));
  snprintf(checkpoint, sizeof checkpoint, "%s.training", killed);
  must(0, train(TRAIN, "-o", whole, HOW, "-j", "1", NULL), "30 steps");
  kill_at(killed, "1");
  kill_at(killed, "17");
  assert_int_equal(access(killed, F_OK), -1);
  assert_int_equal(access(checkpoint, F_OK), 0);
  must(0, train(TRAIN, "-o", killed, HOW, "-j", "2", NULL), "14 of them");
  assert_int_equal(access(checkpoint, F_OK), -1);
  same_bytes(whole, killed);
}

TEST(a_checkpoint_is_of_one_training) {
  char path[512], checkpoint[600];
  snprintf(path, sizeof path, "%s", scratch_path("other.safetensors"));
  snprintf(checkpoint, sizeof checkpoint, "%s.training", path);
  kill_at(path, "5");
  refused(2, train(TRAIN, "-o", path, HOW, "--seed", "1", NULL),
          "is of a training with other parameters or traces");
  FILE *f = fopen(checkpoint, "r+b");
  fseek(f, 600, SEEK_SET);
  fputc(1, f);
  fclose(f);
  refused(3, train(TRAIN, "-o", path, HOW, NULL), "is no whole checkpoint");
  unlink(checkpoint);
}

/* --- what a file says of itself
 * --------------------------------------------------- */

static const char *said_of(kv_st *file, const char *key) {
  const char *text = kv_st_meta(file, key);
  return text ? text : "nothing";
}

TEST(files_say_whether_there_were_references) {
  static const char *const spec[2] = {
      "deltakv:latent=4:hidden=6", "deltakv:latent=4:hidden=6:references=none"};
  static const char *const want[2][3] = {{"nothing", "10", "4"},
                                         {"none", "nothing", "nothing"}};
  static const char *const key[3] = {"trained_references", "trained_stride",
                                     "trained_k"};
  for (int i = 0; i < 2; i++) {
    const char *path = scratch_path("says.safetensors");
    kv_st *file;
    must(0,
         train("train", "-q", spec[i], training_trace[0], "--steps", "2", "-o",
               path, NULL),
         "2 steps");
    assert_int_equal(kv_st_open(path, &file, NULL), KV_OK);
    for (int j = 0; j < 3; j++)
      assert_string_equal(said_of(file, key[j]), want[i][j]);
    kv_st_close(file);
  }
}

/* --- bad input
 * -------------------------------------------------------------------- */

/* Without the frequencies of its rotation. */
static void unturned(void) {
  field none = right_fields[0];
  none.name = "rope.inv_freq";
  none.rank = -1;
  tracefile_write(NULL, 1, &none, 0);
}

/* Without LAPACK nothing is said of what is asked but that there is none. */
static void of_directions(const char *out) {
  bool can = kv_spectrum_can();
  refused(
      can ? 2 : 4,
      train("train", "-q", "palu:heads=3", training_trace[0], "-o", out, NULL),
      can ? "groups of 3 KV heads do not divide the 2" : "without LAPACK");
  refused(
      can ? 2 : 4,
      train("train", "-q", "palu:turn=3", training_trace[0], "-o", out, NULL),
      can ? "turn=3 is no power of two" : "without LAPACK");
}

TEST(what_is_wrong_is_one_sentence) {
  char out[512], wide[512];
  kv_synth s = training_small(9);
  snprintf(out, sizeof out, "%s", scratch_path("bad.safetensors"));
  s.like.d = 16;
  training_write(&s, "wide.safetensors", wide);
  refused(2, train("train", "-q", "deltakv", "-o", out, NULL),
          "there is no trace to train on");
  refused(2,
          train("train", "-q", "deltakv", training_trace[0], "-o", "w", NULL),
          "call the output NAME.safetensors");
  refused(2, train("train", "-q", "delta", training_trace[0], "-o", out, NULL),
          "no method that is trained delta; did you mean deltakv?");
  refused(
      2,
      train("train", "-q", "deltakv:k=0", training_trace[0], "-o", out, NULL),
      "k=0 is not in range");
  refused(
      2,
      train("train", "-q", "deltakv:x=1", training_trace[0], "-o", out, NULL),
      "training deltakv has no parameter x");
  refused(2,
          train("train", "-q", "deltakv:back=3", training_trace[0], "-o", out,
                NULL),
          "back=3 is of the compressor gelu");
  refused(2,
          train("train", "-q", "deltakv:references=none:stride=5",
                training_trace[0], "-o", out, NULL),
          "stride=5 is of references, and references=none has none");
  refused(2,
          train("train", "-q", "deltakv:references=none:k=2", training_trace[0],
                "-o", out, NULL),
          "k=2 is of references");
  refused(2,
          train("train", "-q", "deltakv", training_trace[0], "-o", out,
                "--hold-out", training_trace[0], NULL),
          "is trained on and held out");
  refused(2,
          train("train", "-q", "deltakv", training_trace[0], "-o", out,
                "--rate", "2", NULL),
          "--rate 2 is no number above 0 and up to 1");
  refused(
      3,
      train("train", "-q", "deltakv", training_trace[0], wide, "-o", out, NULL),
      "one file of weights is for one model");
  of_directions(out);
  unturned();
  refused(3, train("train", "-q", "deltakv", tracefile, "-o", out, NULL),
          "has no RoPE frequencies");
  refused(4,
          train("train", "-q", "deltakv", training_trace[0], "-o",
                "/nowhere/at/all.safetensors", NULL),
          "/nowhere/at/all.safetensors");
}

int main(int argc, char **argv) {
  if (argc == 5) return train_and_die(argv + 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_trainings_go_on),
      cmocka_unit_test(a_checkpoint_is_of_one_training),
      cmocka_unit_test(files_say_whether_there_were_references),
      cmocka_unit_test(what_is_wrong_is_one_sentence)};
  return cmocka_run_group_tests_name("training", tests, training_make,
                                     scratch_remove);
}
