/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: traces/trace/expanded.h.
 */
#include "traces/trace/expanded.h"

#include <stdio.h>
#include <string.h>

#include "ref/ground/text.h"

/* ROWS: rows compared in each of two layers. LEAST: fewest equal numbers,
 * because a rotation acts on pairs. */
enum { ROWS = 8, LEAST = 2 };

/* How many numbers, at most `most`, all keys of a token share at either end,
 * and whether one of them is not zero: some models pad their heads. */
typedef struct ends {
  int last, first;
  bool something;
} ends;

static const unsigned char *element(const kv_trace *t, const kv_layer_data *x,
                                    int g, int token, int i) {
  const kv_shape *s = &t->shape;
  size_t row = (size_t)g * (size_t)s->n_tokens + (size_t)token;
  const unsigned char *keys = x->k;
  return keys + (row * (size_t)s->d + (size_t)i) * kv_dtype_size(s->dtype);
}

static bool common(const kv_trace *t, const kv_layer_data *x, int token,
                   int i) {
  const unsigned char *own = element(t, x, 0, token, i);
  for (int g = 1; g < t->shape.n_kv_heads; g++)
    if (memcmp(own, element(t, x, g, token, i), kv_dtype_size(t->shape.dtype)))
      return false;
  return true;
}

static void look(const kv_trace *t, const kv_layer_data *x, int token,
                 ends *e) {
  static const unsigned char zero[4];
  int d = t->shape.d, last = 0, first = 0;
  while (last < e->last && common(t, x, token, d - 1 - last)) last++;
  while (first < e->first && common(t, x, token, first)) first++;
  e->last = last;
  e->first = first;
  int from = last ? d - last : 0, end = last ? d : first;
  for (int i = from; i < end && !e->something; i++)
    e->something = memcmp(element(t, x, 0, token, i), zero,
                          kv_dtype_size(t->shape.dtype)) != 0;
}

static int latent_of(const kv_trace *t) {
  const char *text = kv_trace_meta(t, "attn.latent");
  uint64_t n = 0;
  return text && kv_text_count(text, 1 << 20, &n) ? (int)n : 0;
}

kv_expanded kv_trace_expanded(const kv_trace *t) {
  const kv_shape *s = &t->shape;
  ends e = {s->d, s->d, false};
  int n = s->n_tokens, rows = n < ROWS ? n : ROWS;
  if (s->n_kv_heads < 2 || s->n_kv_heads != s->n_heads) return (kv_expanded){0};
  for (int i = 0; i < rows; i++) {
    int token = (int)((int64_t)i * n / rows);
    look(t, &t->layer[0].data, token, &e);
    look(t, &t->layer[t->n_layers - 1].data, token, &e);
  }
  bool first = e.last < LEAST;
  int shared = first ? e.first : e.last;
  if (shared < LEAST || shared == s->d || !e.something) return (kv_expanded){0};
  return (kv_expanded){shared, first, latent_of(t)};
}

const char *kv_expanded_text(const kv_trace *t, const kv_expanded *x,
                             char out[KV_EXPANDED_TEXT]) {
  const kv_shape *s = &t->shape;
  long here = (long)s->n_kv_heads * (s->d + s->d_v);
  char own[96] = "a latent vector and that part";
  if (x->latent) snprintf(own, sizeof own, "%d numbers", x->latent);
  snprintf(
      out, KV_EXPANDED_TEXT,
      "the %s %d of the %d numbers of a key are the same in all %d KV heads, "
      "as multi-head latent attention expands them; no engine stores such a "
      "cache. The model's own cache holds %s a token and layer, but K and V in "
      "this trace, on which bytes and shares are based, are %ld numbers",
      x->first ? "first" : "last", x->shared, s->d, s->n_kv_heads, own, here);
  return out;
}
