/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of gpu/ on a device: checked, then timed against ceilings of the
 * same run. Usage: device --help. What the themes share:
 * tests/bench/gpu/device.cuh. Linked with the kernels' objects,
 * gpu/module/cuda.cu and the archives of the replay; it needs the driver and
 * the C library and nothing else, no module beside it.
 *
 * Exit 0: every check held, whatever the goals; 1: one did not, or the device
 * failed; 2: usage; 77: there is no device.
 */
#include "commit.h"
#include "tests/bench/gpu/device.cuh"

#include "tests/bench/gpu/device_copy.cuh"
#ifdef KV_BENCH_CHECK_ONLY
#  include "tests/bench/gpu/device_emu.cuh"
#else
#  include "tests/bench/gpu/device_clock.cuh"
#endif
#include "tests/bench/gpu/device_attend.cuh"
#include "tests/bench/gpu/device_compact.cuh"
#include "tests/bench/gpu/device_compress.cuh"
#include "tests/bench/gpu/device_delta.cuh"
#include "tests/bench/gpu/device_kivi.cuh"
#include "tests/bench/gpu/device_paged.cuh"
#include "tests/bench/gpu/device_regular.cuh"
#include "tests/bench/gpu/device_replay.cuh"
#include "tests/bench/gpu/device_sort.cuh"

/* The ceilings are first: the others need them. */
static const theme themes[] = {{"copy", copy_check, copy_time},
                               {"attend", attend_check, attend_time},
                               {"top", top_check, top_time},
                               {"compress", compress_check, compress_time},
                               {"kivi", kivi_check, kivi_time},
                               {"compact", compact_check, compact_time},
                               {"paged", paged_check, paged_time},
                               {"regular", regular_check, regular_time},
                               {"delta", delta_check, delta_time},
                               {"replay", replay_check, replay_time}};

static int usage(FILE *to, int code) {
  fputs("usage: device [--csv FILE] [--quick] [--phases] [--theme NAME] "
        "[--help]\n"
        "Checks the CUDA kernels against plain loops on the host, then times\n"
        "them on the first visible device (CUDA_VISIBLE_DEVICES chooses).\n"
        "  --csv FILE    the table as CSV, too\n"
        "  --quick       little data, which a cache may hold: no verdicts\n"
        "  --phases      theme replay by method and phase, too\n"
        "  --theme NAME  that one and the ceilings: copy attend top compress "
        "kivi\n"
        "                compact paged regular delta replay (TMPDIR: 4 GiB)\n",
        to);
  return code;
}

static bool known(const char *name) {
  for (const theme &t : themes)
    if (strcmp(t.name, name) == 0) return true;
  return false;
}

static void run(bench *b, const char *only) {
  for (const theme &t : themes)
    if (!only || strcmp(only, t.name) == 0 || t.time == copy_time) {
      t.check(b);
      bench_fine(b);
      printf("checked   %s\n", t.name);
      fflush(stdout);
    }
  if (!bench_times && !b->quick) return;
  table_begin(b);
  for (const theme &t : themes) {
    if (!bench_times && t.time != replay_time) continue;
    if (!only || strcmp(only, t.name) == 0 || t.time == copy_time) t.time(b);
  }
}

int main(int argc, char **argv) {
  static bench b; /* too large for a stack */
  const char *only = nullptr, *csv = nullptr, *why = nullptr;
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (strcmp(argv[i], "--help") == 0) return usage(stdout, 0);
    if (strcmp(argv[i], "--quick") == 0)
      b.quick = true;
    else if (strcmp(argv[i], "--phases") == 0)
      b.phases = true;
    else if (strcmp(argv[i], "--csv") == 0 && more)
      csv = argv[++i];
    else if (strcmp(argv[i], "--theme") == 0 && more && known(argv[i + 1]))
      only = argv[++i];
    else
      return usage(stderr, 2);
  }
  b.dev = bench_device(&why);
  if (!b.dev) {
    fprintf(stderr, "device: %s\n", why);
    return 77;
  }
  if (csv && !(b.csv = fopen(csv, "w"))) bench_fail("cannot write %s", csv);
  bench_header(&b);
  printf("commit    %s\n", KV_COMMIT);
  run(&b, only);
  if (b.csv && fclose(b.csv)) bench_fail("cannot write %s", csv);
  return 0;
}
