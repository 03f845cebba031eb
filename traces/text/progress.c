/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress: traces/text/progress.h.
 */
#include "traces/text/progress.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  BAR = 20,
  BAR_EVERY = 100000,  /* microseconds between drawings on a terminal */
  LINE_EVERY = 5000000 /* and between lines elsewhere */
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t interval(const kv_progress *p) {
  return p->terminal ? BAR_EVERY : LINE_EVERY;
}

/* "1:02:03", "2:03"; seconds >= 0. */
static void duration(double seconds, char out[32]) {
  long s = seconds > 3e6 ? 3000000 : (long)(seconds + 0.5);
  if (s >= 3600) {
    snprintf(out, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  } else {
    snprintf(out, 32, "%ld:%02ld", s / 60, s % 60);
  }
}

static void draw(kv_progress *p, int64_t done, double elapsed) {
  char left[32], bar[BAR + 1];
  double part = (double)done / (double)p->total;
  double rate = elapsed > 0 ? (double)done / elapsed : 0;
  if (part > 1) part = 1;
  duration(part > 0 ? elapsed * (1 - part) / part : 0, left);
  if (!p->terminal) {
    fprintf(p->out, "%s: %.0f%%, %.4g %s/s, %s left\n", p->what, 100 * part,
            rate, p->unit, left);
    return;
  }
  int full = (int)(part * BAR);
  memset(bar, '.', BAR);
  memset(bar, '#', (size_t)full);
  bar[BAR] = 0;
  fprintf(p->out, "\r%s [%s] %3.0f%% %.4g %s/s %s left\033[K", p->what, bar,
          100 * part, rate, p->unit, left);
  fflush(p->out);
  p->drawn = true;
}

void kv_progress_start(kv_progress *p, FILE *out, const char *what,
                       const char *unit, int64_t total, bool quiet) {
  memset(p, 0, sizeof *p);
  p->what = what;
  p->unit = unit;
  p->total = total > 0 ? total : 1;
  p->started = now();
  if (quiet) return;
  p->out = out;
  p->terminal = isatty(fileno(out)) == 1;
  atomic_store(&p->next, interval(p));
}

void kv_progress_next(kv_progress *p, int64_t total) {
  if (p->out == NULL) return;
  double at = now();
  p->total = total > 0 ? total : 1;
  atomic_store(&p->done, 0);
  atomic_fetch_sub(&p->next, (int64_t)(1e6 * (at - p->started)));
  p->started = at;
}

void kv_progress_add(kv_progress *p, int64_t units) {
  if (p->out == NULL) return;
  int64_t done = atomic_fetch_add(&p->done, units) + units;
  double elapsed = now() - p->started;
  int64_t at = (int64_t)(1e6 * elapsed), next = atomic_load(&p->next);
  /* INT64_MAX while a thread draws: no other enters. */
  if (at < next ||
      !atomic_compare_exchange_strong(&p->next, &next, INT64_MAX)) {
    return;
  }
  draw(p, done, elapsed);
  atomic_store(&p->next, at + interval(p));
}

void kv_progress_wipe(const kv_progress *p) {
  if (!p->out || !p->drawn) return;
  fputs("\r\033[K", p->out);
  fflush(p->out);
}

void kv_progress_end(kv_progress *p) {
  kv_progress_wipe(p);
  p->out = NULL;
}
