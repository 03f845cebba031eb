/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay methods`: sim/commands/options_methods.h.
 */
#include "sim/commands/options_methods.h"

#include <stddef.h>

static const kv_option options[] = {
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json",
     .offset = offsetof(kv_methods_options, format), .group = "What to print",
     .help = "table (the default) or json"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay methods", "every method, one line each"},
    {"kvreplay methods h2o", "one method: paper, parameters, ranges, defaults"},
    {"kvreplay methods ./mine.so", "the same of a plugin"},
    {"kvreplay methods --format json", "everything, for programs"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Lists the methods. With NAME: its parameters, their ranges, their "
    "defaults and where each default comes from. A parameter is set in a "
    "specification, as in -m h2o:recent=16.",
    "Two methods with a plus between them share each lane: the first selects, "
    "the second codes what is kept, each with its own parameters, as in -m "
    "snapkv:window=16+kivi:bits=4. Only a method that codes can be the second.",
    "Methods that need a file have a heading of their own and are not in the "
    "JSON of all. replay follows decisions. A plugin is a shared object, named "
    "by its path, or by its name if a folder of KVREPLAY_PLUGINS "
    "(FOLDER:FOLDER) holds NAME.so.",
    NULL};

const kv_command kv_command_methods = {
    .program = "kvreplay",
    .name = "methods",
    .summary = "list methods and their parameters",
    .operands = "[NAME | ./NAME.so]",
    .most = 1,
    .offset = offsetof(kv_methods_options, names),
    .options = options,
    .examples = examples,
    .notes = notes};
