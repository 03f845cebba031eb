/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines from const tables. One kv_command describes a verb: its
 * options, operands, examples and notes. The same table parses the command
 * line, prints --help, and writes man page and completion (sim/help.h), so
 * none of them can differ from what the program does.
 *
 * An option stores into the verb's own struct, at an offset. The struct is
 * zeroed or holds defaults before. Texts point into argv.
 */
#ifndef KV_SIM_OPTION_H
#define KV_SIM_OPTION_H

#include "ref/err.h"
#include <stdbool.h>

typedef enum kv_slot {
  KV_SLOT_END,    /* ends a table */
  KV_SLOT_FLAG,   /* bool */
  KV_SLOT_TEXT,   /* const char * */
  KV_SLOT_LIST,   /* kv_list: may be repeated */
  KV_SLOT_COUNT,  /* int, min..max */
  KV_SLOT_CHOICE, /* int: index into choices */
  KV_SLOT_HELP    /* ends parsing; no slot */
} kv_slot;

typedef struct kv_option {
  kv_slot slot;
  const char *name;     /* without -- */
  int letter;           /* short form, 0 without one */
  const char *argument; /* its name in help; NULL where it takes none */
  const char *choices;  /* "table|json" */
  int min, max;
  size_t offset;
  const char *group; /* heading in help; NULL: as the option before */
  const char *help;  /* a phrase, no capital, no period */
} kv_option;

typedef struct kv_list {
  int n;
  const char **item; /* freed by kv_list_free */
} kv_list;

typedef struct kv_example {
  const char *line, *does;
} kv_example;

typedef struct kv_command {
  const char *program, *verb; /* verb NULL: the program itself */
  const char *summary;        /* a phrase: after the name in lists */
  const char *operands;       /* "TRACE..."; NULL without */
  int least, most;            /* how many operands */
  size_t offset;              /* of a kv_list, where there are operands */
  const kv_option *options;
  const kv_example *examples; /* ends with line NULL */
  const char *const *notes;   /* paragraphs; ends with NULL */
} kv_command;

typedef enum kv_asked {
  KV_ASKED_WORK,
  KV_ASKED_HELP,
  KV_ASKED_VERSION
} kv_asked;

/* --help and --version, part of every command. */
extern const kv_option kv_common_options[];

/* argv[0] is the verb, as in main; options and operands may be mixed, `--`
 * ends options. KV_USAGE: one sentence. Where help or the version is asked
 * for, nothing after it is looked at. kv_lists in values are to be freed
 * also after a failure. Uses getopt_long: one thread at a time. */
kv_rc kv_options_parse(const kv_command *c, int argc, char **argv, void *values,
                       kv_asked *asked, kv_err *e);
void kv_list_free(kv_list *l);

/* The option after this one in the command's table followed by the common
 * ones; NULL in: the first; NULL out: the end. */
const kv_option *kv_option_next(const kv_command *c, const kv_option *o);

#endif
