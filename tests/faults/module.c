/* SPDX-License-Identifier: Apache-2.0
 *
 * A module in place of the CUDA one, for check_module.c. KV_FAKE_MODULE says
 * what it does: good, old (of another interface), refuse (there is no
 * device). It may be opened once.
 */
#include "gpu/shared/device.h"

#include <stdlib.h>
#include <string.h>

const kv_device *kv_device_module(const char **why);

static kv_device device = {.abi = KV_DEVICE_ABI, .name = "fake"};

const kv_device *kv_device_module(const char **why) {
  static int times;
  const char *fake = getenv("KV_FAKE_MODULE");
  if (times++ > 0) abort();
  if (strcmp(fake, "old") == 0) device.abi = KV_DEVICE_ABI + 1;
  if (strcmp(fake, "refuse") != 0) return &device;
  *why = "there is no such device today";
  return NULL;
}
