/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading plugins: contract in sim/ask/door.h. The list of loaded plugins only
 * grows, under a lock, and its entries never change.
 */
#include "sim/ask/door.h"

#include "ref/ground/child.h"
#include "ref/ground/filehash.h"
#include "ref/ground/float.h"
#include "ref/ground/sha256.h"
#include "ref/ground/text.h"
#include "ref/lane/compose.h"
#include "ref/lane/lane.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include <dirent.h>
#include <dlfcn.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
  PATIENCE = 10 /* s */,
  ONE_THREAD = 3 /* links of /proc/self/task: ., .. and the thread */
};

/* Does not report a file that is not a shared object: the parent does. */
static void load_and_leave(void *self) {
  void *object = dlopen(*(const char **)self, RTLD_NOW | RTLD_LOCAL);
  if (object) dlclose(object);
}

static unsigned beat(const void *self, int *seconds) {
  (void)self;
  *seconds = PATIENCE;
  return 0;
}

/* Loads and unloads the file in a child process before this process loads it.
 * `name`: the file, for sentences. KV_INPUT if that crashes or does not return
 * in 10 seconds. If this process already has other threads, which a child would
 * lack, tries nothing and returns KV_OK. */
static kv_rc door_try(const char *file, const char *name, kv_err *e) {
  kv_child c = {.work = load_and_leave, .self = &file, .beat = beat};
  kv_child_end end;
  struct stat st;
  if (stat("/proc/self/task", &st) || st.st_nlink != ONE_THREAD) return KV_OK;
  kv_rc rc = kv_child_run(&c, &end, e);
  if (rc || end.fate == KV_CHILD_DONE) return rc;
  if (end.fate == KV_CHILD_STUCK)
    return kv_fail(
        e, KV_INPUT,
        "%s: loading it did not return within %d s; check its constructors",
        name, PATIENCE);
  return kv_fail(e, KV_INPUT,
                 "%s: loading it ended the process (%s %d)%s%s; check its "
                 "constructors and destructors",
                 name, end.signal ? "signal" : "exit code",
                 end.signal ? end.signal : end.code, *end.said ? ": " : "",
                 end.said);
}

/* --- check --------------------------------------------------------------- */

enum { MOST_PARAMS = 64, MOST_TENSORS = 256 };

/* Can it be in a specification: a-z, 0-9 and `marks`, a letter first? */
static bool is_word(const char *text, const char *marks) {
  size_t n = text ? strlen(text) : 0;
  if (n == 0 || n > 63 || text[0] < 'a' || text[0] > 'z') return false;
  for (size_t i = 0; i < n; i++) {
    bool plain = (text[i] >= 'a' && text[i] <= 'z') ||
                 (text[i] >= '0' && text[i] <= '9');
    if (!plain && !strchr(marks, text[i])) return false;
  }
  return true;
}

static bool are_few(const char *choices) {
  int n = 1;
  for (const char *c = choices; *c; c++) n += *c == '|';
  return n <= KV_MOST_CHOICES && strlen(choices) < KV_CHOICES_BYTES;
}

/* What is wrong with a file parameter or its tensors; NULL: nothing. */
static const char *wrong_file(const kv_method *m, const kv_param *p) {
  if (kv_method_file(m, KV_MOST_FILES))
    return "is beyond the most files of a method";
  if (p->offset % _Alignof(kv_file)) return "is not aligned as a kv_file";
  if (p->fallback && strcmp(p->fallback, KV_FILE_OPTIONAL) &&
      strcmp(p->fallback, KV_FILE_BESIDE))
    return "needs the default KV_FILE_BESIDE or KV_FILE_OPTIONAL";
  int n = 0;
  const kv_tensor_ask *all = p->reads ? p->reads->tensors : NULL;
  for (const kv_tensor_ask *t = all; t && t->name; t++) {
    const char *star = strchr(t->name, '*');
    if (++n > MOST_TENSORS)
      return "declares too many tensors, or its table does not end with name "
             "NULL";
    if (!*t->name || strlen(t->name) > 63 || (star && strchr(star + 1, '*')))
      return "declares a tensor whose name is empty, too long or has two *";
    if ((int)t->type < KV_T_F32 || t->type > KV_T_I64)
      return "declares a tensor of an unknown type";
    if (t->rank < 0 || t->rank > KV_TENSOR_RANK)
      return "declares a tensor of more dimensions than KV_TENSOR_RANK";
    for (int i = 0; i < t->rank; i++)
      if (t->dim[i] < KV_DIM_D_V)
        return "declares a tensor with an unknown dimension";
  }
  bool is_text = p->reads && !all;
  return n || is_text ? NULL : "declares no tensor";
}

