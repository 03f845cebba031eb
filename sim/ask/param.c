/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters from text and as text: sim/ask/param.h.
 */
#include "sim/ask/param.h"

#include "ref/ground/json.h"
#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include "sim/ask/spec.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kv_params_count(const kv_param *table) {
  int n = 0;
  while (table && table[n].name) n++;
  return n;
}

size_t kv_param_size(kv_kind kind) {
  if (kind == KV_FILE) return sizeof(kv_file);
  return kind == KV_TEXT ? (size_t)KV_TEXT_MAX : sizeof(int32_t);
}

int kv_params_find(const kv_param *table, const char *name) {
  for (int i = 0; table && table[i].name; i++) {
    if (strcmp(table[i].name, name) == 0) return i;
  }
  return -1;
}

static void *slot(const kv_param *p, void *values) {
  return (char *)values + p->offset;
}

void kv_param_put(const kv_param *p, int32_t value, void *values) {
  assert(kv_param_size(p->kind) == sizeof value && "a text is set as text");
  memcpy(slot(p, values), &value, sizeof value);
}

void kv_param_unset(const kv_param *p, void *values) {
  float nan = NAN;
  if (kv_param_size(p->kind) != sizeof(int32_t))
    memset(slot(p, values), 0, KV_TEXT_MAX);
  else if (p->kind == KV_REAL)
    memcpy(slot(p, values), &nan, sizeof nan);
  else
    kv_param_put(p, KV_UNSET, values);
}

static double nearest(const kv_param *p, double x) {
  if (p->kind == KV_INT) x = rint(x);
  return x < p->min ? p->min : x > p->max ? p->max : x;
}

static kv_rc outside(const kv_param *p, const char *text, double x, kv_err *e) {
  char show[KV_SHOW], near[KV_NUMBER], range[KV_TEXT_MAX];
  kv_param_range(p, range);
  return kv_fail(
      e, KV_USAGE, "%s must be %s from %s, not %s; the nearest is %s=%s",
      p->name, p->kind == KV_INT ? "a whole number" : "a number", range,
      kv_show(text, show), p->name, kv_number_real(nearest(p, x), near));
}

static kv_rc number(const kv_param *p, const char *text, double *x, kv_err *e) {
  char show[KV_SHOW], range[KV_TEXT_MAX];
  if (!kv_number_parse(text, x)) {
    kv_param_range(p, range);
    return kv_fail(e, KV_USAGE, "%s must be a number from %s, not '%s'",
                   p->name, range, kv_show(text, show));
  }
  if (*x < p->min || *x > p->max) return outside(p, text, *x, e);
  return KV_OK;
}

static kv_rc set_int(const kv_param *p, const char *text, void *values,
                     kv_err *e) {
  double x;
  kv_rc rc = number(p, text, &x, e);
  if (rc) return rc;
  if (x != rint(x)) return outside(p, text, x, e);
  assert(x > KV_UNSET && x <= INT32_MAX && "the range of an int fits an int");
  kv_param_put(p, (int32_t)x, values);
  return KV_OK;
}

static kv_rc set_real(const kv_param *p, const char *text, void *values,
                      kv_err *e) {
  double x;
  float f;
  kv_rc rc = number(p, text, &x, e);
  if (rc) return rc;
  if (!kv_text_float(text, &f)) return outside(p, text, x, e);
  memcpy(slot(p, values), &f, sizeof f);
  return KV_OK;
}

static kv_rc set_share(const kv_param *p, const char *text, void *values,
                       kv_err *e) {
  double x;
  kv_rc rc = number(p, text, &x, e);
  if (rc) return rc;
  kv_param_put(p, kv_number_to_share(x), values);
  return KV_OK;
}

/* Splits "a|b" into names; copy holds the text. */
static int split(const char *choices, char copy[KV_CHOICES_BYTES],
                 const char *name[KV_MOST_CHOICES]) {
  int n = 0;
  assert(strlen(choices) < KV_CHOICES_BYTES &&
         "choices of a parameter are short");
  strcpy(copy, choices);
  for (char *at = copy, *bar; at; at = bar) {
    assert(n < KV_MOST_CHOICES && "choices of a parameter are few");
    name[n++] = at;
    bar = strchr(at, '|');
    if (bar) *bar++ = 0;
  }
  return n;
}

