/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands: sim/cli/commands.h.
 */
#include "sim/cli/commands.h"

static const kv_command *const commands[] = {&kv_command_run,
                                             &kv_command_check,
                                             &kv_command_grade,
                                             &kv_command_verify,
                                             &kv_command_methods,
                                             &kv_command_new,
                                             &kv_command_lawcheck,
                                             &kv_command_vectors,
                                             &kv_command_tune,
                                             &kv_command_lengths,
                                             NULL};

static const kv_example examples[] = {
    {"kvreplay run traces/tiny/*.safetensors -m all -b 20%",
     "every method on the bundled traces"},
    {"kvreplay methods", "the methods, one line each"},
    {"kvreplay methods h2o", "one method, with every parameter"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays recorded attention through KV-cache compression methods: "
    "fidelity and real bytes, the same bits on every machine.",
    "A COMMAND that is none of these is the program kvreplay-COMMAND, beside "
    "kvreplay or on the path.",
    NULL};

static const kv_example environment[] = {
    KV_ENVIRONMENT_ISA,
    {"KVREPLAY_ASSETS",
     "FOLDER:FOLDER, where files that methods read are looked for by what the "
     "model is, after those beside the trace"},
    {"KVREPLAY_KEEP",
     "how many seconds may pass before finished layers are written to the "
     "database, 0 to 90; 5 by default"},
    {"KVREPLAY_PLUGINS",
     "FOLDER:FOLDER, where a plugin NAME.so is known as NAME"},
    {"SLURM_ARRAY_TASK_ID",
     "as well as PBS_ARRAY_INDEX, OMPI_COMM_WORLD_RANK, PMI_RANK and "
     "JOB_COMPLETION_INDEX: which shard `run --shards N` is"},
    {"NO_COLOR", "no terminal attributes, where it is not empty"},
    {NULL, NULL}};

static const kv_brought brought[] = {
    {"record", "record traces of a Hugging Face model",
     "type pip install '.[hf]' in kvreplay's source tree"},
    {"train", "make the weights or tables that a method reads, from traces",
     "type make install, or pip install . in its source tree"},
    {"train-hf", "train what a method reads, a Hugging Face model in the loop",
     "type pip install '.[hf]' in kvreplay's source tree"},
    {"evaluate", "whether a model still answers while a method holds its cache",
     "type pip install '.[hf]' in kvreplay's source tree"},
    {"claims", "whether the papers' claims hold, by numbers of this machine",
     "type pip install . in kvreplay's source tree"},
    {"attention", "what a trace's heads attend to",
     "type make install, or pip install . in its source tree"},
    {"residuals", "how alike a trace's tokens are",
     "type make install, or pip install . in its source tree"},
    {"selection", "what shares of the probability select",
     "type make install, or pip install . in its source tree"},
    {"capacity", "how many users a node serves",
     "type make install, or pip install . in its source tree"},
    {NULL, NULL, NULL}};

const kv_program kv_kvreplay = {
    .name = "kvreplay",
    .alone = {.summary = "replay KV-cache compression on recorded attention",
              .operands = "COMMAND",
              .examples = examples,
              .notes = notes},
    .commands = commands,
    .environment = environment,
    .brought = brought,
    .version = kv_version_kernels};

int kv_commands_call(int argc, char **argv) {
  return kv_command_call(&kv_kvreplay, argc, argv);
}
