/* SPDX-License-Identifier: Apache-2.0
 *
 * Why the CUDA module has no device, in one sentence that says what to do; part
 * of gpu/module/cuda.cu, on the host. Sentences are in static memory.
 */
#ifndef KV_GPU_MODULE_NO_DEVICE_CUH
#define KV_GPU_MODULE_NO_DEVICE_CUH

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

/* The driver's own version, as 550.54.14: the first word with a dot of what its
 * module says to the system; "" where it says nothing. */
static const char *driver_version() {
  static char line[256];
  FILE *f = fopen("/proc/driver/nvidia/version", "r");
  const char *said = f ? fgets(line, sizeof line, f) : nullptr;
  if (f) fclose(f);
  for (char *w = said ? strtok(line, " \n") : nullptr; w;
       w = strtok(nullptr, " \n"))
    if (*w >= '0' && *w <= '9' && strchr(w, '.')) return w;
  return "";
}

/* Of cudaErrorInsufficientDriver: that there is no driver (it reports version
 * 0), or that it is too old. */
static const char *no_driver() {
  int knows = 0, runtime = CUDART_VERSION;
  static char said[320];
  cudaDriverGetVersion(&knows);
  if (knows == 0)
    return "there is no CUDA driver on this machine: install NVIDIA's driver";
  const char *own = driver_version();
  snprintf(said, sizeof said,
           "the CUDA driver%s%s is too old: it knows CUDA %d.%d and this build "
           "needs %d.0, so update the driver, or build with a toolkit of CUDA "
           "%d (--with-cuda=DIR)",
           own[0] ? " " : "", own, knows / 1000, knows % 1000 / 10,
           runtime / 1000, knows / 1000);
  return said;
}

/* The sentence, for what opening a device returned (cudaSuccess: there are no
 * devices); meaning: what the code says, as a sentence has it. */
static const char *no_device(cudaError_t code, const char *meaning) {
  static char said[512];
  if (code == cudaErrorInsufficientDriver) return no_driver();
  if (code == cudaSuccess || code == cudaErrorNoDevice)
    return "there is no CUDA device that the driver lets this process see";
  snprintf(said, sizeof said, "CUDA cannot be used: %s (%s)", meaning,
           cudaGetErrorName(code));
  return said;
}

#endif
