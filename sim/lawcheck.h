/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking whether somebody's method keeps the laws: those of sim/law.h, and
 * three that only matter for strangers:
 *
 *   hooks   hooks return, use the verbs as they may be used, write no memory
 *           but what they asked for, keep none that they allocated
 *   needs   open says the same again for the same parameters
 *   budget  some layer stores, after the prompt, or attends at most a budget
 *           of entries a lane (not asked of budgets under 48, which pages
 *           may exceed)
 *
 * A method may crash, hang or write anywhere, so every question is asked in a
 * child process, between fences (sim/fence.h). The caller must not have begun
 * threads, of OpenMP or its own. Where `stop` says so the child is ended
 * within a second, and KV_RESOURCE returned; what it had begun to write lies
 * beside the file that it was to write.
 */
#ifndef KV_SIM_LAWCHECK_H
#define KV_SIM_LAWCHECK_H

#include "sim/spec.h"

/* The index-th law by name, in the order to ask in, and its statement; NULL
 * past the end. */
const char *kv_lawcheck_law(int index);
const char *kv_lawcheck_statement(const char *law);

/* Traces made for the purpose are named made:NAME; NULL past the end. */
const char *kv_lawcheck_made(int index);
/* How many tokens one has; 0: none is called so. */
int kv_lawcheck_tokens(const char *name);

typedef bool kv_lawcheck_stop(void);

typedef struct kv_lawcheck {
  const char *law;
  const char *trace; /* a file, or made:NAME */
  const char *file;  /* where a made one lies (kv_lawcheck_make); else NULL */
  const kv_spec *spec;
  int entries; /* the budget, where the specification has none; -1: none */
  int prompt_len;
  kv_lawcheck_stop *stop;
} kv_lawcheck;

typedef struct kv_lawcheck_said {
  char law[16]; /* which law rc is about: a crash breaks another than asked */
  kv_err e;     /* KV_OK: holds; KV_DIFFERENT: broken; KV_REFUSED: no cell;
                   others: it could not be asked */
} kv_lawcheck_said;

/* Writes a made trace to a file, in a child. */
kv_rc kv_lawcheck_make(const char *name, const char *file,
                       kv_lawcheck_stop *stop, kv_err *e);

/* KV_OK: *out says; else there was no child to ask. */
kv_rc kv_lawcheck_ask(const kv_lawcheck *c, kv_lawcheck_said *out, kv_err *e);

#endif
