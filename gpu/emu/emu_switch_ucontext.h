/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of gpu/emu/emu_switch.h through the C library, for processors
 * without their own variant, or if KV_EMU_UCONTEXT is defined. Slow: the
 * library makes a system call for the signal mask at every switch.
 */
#ifndef KV_GPU_EMU_SWITCH_UCONTEXT_H
#define KV_GPU_EMU_SWITCH_UCONTEXT_H

#include "gpu/emu/emu_watch.h"

#include <fenv.h>
#include <stddef.h>
#include <ucontext.h>

typedef struct kv_emu_frame {
  ucontext_t at;
} kv_emu_frame;

typedef fenv_t kv_emu_ground;

static inline void kv_emu_ground_read(kv_emu_ground *g) { fegetenv(g); }
static inline void kv_emu_ground_write(const kv_emu_ground *g) { fesetenv(g); }

static inline void kv_emu_frame_make(kv_emu_frame *f, char *base, size_t size,
                                     void (*entry)(void)) {
  getcontext(&f->at);
  f->at.uc_stack.ss_sp = base;
  f->at.uc_stack.ss_size = size;
  f->at.uc_link = nullptr;
  makecontext(&f->at, entry, 0);
}

KV_EMU_INLINE void kv_emu_frame_switch(kv_emu_frame *from,
                                       const kv_emu_frame *to) {
  swapcontext(&from->at, &to->at);
}

#endif
