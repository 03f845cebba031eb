/* SPDX-License-Identifier: Apache-2.0
 *
 * Specifications: sim/ask/spec.h. A text is cut at unescaped separators into
 * pieces; only values lose their escapes.
 */
#include "sim/ask/spec.h"

#include "ref/ground/text.h"
#include "sim/ask/door.h"
#include "sim/ask/param.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 256 };

/* Bytes before the first unescaped `stop`, or the whole length. */
static size_t span(const char *text, char stop) {
  size_t n = 0;
  while (text[n] && text[n] != stop)
    n += text[n] == '\\' && text[n + 1] ? 2 : 1;
  return n;
}

size_t kv_specs_span(const char *list) { return span(list, ','); }

/* The text after the piece of n bytes; NULL after the last piece. */
static const char *after(const char *piece, size_t n) {
  return piece[n] ? piece + n + 1 : NULL;
}

static kv_rc no_method(kv_registry *registry, const char *name, kv_err *e) {
  const char *names[MAX_NAMES];
  char show[KV_SHOW];
  int n = 0;
  while (n < MAX_NAMES && registry(n)) {
    names[n] = registry(n)->name;
    n++;
  }
  for (int i = 0; n < MAX_NAMES && kv_short_at(i); i++)
    names[n++] = kv_short_at(i);
  const char *near = kv_text_nearest(name, n, names);
  if (!*name)
    return kv_fail(e, KV_USAGE,
                   "a method's name is missing; `kvreplay methods` lists them");
  if (near) {
    return kv_fail(e, KV_USAGE, "no method is called %s; did you mean %s?",
                   kv_show(name, show), near);
  }
  return kv_fail(e, KV_USAGE,
                 "no method is called %s; `kvreplay methods` lists them",
                 kv_show(name, show));
}

kv_rc kv_registry_find(kv_registry *registry, const char *name,
                       const kv_method **out, kv_err *e) {
  for (int i = 0; registry(i); i++) {
    if (strcmp(registry(i)->name, name) == 0) {
      *out = registry(i);
      return KV_OK;
    }
  }
  kv_rc rc = kv_door_find(name, out, e);
  return rc || *out ? rc : no_method(registry, name, e);
}

const kv_param *kv_spec_knob(const kv_method *m) {
  for (const kv_param *p = m->params; p && p->name; p++)
    if (p->knob) return p;
  return NULL;
}

const kv_param *kv_spec_budget(const kv_method *m) {
  const kv_param *p = kv_spec_knob(m);
  return p && kv_knob_counts(p->knob) ? p : NULL;
}

bool kv_spec_wants_budget(const kv_spec *s) {
  const kv_param *p = kv_spec_budget(s->method);
  return p && !s->layers && !kv_param_is_set(p, s->params);
}

bool kv_spec_needs_budget(const kv_spec *s) {
  const kv_param *p = kv_spec_budget(s->method);
  return kv_spec_wants_budget(s) && p->knob != KV_KNOB_RESOLVED;
}

const kv_method *kv_spec_reader(const kv_spec *s, int i) {
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  int parts = kv_parts_of(s->method, part, offset);
  for (int k = 0; k < parts; k++)
    for (int own = 0; kv_method_file(part[k], own); own++)
      if (i-- == 0) return part[k];
  return NULL;
}

kv_file *kv_spec_file(const kv_spec *s, int i) {
  const kv_param *p = kv_method_file(s->method, i);
  return p ? (kv_file *)(void *)((char *)s->params + p->offset) : NULL;
}

/* Joins two parts with a `+`. Frees both; accepts NULL. */
static char *joined(char *text, char *more) {
  size_t n = text && more ? strlen(text) + strlen(more) + 2 : 0;
  char *both = n ? malloc(n) : NULL;
  if (both) snprintf(both, n, "%s+%s", text, more);
  free(text);
  free(more);
  return both;
}

char *kv_spec_text(const kv_spec *s) {
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  int parts = kv_parts_of(s->method, part, offset);
  char *text = NULL;
  for (int i = 0; i < parts; i++) {
    const char *values = (const char *)s->params + offset[i];
    bool lists = s->layers && kv_spec_budget(part[i]) &&
                 (i == 0 || !kv_spec_knob(part[0]));
    char *own = lists ? kv_spec_list_text(s, part[i], values)
                      : kv_params_spec(part[i]->name, part[i]->params, values);
    text = i ? joined(text, own) : own;
  }
  return kv_keys_text(s, text);
}

