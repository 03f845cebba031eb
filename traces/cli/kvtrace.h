/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the commands of kvtrace, each a file of its own. A command prints
 * its data to standard output and returns an error as a sentence, which its
 * caller (traces/option/program.h) prints.
 */
#ifndef KV_TRACES_KVTRACE_H
#define KV_TRACES_KVTRACE_H

#include <signal.h>

#include "traces/option/kernels.h"
#include "traces/trace/keep.h"

/* The commands, for kvtrace.c. */
extern const kv_command kv_command_info, kv_command_check, kv_command_convert,
    kv_command_pack, kv_command_plan, kv_command_slim, kv_command_synth;

/* First member of the struct of a command that reads one trace. KV_ONE_TRACE,
 * in its kv_command, fills `path`; KV_OPTION_FORMAT, among its options, `json`.
 */
typedef struct kv_one_trace {
  kv_list path; /* one item: the trace's path */
  int json;     /* 1: --format json; 0: a table */
} kv_one_trace;

#define KV_ONE_TRACE KV_TAKES("TRACE", 1, 1, kv_one_trace, path, KV_USE_READ)
#define KV_OPTION_FORMAT                                                       \
  {                                                                            \
    .slot = KV_SLOT_CHOICE, .name = "format", .letter = 'f',                   \
    .argument = "FORMAT", .choices = "table|json",                             \
    .offset = offsetof(kv_one_trace, json), .group = "What to print",          \
    .help = "table (the default) or json"                                      \
  }
#define KV_DTYPES "F16|BF16|F32" /* choices, in the order of kv_dtype */

/* For commands that make a trace smaller, or say how small it would be:
 * KV_KEEPING_OPTIONS stores rows and layers; kv_keeping_read makes `keep` from
 * them; free it with kv_keep_free. KV_USAGE, naming the option; KV_RESOURCE:
 * memory. */
typedef struct kv_keeping {
  const char *rows, *layers; /* as typed, or NULL */
  kv_keep keep;
} kv_keeping;

kv_rc kv_keeping_read(kv_keeping *k, kv_err *e);

#define KV_KEEPING_OPTIONS(task, member)                                       \
  {KV_SLOT_TEXT,                                                               \
   "rows",                                                                     \
   0,                                                                          \
   "ROWS",                                                                     \
   .offset = offsetof(task, member.rows),                                      \
   .group = "What to leave out",                                               \
   .help = "query rows that stay: decode; or last=256,decode, also those of "  \
           "the prompt's last 256 tokens (default: all)"},                     \
      {KV_SLOT_TEXT,                                                           \
       "layers",                                                               \
       0,                                                                      \
       "LIST",                                                                 \
       .offset = offsetof(task, member.layers),                                \
       .help = "layers that stay, such as 0,3,8-11 (default: all)"},           \
      {KV_SLOT_FLAG, "no-o", .offset = offsetof(task, member.keep.no_o),       \
       .help =                                                                 \
           "leave out outputs; kvtrace check then has nothing to compare"},    \
  {                                                                            \
    KV_SLOT_FLAG, "no-sums",                                                   \
        .offset = offsetof(task, member.keep.no_sums),                         \
        .help = "leave out column sums; methods like h2o are then refused"     \
  }

/* Names of models, by index in kv_geometries, NULL past the last; and all of
 * them in a sentence. */
const char *kv_model_name(int i);
#define KV_MODELS                                                              \
  "llama-3.1-8b, llama-3.1-70b, qwen2.5-7b, qwen2.5-32b, qwen3-4b, qwen3-8b, " \
  "mistral-7b, llama-2-7b, llama-2-13b, falcon-7b, gemma-3-12b, gpt-oss-20b "  \
  "and tiny"

/* For a command that writes a trace. After kv_stop_on_signals, SIGINT and
 * SIGTERM set kv_stop_asked to their number instead of ending the process, and
 * writing beyond the size limit is a failed write instead of SIGXFSZ. */
extern volatile sig_atomic_t kv_stop_asked;
void kv_stop_on_signals(void);

/* Call it with the result of writing. If writing failed and a signal came, it
 * prints e's sentence and sets *stopped to true, so that the exit code is 130;
 * else *stopped is false. Returns rc. */
kv_rc kv_stop_heard(kv_rc rc, bool *stopped, const kv_err *e);

/* Call it before computing: *out and KV_USAGE as in kv_choose_kernels; says on
 * standard error if fewer threads than OpenMP's default can be started. */
kv_rc kv_compute_setup(const kv_kernels **out, kv_err *e);

/* Prints and frees JSON text that was made since kv_json_begin
 * (traces/text/json.h); replaces kv_json_end. KV_RESOURCE: memory failed since
 * then. KV_INPUT: text is NULL because `path`, the trace's, is not UTF-8. */
kv_rc kv_print_json(const char *path, char *text, kv_err *e);

#endif
