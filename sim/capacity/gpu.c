/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of devices: sim/capacity/gpu.h.
 */
#include "sim/capacity/gpu.h"

#include <string.h>

#include "traces/option/option.h"

#include "sim/capacity/gpus_csv.h"

enum { GPUS = sizeof table / sizeof *table };

const char *kv_gpu_name(int i) { return i < GPUS ? table[i].name : NULL; }

kv_rc kv_gpu_find(const char *name, const kv_gpu **out, kv_err *e) {
  const char *names[GPUS];
  for (int i = 0; i < GPUS; i++) {
    names[i] = table[i].name;
    *out = &table[i];
    if (strcmp(name, names[i]) == 0) return KV_OK;
  }
  *out = NULL;
  return kv_no_such("GPU", name, GPUS, names,
                    "`kvreplay capacity --help` names those that are known", e);
}
