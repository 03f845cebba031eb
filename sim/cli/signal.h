/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupts. The first SIGINT or SIGTERM requests an orderly end: the command
 * polls kv_interrupted, leaves the cell, writes what is done and exits with
 * 130. A second one of the same kind kills. Reaching the limit on file size
 * (SIGXFSZ) becomes a failed write.
 *
 * A method may never return from a hook, and then nothing polls. Therefore a
 * thread also waits, from kv_stop_watch to kv_stop_unwatch. 1.5 seconds after
 * an interrupt, or at a second one of the other kind, it takes a lock that the
 * command's thread holds except while hooks run (kv_stop_cut), prints the
 * command's last words, removes temporary files and exits with 130. What was
 * stored is complete by then, and no file gets its name before it is complete,
 * so nothing is lost or half written.
 *
 *   kv_signals_catch          once in main
 *   kv_stop_watch             when a command begins its work
 *   kv_stop_words             what the thread prints, if it must
 *   kv_stop_cut(true) .. (false)   around what runs hooks
 *   kv_stop_unwatch           when the work is over
 *
 * None of them fails. The process has one such thread at most.
 */
#ifndef KV_SIM_SIGNAL_H
#define KV_SIM_SIGNAL_H

#include <stdbool.h>

/* Installs the handlers of SIGINT, SIGTERM and SIGALRM, and ignores SIGXFSZ.
 * Call it once, before threads are started. */
void kv_signals_catch(void);
/* Was an end requested? For any thread; one load, cheap enough for every
 * step. */
bool kv_interrupted(void);

/* Starts the waiting thread, unless it runs; the caller then holds the lock. If
 * no thread can be made, an alarm (SIGALRM) ends the process instead, two
 * seconds after an interrupt and with the general sentence. */
void kv_stop_watch(void);
/* Sets the command's last words: the waiting thread calls last(self) before it
 * ends the process, while every other thread is in hooks or waits in
 * kv_stop_cut. It may print but must not free. NULL: one general sentence. */
void kv_stop_words(void (*last)(void *self), void *self);
/* Ends the waiting thread, or the alarm; the thread that started it must call
 * this. Does nothing if none was started. */
void kv_stop_unwatch(void);

/* true releases the lock, so that the process may be ended: hooks run. false
 * takes it back, which waits, forever if the process is being ended. The thread
 * of kv_stop_watch calls them alternately. While the lock is released another
 * thread may call false and then true around what it writes. Does nothing
 * before kv_stop_watch and after kv_stop_unwatch. */
void kv_stop_cut(bool may);

#endif
