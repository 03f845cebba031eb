/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a report (gpu/backend/report.cu): one copy into pinned memory and one
 * wait; a second of each if it is longer than the last one of its kind. Data
 * beyond the area is fetched window by window when it is needed.
 */
#include "gpu/host/store.h"
#include <string.h>

static const kv_gpu_front *front(const kv_store *s) {
  return (const kv_gpu_front *)(const void *)s->report;
}

/* Copies bytes from..to of the device's report. */
static bool fetch(kv_store *s, size_t from, size_t to) {
  s->device->fetch(s->report + from, s->layer.report + from, to - from);
  s->device->wait();
  return !kv_gpu_lost(s);
}

bool kv_gpu_read(kv_store *s, kv_gpu_step kind) {
  size_t base = kv_gpu_report_data(s->layer.pieces);
  uint64_t room = s->layer.report_room, here = s->expected[kind];
  if (kv_gpu_lost(s)) return false;
  s->window = 0;
  if (!fetch(s, 0, base + here)) return false;
  uint64_t used = front(s)->used, want = used + used / 8 + 4096;
  s->expected[kind] = want < room ? want / 16 * 16 : room;
  if (used > room) used = room;
  return used <= here || fetch(s, base + here, base + used);
}

const kv_gpu_piece *kv_gpu_piece_of(kv_store *s, kv_gpu_stage stage, int j,
                                    size_t size, size_t most) {
  const void *pieces = s->report + sizeof(kv_gpu_front);
  const kv_gpu_piece *p = pieces;
  p += s->layer.stage[stage] + j;
  if (s->fault.rc) return NULL;
  if (p->count == 0 || (p->size == size && p->count <= most &&
                        p->to + (uint64_t)p->size * p->count <= front(s)->used))
    return p;
  kv_fail(&s->fault, KV_INTERNAL,
          "backend %s, layer %d, step %d: piece %d of stage %d of the report "
          "has %u elements of %u bytes; the limit is %zu of %zu",
          s->device->name, s->data->layer, s->end, j, (int)stage, p->count,
          p->size, most, size);
  return NULL;
}

/* Moves the window to byte `from` of the data. */
static bool move_window(kv_store *s, uint64_t from) {
  size_t base = kv_gpu_report_data(s->layer.pieces);
  uint64_t room = s->layer.report_room, left = front(s)->used - from;
  if (s->window == from) return true;
  if (kv_gpu_lost(s)) return false;
  s->device->window(s->device->stream(), &s->layer, KV_GPU_SAY_LANES, from);
  s->window = from;
  return fetch(s, base, base + (left < room ? left : room));
}

bool kv_gpu_pull(kv_store *s, const kv_gpu_piece *p, size_t first, size_t n,
                 void *to) {
  uint64_t room = s->layer.report_room, at = p->to + (uint64_t)first * p->size;
  uint64_t left = (uint64_t)n * p->size;
  const char *data = s->report + kv_gpu_report_data(s->layer.pieces);
  for (char *out = to; left > 0;) {
    uint64_t from = at / room * room, some = from + room - at;
    if (!move_window(s, from)) return false;
    if (some > left) some = left;
    memcpy(out, data + (at - from), some);
    out += some;
    at += some;
    left -= some;
  }
  return true;
}

int kv_gpu_pull_all(kv_store *s, kv_gpu_stage stage, int j, size_t size,
                    size_t most, void *to) {
  const kv_gpu_piece *p = kv_gpu_piece_of(s, stage, j, size, most);
  if (!p || !kv_gpu_pull(s, p, 0, p->count, to)) return -1;
  return (int)p->count;
}
