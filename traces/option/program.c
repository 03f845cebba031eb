/* SPDX-License-Identifier: Apache-2.0
 *
 * From main to a command and back: traces/option/program.h.
 */
#include "config.h"

#include "traces/option/program.h"

#include "commit.h"
#include "ref/ground/text.h"
#include "traces/option/further.h"
#include "traces/option/help.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *speaker = "kvreplay"; /* the program that runs */

int kv_say(const kv_err *e) {
  kv_note(e->text);
  return (int)e->rc;
}

void kv_note(const char *text) {
  fprintf(stderr, "%s: ", speaker);
  kv_put_plain(stderr, text);
  fputc('\n', stderr);
}

static int version(const kv_program *p) {
  char lines[256] = "";
  kv_err e = {0};
  if (p->version && p->version(sizeof lines, lines, &e)) return kv_say(&e);
  printf("%s %s\ncommit    %s\ncompiler  %s\nflags     ", p->name, VERSION,
         KV_COMMIT, KV_COMPILER);
  kv_help_wrap(stdout, 10, 10, KV_CFLAGS);
  fputs(lines, stdout);
  return KV_OK;
}

static int answer(const kv_program *p, const kv_command *c, kv_asked asked) {
  if (asked == KV_ASKED_VERSION) return version(p);
  kv_help_print(stdout, p, c, asked == KV_ASKED_ALL);
  return KV_OK;
}

/* NULL: no such command. */
static const kv_command *find(const kv_program *p, const char *name) {
  for (int n = 0; p->commands[n]; n++)
    if (!strcmp(p->commands[n]->name, name)) return p->commands[n];
  return NULL;
}

static const kv_brought *brought(const kv_program *p, const char *name) {
  for (const kv_brought *x = p->brought; x && x->name; x++)
    if (!strcmp(x->name, name)) return x;
  return NULL;
}

static kv_rc missing(const kv_program *p, const char *name, kv_err *e) {
  const char *names[KV_MOST_COMMANDS];
  char where[64];
  int n = 0;
  const kv_brought *x = brought(p, name);
  if (x)
    return kv_fail(e, KV_RESOURCE,
                   "%s is a command of %s, and there is no %s%s%s on the path: "
                   "%s",
                   name, x->program ? x->program : "the Python package",
                   x->program ? x->program : p->name, x->program ? "" : "-",
                   x->program ? "" : name, x->install);
  for (int i = 0; p->commands[i]; i++) names[n++] = p->commands[i]->name;
  for (x = p->brought; x && x->name; x++) names[n++] = x->name;
  assert(n <= KV_MOST_COMMANDS && "a program has few commands");
  snprintf(where, sizeof where, "`%s --help` lists them", p->name);
  return kv_no_such("command", name, n, names, where, e);
}

/* Runs a command that the table lacks. */
static int elsewhere(const kv_program *p, char **argv) {
  kv_err e = {0};
  const kv_brought *x = brought(p, argv[0]);
  bool other = x && x->program;
  char file[PATH_MAX];
  snprintf(file, sizeof file, "%s-%s", p->name, argv[0]);
  if (!kv_further_run(other ? x->program : file, other ? file : NULL, argv, &e))
    missing(p, argv[0], &e);
  return kv_say(&e);
}

/* Answers what only the build asks for (--man, --completion, --commands).
 * False: it was none of these. */
static bool for_build(const kv_program *p, int argc, char **argv, int *code) {
  const kv_command *c = &p->alone;
  *code = KV_OK;
  if (!strcmp(argv[1], "--man")) {
    if (argc > 2) c = find(p, argv[2]);
    kv_err e = {0};
    if (c) kv_help_man(stdout, p, c);
    if (!c && missing(p, argv[2], &e)) *code = kv_say(&e);
  } else if (!strcmp(argv[1], "--completion")) {
    kv_help_completion(stdout, p);
  } else if (!strcmp(argv[1], "--commands")) {
    for (int i = 0; p->commands[i]; i++) puts(p->commands[i]->name);
  } else {
    return false;
  }
  return true;
}

static kv_rc work(const kv_command *c, void *self, bool *stopped, kv_err *e) {
  kv_rc rc = c->task->check ? c->task->check(self, e) : KV_OK;
  return rc ? rc : c->task->work(self, stopped, e);
}

static int ended(const kv_command *c, void *self, kv_rc rc, bool stopped,
                 const kv_err *e) {
  if (stopped && c->task->interrupted) c->task->interrupted(self);
  if (stopped) return KV_EXIT_INTERRUPTED;
  if (rc) return e->text[0] ? kv_say(e) : (int)rc;
  return c->task->conclude ? c->task->conclude(self) : KV_OK;
}

static int run(const kv_program *p, const kv_command *c, int argc,
               char **argv) {
  kv_err e = {0};
  kv_asked asked = KV_ASKED_WORK;
  bool stopped = false;
  void *self = kv_zalloc(1, c->task->size);
  if (!self) {
    kv_no_memory(&e, "a command", c->task->size);
    return kv_say(&e);
  }
  if (c->task->begin) c->task->begin(self, argc, argv);
  kv_rc rc = kv_options_parse(c, argc, argv, self, &asked, &e);
  bool asks = !rc && asked != KV_ASKED_WORK;
  if (!rc && !asks) rc = work(c, self, &stopped, &e);
  int code = asks ? answer(p, c, asked) : ended(c, self, rc, stopped, &e);
  if (c->task->free) c->task->free(self);
  kv_options_free(c, self);
  free(self);
  return code;
}

int kv_command_call(const kv_program *p, int argc, char **argv) {
  speaker = p->name;
  const kv_command *c = find(p, argv[0]);
  return c ? run(p, c, argc, argv) : elsewhere(p, argv);
}

/* Without a command: --help and --version. */
static int alone(const kv_program *p, int argc, char **argv) {
  kv_asked asked = KV_ASKED_WORK;
  kv_err e = {0};
  int code;
  if (argc > 1 && for_build(p, argc, argv, &code)) return code;
  if (argc > 1 && kv_options_parse(&p->alone, argc, argv, NULL, &asked, &e))
    return kv_say(&e);
  if (asked != KV_ASKED_WORK) return answer(p, &p->alone, asked);
  kv_fail(&e, KV_USAGE, "no command; `%s --help` lists them", p->name);
  return kv_say(&e);
}

int kv_command_main(const kv_program *program, int argc, char **argv) {
  kv_err e = {0};
  kv_program called = *program, *p = &called;
  size_t n = p->also && argc ? strlen(p->also) : 0;
  bool other = n && !strncmp(argv[0], p->also, n) && argv[0][n] == '-';
  if (other) p->name = p->also, argv[0] += n + 1;
  speaker = p->name;
  int code = other ? kv_command_call(p, argc, argv)
             : argc < 2 || argv[1][0] == '-'
                 ? alone(p, argc, argv)
                 : kv_command_call(p, argc - 1, argv + 1);
  if (code || !kv_flush(stdout, &e)) return code; /* an error was printed */
  return kv_say(&e);
}
