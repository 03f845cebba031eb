/* SPDX-License-Identifier: Apache-2.0
 *
 * --help: traces/option/help.h.
 */
#include "traces/option/help.h"

#include "traces/option/further.h"

#include <string.h>

enum { WIDTH = 80, COLUMN = 26 };

void kv_help_wrap(FILE *out, int indent, int at, const char *text) {
  bool first = true;
  while (*text) {
    int n = (int)strcspn(text, " ");
    if (!first && at + 1 + n > WIDTH) {
      fprintf(out, "\n%*s", indent, "");
      at = indent;
      first = true;
    }
    if (!first) fputc(' ', out);
    fprintf(out, "%.*s", n, text);
    at += n + !first;
    first = false;
    text += n;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

const kv_example kv_help_codes[] = {
    {"0", "done"},
    {"1", "compared, and different"},
    {"2", "the command line is wrong, or no cell could run"},
    {"3", "an input file is bad, a cell failed, or a method got no cell"},
    {"4", "memory, disk, database or device"},
    {"5", "a broken invariant: a bug"},
    {"130", "interrupted; finished results are kept"},
    {NULL, NULL}};

static void usage(FILE *out, const kv_program *p, const kv_command *c) {
  fprintf(out, "Usage: %s", p->name);
  if (c->name) fprintf(out, " %s", c->name);
  fputs(" [OPTION]...", out);
  if (c->operands) fprintf(out, " %s", c->operands);
  fputc('\n', out);
}

/* Length of the text up to the space before the next option, or to its end. */
static int clause(const char *line) {
  int n = 0;
  do n += 1 + (int)strcspn(line + n + 1, " ");
  while (line[n] && line[n + 1] != '-');
  return n;
}

/* Breaks an example that does not fit a line before an option, so that it can
 * be copied as printed. */
static void command_line(FILE *out, const char *line) {
  int at = fprintf(out, "  ");
  for (int n; *line; line += n) {
    n = clause(line);
    if (at + n > WIDTH - (line[n] ? 2 : 0)) at = fprintf(out, " \\\n     ") - 3;
    at += fprintf(out, "%.*s", n, line);
  }
  fputc('\n', out);
}

static void examples(FILE *out, const kv_command *c) {
  if (c->examples == NULL) return;
  fputs("\nExamples:\n", out);
  for (const kv_example *x = c->examples; x->line; x++) {
    command_line(out, x->line);
    fputs("      # ", out);
    kv_help_wrap(out, 8, 8, x->does);
  }
}

static void option(FILE *out, const kv_option *o) {
  int at = o->letter ? fprintf(out, "  -%c, --%s", o->letter, o->name)
                     : fprintf(out, "      --%s", o->name);
  if (o->argument) at += fprintf(out, " %s", o->argument);
  if (at + 2 > COLUMN) {
    fputc('\n', out);
    at = 0;
  }
  fprintf(out, "%*s", COLUMN - at, "");
  kv_help_wrap(out, COLUMN, COLUMN, o->help);
}

static void commands(FILE *out, const kv_program *p) {
  fputs("\nCommands (each has its own --help):\n", out);
  for (int i = 0; p->commands[i]; i++) {
    int at = fprintf(out, "  %s", p->commands[i]->name);
    fprintf(out, "%*s", COLUMN - at, "");
    kv_help_wrap(out, COLUMN, COLUMN, p->commands[i]->summary);
  }
}

static bool is_own(const kv_program *p, const char *name) {
  for (int i = 0; p->commands[i]; i++)
    if (!strcmp(p->commands[i]->name, name)) return true;
  return false;
}

static const char *does(const kv_program *p, const char *name) {
  for (const kv_brought *x = p->brought; x && x->name; x++)
    if (!strcmp(x->name, name)) return x->does;
  return NULL;
}

/* Programs of the path that go on from this one; its own commands win. */
static void further(FILE *out, const kv_program *p) {
  char names[KV_FURTHER_MOST][KV_FURTHER_ROOM];
  int n = kv_further_list(p->name, names);
  bool told = false;
  for (int i = 0; i < n; i++) {
    if (is_own(p, names[i])) continue;
    if (!told)
      fprintf(out, "\nFurther commands, %s-NAME beside it or on the path:\n",
              p->name);
    told = true;
    const char *text = does(p, names[i]);
    int at = fprintf(out, "  %s", names[i]);
    if (text) fprintf(out, "%*s", COLUMN - at, "");
    kv_help_wrap(out, COLUMN, text ? COLUMN : at, text ? text : "");
  }
}

static void codes(FILE *out) {
  fputs("\nExit codes:\n", out);
  for (const kv_example *x = kv_help_codes; x->line; x++)
    fprintf(out, "  %-6s%s\n", x->line, x->does);
}

void kv_help_print(FILE *out, const kv_program *p, const kv_command *c) {
  usage(out, p, c);
  examples(out, c);
  if (!c->name) {
    commands(out, p);
    further(out, p);
  }
  for (const kv_option *o = NULL; (o = kv_option_next(c, o));) {
    if (o->group) fprintf(out, "\n%s:\n", o->group);
    option(out, o);
  }
  for (int i = 0; c->notes && c->notes[i]; i++) {
    fputc('\n', out);
    kv_help_wrap(out, 0, 0, c->notes[i]);
  }
  if (!c->name) codes(out);
}
