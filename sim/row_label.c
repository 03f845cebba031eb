/* SPDX-License-Identifier: Apache-2.0
 *
 * Labels: sim/row_label.h. A row that names a method or a parameter unknown
 * to this build (an old database) is called by its own text.
 */
#include "sim/row_label.h"

#include "ref/method.h"
#include "sim/door.h"
#include "sim/param.h"
#include "sim/spec.h"
#include <stdlib.h>
#include <string.h>

void kv_row_label_free(kv_row_label *l) {
  if (l == NULL) return;
  free(l->brief);
  free(l->full);
  memset(l, 0, sizeof *l);
}

/* What stands at its default is left out; in brief, what open worked out, too.
 */
static bool shown(const kv_param *p, const kv_spec *a, const kv_spec *plain,
                  bool brief) {
  char x[KV_TEXT_MAX], y[KV_TEXT_MAX];
  if (strcmp(p->name, "budget") == 0) return false;
  if (p->fallback == NULL) return !brief;
  kv_param_text(p, a->params, x);
  kv_param_text(p, plain->params, y);
  return strcmp(x, y) != 0;
}

/* The specification with only the parameters shown. */
static char *compose(const kv_spec *a, const kv_spec *plain, bool brief) {
  const kv_method *m = a->method;
  int n = kv_params_count(m->params), kept = 0;
  kv_param *some = kv_zalloc((size_t)n + 1, sizeof *some);
  if (some == NULL) return NULL;
  for (int i = 0; i < n; i++) {
    if (shown(&m->params[i], a, plain, brief)) some[kept++] = m->params[i];
  }
  char *text = kv_params_spec(m->name, some, a->params);
  free(some);
  return text;
}

static char *copy(const char *text) { return strdup(text ? text : "?"); }

/* Decisions are called what their maker called them. */
static char *name_of(const kv_spec *s) {
  const kv_param *table = s->method->params;
  char text[KV_TEXT_MAX + sizeof " (replay)"];
  kv_param_text(&table[kv_params_find(table, "name")], s->params, text);
  if (!*text) return copy(s->method->name);
  if (kv_method_named(text)) strcat(text, " (replay)"); /* not the method */
  return copy(text);
}

kv_rc kv_row_label_make(const kv_result *r, kv_row_label *out, kv_err *e) {
  kv_spec given = {0}, plain = {0};
  memset(out, 0, sizeof *out);
  if (r->spec && r->method && !kv_door_is_path(r->spec) &&
      !kv_door_is_path(r->method) && /* a row of a file loads no code */
      kv_spec_parse(kv_method_at, r->spec, &given, NULL) == KV_OK &&
      kv_spec_parse(kv_method_at, r->method, &plain, NULL) == KV_OK) {
    out->brief = compose(&given, &plain, true);
    out->full = compose(&given, &plain, false);
    if (given.method->decisions && out->brief) {
      free(out->brief);
      out->brief = name_of(&given);
    }
  } else {
    out->brief = copy(r->method);
    out->full = copy(r->spec ? r->spec : r->method);
  }
  kv_spec_free(&given);
  kv_spec_free(&plain);
  if (out->brief && out->full) return KV_OK;
  kv_row_label_free(out);
  return kv_no_memory(e, "a line of the table", 1);
}
