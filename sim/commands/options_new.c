/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay new`: sim/commands/options_new.h.
 */
#include "sim/commands/options_new.h"

#include <stddef.h>

static const kv_option options[] = {
    {KV_SLOT_TEXT, "output", 'o', "DIR", .group = "Where",
     .offset = offsetof(kv_new_options, folder),
     .help = "write to this folder (default: ./NAME); made where it is not"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay new mine", "write mine/mine.c, a test and a Makefile"},
    {"make -C mine && kvreplay run TRACE -m ./mine/mine.so,h2o -b 20%",
     "compile it, and see it beside another"},
    {"make -C mine check; kvreplay lawcheck ./mine/mine.so",
     "run its test, and ask for the laws"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Writes a method that compiles and runs as it is: recent tokens and those "
    "that gathered the most attention, a comment on each hook. NAME is an "
    "identifier of C in lower case. No file that is there is overwritten.",
    "The Makefile needs a C compiler, make and `pkg-config kvreplay` of an "
    "installed kvreplay.",
    NULL};

const kv_command kv_command_new = {
    .program = "kvreplay",
    .name = "new",
    .summary = "write a method of your own, to begin with",
    .operands = "NAME",
    .least = 1,
    .most = 1,
    .offset = offsetof(kv_new_options, names),
    .options = options,
    .examples = examples,
    .notes = notes};
