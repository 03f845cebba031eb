/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the fences (sim/run/laws/fence*.c): marks around the memory that
 * hooks of a method get, and copies of what they must not change.
 * kv_fence_found reports a broken fence and does not return, so no check
 * returns an error. The checks of fence_guard.c and fence_process.c need
 * replays with one thread, the others work with any number.
 */
#ifndef KV_SIM_FENCE_PART_H
#define KV_SIM_FENCE_PART_H

#include "ref/lane/lane.h"
#include "sim/run/laws/fence.h"

enum { KV_FENCE = 64 }; /* bytes of a mark before and after a block */

/* Fills n bytes with the mark, a fixed pattern. */
void kv_fence_mark(void *at, size_t n);
/* Index of the first of n bytes that no longer has its mark; n: all have. */
size_t kv_fence_marked(const void *at, size_t n);

/* Reports that `law` is broken: the hook that runs, its layer, lane and step,
 * and the text. Does not return. */
void kv_fence_found(const char *law, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- fence_lane.c: after state and entries ------------------------------ */

/* Before a hook: marks the last KV_FENCE bytes of the lane's state, by which
 * needs.lane_state exceeds the method's own need, and the spare elements of its
 * ids, weights, classes and columns after its entries. */
void kv_fence_fill(kv_lane *l);
/* After the hook: reports a changed mark. n: entries of the lane when
 * kv_fence_fill was called. */
void kv_fence_beyond(const kv_lane *l, int n);

/* --- fence_take.c: the workspace ---------------------------------------- */

/* Bytes of workspace to request (needs.work) so that every allocation of a hook
 * that needs `work` bytes also has memory for its marks. */
size_t kv_fence_room(const kv_shape *shape, size_t work);
/* Before a hook: makes *inner, the workspace that the hook gets, in the rest of
 * `outer`. Every allocation is between marks and filled with junk; one that
 * does not fit is reported. whole: marks and checks the whole rest of outer,
 * not only around allocations. After the hook, on the same thread,
 * kv_fence_takes_end checks the marks; outer must live until then. */
void kv_fence_takes_begin(const kv_shape *shape, const kv_work *outer,
                          bool whole, kv_work *inner);
void kv_fence_takes_end(void);

/* --- fence_guard.c: what a hook may not write --------------------------- */

/* Before a replay of the method m: forgets the lanes of the previous replay.
 * KV_RESOURCE: memory. */
kv_rc kv_fence_guard_open(const kv_method *m, kv_err *e);
/* Call it when a lane begins: watches it, if it is among the first 512. l
 * outlives the replay. */
void kv_fence_guard_lane(const kv_lane *l);
/* Call these around a hook. before takes digests of what it must not write (its
 * parameters, the shape, its file's tensors, all lanes, the rows that it sees);
 * after compares them. In the `lanes` lanes of lane[] the hook may write
 * columns and state, and change the rest by verbs. at: the hook's; rows: what
 * it sees, or NULL. */
void kv_fence_guard_before(const kv_at *at, const kv_rows *rows);
void kv_fence_guard_after(const kv_at *at, const kv_lane *const *lane,
                          int lanes, const kv_rows *rows);

/* --- fence_process.c: what a hook leaves behind ------------------------- */

/* Checks what a hook must not leave behind: allocated memory, mapped memory
 * (reported at the eighth hook that leaves some), threads, and a closed
 * standard input, output or error. Call open before each replay. */
void kv_fence_process_open(void);
/* Call these around a hook: before counts; after counts again and reports the
 * difference. Finds nothing if libc or the system does not report it. */
void kv_fence_process_before(void);
void kv_fence_process_after(void);

#endif
