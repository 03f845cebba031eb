/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes kvtrace's man page and completion from the option tables, at build
 * time:
 *   gen_docs man         the page of section 1, all verbs in it
 *   gen_docs completion  for bash
 */
#include "config.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "traces/cli/kvtrace.h"
#include "traces/trace/geometry.h"

/* Text of a page: a dash is a minus, and no line begins with a dot. */
static void say(const char *text) {
  for (; *text; text++) {
    if (*text == '-' || *text == '\\') putchar('\\');
    putchar(*text);
  }
}

static void man_flag(const kv_flag *f) {
  printf(".TP\n.B ");
  if (f->letter) printf("\\-%c, ", f->letter);
  say("--");
  say(f->name);
  if (f->argument) printf(" \\fI%s\\fR", f->argument);
  putchar('\n');
  say(f->help);
  putchar('\n');
}

static void man_verb(const kv_verb *verb) {
  printf(".SS ");
  say(verb->usage);
  putchar('\n');
  say(verb->summary);
  puts(".");
  for (const kv_flag *f = verb->flags; f->name; f++) man_flag(f);
  if (!verb->notes) return;
  puts(".PP");
  say(verb->notes);
  putchar('\n');
}

static int man(void) {
  puts(".TH KVTRACE 1 \"\" \"kvreplay " PACKAGE_VERSION "\" \"User Commands\"\n"
       ".SH NAME\nkvtrace \\- looks at, checks, converts and makes attention "
       "traces");
  puts(".SH SYNOPSIS\n.B kvtrace\n\\fIVERB\\fR [\\fIOPTION\\fR]... "
       "[\\fITRACE\\fR]\n.SH EXAMPLES\n.nf");
  for (int i = 0; kv_verbs[i]; i++) {
    for (int j = 0; kv_verbs[i]->examples[j]; j++) {
      say(kv_verbs[i]->examples[j]);
      putchar('\n');
    }
  }
  puts(".fi\n.SH VERBS");
  for (int i = 0; kv_verbs[i]; i++) man_verb(kv_verbs[i]);
  puts(".SH ENVIRONMENT\n.TP\n.B KVREPLAY_ISA\nportable, avx2 or avx512: "
       "the kernels to use.");
  puts(".SH EXIT STATUS\n0 fine, 1 compared and different, 2 usage, 3 bad "
       "input, 4 resources, 5 internal, 130 interrupted.");
  return 0;
}

/* The values of an option where they are words: "table|json", the models. */
static void values(const kv_verb *verb, const kv_flag *f) {
  int n = 0;
  const kv_geometry *model = kv_geometries(&n);
  bool models = f->argument && strcmp(f->argument, "MODEL") == 0;
  if (!models && !(f->argument && strchr(f->argument, '|'))) return;
  printf("  %s:--%s", verb->name, f->name);
  if (f->letter) printf(" | %s:-%c", verb->name, f->letter);
  fputs(") list='", stdout);
  for (int i = 0; models && i < n; i++) printf("%s ", model[i].name);
  for (const char *c = models ? "" : f->argument; *c; c++)
    putchar(*c == '|' ? ' ' : *c);
  puts("' ;;");
}

static void options(const kv_verb *verb) {
  printf("  %s:*:-*) list='", verb->name);
  for (const kv_flag *f = verb->flags; f->name; f++) printf("--%s ", f->name);
  puts("--help' ;;");
}

/* An empty list leaves the word to bash: a file. */
static int completion(void) {
  puts("_kvtrace() {\n  local word=${COMP_WORDS[COMP_CWORD]} list=\n"
       "  local verb=${COMP_WORDS[1]} before=${COMP_WORDS[COMP_CWORD - 1]}");
  puts("  case $verb:$before:$word in");
  for (int i = 0; kv_verbs[i]; i++) options(kv_verbs[i]);
  puts("  esac\n  case $verb:$before in");
  for (int i = 0; kv_verbs[i]; i++)
    for (const kv_flag *f = kv_verbs[i]->flags; f->name; f++)
      values(kv_verbs[i], f);
  puts("  esac");
  printf("  [ \"$COMP_CWORD\" -eq 1 ] && list='");
  for (int i = 0; kv_verbs[i]; i++) printf("%s ", kv_verbs[i]->name);
  puts("--help --version'");
  puts("  mapfile -t COMPREPLY < <(compgen -W \"$list\" -- \"$word\")\n}");
  puts("complete -o default -F _kvtrace kvtrace");
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int code = 2;
  if (strcmp(what, "man") == 0) code = man();
  if (strcmp(what, "completion") == 0) code = completion();
  if (code == 2) fputs("gen_docs: man | completion\n", stderr);
  return fflush(stdout) ? 4 : code;
}
