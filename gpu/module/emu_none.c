/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces emu.cc in a program built without the executor.
 */
#include "gpu/shared/device.h"

#include <stddef.h>

const kv_device *kv_device_emu(void) { return NULL; }
