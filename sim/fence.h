/* SPDX-License-Identifier: Apache-2.0
 *
 * A method between fences: a table whose hooks call another's, with memory
 * beside what that one asked for filled before the call and looked at after
 * it, junk made worse, and views measured. What is found is told at once, in
 * the middle of the hook's replay, so the one told does not return: it ends
 * the process, which is a child made for one law (sim/lawcheck.h).
 *
 * One method at a time in a process. It asks for a little more state and
 * workspace than the method; nothing that is measured or hashed sees that.
 */
#ifndef KV_SIM_FENCE_H
#define KV_SIM_FENCE_H

#include "ref/method.h"

/* law: the one that is broken. Does not return. */
typedef void kv_fence_tell(const char *law, const char *text);

/* The fenced twin; lives until the next call. */
const kv_method *kv_fence_around(const kv_method *inner, kv_fence_tell *tell);

/* Look for memory that hooks allocate and keep; for replays of one thread. */
void kv_fence_count(bool on);

/* In the thread that crashed: tells what it was doing. `at`: the address that
 * was not there, UINTPTR_MAX for signals that have none. */
void kv_fence_crashed(const char *signal, uintptr_t at);

#endif
