/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading: sim/door.h. The list of what was loaded only grows, under a lock;
 * an entry never changes once it is in it.
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "sim/door.h"

#include "traces/filehash.h"
#include "traces/text.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct plugin {
  const kv_method *method;
  char *file; /* absolute */
  char code[65];
  struct plugin *next;
} plugin;

static plugin *list; /* in order of loading */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool kv_door_is_path(const char *name) {
  size_t n = 0;
  while (name[n] && name[n] != ':') n += name[n] == '\\' && name[n + 1] ? 2 : 1;
  return memchr(name, '/', n) || (n > 3 && !memcmp(name + n - 3, ".so", 3));
}

/* --- what is loaded ----------------------------------------------------- */

static const plugin *by_method(const kv_method *m) {
  pthread_mutex_lock(&lock);
  const plugin *p = list;
  while (p && p->method != m) p = p->next;
  pthread_mutex_unlock(&lock);
  return p;
}

const char *kv_door_code(const kv_method *m) {
  const plugin *p = by_method(m);
  return p ? p->code : NULL;
}

const char *kv_door_file(const kv_method *m) {
  const plugin *p = by_method(m);
  return p ? p->file : NULL;
}

const kv_method *kv_door_at(int index) {
  pthread_mutex_lock(&lock);
  const plugin *p = list;
  for (int i = 0; p && i < index; i++) p = p->next;
  pthread_mutex_unlock(&lock);
  return p ? p->method : NULL;
}

static const plugin *by_name(const char *name) {
  const plugin *p = list;
  while (p && strcmp(p->method->name, name)) p = p->next;
  return p;
}

static const plugin *by_file(const char *file) {
  const plugin *p = list;
  while (p && strcmp(p->file, file)) p = p->next;
  return p;
}

/* --- loading; the lock is held ------------------------------------------ */

/* The loader's words as one of ours. */
static kv_rc explain(const char *file, const char *said, kv_err *e) {
  static const char mark[] = "undefined symbol: ";
  const char *names[128], *symbol = said ? strstr(said, mark) : NULL;
  char show[KV_SHOW];
  int n = 0;
  if (!symbol)
    return kv_fail(e, KV_INPUT,
                   "%s is no shared object that can be loaded here: %s", file,
                   kv_show(said ? said : "no reason given", show));
  while (n < 128 && kv_plugin_calls[n].name) {
    names[n] = kv_plugin_calls[n].name;
    n++;
  }
  kv_show(symbol + sizeof mark - 1, show);
  const char *near = kv_text_nearest(show, n, names);
  if (near && !strcmp(near, show))
    return kv_fail(e, KV_INPUT,
                   "%s calls %s, which is here but hidden from it: load "
                   "libkvreplay with RTLD_GLOBAL",
                   file, show);
  return kv_fail(e, KV_INPUT,
                 "%s calls %s, which this kvreplay does not have%s%s%s", file,
                 show,
                 near ? "; did you mean "
                      : ": link the library that "
                        "does into it",
                 near ? near : "", near ? "?" : "");
}

static kv_rc is_free(const kv_method *m, const char *file, kv_err *e) {
  if (kv_method_named(m->name))
    return kv_fail(e, KV_USAGE,
                   "%s: its method is called %s like one that is built in; "
                   "give it another .name",
                   file, m->name);
  const plugin *other = by_name(m->name);
  if (!other) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s: its method is called %s like that of %s; one of them "
                 "needs another .name",
                 file, m->name, other->file);
}

static kv_rc enter(const char *file, const kv_method *m, kv_err *e) {
  plugin *p = calloc(1, sizeof *p), **end = &list;
  kv_digest code;
  kv_rc rc = p ? kv_file_digest(file, &code, e)
               : kv_no_memory(e, "a plugin", sizeof *p);
  if (p) p->file = strdup(file);
  if (!rc && !p->file) rc = kv_no_memory(e, "a plugin", strlen(file));
  if (rc) {
    if (p) free(p->file);
    free(p);
    return rc;
  }
  kv_digest_hex(&code, p->code);
  p->method = m;
  while (*end) end = &(*end)->next;
  *end = p;
  return KV_OK;
}

/* A host may have loaded this library for itself alone, as Python does: then
 * plugins could not see it. Nothing is done where they can. */
static void show_ourselves(void) {
  Dl_info own;
  if (dladdr((const void *)kv_plugin_calls, &own) && own.dli_fname)
    dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

static kv_rc load(const char *file, const kv_method **out, kv_err *e) {
  char show[KV_SHOW];
  const char *name = kv_show(file, show);
  show_ourselves();
  void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!object) return explain(name, dlerror(), e);
  const kv_method *m = dlsym(object, "kv_plugin");
  kv_rc rc = KV_OK;
  if (!m)
    rc = kv_fail(e, KV_INPUT,
                 "%s has no symbol kv_plugin: a plugin is `const kv_method "
                 "kv_plugin = {...};`, and not static",
                 name);
  if (!rc) rc = kv_door_check(m, name, e);
  if (!rc) rc = is_free(m, name, e);
  if (!rc) rc = enter(file, m, e);
  if (rc)
    dlclose(object);
  else
    *out = m;
  return rc;
}

