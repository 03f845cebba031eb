/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether a plugin keeps the laws: those of sim/run/laws/law.h, and some
 * that only matter for other people's code:
 *
 *   hooks    hooks return, use the verbs correctly, write only memory that they
 *            may write, and keep no memory, thread or process
 *   modes    hooks, and loading, leave the floating-point mode unchanged
 *   needs    open gives the same needs again for the same parameters
 *   budget   some layer stores, after the prompt, or attends, not counting a
 *            step's own token, at most a budget of entries a lane on average
 *            (not checked for budgets under 48, which pages may exceed)
 *   process  another process, with other memory addresses, finds the same
 *
 * A method may crash, hang or write anywhere, so every check runs in a child
 * process (ref/ground/child.h) with its hooks wrapped (sim/run/laws/fence.h).
 * The caller must have started neither threads, its own or OpenMP's, nor other
 * children. If `stop` returns true, the child is killed within a second and
 * KV_RESOURCE returned; an unfinished file remains as a temporary file in the
 * same folder.
 */
#ifndef KV_SIM_LAWCHECK_H
#define KV_SIM_LAWCHECK_H

#include "sim/ask/spec.h"

/* The name of law number `index`, of both kinds, in the order in which to check
 * them; NULL past the end. And the statement of the law with a name, or NULL.
 */
const char *kv_lawcheck_law(int index);
const char *kv_lawcheck_statement(const char *law);

/* The name of synthetic trace number `index`, made:NAME; NULL past the end. */
const char *kv_lawcheck_synthetic(int index);
/* Its number of tokens; 0: no trace has that name. */
int kv_lawcheck_tokens(const char *name);

/* Polled about twenty times a second while a child works; true ends it. */
typedef bool kv_lawcheck_stop(void);

/* One law to check on one cell. */
typedef struct kv_lawcheck {
  const char *law;     /* its name, which exists */
  const char *trace;   /* path of a trace, or made:NAME */
  const char *file;    /* for made:NAME, what kv_lawcheck_make wrote; else
                          NULL */
  const kv_spec *spec; /* the method and its parameters */
  int entries;         /* the budget in entries a lane, if the specification has
                          none; -1: none */
  int prompt_len;      /* tokens; 0: the trace's own */
  int seconds;         /* most seconds that one call of a hook may take */
  kv_lawcheck_stop *stop; /* or NULL */
} kv_lawcheck;

/* The answer. */
typedef struct kv_lawcheck_said {
  char law[16]; /* the law that e is about: a crash may break another one */
  kv_err e; /* KV_OK: holds; KV_DIFFERENT: broken; KV_REFUSED: the cell cannot
               run, or the law does not apply to it; others: not checked */
} kv_lawcheck_said;

/* Writes the synthetic trace made:NAME to a file, in a child. KV_USAGE: no
 * trace has that name. KV_RESOURCE: disk, memory, or stopped. */
kv_rc kv_lawcheck_make(const char *name, const char *file,
                       kv_lawcheck_stop *stop, kv_err *e);

/* Checks one law in a child, or two for `process`. KV_OK: the answer is in
 * *out; KV_RESOURCE: no child could be made, or stopped. */
kv_rc kv_lawcheck_ask(const kv_lawcheck *c, kv_lawcheck_said *out, kv_err *e);

#endif
