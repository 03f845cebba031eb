/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay verify`: sim/options_verify.h.
 */
#include "sim/options_verify.h"

#include <stddef.h>

#define AT(member) .offset = offsetof(kv_verify_options, member)

static const kv_option options[] = {
    {KV_SLOT_LIST, "traces", 't', "DIR", AT(traces), .group = "How to run",
     .help = "look for traces here too; may be repeated"},
    {KV_SLOT_COUNT, "jobs", 'j', "N", .min = 1, .max = 4096, AT(jobs),
     .help = "threads (default: one a processor); never changes a number"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet), .help = "no progress"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay verify results.db", "run every row again and compare"},
    {"KVREPLAY_ISA=portable kvreplay verify results.db -j 1",
     "the same with other kernels: an independent confirmation"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Runs the rows of a database again. Every digest must match: the first "
    "that does not is printed with both values, and the exit code is 1.",
    NULL};

const kv_command kv_command_verify = {
    .program = "kvreplay",
    .verb = "verify",
    .summary = "run the rows of a database again and compare digests",
    .operands = "DB",
    .least = 1,
    .most = 1,
    .offset = offsetof(kv_verify_options, db),
    .options = options,
    .examples = examples,
    .notes = notes};
