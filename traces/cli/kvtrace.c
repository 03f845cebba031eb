/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace: describes, checks and makes attention traces. This file is its table
 * and main; each command has a file of its own.
 */
#include "traces/cli/kvtrace.h"
#include "ref/ground/threads.h"
#include "traces/trace/check.h"

static const kv_command *const commands[] = {
    &kv_command_info, &kv_command_check, &kv_command_convert, &kv_command_slim,
    &kv_command_pack, &kv_command_plan,  &kv_command_synth,   NULL};

static const kv_example examples[] = {
    {"kvtrace info traces/tiny/haystack_8.safetensors", "what it contains"},
    {"kvtrace check traces/tiny/haystack_8.safetensors",
     "scan every number, and recompute the outputs"},
    {NULL, NULL}};

static const char *const notes[] = {
    "A trace is a safetensors file with the queries, keys and values of one "
    "request.",
    NULL};

static const kv_example environment[] = {KV_ENVIRONMENT_ISA, {NULL, NULL}};

static const kv_brought brought[] = {
    {"prefill", "measure how sparse the attention of a prompt is",
     "type make install, or pip install . in kvreplay's source tree", NULL},
    {NULL, NULL, NULL, NULL}};

static const kv_program program = {
    .name = "kvtrace",
    .alone = {.summary = "inspect, check, convert and make attention traces",
              .operands = "COMMAND",
              .examples = examples,
              .notes = notes},
    .commands = commands,
    .environment = environment,
    .brought = brought,
    .version = kv_version_kernels};

int main(int argc, char **argv) {
  kv_ending_watch(program.name);
  kv_second_setup();
  kv_float_ground();
  int code = kv_command_main(&program, argc, argv);
  kv_ending_is_ours();
  return code;
}
