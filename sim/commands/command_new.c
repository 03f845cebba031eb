/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay new NAME`: writes NAME.c, test_NAME.c and a Makefile from the texts
 * in sim/new. If one cannot be written, the others are removed again.
 */
#include "sim/commands/commands.h"

#include "ref/lane/method.h"
#include "sim/commands/options_new.h"
#include "sim/new_texts.h"
#include "traces/text/text.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
                   "%s is no name for a method: take a letter, then letters, "
                   "digits and _, all lower case, %d at most",
                   kv_show(*name ? name : "nothing", show), MOST);
  return KV_OK;
}

/* As in a specification: an underscore is a dash. */
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
                   "%s is there already: take another name or another folder "
                   "(-o)",
                   kv_show(path, show));
  if (!f)
    return kv_fail(e, KV_RESOURCE, "%s cannot be written: %s",
                   kv_show(path, show), strerror(errno));
  fill(f, files[i].text, name, spec);
  int bad = fflush(f) || ferror(f), why = errno;
  fclose(f);
  if (!bad) return KV_OK;
  unlink(path);
  return kv_fail(e, KV_RESOURCE, "%s cannot be written: %s",
                 kv_show(path, show), strerror(why));
}

static kv_rc write_all(const char *folder, const char *name, kv_err *e) {
  char path[PATH], spec[MOST + 1], show[KV_SHOW];
  dashed(name, spec);
  if (!strcmp(spec, "all"))
    return kv_fail(e, KV_USAGE,
                   "all means every method that is built in: take another "
                   "name");
  if (kv_method_named(spec))
    return kv_fail(e, KV_USAGE,
                   "%s is a method that is built in: take another "
                   "name",
                   spec);
  if (mkdir(folder, 0777) && errno != EEXIST)
    return kv_fail(e, KV_RESOURCE, "no folder %s: %s", kv_show(folder, show),
                   strerror(errno));
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

int kv_main_new(int argc, char **argv) {
  kv_new_options o = {0};
  kv_err e = {0};
  kv_asked asked = KV_ASKED_WORK;
  int code = KV_OK;
  kv_rc rc = kv_options_parse(&kv_command_new, argc, argv, &o, &asked, &e);
  if (!rc && asked != KV_ASKED_WORK) {
    code = kv_command_answer(asked, &kv_command_new);
    kv_list_free(&o.names);
    return code;
  }
  const char *name = o.names.n ? o.names.item[0] : "";
  const char *folder = o.folder ? o.folder : name;
  if (!rc) rc = check_name(name, &e);
  if (!rc) rc = write_all(folder, name, &e);
  if (rc)
    code = kv_say(&e);
  else
    printf("%s/%s.c, test_%s.c, Makefile: next, make -C %s && kvreplay run "
           "TRACE -m %s%s/%s.so -b 20%%\n",
           folder, name, name, folder, *folder == '/' ? "" : "./", folder,
           name);
  kv_list_free(&o.names);
  return code;
}
