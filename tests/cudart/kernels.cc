/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts of the executor's kernels go through the runtime of cudart.h, in the
 * words that gpu/block/launch.h has for nvcc. The linker puts this in the place
 * of kv_emu_run (--wrap), by the name that C++ gives it.
 */
#include "gpu/block/launch.h"
#include "tests/cudart/cudart.h"

#define RUN(prefix) prefix##_Z10kv_emu_runPK13kv_emu_launch

extern "C" bool kv_gpu_starts(int *tries);
extern "C" void RUN(__real_)(const kv_emu_launch *launch);
extern "C" void RUN(__wrap_)(const kv_emu_launch *launch);

static bool replaying;

extern "C" void RUN(__wrap_)(const kv_emu_launch *launch) {
  for (int tries = 0; !replaying && kv_gpu_starts(&tries);)
    if (cudart_starts()) RUN(__real_)(launch);
  if (replaying) RUN(__real_)(launch);
}

void cudart_record(void) { kv_emu_record(); }
void *cudart_recorded(void) { return kv_emu_recorded(); }
void cudart_forget(void *recorded) { kv_emu_forget((kv_emu_list *)recorded); }

void cudart_replay(const void *recorded) {
  replaying = true;
  kv_emu_replay((const kv_emu_list *)recorded);
  replaying = false;
}
