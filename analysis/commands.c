/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of kvreport: analysis/commands.h.
 */
#include "analysis/commands.h"
#include "analysis/compare/measures.h"
#include "analysis/compare/ranked.h"
#include "analysis/database/results.h"

#include <limits.h>
#include <stddef.h>

#define AT(member) .offset = offsetof(kv_args, member)
#define DB                                                                     \
  .operands = "DB", .least = 1, .most = 1, .offset = offsetof(kv_args, files), \
  .use = KV_USE_KEPT

/* --- options ------------------------------------------------------------ */

#define WHERE                                                                  \
  {                                                                            \
    .slot = KV_SLOT_TEXT, .name = "where", .letter = 'w',                      \
    .argument = "NAME=VALUE,...", AT(where), .group = "What to print",         \
    .help = "only rows whose column has that value: trace, method, asked, ..." \
  }
#define FORMAT(all, text)                                                      \
  {                                                                            \
    .slot = KV_SLOT_CHOICE, .name = "format", .letter = 'f',                   \
    .argument = "FORMAT", .choices = all, AT(format),                          \
    .group = "Where and how", .help = text                                     \
  }
#define ROWS                                                                   \
  FORMAT("table|csv|json|jsonl|latex",                                         \
         "table (the default), csv, json, jsonl or latex"),                    \
  {                                                                            \
    .slot = KV_SLOT_TEXT, .name = "output", .letter = 'o', .argument = "FILE", \
    AT(output), .use = KV_USE_INSTEAD,                                         \
    .help = "write there, - for standard output"                               \
  }

static const kv_option of_table[] = {
    WHERE,
    {KV_SLOT_FLAG, "mean", 'm', AT(mean),
     .help = "a line per method and budget: the mean over traces"},
    {KV_SLOT_FLAG, "answers", 'a', AT(answers),
     .help = "what a model answered (kvreplay evaluate): a line per task, "
             "method and budget"},
    {KV_SLOT_FLAG, "gap", 'g', AT(gap),
     .help = "how far each cell is on the way from random to the ruler of its "
             "family, in output error and in mass, at equal entries"},
    {KV_SLOT_FLAG, "pools", 'p', AT(pools),
     .help = "requests that shared a pool (kvreplay run --together): a line a "
             "pool, how full it was and how long they took"},
    {KV_SLOT_FLAG, "layouts", 'l', AT(layouts),
     .help =
         "memory layouts (kvreplay run --layout): a line a cell and layout, "
         "beside it the fullest of the ranks that share its heads (tp=N)"},
    {KV_SLOT_FLAG, "caches", 'c', AT(caches),
     .help = "what caches on the device save of transfers from the host's "
             "memory (kvreplay run --cache): a line a cell and cache"},
    {KV_SLOT_FLAG, "history", 'H', AT(history),
     .help = "cells of superseded code, too, marked as such"},
    ROWS,
    {.slot = KV_SLOT_END}};

static const kv_option of_answer[] = {ROWS, {.slot = KV_SLOT_END}};

static const kv_option of_history[] = {WHERE, ROWS, {.slot = KV_SLOT_END}};

static const kv_option of_html[] = {
    {KV_SLOT_TEXT, "output", 'o', "FILE", AT(output), .use = KV_USE_INSTEAD,
     .must = true, .group = "Where and how",
     .help = "write there, - for standard output (required)"},
    {.slot = KV_SLOT_END}};

static const kv_option of_export[] = {
    FORMAT("csv|jsonl", "csv (the default) or jsonl"),
    {KV_SLOT_TEXT, "output", 'o', "DIR", AT(output),
     .help = "the folder, made where it is not; the cells alone go to standard "
             "output without one"},
    {.slot = KV_SLOT_END}};

static const char *measure_name(int i) { return kv_compared_at(i)->name; }

static const kv_option of_compare[] = {
    {KV_SLOT_TEXT, "method", 'm', "A", AT(method), .must = true,
     .group = "What to compare",
     .help = "the method, as in a table or behind -m (required)"},
    {KV_SLOT_TEXT, "vs", 'v', "B,...", AT(vs), .help = "with these, or all"},
    {KV_SLOT_TEXT, "at", 'a', "BUDGET", AT(at), .must = true,
     .help = "as it was asked for with -b: mean:20% (required)"},
    {.slot = KV_SLOT_CHOICE,
     .name = "measure",
     .letter = 'M',
     .argument = "NAME",
     .words = measure_name,
     AT(measure),
     .help = "needle (the default), lse_error, kl, output_error or another "
             "measure of attention: a name that is none lists all; of what a "
             "model answered: exact_match, loglik (a token's; rows of earlier "
             "versions have none until evaluate --again), next_kl, agree"},
    ROWS,
    {.slot = KV_SLOT_END}};

