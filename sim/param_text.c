/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters written out: sim/param.h.
 */
#include "sim/param.h"

#include "sim/json.h"
#include "sim/number.h"
#include "traces/text.h"
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

bool kv_param_is_set(const kv_param *p, const void *values) {
  if (p->kind == KV_REAL) return !isnan(real(p, values));
  if (p->kind == KV_TEXT) return text(p, values)[0] != 0;
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
    snprintf(out, KV_TEXT_MAX, "%s", text(p, values));
    break;
  }
}

void kv_param_range(const kv_param *p, char out[KV_TEXT_MAX]) {
  char min[KV_NUMBER], max[KV_NUMBER];
  if (p->kind == KV_CHOICE) {
    snprintf(out, KV_TEXT_MAX, "%s", p->choices);
  } else if (p->kind == KV_TEXT) {
    snprintf(out, KV_TEXT_MAX, "text");
  } else {
    kv_number_real(p->min, min);
    kv_number_real(p->max, max);
    snprintf(out, KV_TEXT_MAX, "%s to %s", min, max);
  }
}

static void value_json(const kv_param *p, const void *values, kv_json *j) {
  char out[KV_TEXT_MAX];
  kv_param_text(p, values, out);
  if (!kv_param_is_set(p, values)) {
    kv_json_null(j, p->name);
  } else if (p->kind == KV_CHOICE || p->kind == KV_TEXT) {
    kv_json_text(j, p->name, out);
  } else {
    kv_json_raw(j, p->name, out);
  }
}

/* The stream's text, or NULL where memory ran out. */
static char *finish(FILE *f, char **text) {
  int bad = ferror(f);
  if (fclose(f) == 0 && !bad) return *text;
  free(*text);
  return NULL;
}

char *kv_params_json(const kv_param *table, const void *values) {
  char *out = NULL;
  size_t size;
  kv_json j = {open_memstream(&out, &size), false};
  if (j.out == NULL) return NULL;
  kv_json_open(&j, NULL, '{');
  for (const kv_param *p = table; p && p->name; p++) value_json(p, values, &j);
  kv_json_close(&j, '}');
  return finish(j.out, &out);
}

static void escape(FILE *f, const char *c) {
  for (; *c; c++) {
    if (strchr(":,\\", *c)) fputc('\\', f);
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
    if (!kv_param_is_set(p, values)) continue;
    kv_param_text(p, values, value);
    fprintf(f, ":%s=", p->name);
    escape(f, value);
  }
  return finish(f, &out);
}