static kv_rc set_choice(const kv_param *p, const char *text, void *values,
                        kv_err *e) {
  char copy[KV_CHOICES_BYTES], show[KV_SHOW];
  const char *name[KV_MOST_CHOICES];
  int n = split(p->choices, copy, name);
  for (int i = 0; i < n; i++) {
    if (strcmp(name[i], text) == 0) {
      kv_param_put(p, i, values);
      return KV_OK;
    }
  }
  const char *near = kv_text_nearest(text, n, name);
  return kv_fail(e, KV_USAGE, "%s must be one of %s, not '%s'%s%s%s", p->name,
                 p->choices, kv_show(text, show), near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "");
}

static kv_rc set_text(const kv_param *p, const char *text, void *values,
                      kv_err *e) {
  size_t n = strlen(text);
  if (n == 0) return kv_fail(e, KV_USAGE, "%s= has no value", p->name);
  if (n >= KV_TEXT_MAX) {
    return kv_fail(e, KV_USAGE,
                   "the value of %s has %zu bytes; the limit is %d", p->name, n,
                   KV_TEXT_MAX - 1);
  }
  if (!kv_utf8_valid(n, (const unsigned char *)text)) {
    return kv_fail(e, KV_USAGE, "the value of %s is not UTF-8", p->name);
  }
  char one[KV_PLAIN_MOST];
  for (const char *at = text, *next = text; kv_plain_next(&next, one);
       at = next) {
    if (strncmp(one, at, (size_t)(next - at)) != 0) {
      return kv_fail(e, KV_USAGE,
                     "the value of %s has a control character at byte %zu",
                     p->name, (size_t)(at - text) + 1);
    }
  }
  memset(slot(p, values), 0, KV_TEXT_MAX);
  memcpy(slot(p, values), text, n);
  return KV_OK;
}

typedef kv_rc setter(const kv_param *p, const char *text, void *values,
                     kv_err *e);
static setter *const set[] = {
    [KV_INT] = set_int,       [KV_REAL] = set_real, [KV_SHARE] = set_share,
    [KV_CHOICE] = set_choice, [KV_TEXT] = set_text, [KV_FILE] = set_text};

kv_rc kv_param_set(const kv_param *p, const char *text, void *values,
                   kv_err *e) {
  return set[p->kind](p, text, values, e);
}

kv_rc kv_params_default(const kv_param *table, void *values, kv_err *e) {
  for (const kv_param *p = table; p && p->name; p++) {
    kv_err why = {0};
    if (p->fallback == NULL || p->kind == KV_FILE) {
      /* Files are looked for later, with the trace. */
      kv_param_unset(p, values);
    } else if (kv_param_set(p, p->fallback, values, &why)) {
      return kv_fail(e, KV_INTERNAL, "a default is invalid: %s", why.text);
    }
  }
  return KV_OK;
}

static int integer(const kv_param *p, const void *values) {
  int x;
  memcpy(&x, (const char *)values + p->offset, sizeof x);
  return x;
}

static float real(const kv_param *p, const void *values) {
  float x;
  memcpy(&x, (const char *)values + p->offset, sizeof x);
  return x;
}

static const char *text(const kv_param *p, const void *values) {
  return (const char *)values + p->offset;
}

/* Is the value a text? A kv_file begins with one. */
static bool is_text(const kv_param *p) {
  return p->kind == KV_TEXT || p->kind == KV_FILE;
}

bool kv_param_is_set(const kv_param *p, const void *values) {
  if (p->kind == KV_REAL) return !isnan(real(p, values));
  if (is_text(p)) return text(p, values)[0] != 0;
  return integer(p, values) != KV_UNSET;
}

static void choice(const char *choices, int index, char out[KV_TEXT_MAX]) {
  for (; index > 0; index--) choices = strchr(choices, '|') + 1;
  snprintf(out, KV_TEXT_MAX, "%.*s", (int)strcspn(choices, "|"), choices);
}

void kv_param_text(const kv_param *p, const void *values,
                   char out[KV_TEXT_MAX]) {
  out[0] = 0;
  if (!kv_param_is_set(p, values)) return;
  switch (p->kind) {
  case KV_INT:
    snprintf(out, KV_TEXT_MAX, "%d", integer(p, values));
    break;
  case KV_REAL:
    kv_number_float(real(p, values), out);
    break;
  case KV_SHARE:
    kv_number_share(integer(p, values), out);
    break;
  case KV_CHOICE:
    choice(p->choices, integer(p, values), out);
    break;
  case KV_TEXT:
  case KV_FILE:
    snprintf(out, KV_TEXT_MAX, "%s", text(p, values));
    break;
  }
}

