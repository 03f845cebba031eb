/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a method's file for a trace's model: kv_asset_beside of
 * traces/decisions/asset.h. Reads only headers of files, and only of those
 * whose names begin with the method's.
 */
#define _GNU_SOURCE 1
#include "traces/decisions/asset.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/ground/text.h"
#include "traces/container/safetensors.h"
#include "traces/trace/own.h"

static const char ending[] = ".safetensors";
enum { PATH_MOST = 4096 };

/* How a file relates to the model; a higher one outranks the others. */
typedef enum kin { STRANGER, OTHERS, NAMED, SAME } kin;

typedef struct search {
  const char *method;
  const char *model, *digest; /* of the trace; either may be NULL */
  size_t room;
  char *path; /* of the best file so far */
  kin best;
  char second[KV_SHOW]; /* an equally good one, as messages show it */
} search;

/* Is word in list, whose words are separated by blanks? */
static bool lists(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  return false;
}

/* A file that cannot be read, or names no model, is a stranger. */
static kin kin_of(const char *path, const search *s) {
  kv_st *file = NULL;
  kin is = STRANGER;
  if (kv_st_open(path, &file, NULL)) return is;
  const char *digest = kv_st_meta(file, "model_digest");
  const char *model = kv_st_meta(file, "model");
  if (s->digest && digest && *digest)
    is = lists(digest, s->digest) ? SAME : OTHERS;
  else if (s->model && model && strcmp(s->model, model) == 0)
    is = NAMED;
  kv_st_close(file);
  return is;
}

/* Keeps the best file, and notes a second one that is as good. */
static void offer(const char *path, kin is, search *s) {
  if (is == s->best && is >= NAMED) kv_show(path, s->second);
  if (is <= s->best) return;
  snprintf(s->path, s->room, "%s", path);
  s->best = is;
  *s->second = 0;
}

static int bytewise(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

/* Considers all files of the method in a folder except `known`; unless `named`,
 * only those that list the model's digest. */
static void look_in(const char *folder, const char *known, bool named,
                    search *s) {
  struct dirent **file = NULL;
  size_t n = strlen(s->method), end = sizeof ending - 1;
  char path[PATH_MOST];
  int files = scandir(folder, &file, NULL, bytewise);
  for (int i = 0; i < files; i++) {
    const char *name = file[i]->d_name;
    size_t size = strlen(name);
    bool own = strncmp(name, s->method, n) == 0 && name[n] == '.' &&
               size > n + end && strcmp(name + size - end, ending) == 0;
    int all = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (own && all < (int)s->room && all < (int)sizeof path &&
        !(known && strcmp(path, known) == 0)) {
      kin is = kin_of(path, s);
      if (named || is == SAME) offer(path, is, s);
    }
    free(file[i]);
  }
  free(file);
}

/* Considers folders with files of many models, where only the digest counts.
 * The list has colons between folders; \: is a colon of a name. */
static void look_elsewhere(search *s) {
  const char *at = getenv("KVREPLAY_ASSETS");
  char folder[PATH_MOST];
  while (at && *at && s->best < SAME) {
    size_t n = 0;
    for (; *at && *at != ':'; at++) {
      if (*at == '\\' && (at[1] == ':' || at[1] == '\\')) at++;
      if (n < sizeof folder) folder[n++] = *at;
    }
    if (*at) at++;
    if (n == 0 || n >= sizeof folder) continue;
    folder[n] = 0;
    look_in(folder, NULL, false, s);
  }
}

/* "FOLDER/assets/METHOD.MODEL.safetensors"; false: too long for out. */
static bool by_name(const kv_trace *t, const search *s, size_t room,
                    char *out) {
  const char *name = s->model ? s->model : s->digest;
  const char *slash = strrchr(t->path, '/');
  int folder = slash ? (int)(slash - t->path) + 1 : 0;
  int n = snprintf(out, room, "%.*sassets/%s.", folder, t->path, s->method);
  if (n < 0 || (size_t)n + strlen(name) + sizeof ending > room) return false;
  for (char *to = out + n; *name; name++, *++to = 0) {
    char c = *name;
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                 (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    *to = plain ? c : '_';
  }
  strcat(out, ending);
  return true;
}

/* A file named after the model is the model's, unless it lists other digests.
 * If the trace has no digest, the file is not read. */
static kin called_by_name(const char *path, const search *s) {
  if (access(path, F_OK) != 0) return STRANGER;
  kin is = s->digest ? kin_of(path, s) : SAME;
  return is == STRANGER ? NAMED : is;
}

static kv_rc find(const char *named, search *s, kv_err *e) {
  char folder[PATH_MOST], a[KV_SHOW];
  kin own = called_by_name(named, s);
  snprintf(s->path, s->room, "%s", named);
  s->best = own;
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(named, '/') - named),
           named);
  if (own < SAME) look_in(folder, named, own < NAMED, s);
  if (s->digest && s->best < SAME) look_elsewhere(s);
  if (*s->second)
    return kv_fail(e, KV_REFUSED,
                   "%s and %s are both for this model; name one of them",
                   kv_show(s->path, a), s->second);
  if (s->best != OTHERS) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "no file of %s for this model: %s has another model_digest "
                 "(the trace's is %.12s...)",
                 s->method, kv_show(s->path, a), s->digest);
}

kv_rc kv_asset_beside(const kv_trace *t, const char *method, size_t room,
                      char *path, kv_err *e) {
  search s = {.method = method, .room = room, .path = path};
  char named[PATH_MOST];
  if (t->own) {
    s.model = kv_trace_meta(t, "model");
    s.digest = kv_trace_meta(t, "model_digest");
    if (s.model && !*s.model) s.model = NULL;
    if (s.digest && !*s.digest) s.digest = NULL;
  }
  if (!s.model && !s.digest)
    return kv_fail(e, KV_REFUSED,
                   t->own ? "%s reads a file named after the model, but the "
                            "trace's metadata names no model; name the file"
                          : "%s reads a file beside the trace, but a session "
                            "has no trace; name the file",
                   method);
  if (by_name(t, &s, room < sizeof named ? room : sizeof named, named))
    return find(named, &s, e);
  return kv_fail(e, KV_REFUSED,
                 "the path of the file that %s reads beside the trace is too "
                 "long; name a file",
                 method);
}