/* Once a file; what is no file is never opened, as reading it may not end. */
static kv_rc load_path(const char *path, const kv_method **out, kv_err *e) {
  struct stat st;
  char show[KV_SHOW], *file = realpath(path, NULL);
  kv_rc rc = KV_OK;
  if (!file || stat(file, &st))
    rc = kv_fail(e, KV_INPUT,
                 "there is no file %s; `kvreplay new NAME` writes a method, "
                 "make compiles it",
                 kv_show(path, show));
  else if (!S_ISREG(st.st_mode))
    rc = kv_fail(e, KV_INPUT, "%s is no file but something else",
                 kv_show(path, show));
  const plugin *have = rc ? NULL : by_file(file);
  if (have)
    *out = have->method;
  else if (!rc)
    rc = load(file, out, e);
  free(file);
  return rc;
}

/* --- the folders -------------------------------------------------------- */

/* The index-th folder of KVREPLAY_PLUGINS; false past the end. */
static bool folder_at(int index, size_t size, char *out) {
  const char *at = getenv("KVREPLAY_PLUGINS");
  for (; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
    size_t n = strcspn(at, ":");
    if (n == 0 || n >= size) continue;
    if (index-- > 0) continue;
    snprintf(out, size, "%.*s", (int)n, at);
    return true;
  }
  return false;
}

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* FOLDER/NAME.so, a dash of the name perhaps an underscore of the file. */
static bool find_file(const char *name, size_t size, char *path) {
  char folder[3072];
  if (strlen(name) > 255) return false;
  for (int i = 0; folder_at(i, sizeof folder, folder); i++) {
    int n = snprintf(path, size, "%s/%s.so", folder, name);
    if (is_file(path)) return true;
    for (char *c = path + n - 3 - strlen(name); *c; c++)
      if (*c == '-') *c = '_';
    if (is_file(path)) return true;
  }
  return false;
}

/* A name that is not known may be missed for want of a folder. */
static kv_rc folders_are_there(kv_err *e) {
  char folder[3072], show[KV_SHOW];
  struct stat st;
  for (int i = 0; folder_at(i, sizeof folder, folder); i++)
    if (stat(folder, &st) || !S_ISDIR(st.st_mode))
      return kv_fail(e, KV_USAGE,
                     "KVREPLAY_PLUGINS names %s, which is no folder; correct "
                     "or unset it",
                     kv_show(folder, show));
  return KV_OK;
}

static kv_rc find_named(const char *name, const kv_method **out, kv_err *e) {
  char path[4096], show[KV_SHOW];
  const plugin *have = by_name(name);
  if (have) *out = have->method;
  if (have) return KV_OK;
  if (!find_file(name, sizeof path, path)) return folders_are_there(e);
  kv_rc rc = load_path(path, out, e);
  if (rc || !strcmp((*out)->name, name)) return rc;
  rc = kv_fail(e, KV_INPUT,
               "%s: its method is called %s; give the file that name, or -m "
               "the path",
               kv_show(path, show), (*out)->name);
  *out = NULL;
  return rc;
}

kv_rc kv_door_find(const char *name, const kv_method **out, kv_err *e) {
  char own[4096];
  *out = NULL;
  for (int i = 0; kv_method_door_at(i); i++)
    if (!strcmp(kv_method_door_at(i)->name, name)) {
      *out = kv_method_door_at(i);
      return KV_OK;
    }
  bool path = kv_door_is_path(name);
  if (path && strlen(name) > sizeof own - 3)
    return kv_fail(e, KV_USAGE, "a path of %zu bytes is too long",
                   strlen(name));
  if (path) /* without a slash the loader would look elsewhere */
    snprintf(own, sizeof own, "%s%s", strchr(name, '/') ? "" : "./", name);
  pthread_mutex_lock(&lock);
  kv_rc rc = path ? load_path(own, out, e) : find_named(name, out, e);
  pthread_mutex_unlock(&lock);
  return rc;
}

static int is_object(const struct dirent *d) {
  size_t n = strlen(d->d_name);
  return n > 3 && !strcmp(d->d_name + n - 3, ".so");
}

void kv_door_open_all(void (*tell)(const kv_err *why)) {
  char folder[3072], path[4096];
  for (int i = 0; folder_at(i, sizeof folder, folder); i++) {
    struct dirent **name = NULL;
    int n = scandir(folder, &name, is_object, alphasort);
    for (int k = 0; k < n; k++) {
      const kv_method *m;
      kv_err e = {0};
      snprintf(path, sizeof path, "%s/%s", folder, name[k]->d_name);
      pthread_mutex_lock(&lock);
      kv_rc rc = load_path(path, &m, &e);
      pthread_mutex_unlock(&lock);
      if (rc) tell(&e);
      free(name[k]);
    }
    free(name);
  }
}
