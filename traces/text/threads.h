/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads can be made. An OpenMP runtime that cannot make one ends
 * the whole process; so before the first parallel region of a size it is asked
 * here, by making that many threads and letting them go. Fewer threads are
 * slower and give the same bits.
 */
#ifndef KV_TRACES_THREADS_H
#define KV_TRACES_THREADS_H

/* The number of threads, the calling one among them, that a region may ask
 * for: wanted, or fewer where a limit (ulimit -u, a control group, memory)
 * allows no more. The first answer that is fewer stands for the process. Costs
 * some microseconds a thread the first time, nothing after it. */
int kv_threads_can(int wanted);

/* Of a region that asks for no number. */
int kv_threads(void);

/* A runtime, or a method that was loaded, may still end the process from
 * within. From now on that is KV_RESOURCE with a sentence, unless
 * kv_ending_is_ours was called; a child that was forked ends as it likes. */
void kv_ending_watch(const char *program);
void kv_ending_is_ours(void);

#endif