/* Users would expect -b to set a parameter named budget. */
static const char *wrong_knob(const kv_method *m, const kv_param *p) {
  if (!strcmp(p->name, "budget") && !kv_knob_counts(p->knob))
    return "must have .knob = KV_KNOB_ENTRIES, so that -b can set it";
  if (p->knob == KV_NO_KNOB) return NULL;
  if ((int)p->knob < 0 || p->knob > KV_KNOB_RESOLVED)
    return "needs one of KV_KNOB_* as .knob";
  if (kv_spec_knob(m) != p)
    return "is a second budget parameter, but -b sets only one";
  if (p->kind > KV_SHARE) return "is a budget parameter and must be a number";
  if (p->min < 0) return "is a budget parameter and must be 0 or more";
  if (kv_knob_counts(p->knob))
    return p->kind != KV_INT ? "counts entries and must be KV_INT"
           : p->fallback     ? "counts entries and must have no default"
           : p->grid != 0    ? "counts entries and needs grid 0"
                             : NULL;
  if (!p->fallback) return "is a budget parameter and needs a default";
  if (p->kind != KV_INT && !(p->grid > 0))
    return "is a budget parameter and needs a grid";
  if (p->kind == KV_INT && p->grid != (double)(int)p->grid)
    return "is a whole number and needs a whole grid";
  if (!((p->max - p->min) / (p->grid > 0 ? p->grid : 1) < 1e9))
    return "is a budget parameter with too many values";
  return NULL;
}

static const char *wrong_param(const kv_method *m, const kv_param *p) {
  if (!is_word(p->name, "_")) return "needs a name of a-z, 0-9 and _";
  if (kv_params_find(m->params, p->name) != (int)(p - m->params))
    return "appears twice";
  if ((int)p->kind < KV_INT || p->kind > KV_FILE) return "has an unknown kind";
  if (!p->help) return "has no help";
  if (p->offset > m->params_size ||
      m->params_size - p->offset < kv_param_size(p->kind))
    return "lies outside params_size";
  if (p->kind == KV_CHOICE && (!p->choices || !*p->choices))
    return "has no choices";
  if (p->kind == KV_CHOICE && !are_few(p->choices))
    return "has too many choices, or choices that are too long";
  if (p->kind == KV_CHOICE && !p->fallback) return "has no default";
  if (p->kind <= KV_SHARE && !(p->min <= p->max))
    return "has no values: min is above max";
  if (p->kind == KV_INT && (p->min <= KV_UNSET || p->max > INT32_MAX))
    return "has values that do not fit an int";
  if (p->label && p->kind != KV_TEXT) return "is a label and must be KV_TEXT";
  if (p->kind == KV_FILE && wrong_file(m, p)) return wrong_file(m, p);
  return wrong_knob(m, p);
}

static kv_rc check_params(const kv_method *m, const char *file, kv_err *e) {
  kv_err why = {0};
  char show[KV_SHOW];
  for (int i = 0; m->params && m->params[i].name; i++) {
    const char *wrong = i < MOST_PARAMS
                            ? wrong_param(m, &m->params[i])
                            : "is beyond the most parameters, or the table "
                              "does not end with name NULL";
    if (wrong)
      return kv_fail(e, KV_INPUT, "%s: the parameter %s %s", file,
                     kv_show(m->params[i].name, show), wrong);
  }
  void *values = kv_zalloc(1, m->params_size + 1);
  if (!values) return kv_no_memory(e, "parameters", m->params_size);
  kv_rc rc = kv_params_default(m->params, values, &why);
  free(values);
  if (!rc) return KV_OK;
  return kv_fail(e, KV_INPUT, "%s: a default is wrong: %s", file, why.text);
}

kv_rc kv_door_check(const kv_method *m, const char *file, kv_err *e) {
  const char *wrong = NULL;
  if (m->abi != KV_METHOD_ABI)
    return kv_fail(e, KV_INPUT,
                   "%s was built for another kvreplay version (ABI %d, this "
                   "one has %d); rebuild it with this version's headers",
                   file, m->abi, KV_METHOD_ABI);
  if (!is_word(m->name, "-_"))
    wrong =
        "its name must start with a letter, then have only a-z, 0-9, - and _";
  else if (!strcmp(m->name, "all"))
    wrong = "it must not be called all, which means every built-in method";
  else if (!m->title || !m->paper)
    wrong = "title or paper is missing";
  else if (!m->open)
    wrong = "it has no open, which declares what the hooks need";
  else if (m->params_size > (size_t)1 << 20)
    wrong = "its parameters take more than a megabyte";
  if (wrong) return kv_fail(e, KV_INPUT, "%s: %s", file, wrong);
  return check_params(m, file, e);
}

#define _GNU_SOURCE 1 /* dladdr */

typedef struct plugin {
  const kv_method *method;
  char *file; /* absolute */
  char code[65];
  const char *mode; /* kv_door_mode */
  struct plugin *next;
} plugin;

