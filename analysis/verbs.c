/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of analysis/verbs.h.
 */
#include "analysis/verbs.h"

#include <stddef.h>

const kv_flag kv_flags[] = {
    {'f', "format", "FORMAT", "table, csv, json or jsonl"},
    {'w', "where", "NAME=VALUE,...",
     "only rows whose column has that value: trace, method, asked, ..."},
    {'m', "mean", NULL, "a line per method and budget: the mean over traces"},
    {'H', "history", NULL, "cells of superseded code, too, marked as such"},
    {'o', "output", "FILE", "write there, - for standard output"},
    {'h', "help", NULL, "this text"},
    {'V', "version", NULL, "version, commit and compiler"},
    {0, NULL, NULL, NULL}};

const kv_verb kv_verbs[] = {
    {"table", "DB [--mean | --history] [--format FORMAT] [--where NAME=VALUE]",
     "what every cell gave: asked, kept, bytes, error", "mHfwo",
     "kvreport table results.db --where trace=retrieval_28", 1, 1,
     kv_verb_table},
    {"html", "DB -o FILE", "one page with figures, tables and their data", "o",
     "kvreport html results.db -o report.html", 1, 1, kv_verb_html},
    {"export", "DB [--format csv|jsonl] [-o FOLDER]",
     "every view as a file, or the cells to stdout", "fo",
     "kvreport export results.db --format csv -o data", 1, 1, kv_verb_export},
    {"history", "DB [--format FORMAT]",
     "every run there was, superseded ones and conflicts too", "fwo",
     "kvreport history results.db", 1, 1, kv_verb_history},
    {"merge", "OUT DB...",
     "all results in one database; refuses what contradicts", "",
     "kvreport merge all.db machine-a.db machine-b.db", 2, 1 << 20,
     kv_verb_merge},
    {NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
