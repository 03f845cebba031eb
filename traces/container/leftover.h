/* SPDX-License-Identifier: Apache-2.0
 *
 * Temporary files of this process, and folders that are empty yet: what is to
 * go when it is ended by another thread or by a signal handler, and nobody
 * can clean up after himself. Any thread may call. A list that is full
 * forgets: a file stays behind then.
 */
#ifndef KV_TRACES_LEFTOVER_H
#define KV_TRACES_LEFTOVER_H

void kv_leftover_add(const char *path);
void kv_leftover_drop(const char *path); /* has its name, or is gone */

/* Removes all. A signal handler may call it. */
void kv_leftover_remove(void);

#endif
