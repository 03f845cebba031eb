/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay lawcheck`: sim/commands/options_lawcheck.h.
 */
#include "sim/commands/options_lawcheck.h"

#include "sim/commands/commands.h"
#include "sim/commands/options_cells.h"
#include <stddef.h>

#define AT(member) .offset = offsetof(kv_lawcheck_options, member)

static const kv_option options[] = {
    {KV_SLOT_LIST, "law", 'l', "NAME", AT(laws), .group = "What to ask",
     .help = "only this law; may be repeated (default: every one)"},
    {KV_SLOT_LIST, "trace", 't', "TRACE", AT(traces), .use = KV_USE_READ,
     .help = "on this trace, a file or made:NAME; may be repeated (default: "
             "the made ones)"},
    {KV_SLOT_COUNT, "budget", 'b', "N", .min = 1, .max = 1 << 30, AT(budget),
     .help = "at this budget, in entries (default: 6, 24, 48 and every token)"},
    {KV_SLOT_COUNT, "prompt-len", 'p', "N", .min = 1, .max = 1 << 30,
     AT(prompt_len), .help = "cut prompt and decoding here"},
    {KV_SLOT_COUNT, "patience", 'w', "SECONDS", .min = 1, .max = 1 << 20,
     AT(seconds),
     .help = "give up on a call of a hook that takes longer (default: 20)"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|junit",
     AT(format), .group = "What to print",
     .help = "answers on standard output as table (the default), json or "
             "junit"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet),
     .help = "of the table only what is broken, and the sum"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay lawcheck ./mine.so", "does a plugin keep the laws?"},
    {"kvreplay lawcheck ./mine.so:recent=3 --law full --trace made:short",
     "one law, on one trace"},
    {"kvreplay lawcheck snapkv -t traces/tiny/multiturn_11.safetensors",
     "a built-in method, on a recorded trace"},
    {"kvreplay lawcheck ./mine.so -f junit >laws.xml", "for a CI system"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Asks whether a method keeps the laws that hold for every method: what a "
    "lane may hold, that journal and ledger tell the truth, that a full budget "
    "loses nothing, that nothing depends on threads, kernels or the order of "
    "work, that hooks write only what they may. Each law is asked in a process "
    "of its own, so a method that crashes or does not return is named like any "
    "other, with its hook.",
    "Without --law, every value of the method's choices is tried, too. A law "
    "that is broken is named with the command that asks for it alone; exit "
    "code 1.",
    NULL};

const kv_command kv_command_lawcheck = {
    .name = "lawcheck",
    .summary = "ask whether a method of your own keeps the laws",
    .operands = "SPEC",
    .words = kv_method_word,
    .least = 1,
    .most = 1,
    .offset = offsetof(kv_lawcheck_options, method),
    .options = options,
    .examples = examples,
    .notes = notes,
    .task = &kv_task_lawcheck};
