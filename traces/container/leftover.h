/* SPDX-License-Identifier: Apache-2.0
 *
 * Which temporary files and new, still empty folders are to be removed if the
 * process is ended early: by a signal handler or by a thread that calls exit
 * while others write. Who creates such a file adds it, and drops it once it has
 * its final name or was removed. All three may be called by any thread.
 */
#ifndef KV_TRACES_LEFTOVER_H
#define KV_TRACES_LEFTOVER_H

/* Remembers a path, which is copied. At most 64 are remembered; one more, or
 * one for which there is no memory, is forgotten: that file would stay. */
void kv_leftover_add(const char *path);

/* Forgets a path; one that is not there is ignored. */
void kv_leftover_drop(const char *path);

/* Deletes all of them from the disk, folders only where they are empty. May be
 * called from a signal handler; allocates and frees nothing. */
void kv_leftover_remove(void);

#endif
