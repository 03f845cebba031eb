/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of gpu/emu/emu_switch.h on x86-64 with the System V ABI. The
 * state that a called function must preserve is pushed onto the stack being
 * left: rbp, rbx, r12..r15, and the control words of SSE and x87. The compiler
 * saves the rest at the call.
 */
#ifndef KV_GPU_EMU_SWITCH_X86_H
#define KV_GPU_EMU_SWITCH_X86_H

#include "gpu/emu/emu_watch.h"

#include <stddef.h>
#include <stdint.h>

typedef struct kv_emu_frame {
  uint64_t *sp; /* where control words, r15..r12, rbx, rbp and the return
                   address were pushed */
} kv_emu_frame;

/* Pushes these, stores the stack pointer in *save, sets it to `to`, and pops
 * them. */
extern "C" void kv_emu_x86_switch(uint64_t **save, uint64_t *to);
__asm__(".pushsection .text\n"
        ".type kv_emu_x86_switch, @function\n"
        ".p2align 4\n"
        "kv_emu_x86_switch:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  subq $8, %rsp\n"
        "  stmxcsr (%rsp)\n"
        "  fnstcw 4(%rsp)\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  ldmxcsr (%rsp)\n"
        "  fldcw 4(%rsp)\n"
        "  addq $8, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        ".size kv_emu_x86_switch, . - kv_emu_x86_switch\n"
        ".popsection\n");

/* The control words of SSE and of x87. */
typedef struct kv_emu_ground {
  uint32_t sse;
  uint16_t x87;
} kv_emu_ground;

static inline void kv_emu_ground_read(kv_emu_ground *g) {
  __asm__ volatile("stmxcsr %0" : "=m"(g->sse));
  __asm__ volatile("fnstcw %0" : "=m"(g->x87));
}

static inline void kv_emu_ground_write(const kv_emu_ground *g) {
  __asm__ volatile("ldmxcsr %0" : : "m"(g->sse));
  __asm__ volatile("fldcw %0" : : "m"(g->x87));
}

/* The stack as if entry had been called from nowhere: at its first
 * instruction rsp is 8 past a multiple of 16. */
static inline void kv_emu_frame_make(kv_emu_frame *f, char *base, size_t size,
                                     void (*entry)(void)) {
  uint64_t *top = (uint64_t *)(base + size / 16 * 16);
  kv_emu_ground now;
  kv_emu_ground_read(&now);
  *--top = 0; /* returns nowhere */
  *--top = (uint64_t)(uintptr_t)entry;
  for (int i = 0; i < 6; i++) *--top = 0;
  *--top = (uint64_t)now.x87 << 32 | now.sse;
  f->sp = top;
}

KV_EMU_INLINE void kv_emu_frame_switch(kv_emu_frame *from,
                                       const kv_emu_frame *to) {
  kv_emu_x86_switch(&from->sp, to->sp);
}

#endif