static plugin *list; /* in order of loading */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool ends_so(const char *name, size_t n) {
  return n > 3 && !memcmp(name + n - 3, ".so", 3);
}

/* Is the name of n bytes a path, or of two joined by `+`, one a path? */
static bool names_path(const char *name, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (name[i] == '+' && ends_so(name, i)) return true;
  return memchr(name, '/', n) || ends_so(name, n);
}

bool kv_door_is_path(const char *name) {
  for (size_t part; *name; name += part + (name[part] == '+')) {
    size_t n = 0;
    part = kv_spec_part(name);
    while (n < part && name[n] != ':')
      n += name[n] == '\\' && name[n + 1] ? 2 : 1;
    if (names_path(name, n)) return true;
  }
  return false;
}

bool kv_door_names_path(const char *name) {
  return names_path(name, strlen(name));
}

/* --- what is loaded ----------------------------------------------------- */

static const plugin *by_method(const kv_method *m) {
  pthread_mutex_lock(&lock);
  const plugin *p = list;
  while (p && p->method != m) p = p->next;
  pthread_mutex_unlock(&lock);
  return p;
}

/* A hash over the code of two methods, at least one of them a plugin. The text
 * belongs to the thread and is valid until its next call. */
static const char *code_of_two(const plugin *const own[2],
                               const kv_method *const part[2]) {
  static _Thread_local char hex[65];
  kv_sha256 h;
  kv_sha256_init(&h);
  for (int i = 0; i < 2; i++) {
    char text[96];
    if (own[i])
      snprintf(text, sizeof text, "%s\n", own[i]->code);
    else
      snprintf(text, sizeof text, "revision %d\n", part[i]->revision);
    kv_sha256_add(&h, text, strlen(text));
  }
  kv_digest code = kv_sha256_end(&h);
  kv_digest_hex(&code, hex);
  return hex;
}

