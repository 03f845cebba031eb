/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the files that `kvreplay run --decisions` writes. A name tells
 * the trace, the method, the parameters that are not at their defaults (all of
 * them where these alone are not enough), and the budget in entries, or, of a
 * budget a layer, the digits of its list: haystack_8.quest.page=8-b152. Where
 * two traces have one name, the names of their folders come first, as many as
 * tell them apart: a.chat.h2o-b64, b.chat.h2o-b64; what still is equal is
 * numbered -2, -3. Names depend on the command line and its traces alone; they
 * have letters, digits and ._-=+, only, and are cut to about 230 bytes, a cut
 * part ending in eight digits of its SHA-256.
 */
#ifndef KV_SIM_DECIDE_NAMES_H
#define KV_SIM_DECIDE_NAMES_H

#include "sim/sweep/batch.h"

/* Bytes, the end included: of a trace's or a method's part, of a name. */
enum { KV_NAME_PART = 100, KV_DECIDE_NAME = 2 * KV_NAME_PART + 48 };

typedef struct kv_decide_name {
  char text[KV_DECIDE_NAME]; /* without folder and suffix */
} kv_decide_name;

/* Names the cells of the open batch b into out[0 .. b->cells - 1]; b is of the
 * at-th (from 0) of the n traces path[] of the command line. All names of one
 * command line differ. KV_RESOURCE: memory. */
kv_rc kv_decide_names(const char *const *path, int n, int at, const kv_batch *b,
                      kv_decide_name *out, kv_err *e);

#endif
