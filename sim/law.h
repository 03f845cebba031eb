/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws: what every method must keep, whatever it decides, as one table.
 * A law looks at a replay of one case from outside - lanes, views, journal
 * words, digests - and knows no method by name. Tests run it over every
 * method of the registry; anyone can run it over a method of his own.
 *
 * Asking replays the case, a few times at most, with one thread unless the
 * law is about threads; it allocates and is not meant for long traces: laws
 * that interpret the journal cost O(entries) a verb. Laws asked for together
 * share what they can: all of lanes and views look at one replay.
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
  /* The output of dense on this trace and backend, where it is known
   * (kv_law_dense); NULL: it is replayed when a law needs it. */
  const kv_digest *dense;
  /* Rows of probabilities that the calling thread has had computed so far,
   * for a backend that does not compute them by the kernels it is given. */
  int64_t (*rows)(void);
} kv_law_case;

typedef struct kv_law {
  const char *name;
  const char *statement; /* one sentence */
} kv_law;

/* The index-th law, NULL past the end; the index of a name, -1: there is no
 * such law. */
const kv_law *kv_law_at(int index);
int kv_law_named(const char *name);

/* Asks the laws whose bits are set, 1 << index. KV_OK: they hold.
 * KV_DIFFERENT: law *broken is broken, the sentence says where. KV_REFUSED:
 * the cell cannot run, so there is nothing to look at. Others: it could not be
 * asked. *broken: an index, -1 where they hold. */
kv_rc kv_law_ask(const kv_law_case *c, uint32_t laws, int *broken, kv_err *e);

/* Opens a made trace to be asked about, its logits scaled to a few units: where
 * a probability is below 2^-41, top-p with p = 1 rightly leaves its token out,
 * and is not dense to the bit. */
kv_rc kv_law_open(const char *path, kv_trace **out, kv_err *e);

/* The output of dense on the case's trace and backend. */
kv_rc kv_law_dense(const kv_law_case *c, kv_digest *out, kv_err *e);

#endif
