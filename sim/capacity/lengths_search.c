/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay of lengths with what the budget says: sim/capacity/lengths.h. One in
 * bytes is searched for as `kvreplay run` searches (sim/spec/budget.h), each
 * probe being a replay of lengths.
 */
#include "sim/capacity/lengths_part.h"

#include "sim/spec/knob.h"
#include "sim/spec/param.h"

typedef struct search {
  const kv_lengths *ask;
  const kv_param *knob;
  int tokens;
  int value;        /* of the last probe, and .. */
  kv_stored stored; /* .. what it stored */
} search;

static kv_rc legal(void *self, int place, bool *runs, kv_err *e) {
  const search *s = self;
  int value = kv_knob_value(s->knob, s->tokens, place);
  kv_rc rc = kv_lengths_try(s->ask, value, NULL, NULL, NULL, e);
  *runs = !rc;
  return rc == KV_REFUSED ? KV_OK : rc;
}

static kv_rc probe(void *self, int place, int64_t *bytes, int64_t *dense,
                   kv_err *e) {
  search *s = self;
  s->value = kv_knob_value(s->knob, s->tokens, place);
  return kv_lengths_try(s->ask, s->value, &s->stored, bytes, dense, e);
}

static kv_rc in_bytes(const kv_lengths *ask, kv_stored *out, kv_err *e) {
  search s = {.ask = ask,
              .knob = kv_spec_knob(ask->spec->method),
              .tokens = ask->context + ask->output};
  int most = kv_knob_places(s.knob, s.tokens), least, place;
  char named[KV_TEXT_MAX];
  kv_rc rc = kv_budget_least(most, legal, &s, &least, e);
  if (rc) return rc;
  kv_knob_text(s.knob, kv_knob_value(s.knob, s.tokens, least), named);
  rc = kv_budget_search(ask->budget, least, most, named, probe, &s, &place, e);
  if (rc) return rc;
  int value = kv_knob_value(s.knob, s.tokens, place);
  if (value != s.value) return kv_lengths_try(ask, value, out, NULL, NULL, e);
  *out = s.stored;
  return KV_OK;
}

kv_rc kv_lengths_replay(const kv_lengths *ask, kv_stored *out, kv_err *e) {
  const kv_budget *b = ask->budget;
  if (b && kv_budget_in_bytes(b) && kv_knob_takes(ask->spec, b))
    return in_bytes(ask, out, e);
  return kv_lengths_try(ask, -1, out, NULL, NULL, e);
}
