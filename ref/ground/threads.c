/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of ref/ground/threads.h. Threads of a probe wait on a lock until
 * all that can be started exist.
 */
#define _GNU_SOURCE 1
#include "ref/ground/threads.h"

#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/ground/err.h"

static pthread_mutex_t one_probe = PTHREAD_MUTEX_INITIALIZER;
static atomic_int proven = 1, most = INT_MAX;

static void *wait_for(void *lock) {
  pthread_mutex_lock(lock);
  pthread_mutex_unlock(lock);
  return NULL;
}

/* How many of n threads can exist at once besides this one. */
static int probe(int n) {
  pthread_mutex_t all_there = PTHREAD_MUTEX_INITIALIZER;
  pthread_t *thread = calloc((size_t)n, sizeof *thread);
  int made = 0;
  if (!thread) return 0;
  pthread_mutex_lock(&all_there);
  while (made < n &&
         pthread_create(&thread[made], NULL, wait_for, &all_there) == 0)
    made++;
  pthread_mutex_unlock(&all_there);
  for (int i = 0; i < made; i++) pthread_join(thread[i], NULL);
  free(thread);
  return made;
}

int kv_threads_can(int wanted) {
  if (wanted <= atomic_load(&proven)) return wanted;
  pthread_mutex_lock(&one_probe);
  if (wanted > atomic_load(&proven) && atomic_load(&most) == INT_MAX) {
    int can = 1 + probe(wanted - 1);
    if (can < wanted) atomic_store(&most, can);
    atomic_store(&proven, can);
  }
  pthread_mutex_unlock(&one_probe);
  int can = atomic_load(&most);
  return wanted < can ? wanted : can;
}

int kv_threads(void) { return kv_threads_can(omp_get_max_threads()); }

static const char *watched;
static pid_t self;
static atomic_bool ours;

static void ended(void) {
  if (atomic_load(&ours) || getpid() != self) return;
  fprintf(stderr,
          "%s: ended by a library that could not make a thread, or by a method "
          "that called exit; finished results are kept\n",
          watched);
  _exit(KV_RESOURCE);
}

void kv_ending_watch(const char *program) {
  watched = program;
  self = getpid();
  atexit(ended);
}

void kv_ending_is_ours(void) { atomic_store(&ours, true); }
