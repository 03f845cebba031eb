/* SPDX-License-Identifier: Apache-2.0
 *
 * Switching stacks, for gpu/emu/emu.cc only: by a few instructions on x86-64,
 * otherwise through the C library. Both variants define
 *
 *   kv_emu_frame   the saved state of a stack
 *   void kv_emu_frame_make(frame, base, size, entry)
 *                  the next switch to it calls entry, which never returns
 *   void kv_emu_frame_switch(from, to)
 *                  continues at `to`; returns on a switch back to `from`
 *   kv_emu_ground  the float environment of the running stack, and
 *   void kv_emu_ground_read(ground), kv_emu_ground_write(ground)
 */
#ifndef KV_GPU_EMU_SWITCH_H
#define KV_GPU_EMU_SWITCH_H

#if defined __x86_64__ && !defined __ILP32__ && !defined KV_EMU_UCONTEXT
#  include "gpu/emu/emu_switch_x86.h"
#else
#  include "gpu/emu/emu_switch_ucontext.h"
#endif

#endif
