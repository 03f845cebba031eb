/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "sim/cli/signal.h"

#include "sim/cli/commands.h"
#include "traces/container/leftover.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 1500 };

static const char stuck[] = "interrupted within a method that does not return; "
                            "finished results are kept";

static atomic_int caught; /* lock-free: a handler may write it */

static struct {
  atomic_bool on, ended; /* ended: too late to cut */
  bool alone;            /* an alarm instead of the thread */
  atomic_bool may_cut;   /* read by the alarm, which cannot take a lock */
  pthread_t thread;
  sem_t called;
  pthread_mutex_t writing;
  void (*last)(void *self);
  void *self;
} watch = {.writing = PTHREAD_MUTEX_INITIALIZER};

/* --- signals ------------------------------------------------------------ */

static void catch (int number) {
  int kept = errno;
  (void)number;
  atomic_store_explicit(&caught, 1, memory_order_relaxed);
  if (atomic_load(&watch.on)) {
    if (watch.alone)
      alarm(1 + GRACE_MS / 1000);
    else
      sem_post(&watch.called);
  }
  errno = kept;
}

/* Uses only async-signal-safe calls. */
static void ring(int number) {
  static const char name[] = "kvreplay: ";
  (void)number;
  if (!atomic_load(&watch.on)) return;
  if (!atomic_load(&watch.may_cut)) {
    alarm(1);
    return;
  }
  ssize_t n = write(STDERR_FILENO, name, sizeof name - 1);
  if (n > 0) n = write(STDERR_FILENO, stuck, sizeof stuck - 1);
  if (n > 0) n = write(STDERR_FILENO, "\n", 1);
  kv_leftover_remove();
  _exit(KV_EXIT_INTERRUPTED);
}

static void handle(int number, void (*by)(int), int flags) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = by;
  a.sa_flags = flags;
  sigemptyset(&a.sa_mask);
  sigaction(number, &a, NULL);
}

void kv_signals_catch(void) {
  /* The second one has the default effect. */
  handle(SIGINT, catch, (int)SA_RESETHAND);
  handle(SIGTERM, catch, (int)SA_RESETHAND);
  handle(SIGALRM, ring, 0);
  signal(SIGXFSZ, SIG_IGN); /* a too large file is a failed write */
}

bool kv_interrupted(void) {
  return atomic_load_explicit(&caught, memory_order_relaxed) != 0;
}

/* --- the thread that waits ---------------------------------------------- */

/* True once the time is over; false if kv_stop_unwatch was called first. */
static bool out_of_patience(void) {
  struct timespec until;
  while (sem_wait(&watch.called) && errno == EINTR) {
  }
  if (atomic_load(&watch.ended)) return false;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += GRACE_MS % 1000 * 1000000l;
  until.tv_sec += GRACE_MS / 1000 + until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (sem_timedwait(&watch.called, &until) && errno == EINTR) {
  }
  return !atomic_load(&watch.ended);
}

static void *wait_for_end(void *unused) {
  (void)unused;
  if (!out_of_patience()) return NULL;
  pthread_mutex_lock(&watch.writing);
  if (!atomic_load(&watch.ended)) {
    if (watch.last)
      watch.last(watch.self);
    else
      kv_note(stuck);
    kv_leftover_remove();
    _exit(KV_EXIT_INTERRUPTED);
  }
  pthread_mutex_unlock(&watch.writing);
  return NULL;
}

/* Blocks all signals in the new thread: they must interrupt the hook's
 * thread. */
static bool begin_thread(void) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  bool made = !pthread_create(&watch.thread, NULL, wait_for_end, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return made;
}

void kv_stop_words(void (*last)(void *self), void *self) {
  watch.last = last;
  watch.self = self;
}

void kv_stop_watch(void) {
  if (atomic_load(&watch.on) || sem_init(&watch.called, 0, 0)) return;
  atomic_store(&watch.ended, false);
  atomic_store(&watch.may_cut, false);
  pthread_mutex_lock(&watch.writing);
  watch.alone = !begin_thread();
  atomic_store(&watch.on, true);
  if (kv_interrupted())
    sem_post(&watch.called); /* the signal came before the thread */
}

void kv_stop_unwatch(void) {
  if (!atomic_load(&watch.on)) return;
  atomic_store(&watch.ended, true);
  atomic_store(&watch.on, false);
  pthread_mutex_unlock(&watch.writing);
  sem_post(&watch.called);
  if (!watch.alone) pthread_join(watch.thread, NULL);
  sem_destroy(&watch.called);
}

void kv_stop_cut(bool may) {
  if (!atomic_load(&watch.on)) return;
  atomic_store(&watch.may_cut, may);
  if (may)
    pthread_mutex_unlock(&watch.writing);
  else
    pthread_mutex_lock(&watch.writing);
}
