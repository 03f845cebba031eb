/* SPDX-License-Identifier: Apache-2.0
 *
 * Man pages: sim/cli/help.h. Only the macros of man(7) that every formatter
 * knows.
 */
#include "config.h"

#include "sim/cli/help.h"

#include <ctype.h>
#include <string.h>

/* Text with roff's special characters escaped. */
static void plain(FILE *out, const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (; *text; text++) {
    if (*text == '\\') {
      fputs("\\e", out);
    } else if (*text == '-') {
      fputs("\\-", out);
    } else if (*text == '`' || *text == '\'') {
      fputs(*text == '`' ? "\\(ga" : "\\(aq", out);
    } else {
      fputc(*text, out);
    }
  }
}

static void line(FILE *out, const char *text) {
  plain(out, text);
  fputc('\n', out);
}

static void name(FILE *out, const kv_command *c) {
  fputs(c->program, out);
  if (c->name) fprintf(out, "\\-%s", c->name);
}

static void title(FILE *out, const kv_command *c) {
  fputs(".TH ", out);
  for (const char *s = c->program; *s; s++) fputc(toupper(*s), out);
  if (c->name) fputs("\\-", out);
  for (const char *s = c->name ? c->name : ""; *s; s++) {
    fputc(toupper(*s), out);
  }
  fprintf(out, " 1 \"\" \"kvreplay %s\" \"kvreplay\"\n", VERSION);
  fputs(".SH NAME\n", out);
  name(out, c);
  fputs(" \\- ", out);
  line(out, c->summary);
  fprintf(out, ".SH SYNOPSIS\n.B %s", c->program);
  if (c->name) fprintf(out, " %s", c->name);
  fputs("\n[\\fIOPTION\\fR]...", out);
  if (c->operands) fprintf(out, " \\fI%s\\fR", c->operands);
  fputc('\n', out);
}

static void notes(FILE *out, const kv_command *c) {
  if (c->notes == NULL) return;
  fputs(".SH DESCRIPTION\n", out);
  for (int i = 0; c->notes[i]; i++) {
    if (i) fputs(".PP\n", out);
    line(out, c->notes[i]);
  }
}

static void commands(FILE *out, kv_command_list all) {
  if (all == NULL) return;
  fputs(".SH COMMANDS\n", out);
  for (int i = 1; all[i]; i++) {
    fprintf(out, ".TP\n.B %s\n", all[i]->name);
    plain(out, all[i]->summary);
    fputs("; see\n.BR ", out);
    name(out, all[i]);
    fputs(" (1)\n", out);
  }
}

static void examples(FILE *out, const kv_command *c) {
  if (c->examples == NULL) return;
  fputs(".SH EXAMPLES\n", out);
  for (const kv_example *x = c->examples; x->line; x++) {
    fputs(".TP\n\\fB", out);
    plain(out, x->line);
    fputs("\\fR\n", out);
    line(out, x->does);
  }
}

static void options(FILE *out, const kv_command *c) {
  for (const kv_option *o = NULL; (o = kv_option_next(c, o));) {
    if (o->group) fprintf(out, ".SH \"OPTIONS: %s\"\n", o->group);
    fputs(".TP\n\\fB", out);
    if (o->letter) fprintf(out, "\\-%c\\fR, \\fB", o->letter);
    fputs("\\-\\-", out);
    plain(out, o->name);
    fputs("\\fR", out);
    if (o->argument) fprintf(out, " \\fI%s\\fR", o->argument);
    fputc('\n', out);
    line(out, o->help);
  }
}

static const char closing[] =
    ".SH \"EXIT STATUS\"\n"
    ".TP\n0\ndone\n"
    ".TP\n1\ncompared, and different\n"
    ".TP\n2\nthe command line is wrong, or no cell could run\n"
    ".TP\n3\nan input file is bad, or a cell failed\n"
    ".TP\n4\nmemory, disk or database\n"
    ".TP\n5\na broken invariant: a bug\n"
    ".TP\n130\ninterrupted; what was finished is kept\n"
    ".SH ENVIRONMENT\n"
    ".TP\nKVREPLAY_ISA\n"
    "portable, avx2 or avx512: the kernel set to use instead of the best one; "
    "never changes a number\n"
    ".TP\nKVREPLAY_KEEP\n"
    "how many seconds may pass before finished layers are written to the "
    "database, 0 to 90; 5 by default\n"
    ".TP\nNO_COLOR\nno terminal attributes, where it is not empty\n";

void kv_help_man(FILE *out, const kv_command *c, kv_command_list all) {
  title(out, c);
  notes(out, c);
  examples(out, c);
  commands(out, all);
  options(out, c);
  fputs(closing, out);
}
