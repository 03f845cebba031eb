/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels and threads: traces/option/kernels.h.
 */
#include "config.h"

#include "traces/option/kernels.h"

#include "ref/ground/threads.h"
#include <omp.h>
#include <stdlib.h>

#ifdef HAVE_BLIS
#  define BLIS "yes"
#else
#  define BLIS "no"
#endif

kv_rc kv_choose_kernels(const kv_kernels **out, kv_err *e) {
  char note[128] = "";
  const char *name = getenv("KVREPLAY_ISA");
  *out = kv_kernels_best();
  if (!name || !*name) return KV_OK;
  kv_rc rc = kv_kernels_named(name, out, note, e);
  if (!rc && note[0]) kv_note(note);
  return rc;
}

int kv_choose_threads(int jobs) {
  static bool told;
  char note[160];
  int wanted = jobs ? jobs : omp_get_num_procs();
  int can = kv_threads_can(wanted);
  if (can < wanted && !told) {
    snprintf(note, sizeof note,
             "only %d of %d threads can be made (ulimit -u, or the machine's "
             "limit); slower, but with the same numbers",
             can, wanted);
    kv_note(note);
    told = true;
  }
  return can;
}

kv_rc kv_version_kernels(size_t size, char *lines, kv_err *e) {
  const kv_kernels *k;
  kv_rc rc = kv_choose_kernels(&k, e);
  if (!rc)
    snprintf(lines, size, "ISA       %s\nCUDA      no\nBLIS      " BLIS "\n",
             k->name);
  return rc;
}
