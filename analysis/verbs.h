/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of kvreport and their options, as tables: parser, --help, man
 * page and completion are made from them. A verb returns an exit code.
 */
#ifndef KV_ANALYSIS_VERBS_H
#define KV_ANALYSIS_VERBS_H

#include "analysis/grid.h"

typedef struct kv_args {
  kv_grid_format format;
  bool format_given;
  bool mean, history;
  const char *where;  /* name=value,... or NULL */
  const char *output; /* or NULL */
  int n_files;
  char **file;
} kv_args;

typedef struct kv_verb {
  const char *name, *usage; /* what follows the name */
  const char *help;         /* one line */
  const char *options;      /* letters that it takes */
  const char *example;
  int least, most; /* files */
  int (*run)(const kv_args *a);
} kv_verb;

typedef struct kv_flag {
  int letter;
  const char *name, *value, *help;
} kv_flag;

extern const kv_verb kv_verbs[]; /* ends with a NULL name */
extern const kv_flag kv_flags[]; /* ends with letter 0 */

int kv_verb_table(const kv_args *a);
int kv_verb_cells(const kv_args *a); /* no verb by itself: export to stdout */
int kv_verb_html(const kv_args *a);
int kv_verb_export(const kv_args *a);
int kv_verb_history(const kv_args *a);
int kv_verb_merge(const kv_args *a);

void kv_help(FILE *f);
void kv_man(FILE *f);
void kv_completion(FILE *f);

/* No path, or -. */
bool kv_output_is_stdout(const char *path);
/* KV_EXIT_USAGE after saying so: path is one of the files of a from first on,
 * by device and inode, or a database or a trace. Asked before anything is
 * written. */
int kv_output_may(const kv_args *a, int first, const char *path);
/* Opens a->output to write, or stdout; NULL after saying why. A file appears
 * when it is closed, whole or not at all: not if anything went wrong before, as
 * kv_said() tells. kv_output_close tells a full disk (KV_EXIT_RESOURCE), and
 * returns kv_said() otherwise. */
FILE *kv_output_open(const char *path);
int kv_output_close(FILE *f, const char *path);

#endif
