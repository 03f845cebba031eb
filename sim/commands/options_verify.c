/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay verify`: sim/commands/options_verify.h.
 */
#include "sim/commands/options_verify.h"

#include "sim/commands/commands.h"
#include <stddef.h>

#define AT(member) .offset = offsetof(kv_verify_options, member)

static const kv_option options[] = {
    {KV_SLOT_LIST, "traces", 't', "DIR", AT(traces), .group = "How to run",
     .help = "look for traces here too; may be repeated"},
    {KV_SLOT_COUNT, "jobs", 'j', "N", .min = 1, .max = 4096, AT(jobs),
     .help = "threads (default: one a processor); never changes a number"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = KV_VERDICT_FORMATS,
     AT(format), .group = "What to print",
     .help = "verdicts on standard output as table (the default), json, jsonl "
             "or junit"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet), .help = "no progress"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay verify results.db", "run every row again and compare"},
    {"KVREPLAY_ISA=portable kvreplay verify results.db -j 1",
     "the same with other kernels: an independent confirmation"},
    {"kvreplay verify traces/budgets.csv",
     "search again for budgets that kvreplay run --found wrote"},
    {"kvreplay verify results.db -f junit >verify.xml",
     "a test case a row, for a CI system"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Runs the rows of a database again. Every digest must match: the first "
    "that does not is printed with both values; so is the first number of the "
    "memory layouts, caches on the device and fates of tokens that a row has, "
    "which are computed again with it. Rows of other code - an older "
    "revision, another plugin, another file that a method reads - are counted "
    "and left.",
    "The exit code is 1 where a row differs; else 3 where a trace, a plugin "
    "(KVREPLAY_PLUGINS) or a file that a method reads is not found, or where "
    "there was nothing to verify; 0 where all else is the same.",
    "A table of budgets in bytes, which kvreplay run --found writes, is "
    "verified by searching again: a row that a search would not find is an "
    "error. Rows "
    "of an older revision are counted and left, as no run takes them.",
    NULL};

const kv_command kv_command_verify = KV_COMMAND_OF_FILES(
    "verify", "run the rows of a database again and compare digests", "DB", 1,
    kv_verify_options, db, KV_USE_KEPT, &kv_task_verify);
