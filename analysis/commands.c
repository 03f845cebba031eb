/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/commands.h"
#include "analysis/compare/measures.h"
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
    .help = "only rows with these values in columns: trace, method, asked ..." \
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
    .help = "write to this file; - is standard output"                         \
  }

static const kv_option of_table[] = {
    WHERE,
    {KV_SLOT_FLAG, "mean", 'm', AT(mean),
     .help = "one line per method and budget: the mean over traces"},
    {KV_SLOT_FLAG, "answers", 'a', AT(answers),
     .help =
         "answers of a model (kvreplay evaluate): one line per task, method "
         "and budget"},
    {KV_SLOT_FLAG, "texts", 't', AT(texts),
     .help = "with --answers: what was asked and said, one line per question, "
             "method and budget"},
    {KV_SLOT_FLAG, "gap", 'g', AT(gap),
     .help = "how far each cell is on the way from random to the oracle of its "
             "family, in output error and mass, at equal entries"},
    {KV_SLOT_FLAG, "pools", 'p', AT(pools),
     .help = "pools (kvreplay run --together): how full, and how long requests "
             "took"},
    {KV_SLOT_FLAG, "layouts", 'l', AT(layouts),
     .help = "memory layouts (kvreplay run --layout) of each cell; with tp=N "
             "of the fullest rank"},
    {KV_SLOT_FLAG, "caches", 'c', AT(caches),
     .help = "transfers from host memory that caches on the device save "
             "(kvreplay run --cache)"},
    {KV_SLOT_FLAG, "history", 'H', AT(history),
     .help = "also cells of superseded code, marked as such"},
    ROWS,
    {.slot = KV_SLOT_END}};

static const kv_option of_answer[] = {ROWS, {.slot = KV_SLOT_END}};

static const kv_option of_history[] = {WHERE, ROWS, {.slot = KV_SLOT_END}};

static const kv_option of_html[] = {
    {KV_SLOT_TEXT, "output", 'o', "FILE", AT(output), .use = KV_USE_INSTEAD,
     .must = true, .group = "Where and how",
     .help = "write to this file; - is standard output (required)"},
    {.slot = KV_SLOT_END}};

static const kv_option of_export[] = {
    FORMAT("csv|jsonl", "csv (the default) or jsonl"),
    {KV_SLOT_TEXT, "output", 'o', "DIR", AT(output),
     .help = "write every view to this folder, created if missing; without it "
             "only the cells, to standard output"},
    {KV_SLOT_TEXT, "samples", 's', "FOLDER", AT(samples),
     .help = "write answers to this folder, as lm-evaluation-harness's "
             "--log_samples does: a folder for each model, method and budget"},
    {.slot = KV_SLOT_END}};

static const char *measure_name(int i) { return kv_compared_at(i)->name; }

static const kv_option of_compare[] = {
    {KV_SLOT_TEXT, "method", 'm', "A", AT(method), .must = true,
     .group = "What to compare",
     .help = "the method, as in a table or after -m (required)"},
    {KV_SLOT_TEXT, "vs", 'v', "B,...", AT(vs),
     .help = "compare with these methods (default: all)"},
    {KV_SLOT_TEXT, "at", 'a', "BUDGET", AT(at), .must = true,
     .help = "the budget as typed after -b, such as mean:20% (required)"},
    {.slot = KV_SLOT_CHOICE,
     .name = "measure",
     .letter = 'M',
     .argument = "NAME",
     .words = measure_name,
     .min = 1,
     AT(measure),
     .help = "exact_match (the default if the database has right answers at "
             "this budget), loglik (per token; run evaluate --again on rows of "
             "earlier versions), next_kl, agree: a model's answers. "
             "output_abs_max (otherwise the default), needle, lse_error, kl or "
             "another measure of attention; an unknown name lists them all"},
    {KV_SLOT_COUNT, "margin", 'p', "POINTS", .min = 1, .max = 50, AT(margin),
     .help = "also test whether A is less than so many points worse (default: "
             "5), of right answers or needle"},
    ROWS,
    {.slot = KV_SLOT_END}};

/* --- commands ----------------------------------------------------------- */

/* kvreport's functions print their own errors, so e stays empty. */
#define TASK(name)                                                             \
  static kv_rc name##_work(void *self, bool *stopped, kv_err *e) {             \
    (void)stopped, (void)e;                                                    \
    return (kv_rc)kv_report_##name(self);                                      \
  }                                                                            \
  static const kv_task name##_task = {.size = sizeof(kv_args),                 \
                                      .work = name##_work}

#define COMMAND(word, does) .name = #word, .summary = does, .task = &word##_task

int kv_report_merge(const kv_args *a) { return kv_results_merge(&a->files); }

TASK(answer);
TASK(table);
TASK(html);
TASK(export);
TASK(history);
TASK(compare);
TASK(merge);

static const char *const answer_notes[] = {
    "A size is a budget in bytes: held on average (mean:), held at the end "
    "(end:), or read and scanned by a decode step (traffic:, read:). A method "
    "has that size if its bytes, averaged over traces, are at most 10 % less. "
    "The measure is output_abs_max, the largest error of an element of the "
    "attention output; it ranks a model's answers best.",
    "With 8 traces or more, the best method of each size is compared with each "
    "other one, as by kvreplay compare, with Holm's correction for all sizes. "
    "Methods that cannot be told from the best are named. With fewer traces "
    "only means are compared. There is no verdict by a measure that does not "
    "place random below oracle-evict.",
    "If the database has evaluations, right answers come first, for any kind "
    "of budget. Methods at a budget in entries are compared if their bytes are "
    "within 10 % of the median. Only tasks of which dense answers 60 % count, "
    "each with equal weight. Brackets: Wilson's interval where each context "
    "has one question, otherwise 95 % of 10,000 bootstrap means of contexts.",
    NULL};

