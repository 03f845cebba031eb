/* SPDX-License-Identifier: Apache-2.0
 *
 * Switching stacks, for gpu/emu.cc alone: by a few instructions where they
 * are known, else by the C library. Both give
 *
 *   kv_emu_frame   where a stack goes on
 *   void kv_emu_frame_make(frame, base, size, entry)
 *                  the next switch to it calls entry, which never returns
 *   void kv_emu_frame_switch(from, to)
 *                  goes on at `to`; returns when somebody switches to `from`
 *   kv_emu_ground  the float environment of the running stack, and
 *   void kv_emu_ground_read(ground), kv_emu_ground_write(ground)
 */
#ifndef KV_GPU_EMU_SWITCH_H
#define KV_GPU_EMU_SWITCH_H

#if defined __x86_64__ && !defined __ILP32__ && !defined KV_EMU_UCONTEXT
#  include "gpu/emu_switch_x86.h"
#else
#  include "gpu/emu_switch_ucontext.h"
#endif

#endif
