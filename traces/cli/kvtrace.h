/* SPDX-License-Identifier: Apache-2.0
 *
 * The program kvtrace: verbs in one table, each with its options in a table
 * that serves the parser, --help, and whoever generates pages from it.
 *
 * A verb prints data to stdout and returns an exit code; its sentence, if it
 * fails, is printed by main, so that there is one place that prints errors.
 */
#ifndef KV_TRACES_KVTRACE_H
#define KV_TRACES_KVTRACE_H

#include <stdbool.h>

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"

typedef struct kv_flag {
  const char *name;     /* without the dashes */
  char letter;          /* short form, or 0 */
  const char *argument; /* what follows it, or NULL: nothing */
  const char *group;    /* heading in the help */
  const char *help;
} kv_flag;

enum { KV_FLAGS_MOST = 20 };

typedef struct kv_verb_call {
  int n_paths;
  const char **path;                /* positional arguments */
  const char *value[KV_FLAGS_MOST]; /* by place in the table; NULL: absent;
                                       "" for a flag without argument */
} kv_verb_call;

typedef struct kv_verb {
  const char *name, *summary, *usage;
  const char *const *examples; /* NULL-ended */
  const kv_flag *flags;        /* ends with a NULL name */
  kv_rc (*run)(const kv_verb_call *call, kv_err *e);
  const char *notes; /* lines behind the options, or NULL */
} kv_verb;

extern const kv_verb kv_verb_info, kv_verb_check, kv_verb_convert,
    kv_verb_synth;
extern const kv_verb *const kv_verbs[]; /* NULL-ended */

/* Fills call from the arguments behind the verb. path must have room for n
 * pointers. KV_USAGE names the nearest option. */
kv_rc kv_flags_parse(const kv_verb *verb, int n, char *const *arguments,
                     const char **path, kv_verb_call *call, kv_err *e);

/* Value of the named flag; the name must be in the verb's table. */
const char *kv_flag_value(const kv_verb *verb, const kv_verb_call *call,
                          const char *name);

/* --format table|json: 0 or 1. */
kv_rc kv_flag_format(const kv_verb *verb, const kv_verb_call *call, int *json,
                     kv_err *e);

/* --dtype F16|BF16|F32, in letters of any size; *any: it was given. */
kv_rc kv_flag_dtype(const kv_verb *verb, const kv_verb_call *call, bool *any,
                    kv_dtype *out, kv_err *e);

/* What ends a program that writes goes to the handler, and a file too large
 * is a failed write. */
void kv_catch_signals(void (*handler)(int number));

/* Ends what kv_json_begin began: prints the text that was made of trace path,
 * and frees it. NULL, or memory that failed on the way: nothing is printed. */
kv_rc kv_print_json(const char *path, char *text, kv_err *e);

/* The best kernels, or those KVREPLAY_ISA asks for; a fallback is said on
 * stderr. */
kv_rc kv_choose_kernels(const kv_kernels **out, kv_err *e);

#endif
