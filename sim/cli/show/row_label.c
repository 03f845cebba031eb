/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/row_label.h"

#include "ref/ground/text.h"
#include "ref/lane/compose.h"
#include "sim/ask/door.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kv_row_label_free(kv_row_label *l) {
  if (l == NULL) return;
  free(l->brief);
  free(l->full);
  memset(l, 0, sizeof *l);
}

/* True if the label shows the parameter: it differs from its default; without a
 * default, if the label is full or, for a later parameter, if set. */
static bool is_shown(const kv_param *p, const kv_spec *a, const kv_spec *plain,
                     bool brief) {
  char x[KV_TEXT_MAX], y[KV_TEXT_MAX];
  if (kv_knob_counts(p->knob)) return false; /* it has its own column */
  if (!p->fallback && p->later) return kv_param_is_set(p, a->params);
  if (!p->fallback) return !brief;
  kv_param_text(p, a->params, x);
  kv_param_text(p, plain->params, y);
  return strcmp(x, y) != 0;
}

/* The specification of one part with only the parameters shown. */
static char *compose_part(const kv_spec *a, const kv_spec *plain, int i,
                          bool brief) {
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  kv_parts_of(a->method, part, offset);
  const kv_param *table = part[i]->params;
  kv_spec own = {.params = (char *)a->params + offset[i]};
  kv_spec other = {.params = (char *)plain->params + offset[i]};
  char name[KV_SHORT];
  bool is_short = kv_short_name(part[i], own.params, name);
  int n = kv_params_count(table), kept = 0;
  kv_param *some = kv_zalloc((size_t)n + 1, sizeof *some);
  if (some == NULL) return NULL;
  for (int k = 0; k < n; k++)
    if (is_shown(&table[k], &own, &other, brief) &&
        !(is_short && kv_short_has(&table[k])))
      some[kept++] = table[k];
  char *text =
      kv_params_spec(is_short ? name : part[i]->name, some, own.params);
  free(some);
  return text;
}

/* The specification with only the parameters shown. */
static char *compose(const kv_spec *a, const kv_spec *plain, bool brief) {
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  char *text = compose_part(a, plain, 0, brief), *both = NULL;
  if (!text || kv_parts_of(a->method, part, offset) == 1) return text;
  char *more = compose_part(a, plain, 1, brief);
  size_t n = more ? strlen(text) + strlen(more) + 2 : 0;
  if (n) both = malloc(n);
  if (both) snprintf(both, n, "%s+%s", text, more);
  free(text);
  free(more);
  return both;
}

static char *copy(const char *text) { return strdup(text ? text : "?"); }

/* The label given by the user or by the method's file; NULL: the method has no
 * such parameter. */
static char *name_of(const kv_spec *s) {
  const kv_method *m = s->method;
  const kv_param *p = m->params;
  char text[KV_TEXT_MAX], both[KV_TEXT_MAX + 80];
  while (p && p->name && !p->label) p++;
  if (!p || !p->name) return NULL;
  kv_param_text(p, s->params, text);
  if (!*text) return copy(m->name);
  if (!kv_method_named(text)) return copy(text);
  snprintf(both, sizeof both, "%s (%s)", text,
           m->name); /* the label is not the method's name, so add it */
  return copy(both);
}

/* Makes the label safe for a terminal; frees the argument. */
static char *shown(char *label) {
  char *text = label ? kv_text_shown(label) : NULL;
  free(label);
  return text;
}

kv_rc kv_row_label_make(const kv_result *r, kv_row_label *out, kv_err *e) {
  kv_spec given = {0}, plain = {0};
  memset(out, 0, sizeof *out);
  if (r->spec && r->method && !kv_door_is_path(r->spec) &&
      !kv_door_is_path(r->method) && /* never load code that a row names */
      !kv_door_names_path(r->method) &&
      kv_spec_parse(kv_method_at, r->spec, &given, NULL) == KV_OK &&
      kv_spec_parse(kv_method_at, r->method, &plain, NULL) == KV_OK) {
    out->brief = kv_keys_text(&given, compose(&given, &plain, true));
    out->full = kv_keys_text(&given, compose(&given, &plain, false));
    char *name = name_of(&given);
    if (name) {
      free(out->brief);
      out->brief = name;
    }
  } else {
    out->brief = copy(r->method);
    out->full = copy(r->spec ? r->spec : r->method);
  }
  kv_spec_free(&given);
  kv_spec_free(&plain);
  out->brief = shown(out->brief);
  out->full = shown(out->full);
  if (out->brief && out->full) return KV_OK;
  kv_row_label_free(out);
  return kv_no_memory(e, "a line of the table", 1);
}
