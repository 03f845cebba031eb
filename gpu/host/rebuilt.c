/* SPDX-License-Identifier: Apache-2.0
 *
 * A store of latent vectors: gpu/host/rebuilt.h.
 */
#include "gpu/host/rebuilt.h"
#include "ref/parts/latents.h"
#include <stdlib.h>

/* --- which ---------------------------------------------------------------- */

/* What a token is coded as; NULL: rows are read. References that are coded have
 * a coding of their own, and tokens coded in their order are by directions. */
static const kv_delta *delta_of(const kv_store *s) {
  const kv_needs *need = &s->plan->needs;
  const kv_coding *c = &need->coding[0];
  if (s->parts != 1 || need->codings != 1 || need->merges || need->reindex ||
      c->format != &kv_format_delta || !s->own_views)
    return NULL;
  const kv_delta *how = c->settings;
  return how->ordered ? NULL : how;
}

bool kv_gpu_rebuilt_suits(const kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  int wide = KV_GPU_REBUILT_WIDE;
  return delta_of(s) && s->lanes == shape->n_kv_heads && shape->d <= wide &&
         shape->d_v <= wide;
}

/* --- memory --------------------------------------------------------------- */

/* Elements of the decoder's hidden layer; 0: there is none. */
static int hidden_of(const kv_store *s) {
  const kv_asset *a = s->plan->asset;
  int64_t most = 0;
  for (int l = 0; a && l < a->layers; l++) {
    const kv_tensor *bias =
        &a->tensor[l * a->asked + (int)KV_LATENT_BACK_IN_BIAS];
    if (bias->data && bias->count > most) most = bias->count;
  }
  return (int)most;
}

void kv_gpu_rebuilt_take(kv_store *s) {
  if (s->fault.rc || !kv_gpu_rebuilt_suits(s)) return;
  const kv_delta *how = delta_of(s);
  kv_gpu_rebuilt *r = kv_zalloc(1, sizeof *r);
  if (!r) {
    kv_no_memory(&s->fault, "latent vectors", sizeof *r);
    return;
  }
  s->rebuilt = r;
  size_t n = (size_t)s->plan->shape->n_tokens, hidden = (size_t)hidden_of(s);
  r->how = *how;
  r->bytes = (int32_t)kv_delta_bytes(how);
  r->attended = s->plan->shape->n_tokens;
  r->turned = s->plan->rope->interleaved ? KV_GPU_INTERLEAVED : KV_GPU_HALVES;
  r->place = kv_gpu_take_room(s, n * sizeof *r->place);
  r->latent = kv_gpu_take_room(s, n * (size_t)r->bytes + 1);
  r->named = kv_gpu_take_room(s, (n * (size_t)how->nearest + 1) * 4);
  r->packed = kv_gpu_take_room(s, sizeof *r->packed);
  if (hidden) r->deep = kv_gpu_take_room(s, n * hidden * sizeof *r->deep);
  r->token = s->layer.place;
  r->count = s->layer.entries;
}

void kv_gpu_rebuilt_give(kv_store *s) { free(s->rebuilt); }

static const float *tensor_of(const kv_store *s, int which) {
  return s->asset[which].data;
}

/* The layer's decoder; a layer that the file does not have is not coded. */
static kv_gpu_rebuilder decoder_of(const kv_store *s) {
  const kv_tensor *of = kv_asset_layer(s->plan->asset, s->data->layer);
  kv_gpu_rebuilder by = {0};
  if (!of || !of[KV_LATENT_BACK].data) return by;
  by.deep = s->rebuilt->how.latent;
  by.last = tensor_of(s, KV_LATENT_BACK);
  if (of[KV_LATENT_BACK_BIAS].data)
    by.last_bias = tensor_of(s, KV_LATENT_BACK_BIAS);
  if (!of[KV_LATENT_BACK_IN].data) return by;
  by.deep = (int32_t)of[KV_LATENT_BACK_IN_BIAS].count;
  by.hidden = tensor_of(s, KV_LATENT_BACK_IN);
  by.hidden_bias = tensor_of(s, KV_LATENT_BACK_IN_BIAS);
  return by;
}

void kv_gpu_rebuilt_begin(kv_store *s) {
  kv_gpu_rebuilt *r = s->rebuilt;
  if (!r) return;
  r->by = decoder_of(s);
  s->device->clear(r->packed, sizeof *r->packed);
}

/* --- steps ---------------------------------------------------------------- */

static void act(const kv_store *s, kv_gpu_rebuilt_act what, void *stream) {
  s->device->rebuilt(stream, &s->layer, s->rebuilt, (int)what);
}

void kv_gpu_seq_rebuilt_attend(const kv_store *s, void *stream) {
  act(s, KV_GPU_REBUILT_FIND, stream);
  act(s, KV_GPU_REBUILT_ATTEND, stream);
}

void kv_gpu_seq_rebuilt_compressed(const kv_store *s, void *stream) {
  if (s->rebuilt) act(s, KV_GPU_REBUILT_PACK, stream);
}