static const char *answer_name(int i) {
  return kv_compared_all[i].answered ? kv_compared_all[i].name : NULL;
}

static const kv_option of_rank[] = {
    {.slot = KV_SLOT_CHOICE,
     .name = "by",
     .letter = 'b',
     .argument = "ANSWER",
     .words = answer_name,
     AT(measure),
     .group = "What to rank",
     .help = "loglik (the default, a token's), exact_match, next_kl or agree: "
             "what the table is sorted by"},
    {KV_SLOT_FLAG, "pairs", 'p', AT(pairs),
     .help =
         "the pairs of methods that the best measure has in the wrong order"},
    {KV_SLOT_TEXT, "measure", 'm', "NAME", AT(method),
     .help = "the pairs of that measure instead"},
    {KV_SLOT_FLAG, "tails", 't', AT(tails),
     .help = "p50, p95, p99 and max of each measure; else of these the best, "
             "where it ranks better than the mean"},
    {KV_SLOT_COUNT, "resamples", 'n', "N", .min = KV_RANKED_DRAWS_LEAST,
     .max = 100000, AT(draws), .help = "of the bootstrap (2,000)"},
    {.slot = KV_SLOT_TEXT,
     .name = "where",
     .letter = 'w',
     .argument = "NAME=VALUE,...",
     AT(where),
     .help = "only evaluations whose column has that value: model, task, "
             "method, asked, ..."},
    ROWS,
    {.slot = KV_SLOT_END}};

/* --- commands ----------------------------------------------------------- */

/* What kvreport does is told where it goes wrong: without a sentence in e. */
#define TASK(name)                                                             \
  static kv_rc name##_work(void *self, bool *stopped, kv_err *e) {             \
    (void)stopped, (void)e;                                                    \
    return (kv_rc)kv_report_##name(self);                                      \
  }                                                                            \
  static const kv_task name##_task = {.size = sizeof(kv_args),                 \
                                      .work = name##_work}

int kv_report_merge(const kv_args *a) { return kv_results_merge(&a->files); }

TASK(answer);
TASK(table);
TASK(html);
TASK(export);
TASK(history);
TASK(compare);
TASK(rank);
TASK(merge);

static const char *const answer_notes[] = {
    "A size is a budget in bytes: held on average (mean:) or at the end "
    "(end:), "
    "or read and scanned by a decode step (traffic:, read:). Equal are means "
    "over traces within a tenth of it. The measure is needle where traces mark "
    "their answer, else output_abs_p99: what ranks right answers best.",
    "From 8 traces on the best of each size is compared with each other method "
    "as by kvreport compare, Holm's correction within the size; who cannot be "
    "told from it is named. Below, means alone.",
    NULL};

static const kv_command answer = {
    .name = "answer",
    .summary = "which method is best at equal bytes?",
    DB,
    .options = of_answer,
    .examples =
        (const kv_example[]){{"kvreport answer results.db",
                              "a sentence, and a table a kind of bytes"},
                             {NULL, NULL}},
    .notes = answer_notes,
    .task = &answer_task};

static const kv_command table = {
    .name = "table",
    .summary = "what every cell gave: asked, kept, bytes, error",
    DB,
    .options = of_table,
    .examples =
        (const kv_example[]){
            {"kvreport table results.db --where trace=retrieval_16",
             "the cells of one trace"},
            {"kvreport table results.db --mean", "means over the traces"},
            {"kvreport table results.db --answers",
             "right answers and their likelihood, by task"},
            {"kvreport table results.db --gap",
             "what is left to the best choice of as many entries"},
            {"kvreport table results.db --pools --where wait=1",
             "steps to the first token and to the end, where requests wait"},
            {NULL, NULL}},
    .task = &table_task};

static const kv_command html = {
    .name = "html",
    .summary = "one page with the answer, figures, tables and their data",
    .operands = "DB [DB]",
    .least = 1,
    .most = 2,
    .offset = offsetof(kv_args, files),
    .use = KV_USE_KEPT,
    .options = of_html,
    .examples = (const kv_example[]){{"kvreport html results.db -o report.html",
                                      "which needs nothing from outside"},
                                     {"kvreport html a.db b.db -o report.html",
                                      "two databases beside each other"},
                                     {NULL, NULL}},
    .task = &html_task};

static const kv_command export = {
    .name = "export",
    .summary = "every view as a file, or the cells to standard output",
    DB,
    .options = of_export,
    .examples =
        (const kv_example[]){{"kvreport export results.db --format csv -o data",
                              "data/cell.csv and its like"},
                             {NULL, NULL}},
    .task = &export_task};

static const kv_command history = {
    .name = "history",
    .summary = "every run there was, superseded ones and conflicts too",
    DB,
    .options = of_history,
    .examples = (const kv_example[]){{"kvreport history results.db",
                                      "the newest code last"},
                                     {NULL, NULL}},
    .task = &history_task};

