/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands as const tables. One kv_command describes a command: its options,
 * operands, examples, notes and work. The same table prints --help and makes
 * man page and completion (traces/option/help.h), so none of them can differ
 * from what the program does; traces/option/program.h runs it.
 *
 * An option stores its value into the command's own struct, at an offset. The
 * struct is zeroed or holds defaults before parsing. Texts point into argv.
 */
#ifndef KV_TRACES_OPTION_H
#define KV_TRACES_OPTION_H

#include "ref/ground/err.h"
#include "traces/container/apart.h"
#include <stdbool.h>

typedef enum kv_slot {
  KV_SLOT_END,    /* ends a table */
  KV_SLOT_FLAG,   /* bool */
  KV_SLOT_TEXT,   /* const char * */
  KV_SLOT_LIST,   /* kv_list: may be repeated */
  KV_SLOT_COUNT,  /* int, min..max */
  KV_SLOT_WIDE,   /* uint64_t */
  KV_SLOT_CHOICE, /* int: index into choices, then words; case is ignored */
  KV_SLOT_HELP    /* ends parsing; no slot */
} kv_slot;

/* What a command does with the file that an option or an operand names. No
 * output of a command may be an input or another output
 * (traces/container/apart.h). */
typedef enum kv_use {
  KV_USE_NONE, /* names no file */
  KV_USE_READ,
  KV_USE_KEPT,      /* a database: read and added to */
  KV_USE_CREATED,   /* created or replaced */
  KV_USE_SYNTHETIC, /* the same, and may replace a synthetic trace */
  KV_USE_INSTEAD,   /* made in place of the standard output; -: is that */
  KV_USE_FOLDER     /* a folder in which files are created */
} kv_use;

/* The i-th of some names that only the program knows; NULL past the last. */
typedef const char *kv_naming(int i);

typedef struct kv_option {
  kv_slot slot;
  const char *name;     /* without -- */
  int letter;           /* short form, 0 without one */
  const char *argument; /* its argument's name in help; NULL: no argument */
  const char *choices;  /* "table|json": for completion and KV_SLOT_CHOICE */
  kv_naming *words;     /* further ones; or NULL */
  int min, max;
  size_t offset;
  bool must;         /* KV_USAGE where it is not given */
  const char *group; /* heading in help; NULL: that of the option before */
  const char *help;  /* a phrase, no capital, no period */
  kv_use use;
} kv_option;

typedef struct kv_list {
  int n;
  const char **item; /* freed by kv_list_free */
} kv_list;

typedef struct kv_example {
  const char *line, *does;
} kv_example;

/* What a command does, in the order of the calls; NULL: nothing. self is the
 * command's struct, `size` zeroed bytes. */
typedef struct kv_task {
  size_t size;
  void (*begin)(void *self, int argc, char **argv); /* before parsing */
  kv_rc (*check)(void *self, kv_err *e); /* of what was typed, opens nothing */
  /* An error without a sentence was told before. *stopped: interrupted. */
  kv_rc (*work)(void *self, bool *stopped, kv_err *e);
  void (*interrupted)(void *self); /* says what an interrupt left */
  int (*conclude)(void *self);     /* after work: the exit code; NULL: 0 */
  void (*free)(void *self);        /* in any case; its kv_lists are freed */
} kv_task;

typedef struct kv_command {
  const char *name;     /* NULL: the program itself */
  const char *summary;  /* a phrase, for lists of commands */
  const char *operands; /* "TRACE..."; NULL without */
  kv_naming *words;     /* that complete an operand; NULL: files do */
  int least, most;      /* number of operands */
  size_t offset;        /* of the kv_list of operands, if there are any */
  kv_use use;           /* what is done with the operands' files */
  const kv_option *options;
  const kv_example *examples; /* ends with line NULL */
  const char *const *notes;   /* paragraphs; ends with NULL */
  const kv_task *task;
} kv_command;

typedef enum kv_asked {
  KV_ASKED_WORK,
  KV_ASKED_HELP,
  KV_ASKED_VERSION
} kv_asked;

/* --help and --version, part of every command. */
extern const kv_option kv_common_options[];

/* Parses a command line; argv[0] is the command's name. Options and operands
 * may be mixed; `--` ends options. KV_USAGE: one sentence. If help or the
 * version is asked for, nothing after it is checked. Free with kv_options_free,
 * also after a failure. Not thread-safe (getopt_long). */
kv_rc kv_options_parse(const kv_command *c, int argc, char **argv, void *values,
                       kv_asked *asked, kv_err *e);
void kv_options_free(const kv_command *c, void *values); /* the kv_lists */

/* KV_USAGE if, among the files of a parsed command and `more` further inputs
 * in[], an output is an input or another output. kv_options_parse checks this
 * for what it parsed. */
kv_rc kv_options_apart(const kv_command *c, const void *values, int more,
                       const kv_place *in, kv_err *e);

/* KV_USAGE: there is no such `what` ("command"), with the name of names[0..n)
 * that was meant, or with `else_` where none is near. */
kv_rc kv_no_such(const char *what, const char *text, int n,
                 const char *const *names, const char *else_, kv_err *e);

/* Iterates over the command's options, then the common ones: o NULL gives the
 * first; NULL means the end. */
const kv_option *kv_option_next(const kv_command *c, const kv_option *o);

#endif
