/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads can be started here. An OpenMP runtime that cannot start one
 * ends the whole process, so ask here before each parallel region: the answer
 * is tried out by starting that many threads and letting them end. Fewer
 * threads are slower and give the same bits.
 */
#ifndef KV_REF_THREADS_H
#define KV_REF_THREADS_H

/* The number of threads, the calling one among them, that a region may have:
 * `wanted` (>= 1), or fewer where a limit (ulimit -u, a control group, memory)
 * allows no more. Once it had to be fewer, that is the limit of the process
 * from then on. Costs some microseconds a thread the first time, then nothing.
 * Any thread may call. */
int kv_threads_can(int wanted);

/* The same for OpenMP's default number (OMP_NUM_THREADS, else the processors):
 * for regions that are given none. */
int kv_threads(void);

/* For main, before it starts work: from here on a library or a method that
 * calls exit ends the process with KV_RESOURCE and a sentence that begins with
 * `program`, which must live to the end. Does not hold in a child that was
 * forked. */
void kv_ending_watch(const char *program);

/* For main, last of all: what follows is an ordinary end. */
void kv_ending_is_ours(void);

#endif
