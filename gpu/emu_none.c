/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor of a program that was built without a C++ compiler: none. The
 * sibling is emu.cc.
 */
#include "gpu/device.h"

#include <stddef.h>

const kv_device *kv_device_emu(void) { return NULL; }
