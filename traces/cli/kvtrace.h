/* SPDX-License-Identifier: Apache-2.0
 *
 * The program kvtrace: its commands, and what they share. A command prints data
 * to stdout; its sentence, if it fails, is printed by who runs it
 * (traces/option/program.h).
 */
#ifndef KV_TRACES_KVTRACE_H
#define KV_TRACES_KVTRACE_H

#include <signal.h>

#include "traces/option/kernels.h"

extern const kv_command kv_command_info, kv_command_check, kv_command_convert,
    kv_command_synth;

/* What an operand that is one trace fills in, and --format; a command's struct
 * begins with it. */
typedef struct kv_one_trace {
  kv_list path;
  int json; /* --format json */
} kv_one_trace;

#define KV_ONE_TRACE                                                           \
  .operands = "TRACE", .least = 1, .most = 1,                                  \
  .offset = offsetof(kv_one_trace, path), .use = KV_USE_READ
#define KV_OPTION_FORMAT                                                       \
  {                                                                            \
    .slot = KV_SLOT_CHOICE, .name = "format", .letter = 'f',                   \
    .argument = "FORMAT", .choices = "table|json",                             \
    .offset = offsetof(kv_one_trace, json), .group = "What to print",          \
    .help = "table (the default) or json"                                      \
  }
#define KV_DTYPES "F16|BF16|F32" /* in the order of kv_dtype */

/* Set once SIGINT or SIGTERM came after kv_stop_on_signals; and from then on a
 * file too large is a failed write. */
extern volatile sig_atomic_t kv_stop_asked;
void kv_stop_on_signals(void);
/* rc, what writing ended with: if it was interrupted says so and sets *stopped.
 */
kv_rc kv_stop_heard(kv_rc rc, bool *stopped, const kv_err *e);

/* As kv_choose_kernels, and says how many threads there are. */
kv_rc kv_choose_means(const kv_kernels **out, kv_err *e);

/* Ends what kv_json_begin began: prints the text that was made of trace path,
 * and frees it. NULL, or memory that failed on the way: nothing is printed. */
kv_rc kv_print_json(const char *path, char *text, kv_err *e);

#endif
