/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads can be started here. An OpenMP runtime that cannot start a
 * thread ends the whole process, so call this before each parallel region: it
 * tries to start that many threads and lets them end. Fewer threads are slower
 * and give the same bits.
 */
#ifndef KV_REF_THREADS_H
#define KV_REF_THREADS_H

/* How many threads a region may have, including the calling one: `wanted` (>=
 * 1), or fewer if a limit (ulimit -u, a control group, memory) allows no more.
 * A lower number is then the limit of the process from then on. Costs some
 * microseconds a thread the first time, then nothing. Any thread may call. */
int kv_threads_can(int wanted);

/* The same for OpenMP's default number (OMP_NUM_THREADS, else the processors):
 * for regions without a number of their own. */
int kv_threads(void);

/* For main, before it starts work: from here on a library or a method that
 * calls exit ends the process with KV_RESOURCE and a sentence that begins with
 * `program`, which must stay valid. Has no effect in a forked child. */
void kv_ending_watch(const char *program);

/* For main, last of all: from here on the process ends normally. */
void kv_ending_is_ours(void);

#endif
