/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of kvreport, and what their options fill in. commands.c has
 * their option tables and calls the function of the command once, with what was
 * typed. Each opens the database, says itself on standard error what is wrong
 * and returns an exit code (analysis/database/say.h): KV_EXIT_OK, KV_EXIT_INPUT
 * for a bad database, KV_EXIT_RESOURCE for want of memory, disk or a lock, and
 * what is said below; those that have --where return KV_EXIT_USAGE where it is
 * malformed or names no column. A file that is written is whole or not there.
 */
#ifndef KV_ANALYSIS_COMMANDS_H
#define KV_ANALYSIS_COMMANDS_H

#include "traces/option/program.h"

/* A command line, of any of the commands. */
typedef struct kv_args {
  kv_list files; /* the database; of merge OUT, then those it takes */
  int format;    /* a kv_grid_format; of export 0: csv, 1: jsonl */
  bool mean, history, answers, gap; /* of table: which rows; below, too */
  bool pools, layouts, caches;
  const char *where; /* NAME=VALUE,...: only rows that have it; NULL: all */
  const char *method, *vs, *at; /* of compare: A, the others (NULL: all) and
                                   the budget, as asked; of rank method alone:
                                   the measure of which pairs are listed */
  int measure;                  /* of compare: kv_compared_at; of rank: which of
                                   kv_compared_all */
  int draws;                    /* of rank: resamples; 0: KV_RANKED_DRAWS */
  bool tails, pairs;  /* of rank: percentiles, too; pairs of methods */
  const char *output; /* a file, of export a folder; NULL or "-": stdout */
} kv_args;

/* The program, for kv_command_main. */
extern const kv_program kv_kvreport;

/* kvreport table: a row a cell of the newest code; with `history` of superseded
 * code, too; with `mean` a row a method and budget, the mean over the traces;
 * with `answers`, or where there is nothing else, evaluations: a row a task,
 * method and budget; with `gap` a row a cell, compared with its oracle
 * baseline; with `pools` a row a pool that requests shared; with `layouts` a
 * row a cell and memory layout; with `caches` a row a cell and cache on the
 * device. KV_EXIT_USAGE: two of them. */
int kv_report_table(const kv_args *a);
/* What export does without a folder: cells, with all columns, to standard
 * output. a->format is here a kv_grid_format. */
int kv_report_cells(const kv_args *a);
/* kvreport html: one page with figures and tables, of one database or of two
 * beside each other, which needs nothing from outside. */
int kv_report_html(const kv_args *a);
/* kvreport export: every view as a file of its own, VIEW.csv or VIEW.jsonl, in
 * the folder a->output, which is made where it is not. KV_EXIT_USAGE: a file
 * would replace the database that is read, another one or a trace. */
int kv_report_export(const kv_args *a);
/* kvreport history: every run there was, of superseded code and contradicted
 * ones, too. */
int kv_report_history(const kv_args *a);
/* kvreport answer: which method is best at equal bytes, of all that were asked
 * for. */
int kv_report_answer(const kv_args *a);
/* kvreport compare: whether a method is better than others on the same traces
 * at the same bytes. KV_EXIT_USAGE: a name or budget that is not there, or
 * nothing that can be compared. */
int kv_report_compare(const kv_args *a);
/* kvreport rank: which open-loop measure ranks methods as their answers do.
 * KV_EXIT_USAGE: no such measure, or nothing that can be ranked. */
int kv_report_rank(const kv_args *a);
/* kvreport merge: makes OUT, files.item[0], the union of itself, where it
 * exists, and the other databases. KV_EXIT_DIFFERENT where two contradict each
 * other, KV_EXIT_USAGE where OUT is named twice: it then stays as it was. */
int kv_report_merge(const kv_args *a);

#endif