void kv_spec_free(kv_spec *s) {
  if (s == NULL) return;
  free(s->params);
  free(s->given);
  free(s->layers);
  memset(s, 0, sizeof *s);
}

static size_t flags(const kv_method *m) {
  return (size_t)kv_params_count(m->params) + 1;
}

/* Allocates the parameters and sets their defaults. */
static kv_rc start(const kv_method *m, kv_spec *s, kv_err *e) {
  s->method = m;
  s->params = kv_zalloc(1, m->params_size + 1);
  s->given = kv_zalloc(flags(m), sizeof(bool));
  if (s->params == NULL || s->given == NULL) {
    return kv_no_memory(e, "the parameters of a method", m->params_size);
  }
  kv_compose_begin(m, s->params);
  return kv_params_default(m->params, s->params, e);
}

bool kv_spec_has(const kv_spec *row, const kv_spec *asked) {
  char a[KV_TEXT_MAX], b[KV_TEXT_MAX];
  if (row->method != asked->method) return false;
  for (const kv_param *p = asked->method->params; p && p->name; p++) {
    kv_param_text(p, asked->params, a);
    kv_param_text(p, row->params, b);
    if (*a && strcmp(a, b) != 0) return false;
  }
  return true;
}

kv_rc kv_spec_copy(const kv_spec *from, kv_spec *out, kv_err *e) {
  memset(out, 0, sizeof *out);
  kv_rc rc = start(from->method, out, e);
  if (!rc) rc = kv_spec_set_list(out, from->n_layers, from->layers, e);
  if (rc) {
    kv_spec_free(out);
    return rc;
  }
  out->windowed = from->windowed;
  out->windowed_given = from->windowed_given;
  out->chunk = from->chunk;
  out->chunk_given = from->chunk_given;
  memcpy(out->params, from->params, from->method->params_size);
  memcpy(out->given, from->given, flags(from->method) * sizeof(bool));
  return KV_OK;
}

char *kv_spec_json(const kv_spec *s) {
  return kv_keys_json(s, s->layers
                             ? kv_spec_list_json(s)
                             : kv_params_json(s->method->params, s->params));
}

/* Removes escapes in place. False at a backslash that escapes nothing. */
static bool unescape(char *text) {
  char *to = text;
  for (; *text; text++) {
    if (*text == '\\') {
      text++;
      if (!*text || !strchr(KV_SPEC_ESCAPED, *text)) return false;
    }
    *to++ = *text;
  }
  *to = 0;
  return true;
}

static kv_rc no_param(const kv_method *m, const char *key, kv_err *e) {
  const char *names[MAX_NAMES];
  char show[KV_SHOW], list[256] = "";
  int n = kv_params_count(m->params);
  if (n == 0) {
    return kv_fail(e, KV_USAGE, "%s has no parameters, so it has no %s",
                   m->name, kv_show(key, show));
  }
  for (int i = 0; i < n && i < MAX_NAMES; i++) {
    names[i] = m->params[i].name;
    size_t used = strlen(list);
    if (used + strlen(names[i]) + 3 > sizeof list) continue;
    if (i) strcat(list, ", ");
    strcat(list, names[i]);
  }
  const char *near = kv_text_nearest(key, n, names);
  return kv_fail(e, KV_USAGE, "%s has no parameter %s%s%s%s (it has %s)",
                 m->name, kv_show(key, show), near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "", list);
}

/* One method of the specification, and its part of all parameters: its first
 * row in the table, and its values. */
typedef struct piece {
  const kv_method *method;
  int first;
  void *values;
} piece;

/* Keys that are not parameters of a method but apply to all. */
enum { WINDOWED = -1, PREFILL = -2, NO_KEY = -3 };

static int find(const kv_method *m, const char *key) {
  int i = kv_params_find(m->params, key);
  if (i >= 0) return i;
  if (strcmp(key, KV_WINDOWED) == 0) return WINDOWED;
  return strcmp(key, KV_PREFILL) == 0 ? PREFILL : NO_KEY;
}

