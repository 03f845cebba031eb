/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as a JSON array and as JSON lines: sim/cli/show/rows.h.
 */
#include "sim/cli/show/rows.h"

#include "ref/ground/json.h"

typedef struct form {
  kv_json json;
  int hidden; /* depth within an absent object */
  int rows;
} form;

static void open_object(void *self, const char *key, bool present) {
  form *f = self;
  if (f->hidden == 0 && present) {
    kv_json_open(&f->json, key, '{');
    return;
  }
  if (f->hidden == 0) kv_json_null(&f->json, key);
  f->hidden++;
}

static void close_object(void *self) {
  form *f = self;
  if (f->hidden) {
    f->hidden--;
  } else {
    kv_json_close(&f->json, '}');
  }
}

static void null(void *self, const char *key) {
  form *f = self;
  if (!f->hidden) kv_json_null(&f->json, key);
}

static void text(void *self, const char *key, const char *value) {
  kv_json_text(&((form *)self)->json, key, value);
}

static void integer(void *self, const char *key, int64_t value) {
  kv_json_integer(&((form *)self)->json, key, value);
}

static void real(void *self, const char *key, double value) {
  kv_json_real(&((form *)self)->json, key, value);
}

static void raw(void *self, const char *key, const char *json) {
  kv_json_raw(&((form *)self)->json, key, json);
}

static void object(form *f, const kv_result *r) {
  const kv_row_sink to = {f,    open_object, close_object, null,
                          text, integer,     real,         raw};
  f->json.comma = false;
  kv_json_open(&f->json, NULL, '{');
  kv_row_walk(r, &to);
  kv_json_close(&f->json, '}');
}

static kv_rc begin(void *self, FILE *out, bool colour, kv_err *e) {
  form *f = self;
  (void)colour;
  (void)e;
  f->json.out = out;
  return KV_OK;
}

static kv_rc row_array(void *self, const kv_result *r, kv_err *e) {
  form *f = self;
  (void)e;
  fputs(f->rows++ ? ",\n" : "[\n", f->json.out);
  object(f, r);
  return KV_OK;
}

static void end_array(void *self) {
  form *f = self;
  fputs(f->rows ? "\n]\n" : "[]\n", f->json.out);
}

static kv_rc row_line(void *self, const kv_result *r, kv_err *e) {
  form *f = self;
  (void)e;
  object(f, r);
  fputc('\n', f->json.out);
  return KV_OK;
}

static void end_lines(void *self) { (void)self; }

const kv_row_form kv_row_form_json = {sizeof(form), begin, row_array, end_array,
                                      NULL};
const kv_row_form kv_row_form_jsonl = {sizeof(form), begin, row_line, end_lines,
                                       NULL};
