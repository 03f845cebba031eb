/* SPDX-License-Identifier: Apache-2.0
 *
 * Random requests for a page manager: tests/support/pages/pagewalk.h.
 */
#include "tests/support/pages/pagewalk.h"
#include "tests/support/draw.h"

#include <string.h>

void pagewalk_begin(pagewalk *w, uint64_t seed, int heads, bool low) {
  *w = (pagewalk){.seed = seed, .heads = heads, .low = low};
  for (int r = 0; r < PAGEWALK_REQUESTS; r++) w->last[r] = KV_PAGES_END;
}

/* Tokens of `seen`, some high, some low, the others gone. */
static kv_pages_count draw_kept(pagewalk *w, int32_t seen) {
  int32_t kept = draw_below(&w->seed, seen + 1);
  int32_t low = w->low ? draw_below(&w->seed, kept + 1) : 0;
  return (kv_pages_count){{kept - low, low}};
}

/* A token of decoding: it stays or goes, and another may be demoted or go.
 * Once in a while anything. */
static kv_pages_count draw_step(pagewalk *w, int r, int h) {
  kv_pages_count c = w->count[r][h];
  switch (draw_below(&w->seed, 16)) {
  case 0:
    return draw_kept(w, w->seen[r]);
  case 1:
  case 2:
    return c;
  case 3:
  case 4:
  case 5:
    c.of[w->low]++;
    return c;
  case 6:
    if (!w->low || !c.of[KV_HIGH]) return c;
    c.of[KV_HIGH]--;
    c.of[KV_LOW]++;
    return c;
  default:
    c.of[KV_HIGH]++;
    return c;
  }
}

static kv_pages_job draw_job(pagewalk *w, int r) {
  kv_pages_job j = {.request = r, .count = w->next[r]};
  if (w->last[r] == KV_PAGES_END || w->last[r] == KV_PAGES_PROMPT) {
    bool begins = w->last[r] == KV_PAGES_END;
    j.phase = begins ? KV_PAGES_PROMPT : KV_PAGES_COMPRESSED;
    if (begins) j.tokens = 1 + draw_below(&w->seed, 3 * PAGEWALK_MOST / 4);
    for (int h = 0; !begins && h < w->heads; h++)
      w->next[r][h] = draw_kept(w, w->seen[r]);
    return j;
  }
  bool more = w->seen[r] < PAGEWALK_MOST && draw_below(&w->seed, 12);
  j.phase = more ? KV_PAGES_STEP : KV_PAGES_END;
  w->seen[r] += more;
  for (int h = 0; more && h < w->heads; h++) w->next[r][h] = draw_step(w, r, h);
  return j;
}

int pagewalk_draw(pagewalk *w, kv_pages_job job[PAGEWALK_REQUESTS]) {
  int first = draw_below(&w->seed, PAGEWALK_REQUESTS);
  int n = 1 + draw_below(&w->seed, PAGEWALK_REQUESTS);
  for (int i = 0; i < n; i++)
    job[i] = draw_job(w, (first + i) % PAGEWALK_REQUESTS);
  return n;
}

/* What was done is known; who was refused goes home. */
static void learn(pagewalk *w, const kv_pages_job *j) {
  int r = j->request;
  if (j->phase == KV_PAGES_PROMPT && !j->refused) w->seen[r] = j->tokens;
  if (j->phase == KV_PAGES_PROMPT && j->refused) return;
  w->last[r] = j->refused ? KV_PAGES_STEP : j->phase;
  if (j->refused) w->seen[r] = PAGEWALK_MOST; /* its next job is its end */
  if (!j->refused && j->count)
    memcpy(w->count[r], w->next[r], (size_t)w->heads * sizeof *w->count[r]);
}

void pagewalk_learn(pagewalk *w, int n, const kv_pages_job *job) {
  for (int i = 0; i < n; i++) learn(w, &job[i]);
}
