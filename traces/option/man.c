/* SPDX-License-Identifier: Apache-2.0
 *
 * Man pages: traces/option/help.h. Uses only those macros of man(7) that every
 * formatter has.
 */
#include "config.h"

#include "traces/option/help.h"

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

static void upper(FILE *out, const char *text) {
  for (; *text; text++) fputc(toupper((unsigned char)*text), out);
}

static void title(FILE *out, const kv_program *p, const kv_command *c) {
  const char *dash = c->name ? "\\-" : "", *name = c->name ? c->name : "";
  fputs(".TH ", out);
  upper(out, p->name);
  fputs(dash, out);
  upper(out, name);
  fprintf(out, " 1 \"\" \"kvreplay %s\" \"kvreplay\"\n.SH NAME\n%s%s%s \\- ",
          VERSION, p->name, dash, name);
  line(out, c->summary);
  fprintf(out, ".SH SYNOPSIS\n.B %s", p->name);
  if (c->name) fprintf(out, " %s", c->name);
  fputs("\n[\\fIOPTION\\fR]...", out);
  if (c->operands) fprintf(out, " \\fI%s\\fR", c->operands);
  fputc('\n', out);
}

static void notes(FILE *out, const kv_command *c) {
  if (c->notes == NULL) return;
  fputs(".SH DESCRIPTION\n", out);
  for (int i = 0; c->notes[i]; i++) {
    if (!*c->notes[i]) continue; /* KV_NOTES_REST */
    if (i) fputs(".PP\n", out);
    line(out, c->notes[i]);
  }
}

static void command(FILE *out, const char *program, const char *name,
                    const char *does) {
  fprintf(out, ".TP\n.B %s\n", name);
  plain(out, does);
  fprintf(out, "; see\n.BR %s\\-%s (1)\n", program, name);
}

static void commands(FILE *out, const kv_program *p) {
  fputs(".SH COMMANDS\n", out);
  for (int i = 0; p->commands[i]; i++)
    command(out, p->name, p->commands[i]->name, p->commands[i]->summary);
  for (const kv_brought *x = p->brought; x && x->name; x++)
    command(out, x->program ? x->program : p->name, x->name, x->does);
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

static void list(FILE *out, const char *heading, const kv_example *x) {
  if (x) fprintf(out, ".SH \"%s\"\n", heading);
  for (; x && x->line; x++) {
    fprintf(out, ".TP\n%s\n", x->line);
    line(out, x->does);
  }
}

void kv_help_man(FILE *out, const kv_program *p, const kv_command *c) {
  title(out, p, c);
  notes(out, c);
  examples(out, c);
  if (!c->name) commands(out, p);
  options(out, c);
  list(out, "EXIT STATUS", kv_help_codes);
  list(out, "ENVIRONMENT", p->environment);
}
