/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupts: sim/signal.h.
 */
#include "sim/signal.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int caught; /* lock-free: a handler may write it */

static void catch (int number) {
  (void)number;
  atomic_store_explicit(&caught, 1, memory_order_relaxed);
}

void kv_signals_catch(void) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = catch;
  a.sa_flags = (int)SA_RESETHAND; /* the second one has the default effect */
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
  signal(SIGXFSZ, SIG_IGN); /* a file too large is a failed write */
}

bool kv_interrupted(void) {
  return atomic_load_explicit(&caught, memory_order_relaxed) != 0;
}
