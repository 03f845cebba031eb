/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session's model has besides plain causal attention, as traces of
 * version 2 say it: windows, a cap on logits, sinks, other frequencies in
 * windowed layers. It is put into the session's trace, where the engine finds
 * it as in a recorded one.
 */
#include "sim/session/session_part.h"

#include "ref/ground/arith.h"
#include <stdlib.h>
#include <string.h>

static kv_rc check_frequencies(const kv_session_shape *x, kv_err *e) {
  if (x->inv_freq_windowed && !x->inv_freq)
    return kv_fail(e, KV_USAGE,
                   "inv_freq_windowed is given and inv_freq is not; give both");
  for (int i = 0; x->inv_freq_windowed && i < x->d / 2; i++)
    if (!kv_finite(x->inv_freq_windowed[i]))
      return kv_fail(e, KV_USAGE, "inv_freq_windowed[%d] is not finite", i);
  return KV_OK;
}

kv_rc kv_session_check_variant(const kv_session_shape *x, kv_err *e) {
  if (!kv_finite(x->softcap) || x->softcap < 0)
    return kv_fail(e, KV_USAGE,
                   "softcap is %g and must be above 0, or 0 for none",
                   (double)x->softcap);
  for (int l = 0; x->window && l < x->n_layers; l++)
    if (x->window[l] < 0 || x->window[l] == 1)
      return kv_fail(e, KV_USAGE,
                     "window[%d] is %d: a layer sees 2 tokens or more, or "
                     "with 0 all",
                     l, x->window[l]);
  for (int i = 0; x->sinks && i < x->n_layers * x->n_heads; i++)
    if (!kv_finite(x->sinks[i]))
      return kv_fail(e, KV_USAGE,
                     "the sink of layer %d, query head %d is not finite",
                     i / x->n_heads, i % x->n_heads);
  return check_frequencies(x, e);
}

/* Copies n numbers of 4 bytes; NULL stays NULL. Clears *ok if memory ends. */
static void *copy(const void *from, size_t n, bool *ok) {
  void *p = from ? kv_zalloc(n + 1, 4) : NULL;
  if (p) memcpy(p, from, n * 4);
  *ok = *ok && (p || !from);
  return p;
}

kv_rc kv_session_take_variant(kv_session *s, const kv_session_shape *x,
                              kv_err *e) {
  kv_trace *t = &s->trace;
  kv_variant *v = &s->variant;
  size_t layers = (size_t)x->n_layers, heads = (size_t)x->n_heads;
  bool ok = true;
  v->sinks = copy(x->sinks, layers * heads, &ok);
  v->inv_freq = copy(x->inv_freq_windowed, (size_t)x->d / 2, &ok);
  v->window = copy(x->window, layers, &ok);
  v->windowed = kv_zalloc(layers, sizeof *v->windowed);
  if (!ok || !v->windowed)
    return kv_no_memory(e, "a session", layers * heads * 4);
  t->shape.softcap = x->softcap;
  t->windowed_inv_freq = v->inv_freq;
  for (size_t l = 0; x->window && l < layers; l++) {
    v->windowed[l] = x->window[l] > 0;
    if (v->windowed[l]) t->shape.windowed = v->windowed;
  }
  for (int i = 0; i < t->n_layers; i++) {
    kv_layer_data *data = &t->layer[i].data;
    data->window = x->window ? x->window[data->layer] : 0;
    if (v->sinks) data->sinks = v->sinks + (size_t)data->layer * heads;
  }
  return KV_OK;
}

void kv_session_free_variant(kv_session *s) {
  free(s->variant.sinks);
  free(s->variant.inv_freq);
  free(s->variant.window);
  free(s->variant.windowed);
}
