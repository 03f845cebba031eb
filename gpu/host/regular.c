/* SPDX-License-Identifier: Apache-2.0
 *
 * A store of regular indices on a device: gpu/host/regular.h.
 */
#include "gpu/host/regular.h"

static bool take_half(const kv_device *device, const kv_shape *s, size_t lanes,
                      const kv_gpu_regular *r, kv_gpu_regular_half *h) {
  size_t rows = lanes * (size_t)r->room * kv_dtype_size(s->dtype);
  h->k = device->take(rows * (size_t)s->d);
  h->v = device->take(rows * (size_t)s->d_v);
  h->mask = device->take(kv_gpu_regular_masks(r, (int)lanes));
  h->taken = device->take(lanes * sizeof *h->taken);
  return h->k && h->v && h->mask && h->taken;
}

kv_rc kv_gpu_regular_open(const kv_device *device, const kv_shape *shape,
                          int lanes, int room, bool shared,
                          kv_gpu_regular_store *out, kv_err *e) {
  int words = (room + 31) / 32;
  kv_gpu_regular *r = &out->r;
  bool all = true;
  *out = (kv_gpu_regular_store){
      .device = device,
      .r = {.room = room, .words = words, .stride = shared ? 0 : words}};
  r->which = device->take(sizeof *r->which);
  for (int i = 0; i < KV_GPU_STORES; i++)
    all &= take_half(device, shape, (size_t)lanes, r, &r->half[i]);
  if (r->which && all) return KV_OK;
  kv_gpu_regular_close(out);
  return kv_no_memory(e, "a store of regular indices on a device",
                      (size_t)lanes * (size_t)room);
}

void kv_gpu_regular_close(kv_gpu_regular_store *s) {
  for (int i = 0; s->device && i < KV_GPU_STORES; i++) {
    const kv_gpu_regular_half *h = &s->r.half[i];
    s->device->give(h->k);
    s->device->give(h->v);
    s->device->give(h->mask);
    s->device->give(h->taken);
  }
  if (s->device) s->device->give(s->r.which);
  *s = (kv_gpu_regular_store){0};
}
