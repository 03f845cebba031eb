/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded column sums against recomputed ones: kv_check_sums of
 * traces/trace/check.h.
 */
#include "traces/trace/check.h"

#include <math.h>
#include <stdlib.h>

#include "traces/trace/colsum.h"

static bool wide(const kv_trace *t, int i) {
  return t->shape.dtype == KV_F32 && t->layer[i].data.q_dtype == KV_F32;
}

static bool near(double theirs, double ours, double tolerance) {
  double one = (double)KV_COLSUM_ONE;
  return fabs(theirs - ours) <= tolerance * fmax(ours, one);
}

static void note(kv_check_sums *out, size_t head, int column, double theirs,
                 double ours) {
  if (near(theirs, ours, out->tolerance)) return;
  if (out->different++) return;
  out->head = (int)head;
  out->column = column;
  out->theirs = theirs;
  out->ours = ours;
}

static kv_rc compare(const kv_trace *t, int i, const kv_kernels *kernel,
                     kv_check_sums *out, kv_err *e) {
  const kv_layer_data *data = &t->layer[i].data;
  size_t p = (size_t)t->shape.prompt_len, n = (size_t)t->shape.n_heads * p;
  int64_t *ours = kv_zalloc(n, sizeof *ours);
  if (!ours) return kv_no_memory(e, "column sums", n * sizeof *ours);
  kv_rc rc = kv_colsum(&t->shape, data, kernel, ours, e);
  for (size_t at = 0; !rc && at < n; at++)
    note(out, at / p, (int)(at % p), (double)kv_colsum_at(data, at),
         (double)ours[at]);
  free(ours);
  return rc;
}

/* Each prompt row gives its mass, 1, to the columns. With a sink it gives less,
 * and nothing is compared. */
static void weigh_heads(const kv_trace *t, int i, kv_check_sums *out) {
  size_t p = (size_t)t->shape.prompt_len, heads = (size_t)t->shape.n_heads;
  for (size_t h = 0; h < heads && !t->layer[i].data.sinks; h++) {
    double all = 0;
    for (size_t c = 0; c < p; c++)
      all += (double)kv_colsum_at(&t->layer[i].data, h * p + c);
    note(out, h, -1, all, (double)p * (double)KV_COLSUM_ONE);
  }
}

kv_rc kv_check_sums_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                          kv_check_sums *out, kv_err *e) {
  kv_rc rc = KV_OK;
  *out = (kv_check_sums){.recorded = t->layer[i].data.colsum != NULL,
                         .recomputed = kv_colsum_can(t, i),
                         .tolerance = wide(t, i) ? 1e-4 : 2e-3};
  if (!out->recorded) return KV_OK;
  if (out->recomputed)
    rc = compare(t, i, kernel, out, e);
  else
    weigh_heads(t, i, out);
  return rc ? rc : kv_trace_damaged(t, e);
}
