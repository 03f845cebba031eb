/* SPDX-License-Identifier: Apache-2.0
 *
 * The sets of row kernels that this machine can run.
 */
#ifndef KV_TESTS_SETS_H
#define KV_TESTS_SETS_H

#include "ref/kernels/kernels.h"

/* All there are, from the plainest to the best; NULL past the end. */
extern const char *const set_names[];

enum { MOST_SETS = 3 };
extern const kv_kernels *sets[MOST_SETS];
extern int n_sets;

/* Group setup of cmocka: finds them, and names them in the output. */
int find_sets(void **state);

#endif
