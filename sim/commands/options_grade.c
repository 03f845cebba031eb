/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay grade`: sim/commands/options_grade.h.
 */
#include "sim/commands/options_grade.h"

#include "sim/commands/commands.h"
#include "sim/text/number.h"
#include "traces/text/text.h"
#include <string.h>

#define AT(member) .offset = offsetof(kv_grade_options, member)

static const kv_option options[] = {
    KV_OPTIONS_CELL("What to grade"),
    {KV_SLOT_TEXT, "theirs", 0, "FILE", AT(theirs), .use = KV_USE_READ,
     .must = true,
     .help = "decisions, as `kvreplay run --decisions` or kvreplay.decisions "
             "write them (required)"},
    {KV_SLOT_TEXT, "outputs", 'o', "FILE", AT(outputs), .use = KV_USE_READ,
     .help = "their outputs, too: layers.L.o as `kvreplay run --outputs` "
             "writes them, in F32, F16 or BF16, perhaps with layers.L.lse"},
    {KV_SLOT_TEXT, "tie", 't', "SHARE", AT(tie_text), .group = "How strictly",
     .help = "scores within this share of the cut may fall on either side of "
             "it (default 1e-3); what is printed says the least that would do, "
             "which for scores in bf16 is 8e-3 to 2e-2"},
    {KV_SLOT_TEXT, "atol", 0, "A", AT(atol_text),
     .help = "an element of the output matches within A + R x the largest "
             "|ours| of its row, an LSE within A + R x max(1, |ours|) (default "
             "1e-5)"},
    {KV_SLOT_TEXT, "rtol", 0, "R", AT(rtol_text),
     .help = "(default by type: F32 1.3e-6, F16 1e-3, BF16 1.6e-2)"},
    {KV_SLOT_CHOICE, "lse-base", 0, "BASE", .choices = "e|2", AT(lse_base),
     .help = "of their LSE: e (the default), a natural logarithm as ours, or "
             "2, as FlashInfer returns it"},
    {KV_SLOT_CHOICE, "follow", 0, "WHOM", .choices = "theirs|ours", AT(follow),
     .help = "whose decision the reference goes on with: theirs (the "
             "default), so that one difference is one difference, or ours"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|junit",
     AT(format), .group = "What to print",
     .help = "on standard output, as table (the default), json or junit"},
    {KV_SLOT_FLAG, "all", 'a', NULL, AT(all),
     .help = "list every wrong decision and every wrong row of the outputs, "
             "not only the first"},
    KV_OPTION_DB("keep the reference's row in an SQLite database, and the "
                 "first thing wrong of each layer as a difference from it"),
    KV_OPTION_QUIET,
    KV_OPTION_JOBS("threads of what comes before, the search for a budget in "
                   "bytes and the row that --db keeps (default: one a "
                   "processor); one thread grades"),
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay grade chat.safetensors -m quest:page=16 -b 1024 --theirs "
     "mine.safetensors",
     "each page list against the reference"},
    {"kvreplay grade chat.safetensors -m h2o -b 20% --theirs mine.safetensors "
     "--outputs out.safetensors --tie 2e-2",
     "a kernel with scores in bf16, and its outputs"},
    {"kvreplay grade chat.safetensors -m snapkv -b 512 --theirs "
     "mine.safetensors -f junit",
     "a test case a layer, for a CI system"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays the method and compares each of its decisions - what a query head "
    "attends at a step, what a lane keeps - with theirs. Equal: the same "
    "tokens (in the same order, where the method orders them or positions "
    "follow the order). Tie: the scores of all that they took instead and of "
    "all that they left are within --tie of the cut, which is the least score "
    "chosen. Wrong: everything else, and whatever names a token that is none "
    "of the trace, has not arrived, is gone, or is named twice. What a method "
    "keeps whatever the scores say is never a tie.",
    "Below the counts stands the least --tie at which all that differs would "
    "be ties, or that none would do, where something else than a score near "
    "the cut is wrong. A kernel that reads bf16 wants a trace in bf16, or its "
    "scores are of other numbers: `kvtrace convert chat.safetensors --dtype "
    "bf16 -o chat.bf16.safetensors`. Scores whose sum alone is rounded to bf16 "
    "are ties at 8e-3; where products or logits are rounded before they are "
    "summed, up to some 2e-2.",
    "A file speaks of the kinds of decision that it has; a step without a "
    "list is a decision for all that is live. The order within a list, and so "
    "of physical pages, changes nothing for views.",
    "In the JSON a number that is none is a string: \"NaN\", \"Infinity\" or "
    "\"-Infinity\"; null says that there is none, as lse_max_abs where the "
    "outputs have no LSE.",
    "The exit code is 0 where nothing is wrong, 1 where something is, 2 where "
    "the method, the file or the trace do not belong together, 3 where a file "
    "is malformed.",
    NULL};

const kv_command kv_command_grade = KV_COMMAND_OF_ONE(
    "grade", "grade the decisions and outputs of another kernel", "TRACE",
    kv_grade_options, cells.traces, &kv_task_grade);

static kv_rc tolerance(const char *name, const char *text, double fallback,
                       double *out, kv_err *e) {
  char show[KV_SHOW];
  *out = fallback;
  if (!text || (kv_number_parse(text, out) && *out >= 0)) return KV_OK;
  return kv_fail(e, KV_USAGE, "--%s %s is no number from 0 on, such as 1e-3",
                 name, kv_show(text, show));
}

kv_rc kv_grade_options_check(kv_registry *registry, kv_grade_options *o,
                             kv_err *e) {
  kv_rc rc = tolerance("tie", o->tie_text, 1e-3, &o->tie, e);
  if (!rc) rc = tolerance("atol", o->atol_text, -1, &o->atol, e);
  if (!rc) rc = tolerance("rtol", o->rtol_text, -1, &o->rtol, e);
  if (!rc) rc = kv_cells_options_read(registry, &o->cells, e);
  if (!rc && (o->cells.specs.n != 1 || o->cells.budgets.n > 1))
    rc = kv_fail(e, KV_USAGE,
                 "one kernel is one method with one budget: give one to -m "
                 "and one to -b");
  return rc ? rc : kv_cells_options_apart(&kv_command_grade, &o->cells, e);
}
