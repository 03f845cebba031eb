/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the fences (sim/laws/fence*.c): what each file checks. Everything
 * except the workspace checks is for replays with one thread.
 */
#ifndef KV_SIM_FENCE_PART_H
#define KV_SIM_FENCE_PART_H

#include "ref/lane/lane.h"
#include "sim/laws/fence.h"

enum { KV_FENCE = 64 };

void kv_fence_mark(void *at, size_t n);
/* Index of the first of n bytes that no longer has its mark; n: all have. */
size_t kv_fence_marked(const void *at, size_t n);

/* Reports where the method is, the hook's name, and the text. Does not return.
 */
void kv_fence_found(const char *law, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- fence_lane.c: behind state and entries ----------------------------- */

void kv_fence_fill(kv_lane *l);
/* n: entries when kv_fence_fill was called. */
void kv_fence_beyond(const kv_lane *l, int n);

/* --- fence_take.c: the workspace ---------------------------------------- */

/* Workspace to ask for so that every take of a hook that asks for `work` bytes
 * has room for its marks. */
size_t kv_fence_room(const kv_shape *shape, size_t work);
/* inner: the part of `outer` that the hook gets; whole: check all of outer. */
void kv_fence_takes_begin(const kv_shape *shape, const kv_work *outer,
                          bool whole, kv_work *inner);
void kv_fence_takes_end(void);

/* --- fence_guard.c: what a hook may not write --------------------------- */

/* Starts without lanes. */
kv_rc kv_fence_guard_open(const kv_method *m, kv_err *e);
/* Adds a lane. */
void kv_fence_guard_lane(const kv_lane *l);
/* Call around a hook, which may change `lanes` lanes by memory operations.
 * rows: what the hook is shown, or NULL. */
void kv_fence_guard_before(const kv_at *at, const kv_rows *rows);
void kv_fence_guard_after(const kv_at *at, const kv_lane *const *lane,
                          int lanes, const kv_rows *rows);

/* --- fence_process.c: what a hook keeps --------------------------------- */

/* Starts counting anew. */
void kv_fence_process_open(void);
void kv_fence_process_before(void);
void kv_fence_process_after(void);

#endif
