/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/decide_files.h"

#include "ref/ground/sha256.h"
#include "ref/ground/text.h"
#include "sim/cli/commands.h"
#include "sim/cli/show/row_label.h"
#include "sim/run/sweep/batch.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FOLDERS = 32, TAIL = 9 }; /* "-" and eight digits */

/* A file's name consists of the trace, the method, the parameters that differ
 * from their defaults (all parameters if these alone are ambiguous), and the
 * budget in entries or, for a budget per layer, the digits of its list:
 * haystack_8.quest.page=8-b152. If two traces have the same name, the names of
 * their folders come first, as many as tell them apart: a.chat.h2o-b64,
 * b.chat.h2o-b64. Names that are still equal are numbered -2, -3. Names depend
 * only on the command line and its traces. They consist of letters, digits and
 * ._-=+, and are cut to about 230 bytes; a cut part ends in eight digits of its
 * SHA-256. */

/* --- a part ------------------------------------------------------------- */

static char safe(char c) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=+,";
  if (c == ':') return '.';
  return c && strchr(plain, c) ? c : '_';
}

/* Makes text a part of a file name: replaces other characters, cuts what is too
 * long. Returns out. */
static const char *part(const char *text, char out[KV_NAME_PART]) {
  size_t n = strlen(text), room = KV_NAME_PART - 1;
  size_t keep = n > room ? room - TAIL : n;
  for (size_t i = 0; i < keep; i++) out[i] = safe(text[i]);
  out[keep] = 0;
  if (keep && out[0] == '.')
    out[0] = '_'; /* never a hidden file, "." or ".." */
  if (keep == n) return out;
  kv_sha256 h;
  char hex[65];
  kv_sha256_init(&h);
  kv_sha256_add(&h, text, n);
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, hex);
  snprintf(out + keep, TAIL + 1, "-%.8s", hex);
  return out;
}

/* --- traces ------------------------------------------------------------- */

/* Finds the part of path before *end, moves *end to its beginning, and returns
 * its length, 0 if there is none. Skips parts ".". */
static size_t part_before(const char *path, const char **end) {
  for (;;) {
    const char *stop = *end;
    while (stop > path && stop[-1] == '/') stop--;
    *end = stop;
    while (*end > path && (*end)[-1] != '/') (*end)--;
    size_t n = (size_t)(stop - *end);
    if (n != 1 || **end != '.') return n;
  }
}

/* The file's name without suffix, preceded by the names of up to `folders`
 * folders; path must fit PATH_MAX. */
static const char *stem(const char *path, int folders, char out[KV_NAME_PART]) {
  char text[PATH_MAX + 1], *to = text + PATH_MAX;
  const char *at = path + strlen(path);
  *to = 0;
  for (int i = 0; i <= folders; i++) {
    size_t n = part_before(path, &at);
    const char *ending = i ? NULL : strstr(at, ".safetensors");
    if (ending) n = (size_t)(ending - at);
    if (n == 0 || n + 1 > (size_t)(to - text)) break;
    if (i) *--to = '.';
    to -= n;
    memcpy(to, at, n);
  }
  return part(to, out);
}

/* The name of the i-th of n traces: the file's name, preceded by as many
 * folders as make it unique. */
static void name_among(const char *const *path, int n, int i,
                       char out[KV_NAME_PART + 8]) {
  char mine[KV_NAME_PART], other[KV_NAME_PART];
  int before = 0;
  bool alone = false;
  for (int folders = 0; folders < FOLDERS && !alone; folders++) {
    alone = true;
    before = 0;
    stem(path[i], folders, mine);
    for (int j = 0; j < n; j++) {
      if (j == i || strcmp(mine, stem(path[j], folders, other)) != 0) continue;
      alone = false;
      before += j < i;
    }
  }
  snprintf(out, KV_NAME_PART + 8, before ? "%s-%d" : "%s", mine, before + 1);
}

/* --- cells -------------------------------------------------------------- */

static bool same_text(const kv_row_label *a, const kv_row_label *b, bool full) {
  return strcmp(full ? a->full : a->brief, full ? b->full : b->brief) == 0;
}

/* -b512, -layers-1f3a9c04 for a list, or nothing. */
typedef struct budget_text {
  char text[24];
} budget_text;

static budget_text budget_of(const kv_result *r) {
  budget_text b = {""};
  if (strncmp(r->target, KV_LAYERS, strlen(KV_LAYERS)) == 0) {
    snprintf(b.text, sizeof b.text, "-%.20s", r->target);
    *strchr(b.text, ':') = '-';
  } else if (r->budget >= 0) {
    snprintf(b.text, sizeof b.text, "-b%d", r->budget);
  }
  return b;
}

static bool same_budget(const kv_batch *b, int i, int j) {
  budget_text x = budget_of(&b->cell[i].result);
  budget_text y = budget_of(&b->cell[j].result);
  return strcmp(x.text, y.text) == 0;
}

/* True if a cell with another full label has the same brief one. */
static bool ambiguous(const kv_batch *b, const kv_row_label *label, int i) {
  for (int j = 0; j < b->cells; j++)
    if (same_budget(b, i, j) && same_text(&label[i], &label[j], false) &&
        !same_text(&label[i], &label[j], true))
      return true;
  return false;
}

