/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress on standard error: a bar with rate and time left where it is a
 * terminal, a line every few seconds where it is not, nothing when quiet.
 * Never part of a result. kv_progress_add may be called from any thread and
 * costs an atomic addition and a look at the clock; whoever finds the
 * display old redraws it, the others go on.
 */
#ifndef KV_TRACES_PROGRESS_H
#define KV_TRACES_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct kv_progress {
  FILE *out; /* NULL: quiet */
  const char *what;
  const char *unit; /* of the rate; outlives p */
  int64_t total;
  bool terminal;
  double started;             /* monotonic seconds */
  _Atomic int64_t done, next; /* next: when to draw, microseconds */
  bool drawn;                 /* something stands on the terminal's line */
} kv_progress;

/* what: stands before the bar, outlives p, and may change while nobody adds.
 * total > 0 units of work; unit names one, in the plural. */
void kv_progress_start(kv_progress *p, FILE *out, const char *what,
                       const char *unit, int64_t total, bool quiet);
/* Other work, whose rate and time left begin anew. When to draw does not:
 * many short works say as much as one long. Nobody adds meanwhile. */
void kv_progress_next(kv_progress *p, int64_t total);
void kv_progress_add(kv_progress *p, int64_t units);
/* Clears the bar, so that a message or a table can follow: for the end, or
 * (wipe) while others may still add. */
void kv_progress_wipe(const kv_progress *p);
void kv_progress_end(kv_progress *p);

#endif
