/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of decisions files: sim/commands/decide_names.h.
 */
#include "sim/commands/decide_names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/sha256.h"
#include "sim/show/row_label.h"

enum { FOLDERS = 32, TAIL = 9 }; /* "-" and eight digits */

/* --- a part ------------------------------------------------------------- */

static char safe(char c) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=+,";
  if (c == ':') return '.';
  return c && strchr(plain, c) ? c : '_';
}

/* Text as a part of a file name: what it may not have is replaced, what is too
 * long is cut. Returns out. */
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

/* Finds the part of path before *end, moves *end to where it begins, and
 * returns its length, 0 if there is none. A part "." is skipped. */
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

/* What tells the i-th of n traces from the others: the file's name, with as
 * many folders before it as it takes. */
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

/* -b512, -layers-1f3a9c04 of a list, or nothing. */
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

kv_rc kv_decide_names(const char *const *path, int n, int at, const kv_batch *b,
                      kv_decide_name *out, kv_err *e) {
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