/* Was parameter i of the part, or that key, typed? */
static bool *given(const piece *x, int i, kv_spec *s) {
  if (i == WINDOWED) return &s->windowed_given;
  return i == PREFILL ? &s->chunk_given : &s->given[x->first + i];
}

static kv_rc set(const piece *x, int i, const char *value, kv_spec *s,
                 kv_err *e) {
  if (i == WINDOWED) return kv_windowed_parse(value, s, e);
  if (i == PREFILL) return kv_prefill_parse(value, s, e);
  const kv_param *whole = &s->method->params[x->first + i];
  if (kv_spec_lists(s, whole, value)) return kv_spec_parse_list(s, value, e);
  return kv_param_set(&x->method->params[i], value, x->values, e);
}

/* Sets one parameter from "key=value"; writes into `pair`. */
static kv_rc assign(char *pair, const piece *x, kv_spec *s, kv_err *e) {
  const kv_method *m = x->method;
  char show[KV_SHOW], *value = strchr(pair, '=');
  kv_err why = {0};
  if (value) *value++ = 0;
  if (*pair == 0) {
    return kv_fail(e, KV_USAGE, "%s: write a parameter after the colon",
                   m->name);
  }
  int i = find(m, pair);
  if (i == NO_KEY) return no_param(m, pair, e);
  if (value == NULL) {
    return kv_fail(e, KV_USAGE, "%s: %s has no value; write %s=...", m->name,
                   pair, pair);
  }
  if (*given(x, i, s)) {
    return kv_fail(e, KV_USAGE, "%s: %s is given twice", m->name, pair);
  }
  if (!unescape(value)) {
    return kv_fail(
        e, KV_USAGE,
        "%s: a backslash in %s=%s escapes nothing; write \\\\ for a backslash",
        m->name, pair, kv_show(value, show));
  }
  kv_rc rc = set(x, i, value, s, &why);
  if (rc) return kv_fail(e, rc, "%s: %s", m->name, why.text);
  *given(x, i, s) = true;
  return KV_OK;
}

static kv_rc assign_all(const char *at, const piece *x, kv_spec *s, kv_err *e) {
  kv_rc rc = KV_OK;
  while (at && rc == KV_OK) {
    size_t n = span(at, ':');
    char *pair = kv_text_copy(n, at);
    if (pair == NULL) return kv_no_memory(e, "a parameter", n);
    rc = assign(pair, x, s, e);
    free(pair);
    at = after(at, n);
  }
  return rc;
}

/* Finds the method whose name the part begins with. */
static kv_rc find_method(kv_registry *registry, const char *text,
                         const kv_method **m, kv_err *e) {
  size_t n = span(text, ':');
  if (n == 0) return kv_fail(e, KV_USAGE, "a method has no name");
  char *name = kv_text_copy(n, text), show[KV_SHOW];
  if (name == NULL) return kv_no_memory(e, "a method's name", n);
  kv_rc rc = KV_OK;
  if (kv_door_is_path(text) && !unescape(name))
    rc = kv_fail(e, KV_USAGE,
                 "a backslash in the path %s escapes nothing; write \\\\ for a "
                 "backslash",
                 kv_show(text, show));
  if (!rc) rc = kv_registry_find(registry, name, m, e);
  free(name);
  return rc;
}

size_t kv_spec_part(const char *text) {
  size_t n = 0;
  while (text[n] &&
         (text[n] != '+' || (text[n + 1] && strchr("0123456789", text[n + 1]))))
    n += text[n] == '\\' && text[n + 1] ? 2 : 1;
  return n;
}

/* Copies the parts into part[], to be freed by the caller. *parts counts them,
 * one too many if there are too many. */
static kv_rc cut(const char *text, char *part[KV_MOST_PARTS], int *parts,
                 kv_err *e) {
  *parts = 0;
  for (const char *at = text; at; (*parts)++) {
    size_t n = kv_spec_part(at);
    if (*parts == KV_MOST_PARTS)
      return kv_fail(
          e, KV_USAGE,
          "%.100s joins more than %d methods; join one that selects and one "
          "that codes, and write \\+ for a + in a name or path",
          text, (int)KV_MOST_PARTS);
    part[*parts] = kv_text_copy(n, at);
    if (!part[*parts]) return kv_no_memory(e, "a specification", n);
    kv_rc rc = kv_short_expand(&part[*parts], e);
    if (rc) return rc;
    at = after(at, n);
  }
  return KV_OK;
}

