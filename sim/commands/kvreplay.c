/* SPDX-License-Identifier: Apache-2.0
 *
 * The program kvreplay: runs the command that its first argument names. Data
 * goes to standard output; messages, one line each, to standard error. Exit
 * codes: ref/ground/err.h, and 130 when interrupted.
 */
#include "sim/commands/commands.h"
#include "sim/commands/signal.h"
#include "traces/text/text.h"
#include "traces/text/threads.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_command(const char *name) {
  const char *names[KV_MOST_COMMANDS];
  char show[KV_SHOW];
  kv_err e = {0};
  int n = 0;
  for (const kv_command_main *v = kv_commands; v->command; v++) {
    names[n++] = v->command->name;
  }
  const char *near = kv_text_nearest(name, n, names);
  if (near) {
    kv_fail(&e, KV_USAGE, "no command %s; did you mean %s?",
            kv_show(name, show), near);
  } else {
    kv_fail(&e, KV_USAGE, "no command %s; `kvreplay --help` lists them",
            kv_show(name, show));
  }
  return kv_say(&e);
}

/* Without a command: --help and --version. */
static int alone(int argc, char **argv) {
  kv_asked asked;
  kv_err e = {0};
  if (argc < 2) {
    kv_fail(&e, KV_USAGE, "no command; `kvreplay --help` lists them");
    return kv_say(&e);
  }
  if (kv_options_parse(&kv_command_kvreplay, argc, argv, NULL, &asked, &e)) {
    return kv_say(&e);
  }
  return asked == KV_ASKED_WORK ? alone(1, argv)
                                : kv_command_answer(asked, NULL);
}

static int dispatch(int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '-') return alone(argc, argv);
  for (const kv_command_main *v = kv_commands; v->command; v++) {
    if (strcmp(v->command->name, argv[1]) == 0) {
      return v->run(argc - 1, argv + 1);
    }
  }
  return no_command(argv[1]);
}

int main(int argc, char **argv) {
  kv_err e = {0};
  kv_float_ground(); /* before a number is read */
  kv_signals_catch();
  kv_ending_watch("kvreplay");
  int code = dispatch(argc, argv);
  kv_ending_is_ours();
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  if (code) return code; /* its error was printed */
  kv_fail(&e, KV_RESOURCE, "standard output cannot be written: %s",
          strerror(errno));
  return kv_say(&e);
}
