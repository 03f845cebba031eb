/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/compare/measures.h"
#include "analysis/measures.h"

#include <assert.h>
#include <string.h>

enum { NEITHER = 0, MORE = 1, LESS = -1, SIZE = -2 };
enum { PROMPT = 0, STEPS = 1, SEARCHES = 2 };
#define ROW(NAME, name, of, better, unit, columns, title, phrase)              \
  {#name,          #name,          false,  (better > 0) - (better < 0),        \
   better == SIZE, of == SEARCHES, phrase, false},
/* needle is listed before them. */
#define DERIVED(NAME, ...) DERIVED_##NAME(__VA_ARGS__)
#define DERIVED_NEEDLE_SHARE(...)
#define DERIVED_LSE_DRIFT(...) ROW(LSE_DRIFT, __VA_ARGS__)

const kv_compared kv_compared_all[] = {
    {"loglik", "loglik_token", true, 1, false, false,
     "of the right answer, nats a token", false},
    {"exact_match", "exact", true, 1, false, false,
     "share of questions answered right", true},
    {"next_kl", "kl", true, -1, false, false,
     "KL of the next token from dense's, nats", false},
    {"agree", "agree", true, 1, false, false,
     "tokens until greedy decoding leaves dense's", false},
    {"output_abs_max", "output_abs_max", false, -1, false, false,
     "largest error of an element of the output", false},
    {"needle", "needle_share", false, 1, false, true,
     "mass on the answer, dense is 1", true},
    {"needle_kept", "needle_kept", false, 1, false, true,
     "dense's mass on the answer that is kept, a share", true},
    {"needle_worst", "needle_worst", false, 1, false, true,
     "the same over the worst tenth of lanes", true},
    KV_MEASURES_EACH(ROW, DERIVED) /* one row each */
    {.name = NULL}};

/* Open-loop measures first: the first one is the default for traces, because
 * it ranks answers best (KV_SHOWN_EACH). */
const kv_compared *kv_compared_at(int i) {
  const kv_compared *m = kv_compared_all;
  for (int answers = 0; answers < 2; answers++)
    for (m = kv_compared_all; m->name; m++)
      if (*m->what && m->answered == answers && i-- == 0) return m;
  return m;
}

const kv_compared *kv_compared_named(const char *name) {
  const kv_compared *m = kv_compared_all;
  while (m->name && strcmp(m->name, name)) m++;
  assert(m->name && "a measure of that name");
  return m;
}
