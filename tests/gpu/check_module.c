/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the CUDA module's loading: what is missing or wrong is said in one
 * sentence that names it, the module is opened once, and a good one is used.
 * The modules are fakes (tests/faults/module.c), each in a process of its
 * own, for a process loads one.
 */
#include "gpu/shared/device.h"
#include "tests/support/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: asks twice; exit 0 if the answers are as wanted. */
static int answer(const char *want) {
  const char *why = NULL, *again = NULL;
  const kv_device *d = kv_device_cuda(&why);
  if (kv_device_cuda(&again) != d) return 2;
  if (!want) return d && !why && strcmp(d->name, "fake") == 0 ? 0 : 3;
  if (d || !why || again != why) return 4;
  if (strchr(why, '\n')) return 5;
  if (strstr(why, want)) return 0;
  fprintf(stderr, "'%s' is not in '%s'\n", want, why);
  return 6;
}

/* want: what the sentence holds; NULL: the module is used. */
static void loads(const char *module, const char *fake, const char *want) {
  pid_t child = fork();
  int status = -1;
  assert_true(child >= 0);
  if (child == 0) {
    setenv("KVREPLAY_CUDA_MODULE", module, 1);
    setenv("KV_FAKE_MODULE", fake, 1);
    _exit(answer(want));
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static char path[PATH_MAX];

TEST(missing) {
  loads("/nowhere/cuda.so", "good", "no CUDA module /nowhere/cuda.so");
}

TEST(not_a_module) {
  loads("/dev/null", "good", "cannot load the CUDA module");
}

TEST(no_device) { loads(path, "refuse", "there is no such device today"); }

TEST(another_interface) { loads(path, "old", "belongs to another kvreplay"); }

TEST(good) { loads(path, "good", NULL); }

int main(void) {
  const char *top = getenv("top_builddir");
  snprintf(path, sizeof path, "%s/tests/faults/.libs/module.so",
           top ? top : "..");
  return tests_run("module", NULL, NULL);
}
