/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes man pages and completion from the option tables, at build time:
 *   gen_docs man [COMMAND]    a page of section 1
 *   gen_docs completion    for bash
 *   gen_docs list          the commands, one a line
 */
#include "ref/lane/method.h"
#include "sim/commands/commands.h"
#include <string.h>

enum { MOST_METHODS = 256 };

static int man(const kv_command *const *all, const char *command) {
  if (command == NULL) {
    kv_help_man(stdout, all[0], all);
    return 0;
  }
  for (int i = 1; all[i]; i++) {
    if (strcmp(all[i]->name, command)) continue;
    kv_help_man(stdout, all[i], NULL);
    return 0;
  }
  return 2;
}

static int completion(const kv_command *const *all) {
  const char *names[MOST_METHODS + 1] = {NULL};
  for (int i = 0; i < MOST_METHODS && kv_method_at(i); i++) {
    names[i] = kv_method_at(i)->name;
  }
  kv_help_completion(stdout, all, names);
  return 0;
}

static int list(const kv_command *const *all) {
  for (int i = 1; all[i]; i++) puts(all[i]->name);
  return 0;
}

int main(int argc, char **argv) {
  const kv_command *all[KV_MOST_COMMANDS];
  const char *what = argc > 1 ? argv[1] : "";
  int code = 2;
  kv_commands_all(all);
  if (strcmp(what, "man") == 0)
    code = man(all, argc > 2 && *argv[2] ? argv[2] : NULL);
  if (strcmp(what, "completion") == 0) code = completion(all);
  if (strcmp(what, "list") == 0) code = list(all);
  if (code == 2) fputs("gen_docs: man [COMMAND] | completion | list\n", stderr);
  return fflush(stdout) ? 4 : code;
}
