/* SPDX-License-Identifier: Apache-2.0
 *
 * A second session in the state of a first: kv_session_fork. What was opened is
 * opened again, with the files that are read already; then each owner copies
 * what it holds: the layers their stores, the cell its ledger and messages, the
 * session its buffers. There is no branch on a method.
 */
#include "ref/lane/needs.h"
#include "sim/session/session_part.h"

#include <stdlib.h>
#include <string.h>

/* What the session was opened for; fed[n_layers] becomes the list of its
 * layers. */
static kv_session_shape shape_of(const kv_session *s, int32_t *fed) {
  const kv_shape *p = &s->cell.shape;
  for (int i = 0; i < s->trace.n_layers; i++)
    fed[i] = s->trace.layer[i].data.layer;
  return (kv_session_shape){.abi = KV_SESSION_ABI,
                            .n_layers = p->n_layers,
                            .n_heads = p->n_heads,
                            .n_kv_heads = p->n_kv_heads,
                            .d = p->d,
                            .d_v = p->d_v,
                            .n_tokens = p->n_tokens,
                            .dtype = (int32_t)p->dtype,
                            .scale = p->scale,
                            .n_fed = s->trace.n_layers,
                            .fed = fed,
                            .inv_freq = s->inv_freq,
                            .interleaved = s->trace.rope.interleaved,
                            .positions = s->positions,
                            .softcap = p->softcap,
                            .window = s->variant.window,
                            .sinks = s->variant.sinks,
                            .inv_freq_windowed = s->variant.inv_freq};
}

static kv_rc open_like(const kv_session *s, kv_session **out, kv_err *e) {
  size_t n = (size_t)s->trace.n_layers;
  int32_t *fed = kv_zalloc(n, sizeof *fed);
  if (!fed) return kv_no_memory(e, "a session", n * sizeof *fed);
  kv_session_shape x = shape_of(s, fed);
  kv_rc rc = kv_session_open_spec(
      &x, &s->cell.spec, NULL, s->cell.shape.prompt_len, s->cell.file, out, e);
  free(fed);
  return rc;
}

/* Is `to` opened as s is? A method decides by parameters and shape alone, which
 * a plugin may not keep to. */
static bool alike(const kv_session *s, const kv_session *to) {
  return strcmp(kv_session_spec(s), kv_session_spec(to)) == 0 &&
         !kv_needs_unlike(&s->cell.plan.needs, &to->cell.plan.needs);
}

/* --- one layer ---------------------------------------------------------- */

/* Rows first..first+n-1 of each of `heads` heads, of `all` rows of `size`
 * bytes. */
static void copy_rows(int heads, size_t all, size_t size, int n,
                      const char *from, char *to) {
  for (size_t at = 0, end = (size_t)heads * all; at < end; at += all)
    memcpy(to + at * size, from + at * size, (size_t)n * size);
}

/* Queries of a prompt that has not ended. */
static void copy_queries(const kv_session *s, const kv_fed *f, kv_fed *to) {
  const kv_shape *p = &s->cell.shape;
  int have = f->arrived - (p->prompt_len - s->asked);
  to->data->q_dtype = f->data->q_dtype;
  if (f->entered >= p->prompt_len || have <= 0) return;
  copy_rows(p->n_heads, (size_t)s->asked,
            (size_t)p->d * kv_dtype_size(f->data->q_dtype), have, f->q, to->q);
}

/* What the last decode step attended. */
static void copy_views(const kv_session *s, const kv_fed *f, kv_fed *to) {
  int heads = s->cell.shape.n_heads, per = heads / s->lanes;
  size_t room = (size_t)s->cell.shape.n_tokens;
  for (int h = 0; h < heads; h++) {
    int n = to->runs[h] = f->runs[h];
    const kv_run *run = f->run + (size_t)h * s->most_runs;
    size_t at = (size_t)(h / per) * room;
    size_t ids = n ? (size_t)(run[n - 1].first + run[n - 1].count) : 0;
    memcpy(to->run + (size_t)h * s->most_runs, run, (size_t)n * sizeof *run);
    memcpy(to->id + at, f->id + at, ids * sizeof *f->id);
  }
  for (int l = 0; l < s->lanes; l++) {
    size_t at = (size_t)l * room;
    to->same[l] = f->same[l];
    memcpy(to->id + at, f->id + at, (size_t)f->same[l] * sizeof *f->id);
  }
}

static void copy_layer(const kv_session *s, const kv_fed *f, kv_fed *to) {
  const kv_shape *p = &s->cell.shape;
  size_t heads = (size_t)p->n_heads, size = kv_dtype_size(p->dtype);
  size_t room = (size_t)p->n_tokens;
  to->arrived = f->arrived;
  to->entered = f->entered;
  to->fault = f->fault;
  memcpy(to->told, f->told, (size_t)s->lanes * sizeof *f->told);
  copy_queries(s, f, to);
  copy_rows(p->n_kv_heads, room, (size_t)p->d * size, f->arrived, f->k, to->k);
  copy_rows(p->n_kv_heads, room, (size_t)p->d_v * size, f->arrived, f->v,
            to->v);
  memcpy(to->out, f->out, heads * (size_t)p->d_v * sizeof *f->out);
  memcpy(to->lse, f->lse, heads * sizeof *f->lse);
  copy_views(s, f, to);
  kv_layer_copy(f->layer, to->layer);
}

/* --- all of it ---------------------------------------------------------- */

static void copy(const kv_session *s, kv_session *to) {
  for (int i = 0; i < s->trace.n_layers; i++)
    copy_layer(s, &s->fed[i], &to->fed[i]);
  kv_cost_copy(s->cell.cost, to->cell.cost);
  if (s->cell.messages) kv_messages_copy(s->cell.messages, to->cell.messages);
  if (s->given) kv_given_copy(s->given, to->given);
  to->closed = s->closed;
  to->ended = s->ended;
  to->digests = s->digests;
}

kv_rc kv_session_fork(const kv_session *s, kv_session **out, kv_err *e) {
  kv_session *to = NULL;
  if (!out) return kv_fail(e, KV_USAGE, "there is no place for the session");
  *out = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = open_like(s, &to, e);
  if (rc) return rc;
  if (!alike(s, to)) {
    kv_session_close(to);
    return kv_fail(e, KV_REFUSED,
                   "%s asks for something else when it is opened again: its "
                   "open must go by parameters and shape alone; feed a second "
                   "session instead",
                   kv_session_spec(s));
  }
  copy(s, to);
  *out = to;
  return KV_OK;
}
