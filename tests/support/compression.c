/* SPDX-License-Identifier: Apache-2.0
 *
 * The compression of tests/support/compression.h.
 */
#include "tests/support/compression.h"

#include "ref/kernels/kernels.h"
#include "ref/methods/zsmerge.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static params given;

static uint16_t *rows(size_t n) {
  uint16_t *out = kv_zalloc(n, sizeof *out);
  uint32_t x = 1;
  for (size_t i = 0; out && i < n; i++) {
    x = x * 1664525u + 1013904223u; /* fp16 of [0.5, 2) and their negatives */
    out[i] = (uint16_t)((x >> 16 & 0x8000u) | 0x3800u | (x >> 18 & 0x7ffu));
  }
  return out;
}

kv_rc compression_open(compression *s, int n_tokens, int d, int budget,
                       kv_err *e) {
  *s = (compression){.shape = {.n_heads = 1,
                               .n_kv_heads = 1,
                               .d = d,
                               .d_v = d,
                               .n_tokens = n_tokens,
                               .prompt_len = n_tokens,
                               .dtype = KV_F16,
                               .scale = 1}};
  given = (params){.budget = budget,
                   .residual = KV_UNSET,
                   .context = KV_UNSET,
                   .proximity = KV_UNSET,
                   .variant = CODE,
                   .metric = DOT,
                   .decay = 0.98f,
                   .merge_bias = NAN};
  const kv_method *method = kv_method_named("zsmerge");
  kv_rc rc = method->open(&s->shape, &given, &s->needs, e);
  if (rc) return rc;
  size_t n = (size_t)n_tokens * (size_t)d;
  s->data.k = rows(n);
  s->data.v = rows(n);
  s->work.size = KV_WORK(n_tokens) + s->needs.work;
  s->work.base = kv_zalloc(1, s->work.size);
  if (!s->data.k || !s->data.v || !s->work.base)
    return kv_no_memory(e, "rows", 4 * n);
  rc = kv_lane_init(&s->lane, &s->shape, &s->needs, kv_kernels_best(), 0, e);
  return rc ? rc : kv_lane_room_init(&s->lane.room, n_tokens, e);
}

void compression_close(compression *s) {
  kv_lane_room_release(&s->lane.room);
  kv_lane_release(&s->lane);
  free((void *)(uintptr_t)s->data.k);
  free((void *)(uintptr_t)s->data.v);
  free(s->work.base);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double compression_run(compression *s) {
  kv_lane *l = &s->lane;
  kv_lane_begin(l, &s->needs, &s->data);
  kv_lane_append(l, 0, s->shape.n_tokens);
  for (int i = 0; i < l->n; i++)
    l->column[0].f[i] = (float)((uint32_t)i * 2654435761u >> 8);
  s->work.used = 0;
  kv_at at = {.shape = &s->shape,
              .needs = &s->needs,
              .params = &given,
              .step = s->shape.n_tokens,
              .kernels = kv_kernels_best(),
              .work = &s->work};
  double before = seconds();
  kv_method_named("zsmerge")->compress_lane(&at, l);
  kv_sweep(l);
  return seconds() - before;
}
