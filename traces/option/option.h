/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands as const tables. A kv_command describes one command: its options,
 * operands, examples, notes and work. The same table is parsed here, printed as
 * help, man page and completion (help.h of this folder) and run (program.h), so
 * that these cannot differ.
 *
 * Each command has a struct of its own. Options and operands are stored in it
 * at the offsets that the table names. Before parsing it is zeroed or holds
 * defaults; its texts point into argv.
 */
#ifndef KV_TRACES_OPTION_H
#define KV_TRACES_OPTION_H

#include "ref/ground/err.h"
#include "traces/container/apart.h"
#include <stdbool.h>

/* What an option stores, and so the type at its offset. */
typedef enum kv_slot {
  KV_SLOT_END,    /* ends a table of options */
  KV_SLOT_FLAG,   /* bool: true if the option is given */
  KV_SLOT_TEXT,   /* const char * */
  KV_SLOT_LIST,   /* kv_list: the option may be repeated */
  KV_SLOT_COUNT,  /* int from min to max */
  KV_SLOT_WIDE,   /* uint64_t, any */
  KV_SLOT_CHOICE, /* int: index into choices, then words, at most 16; case is
                     ignored */
  KV_SLOT_HELP    /* stores nothing, ends parsing; min is a kv_asked, max that
                     of =all, or 0 */
} kv_slot;

/* What a command does with the file that an option or an operand names. From
 * KV_USE_CREATED on they are outputs. No output may be an input or another
 * output (traces/container/apart.h). */
typedef enum kv_use {
  KV_USE_NONE, /* names no file */
  KV_USE_READ,
  KV_USE_KEPT,      /* a database: read and added to */
  KV_USE_CREATED,   /* created or replaced */
  KV_USE_SYNTHETIC, /* the same, and may replace a synthetic trace */
  KV_USE_INSTEAD,   /* written instead of standard output; "-" means that */
  KV_USE_FOLDER     /* a folder in which files are created */
} kv_use;

/* Names that only the program knows, such as methods: the i-th from 0, NULL
 * past the last. */
typedef const char *kv_naming(int i);

typedef struct kv_option {
  kv_slot slot;
  const char *name;     /* without -- */
  int letter;           /* short form, 0 without one */
  const char *argument; /* name of its value in help; NULL: it takes none */
  const char *choices;  /* "table|json": for completion and KV_SLOT_CHOICE */
  kv_naming *words;     /* further choices, or NULL */
  int min, max;         /* KV_SLOT_COUNT: the range; for a choice, min is the
                           number stored for the first one */
  size_t offset;        /* in the command's struct */
  bool must;            /* KV_USAGE if it is not given */
  const char *group;    /* heading in help; NULL: as the option before */
  const char *help;     /* a phrase, no capital, no period */
  kv_use use;
  bool common; /* --help shows it, --help=all the others, too; if a command has
                  no such option, --help shows all */
} kv_option;

typedef struct kv_list {
  int n;
  const char **item; /* [n], the array owned: kv_options_free frees it */
} kv_list;

typedef struct kv_example {
  const char *line; /* to type; NULL ends a list */
  const char *does; /* a phrase */
} kv_example;

/* What a command does, in the order of the calls. Only work must not be NULL.
 * self is the command's struct, `size` bytes, zeroed before begin. */
typedef struct kv_task {
  size_t size;
  /* Before parsing: sets defaults. */
  void (*begin)(void *self, int argc, char **argv);
  /* After parsing: checks what was typed; opens nothing. */
  kv_rc (*check)(void *self, kv_err *e);
  /* Does the work. A failure with an empty sentence has been printed already.
   * Sets *stopped to true after an interrupt; the exit code is then 130. */
  kv_rc (*work)(void *self, bool *stopped, kv_err *e);
  /* If *stopped: says what is kept. */
  void (*interrupted)(void *self);
  /* If work succeeded, uninterrupted: the exit code; NULL: 0. */
  int (*conclude)(void *self);
  /* In any case: frees what the struct owns, except its kv_lists. */
  void (*free)(void *self);
} kv_task;

typedef struct kv_command {
  const char *name;           /* NULL: the program itself */
  const char *summary;        /* a phrase, for lists of commands */
  const char *operands;       /* as in help, "TRACE..."; NULL: none */
  kv_naming *words;           /* completion of operands; NULL: file names */
  int least, most;            /* number of operands */
  size_t offset;              /* of their kv_list in the struct, if most > 0 */
  kv_use use;                 /* what happens to the operands' files */
  const kv_option *options;   /* ends with KV_SLOT_END; NULL: none */
  const kv_example *examples; /* ends with line NULL; NULL: none */
  const char *const *notes;   /* paragraphs; ends with NULL; NULL: none. Of a
                                 command with `common` options --help shows
                                 those before KV_NOTES_REST */
  const kv_task *task;
} kv_command;

/* Initialisers of a kv_command, whose tables are options, examples, notes and
 * task_WORD, and of its operands, a kv_list `list` of its struct `type`. */
#define KV_COMMAND(word, does)                                                 \
  .name = #word, .summary = does, .options = options, .examples = examples,    \
  .notes = notes, .task = &task_##word
#define KV_TAKES(what, fewest, top, type, list, how)                           \
  .operands = what, .least = fewest, .most = top,                              \
  .offset = offsetof(type, list), .use = how

#define KV_NOTES_REST "" /* no paragraph: the others are for --help=all */

/* What a command line asks for. */
typedef enum kv_asked {
  KV_ASKED_WORK,
  KV_ASKED_HELP,
  KV_ASKED_ALL, /* --help=all */
  KV_ASKED_VERSION
} kv_asked;

/* --help and --version, common to all commands; ends with KV_SLOT_END. */
extern const kv_option kv_common_options[];

/* Parses a command line into values, the command's struct; argv[0] is the
 * command's name. Options and operands may be mixed; `--` ends options. Parsing
 * ends at --help or --version; *asked says which, and nothing after it is
 * checked. KV_USAGE: what was typed is wrong. KV_RESOURCE: memory. Call
 * kv_options_free also after a failure. Not thread-safe (getopt_long). */
kv_rc kv_options_parse(const kv_command *c, int argc, char **argv, void *values,
                       kv_asked *asked, kv_err *e);
/* Frees the arrays of the kv_lists in values. */
void kv_options_free(const kv_command *c, void *values);

/* For inputs that no option names: kv_places_apart (traces/container/apart.h),
 * with its errors, for the files of a parsed command and the inputs in[more].
 * kv_options_parse has already checked the command's own. */
kv_rc kv_options_apart(const kv_command *c, const void *values, int more,
                       const kv_place *in, kv_err *e);

/* Writes the sentence "no WHAT TEXT; did you mean NAME?" with the nearest of
 * names[n], or "no WHAT TEXT; ELSE_" if none is near; returns KV_USAGE. Dashes
 * at the beginning of text are also written before NAME. */
kv_rc kv_no_such(const char *what, const char *text, int n,
                 const char *const *names, const char *else_, kv_err *e);

/* Iterates over a command's options and the common ones. Returns the first for
 * o NULL, else the one after o; NULL after the last. */
const kv_option *kv_option_next(const kv_command *c, const kv_option *o);

#endif
