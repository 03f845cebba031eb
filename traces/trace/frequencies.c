/* SPDX-License-Identifier: Apache-2.0
 *
 * The RoPE frequencies of a trace: kv_trace_read_rope of traces/trace/own.h.
 */
#include "ref/ground/arith.h"
#include "traces/trace/meta.h"
#include "traces/trace/own.h"
#include "traces/trace/variant.h"

/* Checks that every angle is in the range of the sine routine: below 2^24. */
static kv_rc check_angles(const kv_trace *t, const char *name, const float *w,
                          kv_err *e) {
  float most = 0;
  for (int i = 0; i < t->shape.d / 2; i++) {
    if (!kv_finite(w[i])) return kv_trace_tell(t, name, "holds NaN or Inf", e);
    float x = w[i] < 0 ? -w[i] : w[i];
    if (x > most) most = x;
  }
  for (int i = 0; i < t->shape.n_tokens; i++) {
    int p = t->rope.positions ? t->rope.positions[i] : i;
    if (p < 0)
      return kv_trace_tell(t, "positions", "holds a negative position", e);
    if ((float)p * most < 0x1p24f) continue;
    return kv_trace_tell(t, name, "gives angles of 2^24 or more", e);
  }
  return KV_OK;
}

/* *out stays NULL if the tensor does not exist. */
static kv_rc read_frequencies(kv_trace *t, const char *name, float **out,
                              kv_err *e) {
  const kv_st_tensor *y = kv_st_find(t->own->files, name);
  if (!y) return KV_OK;
  if (t->shape.d % 2)
    return kv_trace_tell(t, name, "needs an even head_dim", e);
  kv_rc rc =
      kv_trace_copy(t, y, KV_ST_F32, (uint64_t)t->shape.d / 2, (void **)out, e);
  return rc ? rc : check_angles(t, name, *out, e);
}

kv_rc kv_trace_read_rope(kv_trace *t, kv_err *e) {
  struct kv_trace_own *w = t->own;
  kv_rc rc = read_frequencies(t, "rope.inv_freq", &w->inv_freq, e);
  t->rope.inv_freq = w->inv_freq;
  if (!rc && w->inv_freq)
    rc = kv_meta_layout(t->path, w->files, &t->rope.interleaved, e);
  if (rc || !kv_variant_second(w->files)) return rc;
  rc = read_frequencies(t, "rope.inv_freq.windowed", &w->windowed_inv_freq, e);
  t->windowed_inv_freq = w->windowed_inv_freq;
  if (rc || !w->windowed_inv_freq || w->inv_freq) return rc;
  return kv_trace_tell(t, "rope.inv_freq.windowed",
                       "needs rope.inv_freq, of the other layers, too", e);
}
