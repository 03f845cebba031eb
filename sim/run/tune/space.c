/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids of parameters, and the specifications of their points:
 * sim/run/tune/space.h. Values are checked by the parser of specifications, so
 * that the error messages are the same.
 */
#include "sim/run/tune/space.h"

#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include "ref/lane/compose.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kv_method *method_of(const kv_tune_space *s) {
  return s->specs.spec[0].method;
}

kv_rc kv_tune_space_open(kv_registry *registry, const char *text,
                         kv_tune_space *s, kv_err *e) {
  *s = (kv_tune_space){0};
  kv_rc rc = kv_specs_add(registry, text, &s->specs, e);
  if (rc) return rc;
  if (s->specs.n != 1)
    return kv_fail(e, KV_USAGE, "tune searches one method at a time");
  s->text = strdup(text);
  return s->text ? KV_OK : kv_no_memory(e, "a specification", strlen(text));
}

void kv_tune_space_free(kv_tune_space *s) {
  kv_specs_free(&s->specs);
  free(s->text);
  *s = (kv_tune_space){0};
}

/* --- one range ------------------------------------------------------------ */

static kv_rc no_param(const kv_method *m, const char *name, kv_err *e) {
  enum { MOST = 256 };
  const char *names[MOST];
  char show[KV_SHOW];
  int n = 0;
  for (; n < MOST && m->params && m->params[n].name; n++)
    names[n] = m->params[n].name;
  const char *near = kv_text_nearest(name, n, names);
  return kv_fail(e, KV_USAGE, "--search: %s has no parameter %s; %s%s%s",
                 m->name, kv_show(name, show),
                 near ? "did you mean " : "`kvreplay methods ",
                 near ? near : m->name, near ? "?" : "` lists them");
}

/* Makes an axis of the method's i-th parameter. A composition's parameters are
 * those of its parts, one list after the other. */
static void belong(const kv_tune_space *s, int i, kv_tune_axis *a) {
  const kv_method *m = method_of(s), *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  kv_parts_of(m, part, offset);
  int own = kv_params_count(part[0]->params);
  a->param = &m->params[i];
  a->part = i >= own;
  a->name = a->part ? part[1]->params[i - own].name : part[0]->params[i].name;
}

/* Finds the parameter, and the part that it belongs to. */
static kv_rc find(const kv_tune_space *s, const char *name, kv_tune_axis *a,
                  kv_err *e) {
  const kv_method *m = method_of(s);
  int i = kv_params_find(m->params, name);
  if (i < 0) return no_param(m, name, e);
  for (int k = 0; k < s->axes; k++)
    if (s->axis[k].param == &m->params[i])
      return kv_fail(e, KV_USAGE, "--search names %s twice", name);
  belong(s, i, a);
  kv_kind kind = a->param->kind;
  if (kind == KV_CHOICE)
    return kv_fail(e, KV_USAGE,
                   "--search: %s is a choice (%s), but only numbers can be "
                   "searched; run tune once for each",
                   name, a->param->choices);
  if (kind == KV_TEXT || kind == KV_FILE)
    return kv_fail(e, KV_USAGE, "--search: %s is not a number", name);
  return KV_OK;
}

/* The largest power of ten that divides the span into a hundred steps. */
static double hundredth(double span) {
  double step = 1, most = span / 100 * (1 + 1e-9);
  if (!(span > 0)) return 1;
  while (step > most) step /= 10;
  while (step * 10 <= most) step *= 10;
  return step;
}

static double step_of(const kv_param *p, double span) {
  if (p->grid > 0) return p->grid;
  return p->kind == KV_INT ? 1 : hundredth(span);
}

static kv_rc no_range(const char *text, kv_err *e) {
  char show[KV_SHOW];
  return kv_fail(
      e, KV_USAGE,
      "--search must be NAME=LOW:HIGH or NAME=LOW:HIGH:STEP, not '%s'",
      kv_show(text, show));
}

/* A grid that ends within a millionth of a step below high ends at high. */
static kv_rc lay(kv_tune_axis *a, double high, const char *step, kv_err *e) {
  const char *name = a->param->name;
  if (high < a->low)
    return kv_fail(e, KV_USAGE,
                   "--search: the range of %s is reversed; write %s=%s:%s",
                   name, name, a->last, a->first);
  a->step = step_of(a->param, high - a->low);
  if (step && (!kv_number_parse(step, &a->step) || !(a->step > 0)))
    return kv_fail(e, KV_USAGE,
                   "--search: the step %.40s of %s must be above 0", step,
                   name);
  if (a->param->kind == KV_INT && a->step != rint(a->step))
    return kv_fail(e, KV_USAGE,
                   "--search: the step of %s must be a whole number, not %.40s",
                   name, step ? step : "a part of one");
  double points = floor((high - a->low) / a->step + 1e-6) + 1;
  if (points > KV_TUNE_GRID)
    return kv_fail(e, KV_USAGE,
                   "--search: %s would have more than %d values; give a "
                   "narrower range or a larger step",
                   name, (int)KV_TUNE_GRID);
  a->points = (int)points;
  return KV_OK;
}

/* Cuts at the first `c`; returns the text after it, NULL if there is none. */
static char *cut(char *text, char c) {
  char *at = strchr(text, c);
  if (at) *at++ = 0;
  return at;
}

