/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting parameters from text: sim/spec/param.h. Writing is in param_text.c.
 */
#include "sim/spec/param.h"

#include "sim/text/number.h"
#include "traces/text/text.h"
#include <assert.h>
#include <math.h>
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
  bool whole = x >= p->min && x <= p->max;
  kv_param_range(p, range);
  return kv_fail(e, KV_USAGE, "%s=%s is not %s (%s); the nearest is %s=%s",
                 p->name, kv_show(text, show),
                 whole ? "a whole number" : "in range", range, p->name,
                 kv_number_real(nearest(p, x), near));
}

static kv_rc number(const kv_param *p, const char *text, double *x, kv_err *e) {
  char show[KV_SHOW], range[KV_TEXT_MAX];
  if (!kv_number_parse(text, x)) {
    kv_param_range(p, range);
    return kv_fail(e, KV_USAGE, "%s=%s is not a number (%s)", p->name,
                   kv_show(text, show), range);
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

/* Cuts "a|b" into names; copy holds the text. */
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
  return kv_fail(e, KV_USAGE, "%s=%s is none of %s%s%s%s", p->name,
                 kv_show(text, show), p->choices, near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "");
}

static kv_rc set_text(const kv_param *p, const char *text, void *values,
                      kv_err *e) {
  size_t n = strlen(text);
  if (n == 0) return kv_fail(e, KV_USAGE, "%s= has no value", p->name);
  if (n >= KV_TEXT_MAX) {
    return kv_fail(e, KV_USAGE, "the value of %s has %zu bytes; at most %d",
                   p->name, n, KV_TEXT_MAX - 1);
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
      /* A file is looked for when a trace is known. */
      kv_param_unset(p, values);
    } else if (kv_param_set(p, p->fallback, values, &why)) {
      return kv_fail(e, KV_INTERNAL, "a default is not legal: %s", why.text);
    }
  }
  return KV_OK;
}
