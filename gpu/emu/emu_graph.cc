/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording launches: closures with their arguments, in the order in which they
 * were started. Each OS thread records for itself.
 */
#include "gpu/emu/emu_context.h"

#include <stdlib.h>

struct kv_emu_list {
  kv_emu_list *next;
  kv_emu_launch launch;
};

static __thread kv_emu_list *first, *last;
static __thread bool recording, lost;

void kv_emu_record(void) {
  recording = true;
  lost = false;
  first = last = nullptr;
}

bool kv_emu_keep(const kv_emu_launch *launch) {
  if (!recording) return false;
  size_t at = (sizeof(kv_emu_list) + 63) / 64 * 64;
  char *room = (char *)aligned_alloc(64, at + (launch->size + 63) / 64 * 64);
  if (!room) {
    lost = true;
    return true;
  }
  kv_emu_list *kept = (kv_emu_list *)room;
  memcpy(room + at, launch->closure, launch->size);
  *kept = {nullptr, *launch};
  kept->launch.closure = room + at;
  if (last)
    last->next = kept;
  else
    first = kept;
  last = kept;
  return true;
}

kv_emu_list *kv_emu_recorded(void) {
  kv_emu_list *list = first;
  recording = false;
  if (!lost) return list;
  kv_emu_forget(list);
  kv_emu_remember("no memory to record launches");
  return nullptr;
}

void kv_emu_replay(const kv_emu_list *list) {
  for (; list; list = list->next) kv_emu_run(&list->launch);
}

void kv_emu_forget(kv_emu_list *list) {
  while (list) {
    kv_emu_list *next = list->next;
    free(list);
    list = next;
  }
}
