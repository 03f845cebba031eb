/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous copies, made as late as CUDA allows: the data arrives only when
 * the thread waits for its group.
 */
#include "gpu/emu/emu_context.h"

namespace {

kv_emu_copies *mine(void) {
  kv_emu_context *c = kv_emu_mine;
  return &c->copies[kv_emu_number(c, c->now)];
}

bool is_shared(const kv_emu_context *c, const void *to) {
  uintptr_t at = (uintptr_t)to - (uintptr_t)c->arena;
  return at < c->used && c->used - at >= KV_EMU_COPY;
}

/* Adds the sector to the request; false: it has it. */
bool is_new(kv_emu_request *r, uintptr_t sector) {
  for (int i = 0; i < r->n; i++)
    if (r->sector[i] == sector) return false;
  r->sector[r->n++] = sector;
  return true;
}

void touch(kv_emu_context *c, int me, const kv_emu_copies *own, const void *to,
           const void *from) {
  kv_emu_request *r = &c->request[me / 32][own->started % KV_EMU_COPIES];
  int eight = me % 32 / 8, bank = (int)((uintptr_t)to / KV_EMU_COPY % 8);
  if (r->block != c->blocks || r->group != own->groups) *r = {};
  r->block = c->blocks;
  r->group = own->groups;
  c->touched.copied++;
  c->touched.sectors += is_new(r, (uintptr_t)from / 32);
  if (++r->hits[eight][bank] <= r->most[eight]) return;
  r->most[eight]++;
  c->touched.turns++;
}

} // namespace

void kv_emu_copy(void *to, const void *from) {
  kv_emu_context *c = kv_emu_mine;
  kv_emu_copies *own = mine();
  int me = kv_emu_number(c, c->now);
  const void *where = __builtin_return_address(0);
  if ((uintptr_t)to % KV_EMU_COPY || (uintptr_t)from % KV_EMU_COPY)
    kv_emu_break(c,
                 "thread %d copies 16 bytes between addresses that are no "
                 "multiples of 16",
                 me);
  if (!is_shared(c, to) || is_shared(c, from))
    kv_emu_break(c, "thread %d copies other than from global to shared memory",
                 me);
  if (own->n == KV_EMU_COPIES)
    kv_emu_break(c, "thread %d has more than %d copies on their way", me,
                 KV_EMU_COPIES);
  memset(to, 0xaa, KV_EMU_COPY);
  own->copy[own->n++] = {to, from, own->groups, where};
  kv_emu_races_copy(c, me, to, from, KV_EMU_COPY, where);
  if ((uintptr_t)from - c->watched < c->bytes) touch(c, me, own, to, from);
  own->started++;
  c->copied++;
}

uint64_t kv_emu_copied(void) { return kv_emu_mine ? kv_emu_mine->copied : 0; }

void kv_emu_touch(const void *from, size_t bytes) {
  if (!kv_emu_mine) return;
  if (bytes) kv_emu_mine->touched = {};
  kv_emu_mine->watched = (uintptr_t)from;
  kv_emu_mine->bytes = bytes;
}

kv_emu_touched kv_emu_what_touched(void) {
  return kv_emu_mine ? kv_emu_mine->touched : kv_emu_touched{};
}

void kv_emu_commit(void) {
  mine()->groups++;
  mine()->started = 0;
}

void kv_emu_wait(uint32_t left) {
  kv_emu_copies *own = mine();
  int kept = 0;
  for (int i = 0; i < own->n; i++) {
    kv_emu_one *a = &own->copy[i];
    if (own->groups - a->group > left)
      memcpy(a->to, a->from, KV_EMU_COPY);
    else
      own->copy[kept++] = *a;
  }
  own->n = kept;
}

void kv_emu_land(kv_emu_context *c) {
  if (mine()->n)
    kv_emu_break(c, "thread %d ends with %d copies on their way",
                 kv_emu_number(c, c->now), mine()->n);
}