static kv_rc assign_parts(char *const *text, int parts, kv_spec *s, kv_err *e) {
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  kv_rc rc = KV_OK;
  int first = 0;
  kv_parts_of(s->method, part, offset);
  for (int i = 0; !rc && i < parts; i++) {
    piece x = {part[i], first, (char *)s->params + offset[i]};
    rc = assign_all(after(text[i], span(text[i], ':')), &x, s, e);
    first += kv_params_count(part[i]->params);
  }
  return rc;
}

kv_rc kv_spec_parse(kv_registry *registry, const char *text, kv_spec *out,
                    kv_err *e) {
  const kv_method *m[KV_MOST_PARTS] = {NULL};
  char *part[KV_MOST_PARTS] = {NULL};
  int parts;
  memset(out, 0, sizeof *out);
  kv_rc rc = cut(text, part, &parts, e);
  for (int i = 0; !rc && i < parts; i++)
    rc = find_method(registry, part[i], &m[i], e);
  if (!rc && parts == 2) rc = kv_compose(m[0], m[1], &m[0], e);
  if (!rc) rc = start(m[0], out, e);
  if (!rc) rc = assign_parts(part, parts, out, e);
  for (int i = 0; i < KV_MOST_PARTS; i++) free(part[i]);
  if (rc) kv_spec_free(out);
  return rc;
}

/* --- layers -------------------------------------------------------------- */

/* A specification with a budget for each layer, h2o:budget=64/32. The
 * parameter itself stays unset; the code that opens the method sets it for the
 * layer being opened. */

bool kv_spec_lists(const kv_spec *s, const kv_param *p, const char *value) {
  return p == kv_spec_budget(s->method) && strchr(value, '/');
}

static kv_rc push(kv_spec *s, int entries, kv_err *e) {
  size_t bytes = (size_t)(s->n_layers + 1) * sizeof entries;
  int *grown = realloc(s->layers, bytes);
  if (!grown) return kv_no_memory(e, "budgets of layers", bytes);
  s->layers = grown;
  grown[s->n_layers++] = entries;
  return KV_OK;
}

/* Each value is parsed through the parameter, which is unset again afterwards.
 */
kv_rc kv_spec_parse_list(kv_spec *s, const char *value, kv_err *e) {
  const kv_param *p = kv_spec_budget(s->method);
  kv_err why = {0};
  kv_rc rc = KV_OK;
  for (bool more = true; more && !rc;) {
    size_t n = strcspn(value, "/");
    int entries;
    char *text = kv_text_copy(n, value);
    if (!text) return kv_no_memory(e, "a budget", n);
    rc = kv_param_set(p, text, s->params, &why);
    free(text);
    if (rc) rc = kv_fail(e, rc, "layer %d: %s", s->n_layers, why.text);
    memcpy(&entries, (char *)s->params + p->offset, sizeof entries);
    if (!rc) rc = push(s, entries, e);
    more = value[n] == '/';
    value += n + more;
  }
  kv_param_put(p, KV_UNSET, s->params);
  return rc;
}

kv_rc kv_spec_set_list(kv_spec *s, int n, const int *entries, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < n; i++) rc = push(s, entries[i], e);
  return rc;
}

bool kv_spec_same(const kv_spec *a, const kv_spec *b) {
  return a->method == b->method && a->windowed == b->windowed &&
         a->chunk == b->chunk && a->n_layers == b->n_layers &&
         memcmp(a->params, b->params, a->method->params_size) == 0 &&
         (!a->layers || memcmp(a->layers, b->layers,
                               (size_t)a->n_layers * sizeof *a->layers) == 0);
}

/* name:budget=LIST:..., with the list right after the method's name. */
char *kv_spec_list_text(const kv_spec *s, const kv_method *m,
                        const void *values) {
  const char *budget = kv_spec_budget(m)->name;
  size_t size = strlen(m->name) + strlen(budget) + 12 * (size_t)s->n_layers + 2;
  char *head = malloc(size);
  if (!head) return NULL;
  int at = snprintf(head, size, "%s:%s", m->name, budget);
  for (int i = 0; i < s->n_layers; i++)
    at += snprintf(head + at, size - (size_t)at, "%c%d", i ? '/' : '=',
                   s->layers[i]);
  char *text = kv_params_spec(head, m->params, values);
  free(head);
  return text;
}

