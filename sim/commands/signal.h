/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupts. The first SIGINT or SIGTERM requests an orderly end (finish or
 * leave the cell, write what is done, exit 130); the second one kills. A limit
 * on file size (SIGXFSZ) becomes a failed write.
 *
 * A method may never return from a hook, and then the request is never polled.
 * Therefore a thread waits for it, too: 1.5 seconds later it takes a lock that
 * the program holds wherever it writes, prints the command's last words,
 * removes temporary files and ends the process. Whatever was stored is complete
 * by then, and no file gets its name before it is complete, so nothing is lost
 * or left half written.
 */
#ifndef KV_SIM_SIGNAL_H
#define KV_SIM_SIGNAL_H

#include <stdbool.h>

/* Installs the handlers. Call once, before threads are started. */
void kv_signals_catch(void);
/* True once an end was requested. From any thread; cheap enough for every step.
 */
bool kv_interrupted(void);

/* Starts the waiting thread. If that fails, an alarm ends the process instead.
 */
void kv_stop_watch(void);
/* Sets the command's last words. They are printed by the waiting thread while
 * every other thread is in hooks or waits in kv_stop_cut: `last` may print but
 * must not free. */
void kv_stop_words(void (*last)(void *self), void *self);
/* Ends the waiting thread, or the alarm; does nothing if none was started. */
void kv_stop_unwatch(void);

/* Says whether the process may be ended now (hooks run) or not. Set by one
 * thread; others may set false and then true again around what they write. Does
 * nothing without a waiting thread. */
void kv_stop_cut(bool may);

#endif
