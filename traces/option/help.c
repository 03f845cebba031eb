/* SPDX-License-Identifier: Apache-2.0
 *
 * --help: traces/option/help.h.
 */
#include "traces/option/help.h"

#include <ctype.h>
#include <string.h>

/* COLUMN: where the text of an option begins, NAMES of a command; FEW: examples
 * of a short help. */
enum { WIDTH = 80, COLUMN = 26, NAMES = 14, FEW = 3 };

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
  bool asks = c->summary[strlen(c->summary) - 1] == '?';
  fprintf(out, "\n%c%s%s\n", toupper((unsigned char)*c->summary),
          c->summary + 1, asks ? "" : ".");
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

static void examples(FILE *out, const kv_command *c, bool all) {
  if (c->examples == NULL) return;
  fputs("\nExamples:\n", out);
  for (const kv_example *x = c->examples; x->line; x++) {
    if (!all && x == c->examples + FEW) break;
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

static const char *does(const kv_program *p, const char *name) {
  for (int i = 0; p->commands[i]; i++)
    if (!strcmp(p->commands[i]->name, name)) return p->commands[i]->summary;
  for (const kv_brought *x = p->brought; x && x->name; x++)
    if (!strcmp(x->name, name)) return x->does;
  return NULL;
}

static void command(FILE *out, const kv_program *p, const char *name) {
  int at = fprintf(out, "  %s", name);
  fprintf(out, "%*s", NAMES - at, "");
  kv_help_wrap(out, NAMES, NAMES, does(p, name));
}

static void group(FILE *out, const kv_program *p, const kv_example *of) {
  char names[256];
  snprintf(names, sizeof names, "%s", of->does);
  fprintf(out, "\n%s:\n", of->line);
  for (char *name = strtok(names, " "); name; name = strtok(NULL, " "))
    command(out, p, name);
}

static void commands(FILE *out, const kv_program *p) {
  for (const kv_example *x = p->groups; x && x->line; x++) group(out, p, x);
  if (p->groups) return;
  fputs("\nCommands:\n", out);
  for (int i = 0; p->commands[i]; i++) command(out, p, p->commands[i]->name);
  for (const kv_brought *x = p->brought; x && x->name; x++)
    command(out, p, x->name);
}

static void codes(FILE *out) {
  fputs("\nExit codes:\n", out);
  for (const kv_example *x = kv_help_codes; x->line; x++)
    fprintf(out, "  %-6s%s\n", x->line, x->does);
}

/* Does the command have more to say than --help does? */
static bool has_more(const kv_command *c) {
  for (const kv_option *o = c->options; o && o->slot != KV_SLOT_END; o++)
    if (o->common) return true;
  return false;
}

static void options(FILE *out, const kv_command *c, bool all) {
  const char *group = NULL;
  for (const kv_option *o = NULL; (o = kv_option_next(c, o));) {
    if (o->group) group = o->group;
    if (!all && !o->common) continue;
    if (group) fprintf(out, "\n%s:\n", group);
    group = NULL;
    option(out, o);
  }
}

static void notes(FILE *out, const kv_command *c, bool all) {
  for (int i = 0; c->notes && c->notes[i]; i++) {
    bool rest = !*c->notes[i]; /* KV_NOTES_REST */
    if (rest && !all) return;
    if (rest) continue;
    fputc('\n', out);
    kv_help_wrap(out, 0, 0, c->notes[i]);
  }
}

void kv_help_print(FILE *out, const kv_program *p, const kv_command *c,
                   bool all) {
  bool more = has_more(c) && !all;
  usage(out, p, c);
  examples(out, c, !more);
  if (!c->name) commands(out, p);
  options(out, c, !more);
  notes(out, c, !more);
  if (more)
    fprintf(out, "\nEvery option and example: %s %s --help=all\n", p->name,
            c->name);
  if (!c->name) codes(out);
}
