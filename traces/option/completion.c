/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion for bash: contract in traces/option/help.h. Plain bash without
 * helper libraries: the first word is the command, choices come from the
 * tables, everything else is a file.
 */
#include "traces/option/help.h"

#include <string.h>

static void put_words(FILE *out, const char *choices, kv_naming *words) {
  fputs(" words=\"", out);
  for (; choices && *choices; choices++)
    fputc(*choices == '|' ? ' ' : *choices, out);
  for (int i = 0; words && words(i); i++) fprintf(out, " %s", words(i));
  fputs("\"", out);
}

static bool is_file(const char *argument) {
  return strcmp(argument, "FILE") == 0 || strcmp(argument, "DIR") == 0 ||
         strcmp(argument, "TRACE") == 0;
}

/* Completes an option's argument, by the word before the cursor, and an operand
 * that is not a file. */
static void values(FILE *out, const kv_command *c) {
  for (const kv_option *o = NULL; (o = kv_option_next(c, o));) {
    if (o->argument == NULL || is_file(o->argument)) continue;
    fprintf(out, "    %s:--%s", c->name, o->name);
    if (o->letter) fprintf(out, " | %s:-%c", c->name, o->letter);
    fputs(")", out);
    put_words(out, o->choices, o->words);
    fputs("; closed=1 ;;\n", out);
  }
  if (!c->words) return;
  fprintf(out, "    %s:*)", c->name);
  put_words(out, NULL, c->words);
  fputs(" ;;\n", out);
}

static void options(FILE *out, const kv_command *c) {
  fprintf(out, "    %s) options=\"", c->name);
  for (const kv_option *o = NULL; (o = kv_option_next(c, o));) {
    fprintf(out, "--%s ", o->name);
  }
  fputs("\" ;;\n", out);
}

/* Commands of another program: calls its own completion, if there is one. */
static void others(FILE *out, const kv_program *p) {
  for (const kv_brought *x = p->brought; x && x->name; x++)
    if (x->program)
      fprintf(out,
              "    %s) declare -F _%s >/dev/null || . \"${BASH_SOURCE[0]%%/*}/"
              "%s\" 2>/dev/null && _%s; return ;;\n",
              x->name, x->program, x->program, x->program);
}

static const char choose[] =
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
    "}\n";

void kv_help_completion(FILE *out, const kv_program *p) {
  fprintf(
      out,
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# generated from the option tables of %s\n"
      "_%s() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} options= words= closed= done=\n"
      "  local prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"",
      p->name, p->name);
  for (int i = 0; p->commands[i]; i++)
    fprintf(out, "%s ", p->commands[i]->name);
  for (const kv_brought *x = p->brought; x && x->name; x++)
    fprintf(out, "%s ", x->name);
  fputs("--help --version\" -- \"$cur\"))\n"
        "    return\n"
        "  fi\n"
        "  case $command in\n",
        out);
  for (int i = 0; p->commands[i]; i++) options(out, p->commands[i]);
  others(out, p);
  fputs("  esac\n  case $command:$prev in\n", out);
  for (int i = 0; p->commands[i]; i++) values(out, p->commands[i]);
  fputs(choose, out);
  fprintf(out, "complete -F _%s %s\n", p->name, p->name);
}
