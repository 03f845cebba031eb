/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands in the place of tokens, on the executor: the worked cases and
 * laws of the methods that store latent vectors, a state of low rank, means or
 * codes, with the threads of a warp forwards and, in a second process,
 * backwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/shared/device.h"
#include "tests/support/rig_cases.h"

static int all(const char *order) {
  static const char *const methods[] = {"less",    "deltakv", "palu",
                                        "zsmerge", "kivi",    "hardkv"};
  int failed = 0;
  setenv("KVREPLAY_EMU_ORDER", order, 1);
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    failed += rig_cases(methods[i]) != 0;
  return failed;
}

int main(void) {
  int status = 1;
  if (!kv_device_emu()) return 77;
  setenv("KV_TEST_BACKEND", "emu", 1);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) exit(all("reverse"));
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  int backwards = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return backwards + all("forward") != 0;
}
