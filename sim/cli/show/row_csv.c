/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as CSV (RFC 4180, UTF-8, lines end with a newline): contract in
 * sim/cli/show/rows.h. Points join nested names. null is an empty field.
 * Control characters and bytes that are not UTF-8 become \xNN. The first line
 * has the column names, which do not depend on the rows.
 */
#include "sim/cli/show/rows.h"

#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 4 };

typedef struct form {
  FILE *out;
  bool names; /* the line of names is being written */
  bool full;  /* memory ran out */
  int fields, rows, depth;
  const char *path[DEPTH];
} form;

static void quote(form *f, const char *text) {
  char *shown = kv_text_shown(text);
  bool quoted = shown && strpbrk(shown, ",\"");
  f->full |= !shown;
  if (quoted) fputc('"', f->out);
  for (const char *c = shown; c && *c; c++) {
    if (*c == '"') fputc('"', f->out);
    fputc(*c, f->out);
  }
  if (quoted) fputc('"', f->out);
  free(shown);
}

static void field(form *f, const char *key, const char *value) {
  if (f->fields++) fputc(',', f->out);
  if (!f->names) {
    quote(f, value);
    return;
  }
  for (int i = 0; i < f->depth; i++) fprintf(f->out, "%s.", f->path[i]);
  fputs(key, f->out);
}

static void open_object(void *self, const char *key, bool present) {
  form *f = self;
  (void)present;
  assert(f->depth < DEPTH && "rows nest a little");
  f->path[f->depth++] = key;
}

static void close_object(void *self) { ((form *)self)->depth--; }

static void null(void *self, const char *key) { field(self, key, ""); }

static void text(void *self, const char *key, const char *value) {
  field(self, key, value);
}

static void integer(void *self, const char *key, int64_t value) {
  char out[KV_NUMBER];
  snprintf(out, sizeof out, "%" PRId64, value);
  field(self, key, out);
}

static void real(void *self, const char *key, double value) {
  char out[KV_NUMBER];
  field(self, key, kv_number_real(value, out));
}

static kv_rc begin(void *self, FILE *out, bool colour, kv_err *e) {
  (void)colour;
  (void)e;
  ((form *)self)->out = out;
  return KV_OK;
}

static void line(form *f, const kv_result *r, bool names) {
  const kv_row_sink to = {f,    open_object, close_object, null,
                          text, integer,     real,         text};
  f->names = names;
  f->fields = 0;
  kv_row_walk(r, &to);
  fputc('\n', f->out);
}

static kv_rc row(void *self, const kv_result *r, kv_err *e) {
  form *f = self;
  if (f->rows++ == 0) line(f, r, true);
  line(f, r, false);
  return f->full ? kv_no_memory(e, "a row", 1) : KV_OK;
}

static void end(void *self) { (void)self; }

const kv_row_form kv_row_form_csv = {sizeof(form), begin, row, end, NULL};
