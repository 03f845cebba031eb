/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws: what every method must keep, whatever it decides, as one table.
 * A law looks at a replay of one case from outside - lanes, views, journal
 * words, digests - and knows no method by name. Tests run it over every
 * method of the registry; anyone can run it over a method of his own.
 *
 * A check replays the case, once or a few times, with one thread unless the
 * law is about threads; it allocates and is not meant for long traces: laws
 * that interpret the journal cost O(entries) a verb.
 */
#ifndef KV_SIM_LAW_H
#define KV_SIM_LAW_H

#include "sim/cell.h"

/* What a law is asked about. */
typedef struct kv_law_case {
  const kv_backend *backend;
  const kv_trace *trace;
  const kv_spec *spec;
  int entries;    /* the budget, where the specification has none; -1: none */
  int prompt_len; /* 0: the trace's own */
} kv_law_case;

typedef struct kv_law {
  const char *name;
  const char *statement; /* one sentence */
  /* KV_OK: it holds. KV_DIFFERENT: broken, the sentence says where.
   * KV_REFUSED: the cell cannot run, so there is nothing to look at. Others:
   * the check could not be made. */
  kv_rc (*check)(const kv_law_case *c, kv_err *e);
} kv_law;

/* The index-th law, NULL past the end. */
const kv_law *kv_law_at(int index);

#endif