static const char *const compare_notes[] = {
    "The trace is the unit, or the item that a model was asked: a pair is its "
    "two values. A verdict is p < .05 of "
    "the sign-flip test, two-sided (all 2^n flips of up to 16 traces, then "
    "10,000 random ones), after Holm's correction for all comparisons of the "
    "call; below 8 traces there is none. The interval is that of 10,000 "
    "bootstrap means, and does not decide; below 5 traces there is none.",
    "How many traces would be needed: (z + 0.84)^2 times the variance of the "
    "differences over their squared mean, 80 % power at a two-sided 5 % over "
    "the number of comparisons at equal bytes (z is 1.96 for one, 2.50 for 4).",
    "Rows whose bytes differ by more than 10 % are not compared: by mean, by "
    "what is held at the end (end:) or read and scanned (read:).",
    NULL};

static const kv_command compare = {
    .name = "compare",
    .summary = "is a method better than others, at equal bytes?",
    DB,
    .options = of_compare,
    .examples =
        (const kv_example[]){
            {"kvreport compare r.db --method mine --vs snapkv --at mean:20%",
             "better, worse or not distinguishable, by needle"},
            {NULL, NULL}},
    .notes = compare_notes,
    .task = &compare_task};

static const char *const rank_notes[] = {
    "Of evaluations (kvreplay evaluate), which hold what was answered and the "
    "open-loop measures of the same prompt. A group is a task at one budget; "
    "methods in it are compared by their means over prompts. Left out, and "
    "named, are methods whose bytes are more than 10 % from the group's middle "
    "one or that answered less than three quarters of its prompts; of prompts "
    "those that one of the rest did not answer. A method without a budget is "
    "in no group.",
    "tau-b is one number for all groups: of all pairs of methods of one group, "
    "those in the same order less those in the opposite one, over the root of "
    "the pairs not tied by the measure times those not tied by the answers. 1: "
    "the same order, 0: none. Each measure is turned so that more is better: "
    "needle, mass and recall as they are, errors and divergences negated, of "
    "LSE errors the size. exact_match leaves out tasks of which dense answers "
    "less than 60 %. bytes and kept are there to see that they say nothing.",
    "Brackets: 95 %, 1.96 standard deviations of 2,000 bootstrap resamples of "
    "each task's prompts, drawn together for all budgets and methods; of fewer "
    "than 5 prompts there are none. The best "
    "measure is one that all pairs "
    "have; `best less it` is its tau less the other's on the pairs of both, "
    "and two are told apart where that interval is without 0. `without` names "
    "the method whose leaving out changes tau most, each way.",
    NULL};

static const kv_command rank = {
    .name = "rank",
    .summary = "which measure ranks methods as their answers do?",
    DB,
    .options = of_rank,
    .examples =
        (const kv_example[]){
            {"kvreport rank answers.db", "tau-b of every open-loop measure"},
            {"kvreport rank answers.db --by exact_match --pairs",
             "what the best one ranks wrongly"},
            {NULL, NULL}},
    .notes = rank_notes,
    .task = &rank_task};

static const char *const merge_notes[] = {
    "OUT is made, or keeps what it has and takes everything of DB. The exit "
    "code is 1 where two databases have other values for one cell: both are "
    "named, and OUT stays as it was.",
    NULL};

static const kv_command merge = {
    .name = "merge",
    .summary = "all results in one database; refuses what contradicts",
    .operands = "OUT DB...",
    .least = 2,
    .most = INT_MAX,
    .offset = offsetof(kv_args, files),
    .examples =
        (const kv_example[]){{"kvreport merge all.db machine-a.db machine-b.db",
                              "what two machines found confirms each other"},
                             {NULL, NULL}},
    .notes = merge_notes,
    .task = &merge_task};

/* --- the program -------------------------------------------------------- */

static kv_rc version(size_t size, char *lines, kv_err *e) {
  (void)e;
  snprintf(lines, size, "SQLite    %s\n", sqlite3_libversion());
  return KV_OK;
}

static const kv_command *const commands[] = {
    &answer, &table, &html, &export, &history, &compare, &rank, &merge, NULL};

static const char *const notes[] = {
    "Reads the database that `kvreplay run --db` wrote and says what is in it.",
    NULL};

const kv_program kv_kvreport = {
    .name = "kvreport",
    .alone = {.summary = "tables and pages of replayed results",
              .operands = "COMMAND",
              .examples =
                  (const kv_example[]){
                      {"kvreport table results.db", "every cell"},
                      {"kvreport html results.db -o report.html", "one page"},
                      {NULL, NULL}},
              .notes = notes},
    .commands = commands,
    .also = "kvreplay",
    .version = version};
