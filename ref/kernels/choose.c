/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel sets that this machine can run. Contract: ref/kernels/kernels.h.
 * The sets are one list, best last; the fallback of a set is the next one down
 * that runs here. Detection includes the operating system's part (the
 * compilers' cpu_supports reads XGETBV). The best set is found once and then
 * costs a load: rows are read through it one by one, and in a virtual machine
 * cpuid exits to the host.
 */
#include "config.h"
#include "ref/kernels/kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

extern const kv_kernels kv_kernels_portable;

static int always(void) { return 1; }

#ifdef KV_HAVE_AVX2
#  include <cpuid.h>

extern const kv_kernels kv_kernels_avx2;

/* clang 14's cpu_supports has no name for F16C; AVX2 proves that the system
 * saves its registers. */
static int has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         has_f16c();
}
#endif

#ifdef KV_HAVE_AVX512
extern const kv_kernels kv_kernels_avx512;

static int has_avx512(void) {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
#endif

typedef struct set {
  const char *name;
  const kv_kernels *kernels; /* NULL: not in this build */
  int (*runs)(void);
} set;

static const set sets[] = {
    {"portable", &kv_kernels_portable, always},
#ifdef KV_HAVE_AVX2
    {"avx2", &kv_kernels_avx2, has_avx2},
#else
    {"avx2", NULL, NULL},
#endif
#ifdef KV_HAVE_AVX512
    {"avx512", &kv_kernels_avx512, has_avx512},
#else
    {"avx512", NULL, NULL},
#endif
};

enum { SETS = sizeof sets / sizeof sets[0] };

/* The best set at or below i; the first one always runs. */
static const set *best_from(int i) {
  while (!sets[i].kernels || !sets[i].runs()) i--;
  return &sets[i];
}

/* Any thread finds the same answer, so racing writes agree. */
const kv_kernels *kv_kernels_best(void) {
  static const kv_kernels *_Atomic known;
  const kv_kernels *k = atomic_load_explicit(&known, memory_order_relaxed);
  if (k) return k;
  k = best_from(SETS - 1)->kernels;
  atomic_store_explicit(&known, k, memory_order_relaxed);
  return k;
}

kv_rc kv_kernels_named(const char *name, const kv_kernels **out, char *note,
                       kv_err *e) {
  int i = 0;
  while (i < SETS && strcmp(sets[i].name, name) != 0) i++;
  if (i == SETS)
    return kv_fail(
        e, KV_USAGE,
        "no kernel set is called \"%.40s\"; choose portable, avx2 or avx512",
        name);
  *out = best_from(i)->kernels;
  if (note) {
    note[0] = 0;
    if (strcmp((*out)->name, name) != 0)
      snprintf(note, 128, "this machine cannot run the %s kernels: using %s",
               name, (*out)->name);
  }
  return KV_OK;
}
