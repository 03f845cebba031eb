/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of verbs and what they share: sim/verbs.h.
 */
#include "sim/verbs.h"

#include "sim/options_check.h"
#include "sim/options_grade.h"
#include "sim/options_lawcheck.h"
#include "sim/options_methods.h"
#include "sim/options_new.h"
#include "sim/options_run.h"
#include "sim/options_vectors.h"
#include "sim/options_verify.h"
#include "sim/version.h"
#include <assert.h>
#include <stdlib.h>

const kv_verb kv_verbs[] = {{&kv_command_run, kv_verb_run},
                            {&kv_command_check, kv_verb_check},
                            {&kv_command_grade, kv_verb_grade},
                            {&kv_command_verify, kv_verb_verify},
                            {&kv_command_methods, kv_verb_methods},
                            {&kv_command_new, kv_verb_new},
                            {&kv_command_lawcheck, kv_verb_lawcheck},
                            {&kv_command_vectors, kv_verb_vectors},
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
    .verb = NULL,
    .summary = "replay KV-cache compression on recorded attention",
    .operands = "COMMAND",
    .examples = examples,
    .notes = notes};

void kv_verbs_commands(const kv_command *out[KV_MOST_VERBS]) {
  int n = 0;
  out[n++] = &kv_command_kvreplay;
  for (const kv_verb *v = kv_verbs; v->command; v++) {
    assert(n < KV_MOST_VERBS - 1 && "a program has few verbs");
    out[n++] = v->command;
  }
  out[n] = NULL;
}

int kv_say(const kv_err *e) {
  fprintf(stderr, "kvreplay: %s\n", e->text);
  return (int)e->rc;
}

void kv_note(const char *text) { fprintf(stderr, "kvreplay: %s\n", text); }

kv_rc kv_verb_kernels(const kv_kernels **out, kv_err *e) {
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
  if (kv_verb_kernels(&k, &e)) return kv_say(&e);
  kv_version_print(stdout, "kvreplay", k->name);
  return KV_OK;
}

int kv_verb_answer(kv_asked asked, const kv_command *c) {
  const kv_command *all[KV_MOST_VERBS];
  if (asked == KV_ASKED_VERSION) return version();
  kv_verbs_commands(all);
  kv_help_print(stdout, c ? c : all[0], c ? NULL : all);
  return KV_OK;
}