char *kv_spec_list_json(const kv_spec *s) {
  const kv_method *m = s->method;
  size_t size = m->params_size;
  char *each = kv_zalloc((size_t)s->n_layers, size);
  if (!each) return NULL;
  for (int i = 0; i < s->n_layers; i++) {
    memcpy(each + (size_t)i * size, s->params, size);
    kv_param_put(kv_spec_budget(m), s->layers[i], each + (size_t)i * size);
  }
  char *json = kv_params_json_each(m->params, s->n_layers, size, each);
  free(each);
  return json;
}

/* --- specs --------------------------------------------------------------- */

void kv_specs_free(kv_specs *s) {
  if (s == NULL) return;
  for (int i = 0; i < s->n; i++) kv_spec_free(&s->spec[i]);
  free(s->spec);
  memset(s, 0, sizeof *s);
}

/* Appends *one. Owns it from then on, also after a failure. */
static kv_rc put(kv_spec *one, kv_specs *out, kv_err *e) {
  size_t bytes = (size_t)(out->n + 1) * sizeof *out->spec;
  const kv_method *m = one->method;
  kv_rc rc;
  for (int i = 0; i < out->n; i++) {
    if (kv_spec_same(&out->spec[i], one)) {
      rc = kv_fail(e, KV_USAGE,
                   "%s is listed twice with the same parameters; list it once",
                   m->name);
      goto fail;
    }
  }
  kv_spec *grown = realloc(out->spec, bytes);
  if (grown == NULL) {
    rc = kv_no_memory(e, "the list of methods", bytes);
    goto fail;
  }
  out->spec = grown;
  out->spec[out->n++] = *one;
  return KV_OK;
fail:
  kv_spec_free(one);
  return rc;
}

/* with: what follows each name, such as ":windowed=..", or "". */
static kv_rc put_all(kv_registry *registry, const char *with, kv_specs *out,
                     kv_err *e) {
  kv_spec one;
  kv_rc rc = KV_OK;
  for (int i = 0; registry(i) && rc == KV_OK; i++) {
    size_t n = strlen(registry(i)->name) + strlen(with) + 1;
    char *text = malloc(n);
    if (!text) return kv_no_memory(e, "a specification", n);
    snprintf(text, n, "%s%s", registry(i)->name, with);
    rc = kv_spec_parse(registry, text, &one, e);
    free(text);
    one.of_all = rc == KV_OK;
    if (rc == KV_OK) rc = put(&one, out, e);
  }
  return rc;
}

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static kv_rc put_text(kv_registry *registry, const char *text, kv_specs *out,
                      kv_err *e) {
  kv_spec one;
  if (strcmp(text, "all") == 0 || begins(text, "all:" KV_WINDOWED "=") ||
      begins(text, "all:" KV_PREFILL "="))
    return put_all(registry, text + strlen("all"), out, e);
  kv_rc rc = kv_spec_parse(registry, text, &one, e);
  return rc ? rc : put(&one, out, e);
}

static kv_rc add(kv_registry *registry, const char *list, kv_specs *out,
                 kv_err *e) {
  kv_rc rc = KV_OK;
  for (int place = 1; rc == KV_OK; place++) {
    size_t n = kv_specs_span(list);
    if (n == 0) {
      return kv_fail(e, KV_USAGE,
                     "the list of methods is empty at place %d; write "
                     "name:key=value,name",
                     place);
    }
    char *text = kv_text_copy(n, list);
    if (text == NULL) return kv_no_memory(e, "a specification", n);
    rc = put_text(registry, text, out, e);
    free(text);
    if (list[n] == 0) break;
    list += n + 1;
  }
  return rc;
}

kv_rc kv_specs_add(kv_registry *registry, const char *list, kv_specs *out,
                   kv_err *e) {
  int before = out->n;
  kv_rc rc = add(registry, list, out, e);
  if (rc == KV_OK) return KV_OK;
  while (out->n > before) kv_spec_free(&out->spec[--out->n]);
  return rc;
}
