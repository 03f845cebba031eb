/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay new NAME`: writes NAME.c, test_NAME.c and a Makefile from the texts
 * in sim/new. If one cannot be written, removes the others.
 */
#include "sim/cli/commands.h"

#include "ref/ground/text.h"
#include "ref/lane/method.h"
#include "sim/new_texts.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct task {
  kv_list names; /* one */
  const char *folder;
} task;

enum { MOST = 40, PATH = 4096, FILES = 3 };

static const struct {
  const char *before, *after; /* the file's name before and after NAME */
  const char *text;
} files[FILES] = {{"", ".c", text_method},
                  {"test_", ".c", text_test},
                  {NULL, "Makefile", text_makefile}};

static kv_rc check_name(const char *name, kv_err *e) {
  char show[KV_SHOW];
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
  if (!*name || name[n] || n > MOST || *name < 'a' || *name > 'z')
    return kv_fail(e, KV_USAGE,
                   "%s cannot name a method; use a lower-case letter, then "
                   "lower-case letters, digits and _, at most %d in all",
                   kv_show(*name ? name : "nothing", show), MOST);
  return KV_OK;
}

/* As in a specification: dashes replace underscores. */
static void dashed(const char *name, char spec[MOST + 1]) {
  snprintf(spec, MOST + 1, "%s", name);
  for (char *c = spec; *c; c++)
    if (*c == '_') *c = '-';
}

static void fill(FILE *out, const char *text, const char *name,
                 const char *spec) {
  while (*text) {
    if (!strncmp(text, "@name@", 6) || !strncmp(text, "@spec@", 6)) {
      fputs(text[1] == 'n' ? name : spec, out);
      text += 6;
    } else {
      fputc(*text++, out);
    }
  }
}

static kv_rc path_of(int i, const char *folder, const char *name,
                     char path[PATH], kv_err *e) {
  int n = snprintf(path, PATH, "%s/%s%s%s", folder,
                   files[i].before ? files[i].before : "",
                   files[i].before ? name : "", files[i].after);
  if (n < PATH) return KV_OK;
  return kv_fail(e, KV_USAGE, "a path of %d bytes is too long", n);
}

static kv_rc write_one(int i, const char *path, const char *name,
                       const char *spec, kv_err *e) {
  char show[KV_SHOW];
  FILE *f = fopen(path, "wx");
  if (!f && errno == EEXIST)
    return kv_fail(e, KV_USAGE,
                   "%s exists; choose another name or another folder (-o)",
                   kv_show(path, show));
  if (!f) return kv_cannot(e, KV_RESOURCE, "write", path);
  fill(f, files[i].text, name, spec);
  kv_rc rc = KV_OK;
  if (fflush(f) || ferror(f)) rc = kv_cannot(e, KV_RESOURCE, "write", path);
  fclose(f);
  if (rc) unlink(path);
  return rc;
}

static kv_rc write_all(const char *folder, const char *name, kv_err *e) {
  char path[PATH], spec[MOST + 1];
  dashed(name, spec);
  if (!strcmp(spec, "all"))
    return kv_fail(e, KV_USAGE,
                   "all means every built-in method; choose another name");
  if (kv_method_named(spec))
    return kv_fail(e, KV_USAGE, "%s is a built-in method; choose another name",
                   spec);
  if (mkdir(folder, 0777) && errno != EEXIST)
    return kv_cannot(e, KV_RESOURCE, "make the folder", folder);
  kv_rc rc = KV_OK;
  int done = 0;
  for (; !rc && done < FILES; done += !rc) {
    rc = path_of(done, folder, name, path, e);
    if (!rc) rc = write_one(done, path, name, spec, e);
  }
  while (rc && done-- > 0)
    if (!path_of(done, folder, name, path, NULL)) unlink(path);
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  const task *s = self;
  const char *name = s->names.item[0], *folder = s->folder ? s->folder : name;
  kv_rc rc = check_name(name, e);
  (void)stopped;
  if (!rc) rc = write_all(folder, name, e);
  if (!rc)
    printf("wrote %s/%s.c, test_%s.c, Makefile; next: make -C %s && kvreplay "
           "run TRACE -m %s%s/%s.so -b 20%%\n",
           folder, name, name, folder, *folder == '/' ? "" : "./", folder,
           name);
  return rc;
}

static const kv_task task_new = {.size = sizeof(task), .work = work};

static const kv_option options[] = {
    {KV_SLOT_TEXT, "output", 'o', "DIR", .group = "Where",
     .offset = offsetof(task, folder),
     .help = "write to this folder (default: ./NAME), created if missing"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay new mine", "write mine/mine.c, a test and a Makefile"},
    {"make -C mine && kvreplay run TRACE -m ./mine/mine.so,h2o -b 20%",
     "compile it, and compare it with another"},
    {"make -C mine check; kvreplay lawcheck ./mine/mine.so",
     "run its test, and check the laws"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Writes a method that compiles and runs at once: it keeps recent tokens "
    "and those with the most attention, and has a comment on each hook. NAME "
    "is a C identifier in lower case. No existing file is overwritten.",
    "The Makefile needs a C compiler, make and `pkg-config kvreplay` of an "
    "installed kvreplay.",
    NULL};

const kv_command kv_command_new = {
    KV_COMMAND(new, "write the files of a new method, ready to edit"),
    KV_TAKES("NAME", 1, 1, task, names, KV_USE_NONE)};
