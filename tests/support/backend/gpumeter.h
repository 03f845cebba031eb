/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend that does what `emu` or `cuda` does and measures it: for each store
 * and phase, what it asks of the device, and how long that takes. Used by the
 * table of counters (tests/check_gpu_counters.sh) and by theme replay of the
 * device benchmark. One thread works with it; a second gpumeter_backend
 * replaces the first.
 *
 * Memory of a trace that stores share, its rows too, is of the store that first
 * needs it. Recorded sequences are made in the phase that first runs them.
 */
#ifndef KV_TESTS_GPUMETER_H
#define KV_TESTS_GPUMETER_H

#include "gpu/shared/device.h"
#include "ref/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gpumeter_phase {
  GPUMETER_OPEN,   /* a store opens and closes, a layer begins */
  GPUMETER_PROMPT, /* from the first token of a prompt to its compression */
  GPUMETER_DECODE, /* decode steps, and the end of a layer */
  GPUMETER_PHASES
} gpumeter_phase;
extern const char *const gpumeter_phases[GPUMETER_PHASES]; /* "open", .. */

/* Of the executor, as kv_emu_count has them (gpu/emu/emu.h). */
enum { GPUMETER_KERNELS = 4 };

typedef struct gpumeter_count {
  int64_t waits;      /* for the device: wait, put and get */
  int64_t copies;     /* put, get, fetch */
  int64_t sent, read; /* bytes to the device, and from it */
  uint64_t kernels[GPUMETER_KERNELS];
  /* Seconds, 0 without a clock. device: between the clock's marks, which are
   * around what each call of the backend starts. host: of these calls, without
   * waiting for the device. Both may pass at the same time. */
  double device, host;
} gpumeter_count;

/* Marks in the device's stream. mark(i): number i, below GPUMETER_MARKS, behind
 * what was started so far; seconds(i, j): between two, once the device has
 * been waited for. */
enum { GPUMETER_MARKS = 512 };
typedef struct gpumeter_clock {
  void (*mark)(int i);
  double (*seconds)(int i, int j);
} gpumeter_clock;

/* `real` with its device, measured. near: as kv_device.near, 0 to copy as from
 * a device's memory. clock NULL: no times. kernels NULL: none; else fills in
 * what kernels have cost so far. */
const kv_backend *gpumeter_backend(const kv_backend *real,
                                   const kv_device *device, int near,
                                   const gpumeter_clock *clock,
                                   void (*kernels)(uint64_t *of));
/* [GPUMETER_PHASES] of the store that was last opened with this plan, after it
 * was closed; NULL: there was none, or a plan too many (256). */
const gpumeter_count *gpumeter_of(const kv_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
