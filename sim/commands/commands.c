/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands and what they share: sim/commands/commands.h.
 */
#include "sim/commands/commands.h"

#include "sim/cli/version.h"
#include "sim/commands/options_check.h"
#include "sim/commands/options_grade.h"
#include "sim/commands/options_lawcheck.h"
#include "sim/commands/options_methods.h"
#include "sim/commands/options_new.h"
#include "sim/commands/options_run.h"
#include "sim/commands/options_vectors.h"
#include "sim/commands/options_verify.h"
#include "traces/text/text.h"
#include <assert.h>
#include <stdlib.h>

const kv_command_main kv_commands[] = {{&kv_command_run, kv_main_run},
                                       {&kv_command_check, kv_main_check},
                                       {&kv_command_grade, kv_main_grade},
                                       {&kv_command_verify, kv_main_verify},
                                       {&kv_command_methods, kv_main_methods},
                                       {&kv_command_new, kv_main_new},
                                       {&kv_command_lawcheck, kv_main_lawcheck},
                                       {&kv_command_vectors, kv_main_vectors},
                                       {NULL, NULL}};

static const kv_example examples[] = {
    {"kvreplay run traces/tiny/*.safetensors -m all -b 20%",
     "every method on the bundled traces"},
    {"kvreplay methods", "the methods, one line each"},
    {"kvreplay methods h2o", "one method, with every parameter"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays recorded attention through KV-cache compression methods: "
    "fidelity and real bytes, the same bits on every machine.",
    "Exit codes: 0 done; 1 compared, and different; 2 wrong command line; 3 "
    "bad input file; 4 memory, disk, database or device; 5 a bug; 130 "
    "interrupted.",
    NULL};

const kv_command kv_command_kvreplay = {
    .program = "kvreplay",
    .name = NULL,
    .summary = "replay KV-cache compression on recorded attention",
    .operands = "COMMAND",
    .examples = examples,
    .notes = notes};

void kv_commands_all(const kv_command *out[KV_MOST_COMMANDS]) {
  int n = 0;
  out[n++] = &kv_command_kvreplay;
  for (const kv_command_main *v = kv_commands; v->command; v++) {
    assert(n < KV_MOST_COMMANDS - 1 && "a program has few commands");
    out[n++] = v->command;
  }
  out[n] = NULL;
}

int kv_say(const kv_err *e) {
  kv_note(e->text);
  return (int)e->rc;
}

void kv_note(const char *text) {
  fputs("kvreplay: ", stderr);
  kv_put_plain(stderr, text);
  fputc('\n', stderr);
}

kv_rc kv_command_kernels(const kv_kernels **out, kv_err *e) {
  char note[128] = "";
  const char *name = getenv("KVREPLAY_ISA");
  *out = kv_kernels_best();
  if (!name || !*name) return KV_OK;
  kv_rc rc = kv_kernels_named(name, out, note, e);
  if (!rc && note[0]) kv_note(note);
  return rc;
}

static int version(void) {
  kv_err e = {0};
  const kv_kernels *k;
  if (kv_command_kernels(&k, &e)) return kv_say(&e);
  kv_version_print(stdout, "kvreplay", k->name);
  return KV_OK;
}

int kv_command_answer(kv_asked asked, const kv_command *c) {
  const kv_command *all[KV_MOST_COMMANDS];
  if (asked == KV_ASKED_VERSION) return version();
  kv_commands_all(all);
  kv_help_print(stdout, c ? c : all[0], c ? NULL : all);
  return KV_OK;
}
