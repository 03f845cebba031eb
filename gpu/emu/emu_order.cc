/* SPDX-License-Identifier: Apache-2.0
 *
 * The order between blocks of one launch that a kernel makes by itself: a
 * thread's fence and then its atomic write publish what its block did before
 * its last barrier, and what that block has acquired from others; an atomic or
 * volatile read and then a fence acquire it, for all threads of the block from
 * its next barrier on. So a thread that reads on without a barrier counts as a
 * race; no kernel here does that.
 *
 * For a block without a fence, only its start is kept. Of accesses of one kind
 * to a byte by several earlier blocks only the last is remembered
 * (gpu/emu/emu_races.cc): if fences order it, those before it count as ordered.
 */
#include "gpu/emu/emu_context.h"

#ifdef KV_WATCH

#  include <stdio.h>
#  include <stdlib.h>

namespace {

enum { WORDS = 64, READS = 256 };

/* By block, as they ran: intervals before this one are handed on. */
typedef uint32_t *knowledge;

struct word {
  const void *at;
  knowledge given;
};
struct read_of {
  int thread;
  const word *of;
};

} // namespace

struct kv_emu_order_state {
  uint32_t *begin; /* of each block so far, its first interval */
  uint64_t ran, room;
  uint64_t blocks;         /* of the launch; 0: none has fenced */
  knowledge known, coming; /* of the running block; from its next barrier on */
  word given[WORDS];
  int words;
  read_of read[READS]; /* by the running block, and no fence since */
  int reads;
  uint32_t fence[KV_EMU_THREADS]; /* the interval of a thread's last */
};

namespace {

typedef kv_emu_order_state state;

[[noreturn]] void too_much(const char *what) {
  fprintf(stderr, "kvreplay: the watch: %s\n", what);
  abort();
}

knowledge nothing(uint64_t blocks) {
  knowledge k = (knowledge)calloc(blocks, sizeof *k);
  if (!k) too_much("no memory");
  return k;
}

void join(uint64_t blocks, knowledge into, const uint32_t *from) {
  for (uint64_t i = 0; i < blocks; i++)
    if (from[i] > into[i]) into[i] = from[i];
}

word *word_at(state *o, const void *at) {
  for (int i = 0; i < o->words; i++)
    if (o->given[i].at == at) return &o->given[i];
  return nullptr;
}

void give(state *o, const void *at, uint32_t fenced) {
  word *w = word_at(o, at);
  if (!w) {
    if (o->words == WORDS) too_much("more than 64 words order blocks");
    w = &o->given[o->words++];
    *w = {at, nothing(o->blocks)};
  }
  join(o->blocks, w->given, o->known);
  uint32_t *own = &w->given[o->ran - 1];
  if (fenced > *own) *own = fenced;
}

void forget(state *o) {
  for (int i = 0; i < o->words; i++) free(o->given[i].given);
  free(o->known);
  free(o->coming);
  o->known = o->coming = nullptr;
  o->words = o->reads = 0;
  o->blocks = 0;
}

} // namespace

kv_emu_order_state *kv_emu_order_make(void) {
  return (state *)calloc(1, sizeof(state));
}

void kv_emu_order_free(state *o) {
  forget(o);
  free(o->begin);
  free(o);
}

void kv_emu_order_launch(state *o) {
  forget(o);
  memset(o->fence, 0, sizeof o->fence);
  o->ran = 0;
}

void kv_emu_order_block(state *o, uint32_t now) {
  if (o->ran == o->room) {
    o->room = o->room ? 2 * o->room : 1024;
    o->begin = (uint32_t *)realloc(o->begin, o->room * sizeof *o->begin);
    if (!o->begin) too_much("no memory");
  }
  o->begin[o->ran++] = now;
  if (!o->blocks) return;
  memset(o->known, 0, o->blocks * sizeof *o->known);
  memset(o->coming, 0, o->blocks * sizeof *o->coming);
  o->reads = 0;
}

void kv_emu_order_barrier(state *o) {
  if (o->blocks) join(o->blocks, o->known, o->coming);
}

void kv_emu_order_fence(state *o, int thread, uint64_t blocks, uint32_t now) {
  int kept = 0;
  if (!o->blocks) {
    o->blocks = blocks;
    o->known = nothing(blocks);
    o->coming = nothing(blocks);
  }
  o->fence[thread] = now;
  for (int i = 0; i < o->reads; i++)
    if (o->read[i].thread == thread)
      join(o->blocks, o->coming, o->read[i].of->given);
    else
      o->read[kept++] = o->read[i];
  o->reads = kept;
}

void kv_emu_order_meet(state *o, int thread, const void *at, kv_emu_kind kind) {
  if (!o->blocks) return;
  const word *w = word_at(o, at);
  if (w && o->reads < READS) o->read[o->reads++] = {thread, w};
  uint32_t fenced = o->fence[thread];
  if (kind == KV_EMU_ATOMIC && fenced >= o->begin[o->ran - 1])
    give(o, at, fenced);
}

uint64_t kv_emu_order_block_at(const state *o, uint32_t when) {
  uint64_t low = 0, high = o->ran;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (o->begin[middle] <= when)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* The atomic that hands on is handed on itself: whoever takes it over has read
 * what it wrote. */
bool kv_emu_order_holds(const state *o, uint32_t when, kv_emu_kind kind) {
  if (!o->blocks) return false;
  uint32_t before = o->known[kv_emu_order_block_at(o, when)];
  return kind == KV_EMU_ATOMIC ? when <= before : when < before;
}

#endif
