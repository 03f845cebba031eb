/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress of a long command: a bar with rate and time left on a terminal, a
 * line every five seconds elsewhere, nothing when quiet. Never part of a
 * result.
 *
 *   start, then add from any thread and next by one, wipe before a message, end
 *
 * An addition costs an atomic operation and a look at the clock; the thread
 * that finds the display older than 0.1 s redraws it. Nothing fails.
 */
#ifndef KV_TRACES_PROGRESS_H
#define KV_TRACES_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct kv_progress {
  FILE *out;        /* NULL: quiet */
  const char *what; /* printed before the bar */
  const char *unit; /* of the rate, in the plural: "tokens" */
  int64_t total;    /* units of this work, at least 1 */
  bool terminal;
  double started;       /* seconds of CLOCK_MONOTONIC */
  _Atomic int64_t done; /* units */
  _Atomic int64_t next; /* when to draw, microseconds after started */
  bool drawn;           /* the terminal's line shows a bar */
} kv_progress;

/* Begins a work of `total` units (less than 1 counts as 1). what and unit must
 * outlive p; p->what may be replaced while no thread adds. quiet: draw nothing.
 */
void kv_progress_start(kv_progress *p, FILE *out, const char *what,
                       const char *unit, int64_t total, bool quiet);

/* Begins another work: count, rate and time left start anew. The clock that
 * says when to draw does not, so many short works print no more than a long
 * one. No thread may add during the call. */
void kv_progress_next(kv_progress *p, int64_t total);

/* Adds `units` that are done, and draws if it is time. */
void kv_progress_add(kv_progress *p, int64_t units);

/* Clears the bar, so that a message can be printed; other threads may add. */
void kv_progress_wipe(const kv_progress *p);
/* Clears the bar for good: p is quiet from here on. */
void kv_progress_end(kv_progress *p);

#endif
