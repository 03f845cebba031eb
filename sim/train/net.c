/* SPDX-License-Identifier: Apache-2.0
 *
 * DeltaKV's compressor, forward and backward: sim/train/net.h. The activations
 * are in net_bend.c.
 */
#include "sim/train/net.h"

#include "sim/train/net_bend.h"
#include "sim/train/product.h"
#include <string.h>

/* --- one layer ------------------------------------------------------------ */

void kv_dense_run(const kv_dense *layer, int n, const float *x, float *y) {
  for (int i = 0; i < n && layer->bias; i++)
    memcpy(y + (size_t)i * (size_t)layer->out, layer->bias,
           (size_t)layer->out * sizeof *y);
  kv_product(n, layer->out, layer->in, kv_rows_of(x, layer->in),
             kv_turned(layer->weight, layer->in), layer->bias != NULL, y);
}

void kv_dense_back(const kv_dense *layer, int n, const float *x,
                   const float *d_y, float *d_x) {
  kv_product(layer->out, layer->in, n, kv_turned(d_y, layer->out),
             kv_rows_of(x, layer->in), true, layer->weight_gradient);
  for (int i = 0; i < n && layer->bias; i++) {
    const float *row = d_y + (size_t)i * (size_t)layer->out;
    for (int j = 0; j < layer->out; j++) layer->bias_gradient[j] += row[j];
  }
  if (d_x)
    kv_product(n, layer->in, layer->out, kv_rows_of(d_y, layer->out),
               kv_rows_of(layer->weight, layer->in), false, d_x);
}

/* --- both networks -------------------------------------------------------- */

static size_t at_before(const kv_net *net) {
  return (size_t)net->hidden * (net->gelu ? 1 : 2);
}

size_t kv_net_room(const kv_net *net, int n) {
  size_t c = 2 * (at_before(net) + (size_t)net->hidden);
  size_t own = 2 * (c + 2 * (size_t)net->latent) + (size_t)net->latent +
               4 * (size_t)net->back + (size_t)net->width;
  return (size_t)n * own;
}

static void take(const kv_net *net, size_t n, kv_scratch *s, kv_net_run *r) {
  size_t hidden = (size_t)net->hidden, latent = (size_t)net->latent;
  size_t before = at_before(net), back = (size_t)net->back;
  r->before = kv_scratch_take(s, 2 * n * before);
  r->after = kv_scratch_take(s, 2 * n * hidden);
  r->latent = kv_scratch_take(s, 2 * n * latent);
  r->z = kv_scratch_take(s, n * latent);
  r->back_before = kv_scratch_take(s, n * back);
  r->back = kv_scratch_take(s, n * back);
  r->y = kv_scratch_take(s, n * (size_t)net->width);
  r->d_before = kv_scratch_take(s, 2 * n * before + n * back);
  r->d_after = kv_scratch_take(s, 2 * n * hidden + n * back);
  r->d_latent = kv_scratch_take(s, 2 * n * latent);
}

void kv_net_forth(const kv_net *net, int n, const float *both, kv_scratch *s,
                  kv_net_run *r) {
  size_t half = (size_t)n * (size_t)net->latent;
  size_t wide = (size_t)n * (size_t)net->width;
  int rows = net->alone ? n : 2 * n;
  *r = (kv_net_run){.n = n, .rows = rows, .both = both};
  take(net, (size_t)n, s, r);
  kv_dense_run(&net->in, rows, both, r->before);
  if (net->gelu)
    kv_gelu_forth((size_t)rows * (size_t)net->hidden, r->before, r->after);
  else
    kv_swiglu_forth(net->kernels, rows, net->hidden, r->before, r->after);
  kv_dense_run(&net->out, rows, r->after, r->latent);
  for (size_t i = 0; i < half; i++)
    r->z[i] = net->alone ? r->latent[i] : r->latent[i] - r->latent[half + i];
  if (net->back) {
    kv_dense_run(&net->back_in, n, r->z, r->back_before);
    kv_gelu_forth((size_t)n * (size_t)net->back, r->back_before, r->back);
  }
  kv_dense_run(&net->back_out, n, net->back ? r->back : r->z, r->y);
  for (size_t i = 0; i < wide && !net->alone; i++) r->y[i] += both[wide + i];
}

/* d_latent from d_y: through f_d, and with both signs into tokens and means. */
static void decompressor_back(const kv_net *net, const kv_net_run *r,
                              const float *d_y) {
  int n = r->n;
  size_t half = (size_t)n * (size_t)net->latent;
  if (net->back) {
    kv_dense_back(&net->back_out, n, r->back, d_y, r->d_after);
    kv_gelu_back((size_t)n * (size_t)net->back, r->back_before, r->d_after,
                 r->d_before);
    kv_dense_back(&net->back_in, n, r->z, r->d_before, r->d_latent);
  } else {
    kv_dense_back(&net->back_out, n, r->z, d_y, r->d_latent);
  }
  for (size_t i = 0; i < half && !net->alone; i++)
    r->d_latent[half + i] = -r->d_latent[i];
}

void kv_net_back(const kv_net *net, const kv_net_run *r, const float *d_y) {
  int n = r->rows;
  decompressor_back(net, r, d_y);
  kv_dense_back(&net->out, n, r->after, r->d_latent, r->d_after);
  if (net->gelu)
    kv_gelu_back((size_t)n * (size_t)net->hidden, r->before, r->d_after,
                 r->d_before);
  else
    kv_swiglu_back(net->kernels, n, net->hidden, r->before, r->d_after,
                   r->d_before);
  kv_dense_back(&net->in, n, r->both, r->d_before, NULL);
}
