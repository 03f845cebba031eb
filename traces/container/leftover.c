/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of traces/container/leftover.h. Adding and dropping lock each other
 * out; removing never waits: it takes paths out and frees none.
 */
#include "traces/container/leftover.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/ground/text.h"

enum { SLOTS = 64 };

static _Atomic(char *) slot[SLOTS];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

void kv_leftover_add(const char *path) {
  char *copy = kv_text_copy(strlen(path), path);
  int i = 0;
  pthread_mutex_lock(&turn);
  while (i < SLOTS && atomic_load(&slot[i])) i++;
  if (i < SLOTS) atomic_store(&slot[i], copy);
  pthread_mutex_unlock(&turn);
  if (i == SLOTS) free(copy);
}

void kv_leftover_drop(const char *path) {
  pthread_mutex_lock(&turn);
  for (int i = 0; i < SLOTS; i++) {
    char *here = atomic_load(&slot[i]);
    if (!here || strcmp(here, path) != 0) continue;
    if (atomic_compare_exchange_strong(&slot[i], &here, NULL)) free(here);
  }
  pthread_mutex_unlock(&turn);
}

void kv_leftover_remove(void) {
  for (int i = 0; i < SLOTS; i++) {
    char *here = atomic_exchange(&slot[i], NULL);
    if (here && unlink(here) != 0) rmdir(here);
  }
}
