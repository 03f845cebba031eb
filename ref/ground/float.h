/* SPDX-License-Identifier: Apache-2.0
 *
 * The floating-point mode of a thread: arithmetic 0 (ref/ground/arith.h) wants
 * rounding to nearest even, subnormals neither flushed nor taken as zero, and
 * exceptions that do not trap. Libraries and compiler flags change it, for the
 * thread at hand and for those that it begins; so every thread grounds its
 * mode before it computes, and after code of somebody else's.
 *
 * Costs reading the control registers; they are written where they differ.
 * On x86-64 those are MXCSR and the x87 control word: the first rules over
 * what is computed, the second over what libc prints and reads. On aarch64 it
 * is FPCR; elsewhere no library is known to change it, and nothing is done.
 */
#ifndef KV_REF_FLOAT_H
#define KV_REF_FLOAT_H

/* Sets the mode of the calling thread. */
void kv_float_ground(void);

/* What is wrong with the mode of the calling thread, in words that follow
 * "with", such as "rounding not to nearest"; NULL: nothing. */
const char *kv_float_astray(void);

#endif
