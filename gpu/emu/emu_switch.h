/* SPDX-License-Identifier: Apache-2.0
 *
 * Switching stacks, for gpu/emu/emu.cc only: by a few instructions on x86-64,
 * otherwise through the C library. Both variants define
 *
 *   kv_emu_frame   the saved state of a stack
 *   void kv_emu_frame_make(frame, base, size, entry)
 *                  makes the state of a stack of `size` bytes at base (the
 *                  caller's) in the present float environment: the next switch
 *                  to it calls entry, which never returns
 *   void kv_emu_frame_switch(from, to)
 *                  saves the running stack in `from` and goes on at `to`;
 *                  returns on a switch back to `from`
 *   kv_emu_ground  the float environment, rounding and masks, of the running
 *                  stack, and
 *   void kv_emu_ground_read(ground), kv_emu_ground_write(ground)
 *
 * None of them can fail.
 */
#ifndef KV_GPU_EMU_SWITCH_H
#define KV_GPU_EMU_SWITCH_H

#if defined __x86_64__ && !defined __ILP32__ && !defined KV_EMU_UCONTEXT
#  include "gpu/emu/emu_switch_x86.h"
#else
#  include "gpu/emu/emu_switch_ucontext.h"
#endif

#endif
