/* SPDX-License-Identifier: Apache-2.0
 *
 * The SIGBUS handler of traces/container/guard.h. It reads a table of atomic
 * slots and calls mmap, which on Linux is a bare system call. Writers of the
 * table hold a mutex that the handler never takes.
 */
#define _GNU_SOURCE 1
#include "traces/container/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 1024 }; /* mapped files at once, as many as descriptors */

static struct {
  _Atomic uintptr_t start, end; /* start 0: free; end is written first */
  _Atomic(atomic_int *) damaged;
} slot[SLOTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;
static uintptr_t page;
static int guarded;

/* Maps zeros from the faulting page to the range's end. Pages after a lost one
 * are lost too, so one signal is enough. */
static int cover(int i, uintptr_t address) {
  uintptr_t end = (atomic_load(&slot[i].end) + page - 1) & ~(page - 1);
  uintptr_t from = address & ~(page - 1);
  void *zeros =
      mmap((void *)from, end - from, PROT_READ,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) return 0;
  atomic_store(atomic_load(&slot[i].damaged), 1);
  return 1;
}

static void pass_on(int number, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    if (info->si_code <= 0 && before.sa_handler == SIG_IGN) return;
    signal(SIGBUS, SIG_DFL);
    raise(SIGBUS);
  } else {
    before.sa_handler(number);
  }
}

static void on_bus(int number, siginfo_t *info, void *context) {
  int kept = errno;
  uintptr_t address = (uintptr_t)info->si_addr;
  for (int i = 0; info->si_code > 0 && i < SLOTS; i++) {
    uintptr_t start = atomic_load(&slot[i].start);
    if (start == 0 || address < start || address >= atomic_load(&slot[i].end)) {
      continue;
    }
    if (cover(i, address)) {
      errno = kept;
      return;
    }
  }
  pass_on(number, info, context);
  errno = kept;
}

static int install(void) {
  struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  ours.sa_sigaction = on_bus;
  sigemptyset(&ours.sa_mask);
  page = (uintptr_t)sysconf(_SC_PAGESIZE);
  return sigaction(SIGBUS, &ours, &before);
}

/* Only if no other handler was installed over ours in the meantime. */
static void uninstall(void) {
  struct sigaction now;
  if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
      now.sa_sigaction == on_bus) {
    sigaction(SIGBUS, &before, NULL);
  }
}

kv_rc kv_guard_add(void *start, size_t bytes, atomic_int *damaged, kv_err *e) {
  int i = 0;
  kv_rc rc = KV_OK;
  pthread_mutex_lock(&lock);
  while (i < SLOTS && atomic_load(&slot[i].start) != 0) i++;
  if (i == SLOTS || (guarded == 0 && install() != 0)) {
    rc = kv_fail(e, KV_RESOURCE,
                 "more than %d files are mapped at once; give fewer", SLOTS);
  } else {
    guarded++;
    atomic_store(&slot[i].damaged, damaged);
    atomic_store(&slot[i].end, (uintptr_t)start + bytes);
    atomic_store(&slot[i].start, (uintptr_t)start);
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

void kv_guard_remove(const void *start) {
  if (!start) return;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < SLOTS; i++) {
    if (atomic_load(&slot[i].start) != (uintptr_t)start) continue;
    atomic_store(&slot[i].start, 0);
    if (--guarded == 0) uninstall();
    break;
  }
  pthread_mutex_unlock(&lock);
}