static const kv_command answer = {
    COMMAND(answer, "which method is best at equal bytes?"), DB,
    .options = of_answer,
    .examples =
        (const kv_example[]){{"kvreplay answer results.db",
                              "a sentence, and one table per kind of bytes"},
                             {NULL, NULL}},
    .notes = answer_notes};

static const kv_command table = {
    COMMAND(table, "results as a table: one line per cell"), DB,
    .options = of_table,
    .examples = (const kv_example[]){
        {"kvreplay table results.db --where trace=retrieval_16",
         "the cells of one trace"},
        {"kvreplay table results.db --mean", "means over the traces"},
        {"kvreplay table results.db --answers",
         "right answers and their likelihood, by task"},
        {"kvreplay table results.db --answers --texts -w method=snapkv",
         "what snapkv said, and where it leaves what dense said"},
        {"kvreplay table results.db --gap",
         "how far each method is from the best choice of as many entries"},
        {NULL, NULL}}};

static const kv_command html = {
    COMMAND(html, "results as one page with the answer, figures and tables"),
    .operands = "DB [DB]",
    .least = 1,
    .most = 2,
    .offset = offsetof(kv_args, files),
    .use = KV_USE_KEPT,
    .options = of_html,
    .examples =
        (const kv_example[]){{"kvreplay html results.db -o report.html",
                              "one file that loads nothing from outside"},
                             {"kvreplay html a.db b.db -o report.html",
                              "two databases, side by side"},
                             {NULL, NULL}}};

static const kv_command export = {
    COMMAND(export, "results as files: every view, or the cells"), DB,
    .options = of_export,
    .examples =
        (const kv_example[]){{"kvreplay export results.db --format csv -o data",
                              "data/cell.csv and one file for each other view"},
                             {"kvreplay export answers.db --samples samples",
                              "answers for lm-evaluation-harness's tools"},
                             {NULL, NULL}}};

static const kv_command history = {
    COMMAND(history, "every run, also superseded and conflicting ones"), DB,
    .options = of_history,
    .examples = (const kv_example[]){
        {"kvreplay history results.db", "the newest code last"}, {NULL, NULL}}};

static const char *const compare_notes[] = {
    "The unit is a trace, or a question that a model was asked. A pair is its "
    "two values. Questions about one context depend on each other: they are "
    "flipped and drawn together. Several tasks have equal weight; those about "
    "the same contexts count as one. The verdict is p < .05 of the two-sided "
    "sign-flip test, after Holm's correction for "
    "all tests of the call. The test uses all 2^n flips of up to 16 traces or "
    "contexts, otherwise 10,000 random flips. Below 8 there is no verdict. The "
    "interval is from 10,000 bootstrap means and does not decide; below 5 "
    "there is none.",
    "A tie does not show that A is as good. `less than 5 points worse` is a "
    "test of its own, one-sided (Tango's score test and the rule of three). It "
    "needs 59 contexts, more with several tests. `contexts detect` is the "
    "difference that is found with 80 % probability.",
    "The number of traces needed is (z + 0.84)^2 times the variance of the "
    "differences over their squared mean. That gives 80 % power at a two-sided "
    "5 % over the number of comparisons at equal bytes (z is 1.96 for one, "
    "2.50 for 4).",
    "Rows whose bytes differ by more than 10 % are not compared. The bytes are "
    "the mean, those held at the end for end:, and those read and scanned for "
    "read:. There is no verdict by a measure that does not place random below "
    "oracle-evict at these bytes; the column `checked` says whether both ran.",
    NULL};

static const kv_command compare = {
    COMMAND(compare, "is one method better than others at equal bytes?"), DB,
    .options = of_compare,
    .examples =
        (const kv_example[]){
            {"kvreplay compare r.db --method mine --vs snapkv --at mean:20%",
             "better, worse or not distinguishable"},
            {NULL, NULL}},
    .notes = compare_notes};

static const char *const merge_notes[] = {
    "OUT is created, or keeps its rows and gets all rows of each DB. If two "
    "databases have different values for one cell, both are named, OUT stays "
    "unchanged, and the exit code is 1.",
    NULL};

static const kv_command merge = {
    COMMAND(merge, "join databases into one; refuses contradictions"),
    .operands = "OUT DB...",
    .least = 2,
    .most = INT_MAX,
    .offset = offsetof(kv_args, files),
    .examples =
        (const kv_example[]){{"kvreplay merge all.db machine-a.db machine-b.db",
                              "rows that two machines have confirm each other"},
                             {NULL, NULL}},
    .notes = merge_notes};

static kv_rc version(size_t size, char *lines, kv_err *e) {
  (void)e;
  snprintf(lines, size, "SQLite    %s\n", sqlite3_libversion());
  return KV_OK;
}

static const kv_command *const commands[] = {
    &answer, &table, &html, &export, &history, &compare, &merge, NULL};

static const char *const notes[] = {
    "Reads a database that `kvreplay run --db` wrote. Each command is also a "
    "command of kvreplay: `kvreplay table`.",
    NULL};

const kv_program kv_kvreport = {
    .name = "kvreport",
    .alone = {.summary = "read the results of kvreplay as tables and pages",
              .operands = "COMMAND",
              .examples =
                  (const kv_example[]){
                      {"kvreplay table results.db", "every cell"},
                      {"kvreplay html results.db -o report.html", "one page"},
                      {NULL, NULL}},
              .notes = notes},
    .commands = commands,
    .also = "kvreplay",
    .version = version};
