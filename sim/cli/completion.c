/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion for bash: contract in sim/cli/help.h. Plain bash without helper
 * libraries: the first word is the command, choices come from the tables,
 * everything else is a file.
 */
#include "sim/cli/help.h"

#include <string.h>

static void words(FILE *out, const char *choices) {
  for (; *choices; choices++) fputc(*choices == '|' ? ' ' : *choices, out);
}

static bool is_file(const char *argument) {
  return strcmp(argument, "FILE") == 0 || strcmp(argument, "DIR") == 0 ||
         strcmp(argument, "TRACE") == 0;
}

/* Completes an option's argument, by the word before the cursor. */
static void values(FILE *out, const kv_command *c) {
  for (const kv_option *o = NULL; (o = kv_option_next(c, o));) {
    if (o->argument == NULL || is_file(o->argument)) continue;
    fprintf(out, "    %s:--%s", c->name, o->name);
    if (o->letter) fprintf(out, " | %s:-%c", c->name, o->letter);
    fputs(") words=\"", out);
    if (o->choices) words(out, o->choices);
    if (strcmp(o->argument, "SPEC,...") == 0) fputs("all ", out);
    if (strncmp(o->argument, "SPEC", 4) == 0) fputs("$methods", out);
    fputs("\"; closed=1 ;;\n", out);
  }
}

static void options(FILE *out, const kv_command *c) {
  fprintf(out, "    %s) options=\"", c->name);
  for (const kv_option *o = NULL; (o = kv_option_next(c, o));) {
    fprintf(out, "--%s ", o->name);
  }
  fputs("\" ;;\n", out);
}

void kv_help_completion(FILE *out, kv_command_list all,
                        const char *const *methods) {
  const char *program = all[0]->program;
  fprintf(
      out,
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# generated from the option tables of %s\n"
      "_%s() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} options= words= closed= done=\n"
      "  local prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
      "  local commands=\"",
      program, program);
  for (int i = 1; all[i]; i++) fprintf(out, "%s ", all[i]->name);
  fputs("\"\n  local methods=\"", out);
  for (int i = 0; methods[i]; i++) fprintf(out, "%s ", methods[i]);
  fputs("\"\n"
        "  COMPREPLY=()\n"
        "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
        "    COMPREPLY=($(compgen -W \"$commands --help --version\" -- "
        "\"$cur\"))\n"
        "    return\n"
        "  fi\n"
        "  case $command in\n",
        out);
  for (int i = 1; all[i]; i++) options(out, all[i]);
  fputs("  esac\n  case $command:$prev in\n", out);
  for (int i = 1; all[i]; i++) values(out, all[i]);
  fputs("    methods:*) words=\"$methods\" ;;\n"
        "  esac\n"
        "  if [ -n \"$closed\" ]; then\n"
        "    case $cur in\n"
        "    *,*) done=${cur%,*}, ;;\n"
        "    esac\n"
        "    case $done in\n"
        "    *\\\\,) ;;\n" /* the comma belongs to a path */
        "    *) COMPREPLY=($(compgen -P \"$done\" -W \"$words\" -- "
        "\"${cur#\"$done\"}\")) ;;\n"
        "    esac\n"
        "    case ${cur#\"$done\"} in\n" /* a plugin */
        "    */*) compopt -o filenames 2>/dev/null\n"
        "      COMPREPLY=($(compgen -P \"$done\" -f -- "
        "\"${cur#\"$done\"}\")) ;;\n"
        "    esac\n"
        "  elif [ \"${cur#-}\" != \"$cur\" ]; then\n"
        "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
        "  elif [ -n \"$words\" ]; then\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "  else\n"
        "    compopt -o filenames 2>/dev/null\n"
        "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
        "  fi\n"
        "}\n",
        out);
  fprintf(out, "complete -F _%s %s\n", program, program);
}
