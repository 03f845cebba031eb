/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress on standard error: a bar with rate and time left where it is a
 * terminal, a line every few seconds where it is not, nothing when quiet.
 * Never part of a result. kv_progress_add may be called from any thread and
 * costs an atomic addition and a look at the clock; whoever finds the
 * display old redraws it, the others go on.
 */
#ifndef KV_SIM_PROGRESS_H
#define KV_SIM_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct kv_progress {
  FILE *out; /* NULL: quiet */
  const char *what;
  int64_t total;
  bool terminal;
  double started;             /* monotonic seconds */
  _Atomic int64_t done, next; /* next: when to draw, microseconds */
  bool drawn;                 /* something stands on the terminal's line */
} kv_progress;

/* what: a word before the bar, outliving p. total > 0 units of work, as
 * kv_replay_units counts them: tokens times layers. */
void kv_progress_start(kv_progress *p, FILE *out, const char *what,
                       int64_t total, bool quiet);
void kv_progress_add(kv_progress *p, int64_t units);
/* Clears the bar, so that a message or a table can follow. */
void kv_progress_end(kv_progress *p);

#endif
