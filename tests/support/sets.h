/* SPDX-License-Identifier: Apache-2.0
 *
 * The sets of row kernels (portable, avx2, ..) that this machine can run, for
 * tests that compare all of them with the scalar definition.
 */
#ifndef KV_TESTS_SETS_H
#define KV_TESTS_SETS_H

#include "ref/kernels/kernels.h"

/* Names of all sets that exist, from the plainest to the fastest; NULL past the
 * last. */
extern const char *const set_names[];

/* Those that find_sets found here, in the same order. */
enum { MOST_SETS = 3 };
extern const kv_kernels *sets[MOST_SETS];
extern int n_sets;

/* Setup of a cmocka group: fills the two and prints the names. Returns 0. */
int find_sets(void **state);

#endif
