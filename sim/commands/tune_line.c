/* SPDX-License-Identifier: Apache-2.0
 *
 * A command line for a shell: sim/commands/tune.h. Traces, method and
 * whatever else decides about the row; --db and --jobs are left to who pastes
 * it.
 */
#include "sim/commands/tune.h"

#include <stdlib.h>
#include <string.h>

/* Writes a word, in quotes where a shell would read more into it. */
static void word(FILE *f, const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
                              "VWXYZ0123456789_./:=,+%@-";
  fputc(' ', f);
  if (*text && !text[strspn(text, plain)]) {
    fputs(text, f);
    return;
  }
  fputc('\'', f);
  for (; *text; text++) {
    if (*text == '\'')
      fputs("'\\''", f);
    else
      fputc(*text, f);
  }
  fputc('\'', f);
}

static void options(FILE *f, const kv_tune_options *o) {
  const kv_cells_options *c = &o->cells;
  for (int i = 0; i < c->budget_text.n; i++) {
    fputs(" -b", f);
    word(f, c->budget_text.item[i]);
  }
  if (c->prompt_len) fprintf(f, " -p %d", c->prompt_len);
  if (c->observe) fprintf(f, " --observe %s", kv_observe_names[c->observe]);
  if (c->turns) fputs(" --turns", f);
  if (o->backend != &kv_backend_ref) fprintf(f, " -B %s", o->backend->name);
}

/* Closes the memory stream; returns its text, or NULL if memory ran out. */
static char *finish(FILE *f, char **text) {
  bool bad = ferror(f);
  if (fclose(f) == 0 && !bad) return *text;
  free(*text);
  return NULL;
}

char *kv_tuning_line(const kv_tuning *s, const kv_tuned *m) {
  const kv_list *traces = &s->options.cells.traces;
  const int *at = m->search.point[m->search.best].at;
  char *spec = kv_tune_space_text(m->space, at), *out = NULL;
  size_t size;
  FILE *f = spec ? open_memstream(&out, &size) : NULL;
  if (f) {
    fputs("kvreplay run", f);
    for (int i = 0; i < traces->n; i++) word(f, traces->item[i]);
    fputs(" -m", f);
    word(f, spec);
    options(f, &s->options);
  }
  free(spec);
  return f ? finish(f, &out) : NULL;
}

char *kv_tuning_note(const char *line) {
  char *out = NULL;
  size_t size;
  FILE *f = open_memstream(&out, &size);
  if (!f) return NULL;
  fprintf(f, "best: %s", line);
  return finish(f, &out);
}
