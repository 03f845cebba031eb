/* SPDX-License-Identifier: Apache-2.0
 *
 * A limit on threads. Preloaded into a program, it lets pthread_create make
 * KV_THREADS threads that are there at once, and then fail as a limit on
 * processes does.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int creates(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                    void *);

typedef struct begun {
  void *(*run)(void *);
  void *with;
} begun;

static atomic_int there;

static void *run(void *given) {
  begun b = *(begun *)given;
  free(given);
  void *result = b.run(b.with);
  atomic_fetch_sub(&there, 1);
  return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how,
                   void *(*start)(void *), void *with) {
  static creates *real;
  const char *text = getenv("KV_THREADS");
  int most = text ? atoi(text) : 1 << 30;
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  if (atomic_fetch_add(&there, 1) < most) {
    begun *b = malloc(sizeof *b);
    if (b) {
      *b = (begun){start, with};
      return real(thread, how, run, b);
    }
  }
  atomic_fetch_sub(&there, 1);
  return EAGAIN;
}
