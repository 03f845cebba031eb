/* SPDX-License-Identifier: Apache-2.0
 *
 * A method that does everything. No published one uses all verbs on one lane;
 * this one keeps, merges, moves, reorders, codes and reclasses, one of them a
 * settling, as a hash of layer, lane and step says, so that the store's books
 * are looked at where verbs meet: coded groups that lose members, merged rows
 * among coded ones, columns that travel. Without parameters or budget. On the
 * executor it has a twin, tests/mad_twin.cc.
 */
#ifndef KV_TESTS_MAD_H
#define KV_TESTS_MAD_H

#include "ref/method.h"

enum { MAD_CODED = 4 }; /* entries that are coded together */

extern const kv_method mad_method;

#endif