static void name_cell(const kv_batch *b, const char *trace,
                      const kv_row_label *label, int i, kv_decide_name *out) {
  char method[KV_NAME_PART], again[16] = "";
  budget_text budget = budget_of(&b->cell[i].result);
  int before = 0;
  for (int j = 0; j < i; j++)
    before += same_text(&label[i], &label[j], true) && same_budget(b, i, j);
  part(ambiguous(b, label, i) ? label[i].full : label[i].brief, method);
  if (before) snprintf(again, sizeof again, "-%d", before + 1);
  snprintf(out->text, sizeof out->text, "%s.%s%s%s", trace, method, budget.text,
           again);
}

/* Names the cells of the open batch b, the at-th (from 0) of the n traces
 * path[], in out[0 .. b->cells - 1]. All names of one command line differ.
 * KV_RESOURCE: memory. */
static kv_rc decide_names(const char *const *path, int n, int at,
                          const kv_batch *b, kv_decide_name *out, kv_err *e) {
  char trace[KV_NAME_PART + 8];
  kv_row_label *label = kv_zalloc((size_t)b->cells + 1, sizeof *label);
  kv_rc rc = label ? KV_OK : kv_no_memory(e, "file names", sizeof *label);
  for (int i = 0; !rc && i < b->cells; i++)
    rc = kv_row_label_make(&b->cell[i].result, &label[i], e);
  if (!rc) name_among(path, n, at, trace);
  for (int i = 0; !rc && i < b->cells; i++)
    name_cell(b, trace, label, i, &out[i]);
  for (int i = 0; label && i < b->cells; i++) kv_row_label_free(&label[i]);
  free(label);
  return rc;
}

/* --- files --------------------------------------------------------------- */

void kv_decide_files_close(kv_decide_files *f) {
  for (int i = 0; f->decide && i < f->cells; i++) kv_decide_close(f->decide[i]);
  free(f->decide);
  free(f->name);
  *f = (kv_decide_files){0};
}

static kv_rc make_folder(const char *dir, kv_err *e) {
  struct stat there;
  if (mkdir(dir, 0777) == 0) return KV_OK;
  if (errno == EEXIST && stat(dir, &there) == 0 && S_ISDIR(there.st_mode))
    return KV_OK;
  return kv_cannot(e, KV_RESOURCE, "make the folder", dir);
}

const kv_watch *kv_decide_files_watch(kv_decide_files *f,
                                      const kv_watch *next) {
  for (int i = 0; i < f->cells; i++) {
    if (!f->decide[i]) continue;
    kv_watch *w = kv_decide_watch(f->decide[i]);
    w->next = next;
    next = w;
  }
  return next;
}

/* To be freed with free(); NULL if memory ran out. */
static char *path_of(const kv_decide_files *f, int cell) {
  size_t room = strlen(f->dir) + sizeof f->name[cell].text + 16;
  char *path = malloc(room);
  if (path)
    snprintf(path, room, "%s/%s.safetensors", f->dir, f->name[cell].text);
  return path;
}

/* KV_USAGE if the file exists: cells, runs or traces with the same name must
 * not overwrite each other. */
static kv_rc is_free(const kv_decide_files *f, int cell, kv_err *e) {
  struct stat there;
  char *path = path_of(f, cell);
  if (!path) return kv_no_memory(e, "a file name", 1);
  bool free_path = stat(path, &there) != 0;
  kv_rc rc = KV_OK;
  if (!free_path)
    rc = kv_fail(e, KV_USAGE,
                 "--decisions: %s exists; remove it or name another folder",
                 path);
  free(path);
  return rc;
}

static kv_rc open_one(kv_decide_files *f, int cell, kv_err *e) {
  const kv_cell *c = &f->batch->cell[cell];
  kv_err why = {0};
  if (!c->runs) return KV_OK;
  if (kv_decide_can(c, &why)) {
    kv_note(why.text);
    return KV_OK;
  }
  kv_rc rc = kv_decide_open(c, &f->decide[cell], e);
  return rc ? rc : is_free(f, cell, e);
}

kv_rc kv_decide_files_open(const char *dir, const kv_list *traces, int at,
                           const kv_batch *b, kv_decide_files *f, kv_err *e) {
  *f = (kv_decide_files){.dir = dir, .batch = b};
  kv_rc rc = make_folder(dir, e);
  if (rc) return rc;
  f->decide = kv_zalloc((size_t)b->cells + 1, sizeof(kv_decide *));
  f->name = kv_zalloc((size_t)b->cells + 1, sizeof *f->name);
  if (!f->decide || !f->name)
    return kv_no_memory(e, "decisions", sizeof *f->name);
  f->cells = b->cells;
  rc = decide_names(traces->item, traces->n, at, b, f->name, e);
  for (int i = 0; !rc && i < b->cells; i++) rc = open_one(f, i, e);
  return rc;
}

static kv_rc write_one(const kv_decide_files *f, int cell, kv_err *e) {
  kv_row_label label = {0};
  kv_rc rc = kv_row_label_make(&f->batch->cell[cell].result, &label, e);
  if (rc) return rc;
  char *path = path_of(f, cell);
  if (!path)
    rc = kv_no_memory(e, "a file name", 1);
  else
    rc = kv_decide_write(f->decide[cell], path, label.brief, e);
  free(path);
  kv_row_label_free(&label);
  return rc;
}

kv_rc kv_decide_files_write(const kv_decide_files *f, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < f->cells; i++) {
    if (!f->decide[i] || !kv_result_ran(&f->batch->cell[i].result)) continue;
    kv_err why = {0};
    rc = write_one(f, i, &why);
    if (rc == KV_REFUSED) {
      kv_note(why.text);
      rc = KV_OK;
    } else if (rc) {
      kv_fail(e, rc, "%s", why.text);
    }
  }
  return rc;
}
