/* SPDX-License-Identifier: Apache-2.0
 *
 * The method of tests/made/sieve.h.
 */
#include "tests/made/sieve.h"

#include "ref/lane/lane.h"

#include <assert.h>
#include <string.h>

static kv_rc sieve_open(const kv_shape *shape, void *params, kv_needs *needs,
                        kv_err *e) {
  (void)params, (void)e;
  needs->prompt_rows = 1;
  needs->decode_rows = true;
  needs->want = KV_S;
  needs->lane_state = sizeof(sieve_picks);
  needs->across = KV_DOWN;
  needs->message =
      sizeof(sieve_message) + (size_t)shape->n_kv_heads * sizeof(sieve_picks);
  return KV_OK;
}

/* What the sieve above picked for this lane at this step; NULL: there is none.
 */
static const sieve_picks *picked(const kv_at *at, const kv_lane *l) {
  if (sieve_is(at->layer) || !at->above) return NULL;
  const sieve_message *m = at->above->data;
  assert(m->step == at->step && "a message of the same step");
  assert(at->above->layer == at->layer - at->layer % SIEVE_PERIOD);
  return &m->of[l->lane];
}

static bool has(const sieve_picks *p, uint32_t id) {
  for (int i = 0; i < p->n; i++)
    if (p->id[i] == id) return true;
  return false;
}

static void sieve_view(const kv_at *at, const kv_lane *l, const kv_query *q,
                       kv_view *out) {
  const sieve_picks *p = picked(at, l);
  bool *in = KV_TAKE(at->work, bool, l->n);
  (void)q;
  for (int i = 0; i < l->n; i++)
    in[i] = !p || i == l->n - 1 || has(p, l->id[i]);
  kv_view_mask(out, l->n, in);
}

/* The largest logit of entry i in the last row. */
static float best_of(const kv_rows *rows, int i) {
  float best = 0;
  for (int h = 0; h < rows->heads; h++) {
    size_t at = kv_rows_at(rows, rows->rows - 1, h) * rows->stride;
    float s = rows->s[at + (size_t)i];
    if (h == 0 || s > best) best = s;
  }
  return best;
}

static void sieve_observe(const kv_at *at, kv_lane *l, const kv_rows *rows) {
  sieve_picks *p = kv_own(at, l);
  int n = rows->entries;
  bool *in = KV_TAKE(at->work, bool, n);
  if (!sieve_is(at->layer)) return;
  memset(in, 0, (size_t)n * sizeof *in);
  for (int picks = 0; picks < SIEVE_PICKS && picks < n; picks++) {
    int most = -1;
    for (int i = 0; i < n; i++)
      if (!in[i] && (most < 0 || best_of(rows, i) > best_of(rows, most)))
        most = i;
    in[most] = true;
  }
  p->n = 0;
  for (int i = 0; i < n; i++)
    if (in[i]) p->id[p->n++] = l->id[i];
}

static void sieve_compress(const kv_at *at, kv_lane *l) {
  const sieve_picks *p = picked(at, l);
  bool *keep = KV_TAKE(at->work, bool, l->n);
  if (!p) return;
  for (int i = 0; i < l->n; i++)
    keep[i] = i >= l->n - SIEVE_STAYS || has(p, l->id[i]);
  kv_keep_mask(l, keep);
}

static bool sieve_publish(const kv_at *at, const kv_lane *const *lane,
                          int lanes, void *message) {
  sieve_message *m = message;
  if (!sieve_is(at->layer)) return false;
  m->step = at->step;
  m->lanes = lanes;
  for (int i = 0; i < lanes; i++)
    m->of[i] = *(const sieve_picks *)kv_own(at, lane[i]);
  return true;
}

const kv_method sieve_method = {.abi = KV_METHOD_ABI,
                                .name = "sieve",
                                .open = sieve_open,
                                .view = sieve_view,
                                .observe = sieve_observe,
                                .compress_lane = sieve_compress,
                                .publish = sieve_publish};
