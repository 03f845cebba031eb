/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests in C: the order in which the executor runs threads and blocks.
 */
#include "gpu/block/launch.h"

extern "C" void order_of_threads(int reverse) { kv_emu_order(reverse); }
