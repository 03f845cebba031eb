/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing parameters as text: contract in sim/spec/param.h.
 */
#include "sim/spec/param.h"

#include "sim/spec/spec.h"
#include "sim/text/json.h"
#include "sim/text/number.h"
#include "traces/text/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* True if the value is a text; a kv_file begins with one. */
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

/* True for a file that was found at its default place, beside the trace. */
static bool beside(const kv_param *p, const void *values) {
  const kv_file *f = (const void *)((const char *)values + p->offset);
  return p->kind == KV_FILE && f->beside;
}

/* True for a parameter that came later than the method's first rows
 * (kv_param.later) and has its default or no value: it is left out, so that
 * those rows keep their keys. */
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

/* Closes the memory stream; returns its text, or NULL if memory ran out. */
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
