/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel sets of this machine: tests/support/sets.h.
 */
#include "tests/support/sets.h"
#include "tests/support/test.h"

#include <string.h>

const char *const set_names[] = {"portable", "avx2", "avx512", NULL};
const kv_kernels *sets[MOST_SETS];
int n_sets;

int find_sets(void **state) {
  (void)state;
  for (int i = 0; set_names[i]; i++) {
    const kv_kernels *k = NULL;
    if (kv_kernels_named(set_names[i], &k, NULL, NULL)) return -1;
    if (strcmp(k->name, set_names[i]) != 0) continue; /* a lower one */
    sets[n_sets++] = k;
    print_message("set %s\n", k->name);
  }
  return 0;
}
