/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of kvreplay: one table, which the program, its help, the man
 * pages and the completion share. A verb is a program of its own: argv[0] is
 * its name, what it returns is the exit code, it may print.
 */
#ifndef KV_SIM_VERBS_H
#define KV_SIM_VERBS_H

#include "ref/kernels.h"
#include "sim/help.h"

typedef struct kv_verb {
  const kv_command *command;
  int (*run)(int argc, char **argv);
} kv_verb;

extern const kv_verb kv_verbs[]; /* ends with command NULL */
extern const kv_command kv_command_kvreplay;

enum { KV_MOST_VERBS = 16 };
/* The program's command, then its verbs, then NULL. */
void kv_verbs_commands(const kv_command *out[KV_MOST_VERBS]);

/* "kvreplay: SENTENCE" on standard error; returns the exit code. */
int kv_say(const kv_err *e);
/* A remark that is no failure, in the same form. */
void kv_note(const char *text);

/* The kernel set that KVREPLAY_ISA names, else the best one here; a remark
 * about it is printed. */
kv_rc kv_verb_kernels(const kv_kernels **out, kv_err *e);

/* Prints what --help or --version asked for; c NULL: the program itself. */
int kv_verb_answer(kv_asked asked, const kv_command *c);

/* Each in sim/verb_NAME.c. */
int kv_verb_check(int argc, char **argv);
int kv_verb_grade(int argc, char **argv);
int kv_verb_lawcheck(int argc, char **argv);
int kv_verb_methods(int argc, char **argv);
int kv_verb_new(int argc, char **argv);
int kv_verb_run(int argc, char **argv);
int kv_verb_vectors(int argc, char **argv);
int kv_verb_verify(int argc, char **argv);

#endif
