/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests in C: the order in which the executor runs threads and blocks; and
 * a count of what kernels copy out of some memory, from the call of copies_of.
 */
#include "gpu/block/launch.h"
#include "gpu/emu/emu.h"

extern "C" void order_of_threads(int reverse) { kv_emu_order(reverse); }

extern "C" void copies_of(const void *from, size_t bytes) {
  kv_emu_touch(from, bytes);
}

/* copied, sectors, turns */
extern "C" void copies_made(uint64_t of[3]) {
  kv_emu_touched t = kv_emu_what_touched();
  of[0] = t.copied, of[1] = t.sectors, of[2] = t.turns;
}

/* launches, barriers, fmas, elements */
extern "C" void kernels_counted(uint64_t of[4]) {
  kv_emu_count c = kv_emu_counted();
  of[0] = c.launches, of[1] = c.barriers, of[2] = c.fmas, of[3] = c.elements;
}