const char *kv_door_code(const kv_method *m) {
  const kv_method *part[KV_MOST_PARTS];
  const plugin *own[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  int parts = kv_parts_of(m, part, offset);
  bool any = false;
  for (int i = 0; i < parts; i++) any |= (own[i] = by_method(part[i])) != NULL;
  if (!any) return NULL;
  return parts == 1 ? own[0]->code : code_of_two(own, part);
}

void kv_code(const kv_method *m, int n, const kv_digest *file, char out[65]) {
  const char *loaded = kv_door_code(m);
  char hex[65], text[96];
  kv_sha256 h;
  if (n == 0) {
    snprintf(out, 65, "%s", loaded ? loaded : "");
    return;
  }
  if (loaded)
    snprintf(text, sizeof text, "plugin %s\n", loaded);
  else
    snprintf(text, sizeof text, "revision %d\n", m->revision);
  kv_sha256_init(&h);
  kv_sha256_add(&h, text, strlen(text));
  for (int i = 0; i < n; i++) {
    kv_digest_hex(&file[i], hex);
    snprintf(text, sizeof text, "file %s\n", hex);
    kv_sha256_add(&h, text, strlen(text));
  }
  kv_digest all = kv_sha256_end(&h);
  bool alone = n == 1 && !loaded && m->revision == 1;
  kv_digest_hex(alone ? file : &all, out);
}

const char *kv_door_file(const kv_method *m) {
  const plugin *p = by_method(m);
  return p ? p->file : NULL;
}

const char *kv_door_mode(const kv_method *m) {
  const plugin *p = by_method(m);
  return p ? p->mode : NULL;
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

/* --- loading, with the lock held ---------------------------------------- */

/* Turns dlerror's text into an error sentence. */
static kv_rc explain(const char *file, const char *said, kv_err *e) {
  static const char mark[] = "undefined symbol: ";
  const char *names[128], *symbol = said ? strstr(said, mark) : NULL;
  char show[KV_SHOW];
  int n = 0;
  if (!symbol)
    return kv_fail(e, KV_INPUT, "cannot load %s as a shared object: %s", file,
                   kv_show(said ? said : "no reason given", show));
  while (n < 128 && kv_plugin_calls[n].name) {
    names[n] = kv_plugin_calls[n].name;
    n++;
  }
  kv_show(symbol + sizeof mark - 1, show);
  const char *near = kv_text_nearest(show, n, names);
  if (near && !strcmp(near, show))
    return kv_fail(e, KV_INPUT,
                   "%s calls %s, which is loaded but hidden; load libkvreplay "
                   "with RTLD_GLOBAL",
                   file, show);
  return kv_fail(e, KV_INPUT,
                 "%s calls %s, which this kvreplay does not have%s%s%s", file,
                 show, near ? "; did you mean " : "; link its library",
                 near ? near : "", near ? "?" : "");
}

static kv_rc is_free(const kv_method *m, const char *file, kv_err *e) {
  if (kv_method_named(m->name))
    return kv_fail(e, KV_USAGE,
                   "%s: a built-in method is also called %s; give the plugin "
                   "another .name",
                   file, m->name);
  const plugin *other = by_name(m->name);
  if (!other) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s: its method is called %s, like that of %s; give one of "
                 "them another .name",
                 file, m->name, other->file);
}

static kv_rc enter(const char *file, const kv_method *m, const char *mode,
                   kv_err *e) {
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
  p->mode = mode;
  while (*end) end = &(*end)->next;
  *end = p;
  return KV_OK;
}

/* A host such as Python may have loaded this library with RTLD_LOCAL, so that
 * plugins cannot see its symbols. Makes them visible; else does nothing. */
static void show_ourselves(void) {
  Dl_info own;
  if (dladdr((const void *)kv_plugin_calls, &own) && own.dli_fname)
    dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* Opens the shared object, which runs its constructors. Those added by linking
 * with -ffast-math flush subnormals to zero. Restores the floating-point mode;
 * *mode: what they had changed, or NULL. */
static void *open_object(const char *file, const char **mode) {
  fenv_t own;
  fegetenv(&own);
  kv_float_ground();
  void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  *mode = kv_float_astray();
  fesetenv(&own);
  return object;
}

static kv_rc load(const char *file, const kv_method **out, kv_err *e) {
  char show[KV_SHOW];
  const char *name = kv_show(file, show), *mode;
  show_ourselves();
  kv_rc rc = door_try(file, name, e);
  if (rc) return rc;
  void *object = open_object(file, &mode);
  if (!object) return explain(name, dlerror(), e);
  const kv_method *m = dlsym(object, "kv_plugin");
  if (!m)
    rc = kv_fail(e, KV_INPUT,
                 "%s has no symbol kv_plugin; define `const kv_method "
                 "kv_plugin = {...};`, not static",
                 name);
  if (!rc) rc = kv_door_check(m, name, e);
  if (!rc) rc = is_free(m, name, e);
  if (!rc) rc = enter(file, m, mode, e);
  if (rc)
    dlclose(object);
  else
    *out = m;
  return rc;
}

/* Loads a file, unless it is loaded. Opens only regular files: reading anything
 * else may never end. */
static kv_rc load_path(const char *path, const kv_method **out, kv_err *e) {
  struct stat st;
  char show[KV_SHOW], *file = realpath(path, NULL);
  kv_rc rc = KV_OK;
  if (!file || stat(file, &st))
    rc = kv_fail(
        e, KV_INPUT,
        "no file %s; `kvreplay new NAME` writes a method, and make compiles it",
        kv_show(path, show));
  else if (!S_ISREG(st.st_mode))
    rc = kv_fail(e, KV_INPUT, "%s is not a regular file", kv_show(path, show));
  const plugin *have = rc ? NULL : by_file(file);
  if (have)
    *out = have->method;
  else if (!rc)
    rc = load(file, out, e);
  free(file);
  return rc;
}

/* --- the folders -------------------------------------------------------- */

/* The index-th folder of KVREPLAY_PLUGINS, separated by colons (\: is a colon
 * in a name); false past the end. */
static bool folder_at(int index, size_t size, char *out) {
  const char *at = getenv("KVREPLAY_PLUGINS");
  while (at && *at) {
    size_t n = 0;
    for (; *at && *at != ':'; at++) {
      if (*at == '\\' && (at[1] == ':' || at[1] == '\\')) at++;
      if (n < size) out[n++] = *at;
    }
    if (*at) at++;
    if (n == 0 || n >= size || index-- > 0) continue;
    out[n] = 0;
    return true;
  }
  return false;
}

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Finds FOLDER/NAME.so, as named or with underscores for the name's dashes. */
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

/* Checks that the folders of KVREPLAY_PLUGINS exist: a missing one may be why a
 * name is unknown. */
static kv_rc folders_are_there(kv_err *e) {
  char folder[3072], show[KV_SHOW];
  struct stat st;
  for (int i = 0; folder_at(i, sizeof folder, folder); i++)
    if (stat(folder, &st) || !S_ISDIR(st.st_mode))
      return kv_fail(e, KV_USAGE,
                     "KVREPLAY_PLUGINS names %s, which is not a folder; "
                     "correct or unset it",
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
               "%s: its method is called %s; rename the file to match, or give "
               "its path to -m",
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
  bool path = kv_door_names_path(name);
  if (path && strlen(name) > sizeof own - 3)
    return kv_fail(e, KV_USAGE, "a path of %zu bytes is too long",
                   strlen(name));
  if (path) /* without a slash dlopen would search the library path */
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
