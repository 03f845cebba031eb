/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of verbs.c as --help, manual page and bash completion.
 */
#include "analysis/verbs.h"

#include "config.h"
#include <string.h>

static const char what[] =
    "reads the database that kvreplay run --db wrote and says what is in it";

static const char codes[] =
    "0 done, 1 merge found a contradiction, 2 wrong command line, 3 not a "
    "kvreplay database, 4 disk or memory";

void kv_help(FILE *f) {
  fputs("Examples:\n", f);
  for (const kv_verb *v = kv_verbs; v->name; v++)
    fprintf(f, "  %s\n", v->example);
  fprintf(f, "\nkvreport %s.\n\nUsage:\n", what);
  for (const kv_verb *v = kv_verbs; v->name; v++)
    fprintf(f, "  kvreport %s %s\n      %s\n", v->name, v->usage, v->help);
  fputs("\nOptions:\n", f);
  for (const kv_flag *o = kv_flags; o->letter; o++) {
    char left[48];
    snprintf(left, sizeof left, "-%c, --%s%s%s", o->letter, o->name,
             o->value ? " " : "", o->value ? o->value : "");
    fprintf(f, "  %s\n      %s\n", left, o->help);
  }
  fprintf(f, "\nExit codes: 0 done, 1 merge found a contradiction, 2 wrong "
             "command line,\n3 not a kvreplay database, 4 disk or memory.\n");
}

/* Options' hyphens must not become typographic ones. */
static void roff(const char *t, FILE *f) {
  if (*t == '.' || *t == '\'') fputs("\\&", f);
  for (; *t; t++) {
    if (*t == '-' || *t == '\\') putc('\\', f);
    putc(*t, f);
  }
}

void kv_man(FILE *f) {
  fprintf(f, ".TH KVREPORT 1 \"\" \"kvreplay %s\" \"User Commands\"\n",
          VERSION);
  fputs(".SH NAME\nkvreport \\- tables and pages of replayed results\n"
        ".SH SYNOPSIS\n",
        f);
  for (const kv_verb *v = kv_verbs; v->name; v++) {
    fprintf(f, ".B kvreport %s\n", v->name);
    roff(v->usage, f);
    fputs("\n.br\n", f);
  }
  fputs(".SH EXAMPLES\n", f);
  for (const kv_verb *v = kv_verbs; v->name; v++) {
    fputs(".TP\n.B ", f);
    roff(v->example, f);
    fputs("\n", f);
    roff(v->help, f);
    fputs("\n", f);
  }
  fputs(".SH OPTIONS\n", f);
  for (const kv_flag *o = kv_flags; o->letter; o++) {
    fprintf(f, ".TP\n.B \\-%c, \\-\\-%s %s\n", o->letter, o->name,
            o->value ? o->value : "");
    roff(o->help, f);
    fputs("\n", f);
  }
  fprintf(f,
          ".SH EXIT STATUS\n%s.\n.SH SEE ALSO\n.BR kvreplay (1),\n"
          ".BR kvtrace (1)\n",
          codes);
}

void kv_completion(FILE *f) {
  fputs("# bash completion of kvreport, generated\n_kvreport() {\n"
        "  local cur=${COMP_WORDS[COMP_CWORD]}\n"
        "  case $COMP_CWORD:$cur in\n"
        "  1:*) COMPREPLY=($(compgen -W '",
        f);
  for (const kv_verb *v = kv_verbs; v->name; v++) fprintf(f, "%s ", v->name);
  fputs("--help --version' -- \"$cur\")) ;;\n"
        "  *:-*) COMPREPLY=($(compgen -W '",
        f);
  for (const kv_flag *o = kv_flags; o->letter; o++)
    fprintf(f, "--%s ", o->name);
  fputs("' -- \"$cur\")) ;;\n"
        "  *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n  esac\n}\n"
        "complete -o filenames -F _kvreport kvreport\n",
        f);
}
