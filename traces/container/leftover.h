/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes temporary files and new, still empty folders if the process ends
 * early: by a signal handler, or by a thread that calls exit while others
 * write. The creator of such a file adds it, and drops it once it has its final
 * name or was removed. Any thread may call all three functions.
 */
#ifndef KV_TRACES_LEFTOVER_H
#define KV_TRACES_LEFTOVER_H

/* Remembers a path, which is copied. Beyond 64 paths, or without memory, a path
 * is not remembered, and that file would stay. */
void kv_leftover_add(const char *path);

/* Forgets a path; unknown paths are ignored. */
void kv_leftover_drop(const char *path);

/* Deletes all of them from the disk, folders only if they are empty. May be
 * called from a signal handler; allocates and frees nothing. */
void kv_leftover_remove(void);

#endif
