/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of kvreport, and the struct for their options. commands.c has
 * their option tables and calls a command's function once. Each function opens
 * the database, prints errors on standard error and returns an exit code
 * (analysis/database/say.h): KV_EXIT_OK, KV_EXIT_INPUT for a bad database,
 * KV_EXIT_RESOURCE for lack of memory, disk or a lock, and those listed below.
 * Commands with --where return KV_EXIT_USAGE if it is malformed or names no
 * column. Files are written whole or not at all.
 */
#ifndef KV_ANALYSIS_COMMANDS_H
#define KV_ANALYSIS_COMMANDS_H

#include "traces/option/program.h"

/* The options of any command. */
typedef struct kv_args {
  kv_list files; /* the database; for merge OUT, then its inputs */
  int format;    /* a kv_grid_format; for export 0: csv, 1: jsonl */
  bool mean, history, answers, gap; /* table: which rows, also below */
  bool pools, layouts, caches, texts;
  const char *where; /* NAME=VALUE,...: only rows with these; NULL: all */
  const char *method, *vs, *at; /* compare: A, the others (NULL: all) and the
                                   budget, as typed */
  int measure;                  /* compare: index of kv_compared_at, plus 1; 0:
                                   not given */
  int margin;                   /* compare: points; 0: 5 */
  const char *output;  /* a file, for export a folder; NULL or "-": stdout */
  const char *samples; /* export: a folder for samples; NULL: none */
} kv_args;

/* The program, for kv_command_main. */
extern const kv_program kv_kvreport;

/* kvreport table. By default one row per cell, of the newest code. history:
 * also of superseded code. mean: a row per method and budget, the mean over the
 * traces. answers: a row per task, method and budget; with texts: a row per
 * question. The default table for people begins with answers, if there are any,
 * unless a->where is given. gap: a row per cell, compared with its family's
 * baseline. pools: a row per pool that requests shared. layouts: a row per cell
 * and memory layout. caches: a row per cell and device cache. Two of them:
 * KV_EXIT_USAGE. */
int kv_report_table(const kv_args *a);
/* export without a folder: cells, with all columns, to standard output. Here
 * a->format is a kv_grid_format. */
int kv_report_cells(const kv_args *a);
/* kvreport html: one self-contained page with figures and tables, of one
 * database or of two side by side. */
int kv_report_html(const kv_args *a);
/* kvreport export: every view as a file, VIEW.csv or VIEW.jsonl, in the folder
 * a->output, which is made if needed; samples of lm-evaluation-harness in the
 * folder a->samples. KV_EXIT_USAGE: a file would replace this database, another
 * one or a trace; there is no text for samples. */
int kv_report_export(const kv_args *a);
/* kvreport history: every run, also superseded and contradicted ones. */
int kv_report_history(const kv_args *a);
/* kvreport answer: which method is best at equal bytes, at every size. */
int kv_report_answer(const kv_args *a);
/* kvreport compare: is a method better than others on the same traces at the
 * same bytes? KV_EXIT_USAGE: an unknown name or budget, nothing to compare. */
int kv_report_compare(const kv_args *a);
/* kvreport merge: makes OUT, files.item[0], the union of itself, if it exists,
 * and the other databases. KV_EXIT_DIFFERENT if two contradict each other,
 * KV_EXIT_USAGE if OUT is named twice; OUT is then unchanged. */
int kv_report_merge(const kv_args *a);

#endif
