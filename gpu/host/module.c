/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the CUDA module once and keeps it: contract in gpu/shared/device.h. If
 * KVREPLAY_CUDA_MODULE is set, only that path is tried; else ../gpu/cuda.so
 * beside a program that was not installed, kvreplay/cuda.so beside the library,
 * ../lib/kvreplay/cuda.so beside an installed program (both relocatable, as in
 * a Python package), then the path given to configure. The program itself does
 * not link to CUDA.
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "config.h"
#include "gpu/shared/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef const kv_device *entry(const char **why);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const kv_device *device;
static char sentence[PATH_MAX + 512];

/* Leaves of a path its folder, with a slash; nothing where it names none. */
static void folder_of(char *path) {
  char *slash = strrchr(path, '/');
  path[slash ? slash + 1 - path : 0] = 0;
}

/* The folder of the running program, with a slash; empty if not known. */
static void program_folder(size_t room, char *to) {
  ssize_t n = readlink("/proc/self/exe", to, room - 1);
  to[n > 0 ? n : 0] = 0;
  folder_of(to);
}

/* That of the library that this code is in. Of code in the program itself it is
 * what the program was called as, where no module lies. */
static void library_folder(size_t room, char *to) {
  Dl_info own;
  bool known = dladdr(&once, &own) && own.dli_fname;
  snprintf(to, room, "%s", known ? own.dli_fname : "");
  folder_of(to);
}

/* Is there FOLDER/NAME? An empty folder is none. */
static bool lies(const char *folder, const char *name, size_t room,
                 char *path) {
  snprintf(path, room, "%s%s", folder, name);
  return *folder && access(path, R_OK) == 0;
}

static void find(size_t room, char *path) {
  const char *said = getenv("KVREPLAY_CUDA_MODULE");
  char program[PATH_MAX], library[PATH_MAX];
  if (said && *said) {
    snprintf(path, room, "%s", said);
    return;
  }
  program_folder(sizeof program, program);
  library_folder(sizeof library, library);
  if (!lies(program, "../gpu/cuda.so", room, path) &&
      !lies(library, "kvreplay/cuda.so", room, path) &&
      !lies(program, "../lib/kvreplay/cuda.so", room, path))
    snprintf(path, room, "%s/cuda.so", KV_PKGLIBDIR);
}

/* The module's entry point, or NULL and the sentence. */
static entry *opened(const char *path) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = module ? dlsym(module, "kv_device_module") : NULL;
  entry *e = NULL;
  if (symbol) {
    memcpy(&e, &symbol, sizeof e); /* ISO C casts no object to a function */
    return e;
  }
  const char *detail = dlerror();
  snprintf(sentence, sizeof sentence,
           "cannot load the CUDA module (%s); build and install it again",
           detail ? detail : path);
  return NULL;
}

static void load(void) {
  char path[PATH_MAX + 32];
  const char *why = "no reason given";
  find(sizeof path, path);
  if (access(path, R_OK) != 0) {
    snprintf(sentence, sizeof sentence,
             "no CUDA module %s; configure --with-cuda and install it, or set "
             "KVREPLAY_CUDA_MODULE to its path",
             path);
    return;
  }
  entry *e = opened(path);
  if (!e) return;
  const kv_device *found = e(&why);
  if (!found)
    snprintf(sentence, sizeof sentence, "%s", why);
  else if (found->abi != KV_DEVICE_ABI)
    snprintf(sentence, sizeof sentence,
             "the CUDA module %s belongs to another kvreplay version "
             "(interface %d, not %d); build and install both together",
             path, found->abi, KV_DEVICE_ABI);
  else
    device = found;
}

const kv_device *kv_device_cuda(const char **why) {
  pthread_once(&once, load);
  *why = device ? NULL : sentence;
  return device;
}