void kv_param_range(const kv_param *p, char out[KV_TEXT_MAX]) {
  char min[KV_NUMBER], max[KV_NUMBER];
  if (p->kind == KV_CHOICE) {
    snprintf(out, KV_TEXT_MAX, "%s", p->choices);
  } else if (is_text(p)) {
    snprintf(out, KV_TEXT_MAX, p->kind == KV_FILE ? "file" : "text");
  } else {
    kv_number_real(p->min, min);
    kv_number_real(p->max, max);
    snprintf(out, KV_TEXT_MAX, "%s to %s", min, max);
  }
}

/* Was the file found at its default path, next to the trace? */
static bool beside(const kv_param *p, const void *values) {
  const kv_file *f = (const void *)((const char *)values + p->offset);
  return p->kind == KV_FILE && f->beside;
}

/* Is the parameter newer than the method's first rows (kv_param.later), and at
 * its default or unset? It is left out, so that those rows keep keys. */
static bool unnamed(const kv_param *p, const void *values) {
  char out[KV_TEXT_MAX];
  if (!p->later) return false;
  if (!kv_param_is_set(p, values)) return true;
  if (!p->fallback) return false;
  kv_param_text(p, values, out);
  return strcmp(out, p->fallback) == 0;
}

static void value_json(const kv_param *p, const char *name, const void *values,
                       kv_json *j) {
  char out[KV_TEXT_MAX];
  kv_param_text(p, values, out);
  if (!kv_param_is_set(p, values)) {
    kv_json_null(j, name);
  } else if (p->kind == KV_FILE) {
    const char *slash = strrchr(out, '/');
    kv_json_text(j, name, slash ? slash + 1 : out);
  } else if (p->kind == KV_CHOICE || p->kind == KV_TEXT) {
    kv_json_text(j, name, out);
  } else {
    kv_json_raw(j, name, out);
  }
}

/* The values of one parameter in n structs. */
typedef struct series {
  const kv_param *param;
  int n;
  size_t size;
  const char *values;
} series;

static bool is_list(const series *s) {
  char first[KV_TEXT_MAX], other[KV_TEXT_MAX];
  bool list = s->n > 1 && kv_knob_counts(s->param->knob);
  kv_param_text(s->param, s->values, first);
  for (int i = 1; !list && i < s->n; i++) {
    kv_param_text(s->param, s->values + (size_t)i * s->size, other);
    list = strcmp(first, other) != 0;
  }
  return list;
}

static void series_json(const series *s, kv_json *j) {
  if (!is_list(s)) {
    if (unnamed(s->param, s->values)) return;
    value_json(s->param, s->param->name, s->values, j);
    return;
  }
  kv_json_open(j, s->param->name, '[');
  for (int i = 0; i < s->n; i++)
    value_json(s->param, NULL, s->values + (size_t)i * s->size, j);
  kv_json_close(j, ']');
}

/* Closes the memory stream; returns its text, or NULL without memory. */
static char *finish(FILE *f, char **text) {
  int bad = ferror(f);
  if (fclose(f) == 0 && !bad) return *text;
  free(*text);
  return NULL;
}

char *kv_params_json(const kv_param *table, const void *values) {
  return kv_params_json_each(table, 1, 0, values);
}

char *kv_params_json_each(const kv_param *table, int n, size_t size,
                          const void *values) {
  char *out = NULL;
  size_t bytes;
  kv_json j = {open_memstream(&out, &bytes), false};
  if (j.out == NULL) return NULL;
  kv_json_open(&j, NULL, '{');
  for (const kv_param *p = table; p && p->name; p++)
    series_json(&(series){p, n, size, values}, &j);
  kv_json_close(&j, '}');
  return finish(j.out, &out);
}

static void escape(FILE *f, const char *c) {
  for (; *c; c++) {
    if (strchr(KV_SPEC_ESCAPED, *c)) fputc('\\', f);
    fputc(*c, f);
  }
}

char *kv_params_spec(const char *name, const kv_param *table,
                     const void *values) {
  char *out = NULL, value[KV_TEXT_MAX];
  size_t size;
  FILE *f = open_memstream(&out, &size);
  if (f == NULL) return NULL;
  fputs(name, f);
  for (const kv_param *p = table; p && p->name; p++) {
    if (!kv_param_is_set(p, values) || unnamed(p, values)) continue;
    if (beside(p, values)) continue;
    kv_param_text(p, values, value);
    fprintf(f, ":%s=", p->name);
    if (is_text(p))
      escape(f, value);
    else
      fputs(value, f); /* a number or a choice: 1e+06 needs no backslash */
  }
  return finish(f, &out);
}
