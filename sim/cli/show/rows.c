/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/rows.h"

#include "ref/ground/text.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kv_row_writer {
  const kv_row_form *form;
  FILE *out;
  void *state;
};

static const kv_row_form *const forms[] = {[KV_ROWS_TABLE] = &kv_row_form_table,
                                           [KV_ROWS_JSON] = &kv_row_form_json,
                                           [KV_ROWS_JSONL] = &kv_row_form_jsonl,
                                           [KV_ROWS_CSV] = &kv_row_form_csv,
                                           [KV_ROWS_WIDE] = &kv_row_form_wide};

bool kv_colour_wanted(FILE *out) {
  const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
  if (no && *no) return false;
  return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

kv_rc kv_row_writer_open(kv_row_format format, FILE *out, bool colour,
                         kv_row_writer **w, kv_err *e) {
  kv_row_writer *x = kv_zalloc(1, sizeof *x);
  *w = NULL;
  if (x == NULL) return kv_no_memory(e, "the rows", sizeof *x);
  x->form = forms[format];
  x->out = out;
  x->state = kv_zalloc(1, x->form->size);
  if (x->state == NULL) {
    free(x);
    return kv_no_memory(e, "the rows", forms[format]->size);
  }
  *w = x;
  return x->form->begin(x->state, out, colour, e);
}

kv_rc kv_row_writer_add(kv_row_writer *w, const kv_result *r, kv_err *e) {
  kv_rc rc = w->form->row(w->state, r, e);
  return rc ? rc : kv_flush(w->out, e);
}

kv_rc kv_row_writer_close(kv_row_writer *w, kv_err *e) {
  if (w == NULL) return KV_OK;
  w->form->end(w->state);
  kv_rc rc = kv_flush(w->out, e);
  kv_row_writer_drop(w);
  return rc;
}

void kv_row_writer_drop(kv_row_writer *w) {
  if (w == NULL) return;
  if (w->form->free) w->form->free(w->state);
  free(w->state);
  free(w);
}
