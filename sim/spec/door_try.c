/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a plugin in a child process first. Its constructors run before anything
 * can be checked, its destructors after our work is done; one that crashes,
 * exits or does not return would otherwise end the program without an error
 * message.
 */
#include "sim/spec/door.h"

#include "sim/spec/child.h"
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

enum {
  PATIENCE = 10 /* s */,
  ONE_THREAD = 3 /* links: ., .. and the thread */
};

/* A file that is not a shared object is not reported here: the parent's own
 * attempt does that. */
static void load_and_leave(void *self) {
  void *object = dlopen(*(const char **)self, RTLD_NOW | RTLD_LOCAL);
  if (object) dlclose(object);
}

static unsigned beat(const void *self, int *seconds) {
  (void)self;
  *seconds = PATIENCE;
  return 0;
}

kv_rc kv_door_try(const char *file, const char *name, kv_err *e) {
  kv_child c = {.work = load_and_leave, .self = &file, .beat = beat};
  kv_child_end end;
  struct stat st;
  if (stat("/proc/self/task", &st) || st.st_nlink != ONE_THREAD) return KV_OK;
  kv_rc rc = kv_child_run(&c, &end, e);
  if (rc || end.fate == KV_CHILD_DONE) return rc;
  if (end.fate == KV_CHILD_STUCK)
    return kv_fail(e, KV_INPUT,
                   "%s: loading it does not return, and was given up after "
                   "%d s: look at its constructors",
                   name, PATIENCE);
  return kv_fail(e, KV_INPUT,
                 "%s: loading it ends the process (%s %d)%s%s: look at its "
                 "constructors and destructors",
                 name, end.signal ? "signal" : "exit code",
                 end.signal ? end.signal : end.code, *end.said ? ": " : "",
                 end.said);
}
