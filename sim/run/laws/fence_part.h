/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the fences (sim/run/laws/fence*.c): marks around the memory that
 * hooks of a method are given, and copies of what they must not change. A
 * broken fence is reported by kv_fence_found, which does not return, so that no
 * check returns an error. What fence_guard.c and fence_process.c check is for
 * replays with one thread, the rest for any number.
 */
#ifndef KV_SIM_FENCE_PART_H
#define KV_SIM_FENCE_PART_H

#include "ref/lane/lane.h"
#include "sim/run/laws/fence.h"

enum { KV_FENCE = 64 }; /* bytes of a mark before and behind a piece */

/* Fills n bytes with the mark, a fixed pattern. */
void kv_fence_mark(void *at, size_t n);
/* Index of the first of n bytes that no longer has its mark; n: all have. */
size_t kv_fence_marked(const void *at, size_t n);

/* Reports that `law` is broken: the hook that runs, its layer, lane and step,
 * and the text. Does not return. */
void kv_fence_found(const char *law, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- fence_lane.c: behind state and entries ----------------------------- */

/* Before a hook: marks the last KV_FENCE bytes of the lane's state, by which
 * needs.lane_state exceeds what the method asked for, and the room of its ids,
 * weights, classes and columns beyond its entries. */
void kv_fence_fill(kv_lane *l);
/* After the hook: reports a mark that is gone. n: entries of the lane when
 * kv_fence_fill was called. */
void kv_fence_beyond(const kv_lane *l, int n);

/* --- fence_take.c: the workspace ---------------------------------------- */

/* Bytes of workspace to ask for (needs.work) so that every take of a hook that
 * asks for `work` bytes itself has room for its marks. */
size_t kv_fence_room(const kv_shape *shape, size_t work);
/* Before a hook: makes *inner, the workspace that the hook gets, in what is
 * left of `outer`, so that every take lies between marks and is filled with
 * junk; a take without room is reported. whole: all that is left of outer is
 * marked and checked, not only around what was taken. After the hook, on the
 * same thread, kv_fence_takes_end checks the marks; outer lives until then. */
void kv_fence_takes_begin(const kv_shape *shape, const kv_work *outer,
                          bool whole, kv_work *inner);
void kv_fence_takes_end(void);

/* --- fence_guard.c: what a hook may not write --------------------------- */

/* Before a replay of the method m: forgets the lanes of the one before.
 * KV_RESOURCE: memory. */
kv_rc kv_fence_guard_open(const kv_method *m, kv_err *e);
/* When a lane of the replay begins: it is watched from now on, if it is among
 * the first 512. l outlives the replay. */
void kv_fence_guard_lane(const kv_lane *l);
/* Call around a hook: before takes digests of what it may not write (its
 * parameters, the shape, its file's tensors, all lanes, the rows that it is
 * shown), after compares them. In the `lanes` lanes of lane[] the hook may
 * write columns and state, and change the rest by verbs. at: of the hook; rows:
 * what it is shown, or NULL. */
void kv_fence_guard_before(const kv_at *at, const kv_rows *rows);
void kv_fence_guard_after(const kv_at *at, const kv_lane *const *lane,
                          int lanes, const kv_rows *rows);

/* --- fence_process.c: what a hook keeps --------------------------------- */

/* What a hook may not leave behind: memory allocated, memory mapped (reported
 * when the eighth hook has left some), threads, and a closed standard input,
 * output or error. Once before a replay: starts counting anew. */
void kv_fence_process_open(void);
/* Call around a hook: before counts, after counts again and reports what it
 * left. Nothing is found where libc or the system does not report it. */
void kv_fence_process_before(void);
void kv_fence_process_after(void);

#endif
