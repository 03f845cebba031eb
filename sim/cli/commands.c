/* SPDX-License-Identifier: Apache-2.0 */
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
    {"kvreplay run traces/tiny/*.safetensors -m all -b 20% --db r.db",
     "try every method on the bundled traces, keep the results"},
    {"kvreplay html r.db -o r.html", "read them as one page"},
    {"kvreplay run --help", "the help of one command"},
    {NULL, NULL}};

static const kv_example groups[] = {
    {"Try methods on a trace", "run methods tune claims"},
    {"Let a model answer", "evaluate"},
    {"Read results", "answer compare table html history export merge"},
    {"Make traces", "record"},
    {"Look into a trace", "attention residuals selection"},
    {"Check an engine, a kernel or your own method",
     "new lawcheck grade vectors check verify"},
    {"Plan memory", "capacity lengths"},
    {"Train what a method reads from a file", "train train-hf"},
    {NULL, NULL}};

static const char *const notes[] = {
    "kvreplay replays a model's recorded attention, with the same bits on "
    "every machine and without a GPU. `kvtrace --help` lists the commands that "
    "inspect, check and convert trace files.",
    "Any other COMMAND runs the program kvreplay-COMMAND, which must be beside "
    "kvreplay or on the path.",
    NULL};

static const kv_example environment[] = {
    KV_ENVIRONMENT_ISA,
    {"KVREPLAY_ASSETS",
     "FOLDER:FOLDER, searched for a model's files that methods read, after "
     "the folder of the trace"},
    {"KVREPLAY_KEEP",
     "finished layers are written to the database after at most so many "
     "seconds: 0 to 90, 5 by default"},
    {"KVREPLAY_PLUGINS",
     "FOLDER:FOLDER. A plugin NAME.so in one of them is the method NAME"},
    {"SLURM_ARRAY_TASK_ID",
     "the shard of `run --shards N`; also PBS_ARRAY_INDEX, "
     "OMPI_COMM_WORLD_RANK, PMI_RANK and JOB_COMPLETION_INDEX"},
    {"NO_COLOR", "if not empty, no colors or bold text on a terminal"},
    {NULL, NULL}};

#define MAKE "type make install, or pip install . in kvreplay's source tree"
#define WHEEL "type pip install . in kvreplay's source tree"
#define PIP "type pip install '.[hf]' in kvreplay's source tree"
#define REPORT(name, does)                                                     \
  { name, does, MAKE, "kvreport" }

static const kv_brought brought[] = {
    {"record", "record traces of a Hugging Face model", PIP, NULL},
    {"train", "train a method's weights or tables on traces", MAKE, NULL},
    {"train-hf", "the same, with a Hugging Face model in the loop", PIP, NULL},
    {"evaluate", "test a model's answers under each method", PIP, NULL},
    {"claims", "test the claims of the papers on this machine", WHEEL, NULL},
    {"attention", "which tokens the heads attend to", MAKE, NULL},
    {"residuals", "how similar the tokens are", MAKE, NULL},
    {"selection", "how many tokens hold 60 or 90 % of the mass", MAKE, NULL},
    {"capacity", "how many users fit on a node, and how fast", MAKE, NULL},
    REPORT("answer", "which method is best at equal bytes?"),
    REPORT("compare", "is one method better than others at equal bytes?"),
    REPORT("table", "results as a table"),
    REPORT("html", "results as one page with figures"),
    REPORT("history", "every run, also superseded and conflicting ones"),
    REPORT("export", "results as files for other programs"),
    REPORT("merge", "join databases into one; refuses contradictions"),
    {NULL, NULL, NULL, NULL}};

const kv_program kv_kvreplay = {
    .name = "kvreplay",
    .alone = {.summary = "measure how much KV-cache compression methods lose "
                         "at equal bytes",
              .operands = "COMMAND",
              .examples = examples,
              .notes = notes},
    .commands = commands,
    .environment = environment,
    .brought = brought,
    .groups = groups,
    .version = kv_version_kernels};

int kv_commands_call(int argc, char **argv) {
  return kv_command_call(&kv_kvreplay, argc, argv);
}
