/* SPDX-License-Identifier: Apache-2.0
 *
 * The floating-point mode of a thread. Arithmetic 0 (ref/ground/arith.h)
 * requires rounding to nearest even, subnormals neither flushed nor treated as
 * zero, and exceptions that do not trap. Libraries and compiler flags change
 * the mode of the current thread and of the threads it starts. So every thread
 * sets its mode before it computes, and after foreign code ran.
 *
 * Reads the control registers, and writes them only if they differ. On x86-64
 * they are MXCSR, which governs computation, and the x87 control word, which
 * governs what libc prints and reads. On aarch64 it is FPCR. Elsewhere no
 * library is known to change the mode, and nothing is done.
 */
#ifndef KV_REF_FLOAT_H
#define KV_REF_FLOAT_H

/* Sets the mode of the calling thread. */
void kv_float_ground(void);

/* What is wrong with the calling thread's mode, in words that follow "with",
 * such as "rounding not to nearest"; NULL: nothing. */
const char *kv_float_astray(void);

#endif
