/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws: properties that every method must have, whatever it decides, as one
 * table. A law checks a replay of one case from outside (lanes, views, journal
 * words, digests) and has no branch on a method. Tests run the laws on every
 * method of the registry; `kvreplay lawcheck` runs them on any method.
 *
 * Checking replays the case, at most a few times, on one thread unless the law
 * is about threads. It allocates, and is not meant for long traces: laws that
 * interpret the journal cost O(entries) for each memory operation. Laws checked
 * in one call share replays: all laws about lanes and views use one.
 */
#ifndef KV_SIM_LAW_H
#define KV_SIM_LAW_H

#include "sim/replay/engine/cell.h"

/* What a law is checked on. */
typedef struct kv_law_case {
  const kv_backend *backend; /* replays the case */
  const kv_trace *trace;     /* open; borrowed */
  const kv_spec *spec;       /* the method and its parameters; borrowed */
  int entries;    /* entries a lane, if the specification has no budget; -1:
                     none */
  int prompt_len; /* tokens after which decoding begins; 0: the trace's own */
  /* Output digest of dense on this trace and backend, if known (kv_law_dense);
   * NULL: a law that needs it replays dense. */
  const kv_digest *dense;
  /* Number of rows of probabilities that the calling thread has computed so
   * far, for a backend that does not use the given kernels; else NULL. */
  int64_t (*rows)(void);
} kv_law_case;

/* A law; both texts are constants. */
typedef struct kv_law {
  const char *name;      /* one word, as --law takes it */
  const char *statement; /* what holds, in one sentence without a period */
} kv_law;

/* Law number `index`, NULL past the end; and the index of a law by name, or -1.
 */
const kv_law *kv_law_at(int index);
int kv_law_named(const char *name);

/* Checks the laws whose bits are set (1 << index). KV_OK: at least one can be
 * checked on this case, and all that can be hold. KV_DIFFERENT: law *broken is
 * broken, and the sentence says where. KV_REFUSED: the cell cannot run, or no
 * law can be checked. Other codes: the check itself failed, for example without
 * memory. Unless KV_OK, *broken is the law that ended it. */
kv_rc kv_law_ask(const kv_law_case *c, uint32_t laws, int *broken, kv_err *e);

/* Opens a synthetic trace for the laws, with the scale of its logits divided by
 * four. Otherwise some probabilities could be below 2^-41, which top-p with p =
 * 1 leaves out, and it would rightly differ from dense. Codes and closing as
 * for kv_trace_open. */
kv_rc kv_law_open(const char *path, kv_trace **out, kv_err *e);

/* Replays dense on the case's trace and backend. *out: its output digest. Codes
 * as for kv_law_ask. */
kv_rc kv_law_dense(const kv_law_case *c, kv_digest *out, kv_err *e);

#endif
