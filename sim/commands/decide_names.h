/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of decisions files. A name tells the trace, the method, the parameters
 * that are not at their defaults, and the budget:
 * haystack_8.quest.page=8-b152. If two traces have one name, the names of
 * their folders come first, as many as tell them apart: a.chat.h2o-b64 and
 * b.chat.h2o-b64; what still is equal is numbered: -2, -3. Names have letters,
 * digits and ._-=+ only, at most some 230 bytes; a longer text is cut and ends
 * in eight digits of its SHA-256. They depend on the command line alone.
 */
#ifndef KV_SIM_DECIDE_NAMES_H
#define KV_SIM_DECIDE_NAMES_H

#include "sim/sweep/batch.h"

enum { KV_NAME_PART = 100, KV_DECIDE_NAME = 2 * KV_NAME_PART + 48 };

typedef struct kv_decide_name {
  char text[KV_DECIDE_NAME]; /* without folder and suffix */
} kv_decide_name;

/* Names the cells of batch b, which is of the at-th (from 0) of the n traces
 * path[] of the command line, into out[0..b->cells). All names of a command
 * line differ. KV_RESOURCE: memory. */
kv_rc kv_decide_names(const char *const *path, int n, int at, const kv_batch *b,
                      kv_decide_name *out, kv_err *e);

/* Turns text into a part of a file name: what it may not have becomes a dash,
 * what is too long is cut as said above. Returns out. */
const char *kv_name_part(const char *text, char out[KV_NAME_PART]);

/* Writes the part of the name that tells the i-th of the n traces path[] from
 * the others: the file's name without suffix, with as many folders before it as
 * it takes. Cannot fail. */
void kv_name_among(const char *const *path, int n, int i,
                   char out[KV_NAME_PART + 8]);

#endif
