/* SPDX-License-Identifier: Apache-2.0
 *
 * Small synthetic traces: traces/trace/small.h.
 */
#include "traces/trace/small.h"

#include "traces/trace/synth.h"

kv_rc kv_small_write_scaled(const kv_small *t, uint64_t seed, int exponent,
                            const char *path, kv_err *e) {
  const kv_synth s = {.like = {.name = t->name,
                               .n_layers = t->n_layers,
                               .n_heads = t->n_heads,
                               .n_kv_heads = t->n_kv_heads,
                               .d = t->d,
                               .theta = 10000,
                               .dtype = t->dtype},
                      .n_tokens = t->n_tokens,
                      .prompt_len = t->prompt_len,
                      .seed = seed,
                      .exponent = exponent};
  return kv_synth_write(&s, kv_kernels_best(), path, e);
}

kv_rc kv_small_write(const kv_small *t, uint64_t seed, const char *path,
                     kv_err *e) {
  return kv_small_write_scaled(t, seed, 0, path, e);
}
