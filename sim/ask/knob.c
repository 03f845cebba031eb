/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs: sim/ask/spec.h.
 */
#include "sim/ask/spec.h"

#include "ref/ground/number.h"
#include "sim/ask/param.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool kv_knob_takes(const kv_spec *s, const kv_budget *b) {
  const kv_param *p = kv_spec_knob(s->method);
  if (!b || !p) return false;
  if (kv_knob_counts(p->knob)) return kv_spec_wants_budget(s);
  return kv_budget_in_bytes(b) && !s->given[p - s->method->params];
}

static double step_of(const kv_param *p) { return p->grid > 0 ? p->grid : 1; }

/* A grid that ends within a millionth of a step below max ends at max. */
int kv_knob_places(const kv_param *p, int n_tokens) {
  double most = floor((p->max - p->min) / step_of(p) + 1e-6) + 1;
  if (kv_knob_counts(p->knob)) {
    double entries = n_tokens - p->min + 1;
    most = entries < most ? entries : most;
  }
  assert(most <= INT32_MAX && "a plugin's grid is looked at when it is loaded");
  return most < 1 ? 1 : (int)most;
}

int32_t kv_knob_value(const kv_param *p, int n_tokens, int place) {
  int places = kv_knob_places(p, n_tokens), at = place - 1;
  if (p->knob == KV_KNOB_LESS) at = places - place;
  double x = p->min + (double)at * step_of(p);
  float f = (float)x;
  int32_t value = (int32_t)rint(x);
  if (p->kind == KV_SHARE) value = kv_number_to_share(x < p->max ? x : p->max);
  if (p->kind == KV_REAL) memcpy(&value, &f, sizeof value);
  assert(value >= 0 && "a knob has no value below 0");
  return value;
}

void kv_knob_text(const kv_param *p, int32_t value, char out[KV_TEXT_MAX]) {
  kv_param one = *p;
  char number[KV_TEXT_MAX];
  one.offset = 0;
  kv_param_text(&one, &value, number);
  snprintf(out, KV_TEXT_MAX, "%.64s%s%.64s", p->name,
           kv_knob_counts(p->knob) ? " " : "=", number);
}