/* One NAME=LOW:HIGH[:STEP]; writes into `text`. */
static kv_rc add(kv_tune_space *s, char *text, const char *whole, kv_err *e) {
  kv_tune_axis a = {0};
  double high;
  char *low = cut(text, '='), *last = low ? cut(low, ':') : NULL;
  char *step = last ? cut(last, ':') : NULL;
  if (!last || !kv_number_parse(low, &a.low) || !kv_number_parse(last, &high) ||
      strlen(low) >= KV_TUNE_TEXT || strlen(last) >= KV_TUNE_TEXT)
    return no_range(whole, e);
  if (s->axes == KV_TUNE_AXES)
    return kv_fail(e, KV_USAGE, "--search allows at most %d parameters",
                   (int)KV_TUNE_AXES);
  kv_rc rc = find(s, text, &a, e);
  strcpy(a.first, low);
  strcpy(a.last, last);
  if (!rc) rc = lay(&a, high, step, e);
  if (!rc) s->axis[s->axes++] = a;
  return rc;
}

kv_rc kv_tune_space_add(kv_tune_space *s, const char *list, kv_err *e) {
  char *text = strdup(list);
  kv_rc rc = text ? KV_OK : kv_no_memory(e, "a range", strlen(list));
  for (char *at = text, *next; !rc && at; at = next) {
    next = cut(at, ',');
    char *whole = strdup(at);
    rc = whole ? add(s, at, whole, e) : kv_no_memory(e, "a range", 1);
    free(whole);
  }
  free(text);
  return rc;
}

bool kv_tune_space_has(const kv_tune_space *s, size_t n, const char *name) {
  const kv_param *p = method_of(s)->params;
  for (; p && p->name; p++)
    if (strlen(p->name) == n && !memcmp(p->name, name, n)) return true;
  return false;
}

bool kv_tune_space_knob(kv_tune_space *s, int n_tokens) {
  const kv_spec *spec = &s->specs.spec[0];
  const kv_param *p = kv_spec_knob(spec->method);
  if (!p || spec->layers || spec->given[p - spec->method->params]) return false;
  kv_tune_axis a = {.low = p->min, .step = p->grid > 0 ? p->grid : 1};
  belong(s, (int)(p - spec->method->params), &a);
  a.points = kv_knob_places(p, n_tokens);
  kv_tune_axis_text(&a, 0, a.first);
  kv_tune_axis_text(&a, a.points - 1, a.last);
  s->axis[0] = a;
  s->axes = 1;
  return s->knob = true;
}

/* --- points --------------------------------------------------------------- */

void kv_tune_axis_text(const kv_tune_axis *a, int at, char out[KV_TUNE_TEXT]) {
  double x = a->low + (double)at * a->step;
  if (a->param->kind == KV_INT)
    snprintf(out, KV_TUNE_TEXT, "%.0f", x);
  else
    kv_number_float((float)x, out);
}

/* Appends to a text of n bytes in out[room]; returns the new length. */
__attribute__((format(printf, 4, 5))) static size_t
put(size_t room, char *out, size_t n, const char *format, ...) {
  va_list more;
  va_start(more, format);
  int added = n < room ? vsnprintf(out + n, room - n, format, more)
                       : vsnprintf(NULL, 0, format, more);
  va_end(more);
  return n + (size_t)added;
}

/* Writes the typed specification, each part followed by its searched values.
 * Returns its length, even if `room` is too small. */
static size_t compose(const kv_tune_space *s, char (*value)[KV_TUNE_TEXT],
                      size_t room, char *out) {
  const char *at = s->text;
  size_t n = 0;
  for (int part = 0; *at; part++) {
    size_t own = kv_spec_part(at);
    n = put(room, out, n, "%s%.*s", part ? "+" : "", (int)own, at);
    for (int i = 0; i < s->axes; i++)
      if (s->axis[i].part == part)
        n = put(room, out, n, ":%s=%s", s->axis[i].name, value[i]);
    at += own + (at[own] != 0);
  }
  return n;
}

/* The same, allocated; NULL without memory. */
static char *composed(const kv_tune_space *s, char (*value)[KV_TUNE_TEXT]) {
  size_t room = compose(s, value, 0, NULL) + 1;
  char *out = malloc(room);
  if (out) compose(s, value, room, out);
  return out;
}

static void values(const kv_tune_space *s, const int *at,
                   char (*value)[KV_TUNE_TEXT]) {
  for (int i = 0; i < s->axes; i++)
    kv_tune_axis_text(&s->axis[i], at[i], value[i]);
}

char *kv_tune_space_text(const kv_tune_space *s, const int *at) {
  char value[KV_TUNE_AXES][KV_TUNE_TEXT];
  values(s, at, value);
  return composed(s, value);
}

void kv_tune_space_show(const kv_tune_space *s, const int *at, size_t room,
                        char *out) {
  char value[KV_TUNE_AXES][KV_TUNE_TEXT];
  values(s, at, value);
  compose(s, value, room, out);
}

/* Parses the specification with one end of every range. */
static kv_rc check_end(kv_registry *registry, const kv_tune_space *s, bool last,
                       kv_err *e) {
  char value[KV_TUNE_AXES][KV_TUNE_TEXT];
  kv_spec spec = {0};
  kv_err why = {0};
  for (int i = 0; i < s->axes; i++)
    strcpy(value[i], last ? s->axis[i].last : s->axis[i].first);
  char *text = composed(s, value);
  if (!text) return kv_no_memory(e, "a specification", strlen(s->text));
  kv_rc rc = kv_spec_parse(registry, text, &spec, &why);
  if (!rc) kv_spec_free(&spec);
  free(text);
  return rc ? kv_fail(e, rc, "--search: %s", why.text) : KV_OK;
}

kv_rc kv_tune_space_check(kv_registry *registry, const kv_tune_space *s,
                          kv_err *e) {
  kv_rc rc = check_end(registry, s, false, e);
  return rc ? rc : check_end(registry, s, true, e);
}
