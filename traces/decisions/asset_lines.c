/* SPDX-License-Identifier: Apache-2.0
 *
 * An asset that is plain text (ref/lane/asset.h): its lines become texts, each
 * under the number of its line.
 */
#include "traces/decisions/asset_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"

enum { LINES_MOST = 1 << 16, BYTES_MOST = 1 << 20 };

/* Cuts a comment and the blanks around the rest. */
static const char *trim(char *line) {
  line[strcspn(line, "#\r\n")] = 0;
  for (size_t n = strlen(line); n && strchr(" \t", line[n - 1]);) line[--n] = 0;
  return line + strspn(line, " \t");
}

static kv_rc add(kv_asset *a, int number, const char *line, kv_err *e) {
  char key[16];
  kv_asset_text *t = (kv_asset_text *)(uintptr_t)a->text + a->texts++;
  snprintf(key, sizeof key, "%d", number);
  t->key = kv_text_copy(strlen(key), key);
  t->value = kv_text_copy(strlen(line), line);
  return t->key && t->value ? KV_OK : kv_no_memory(e, "a line", strlen(line));
}

static kv_rc read_lines(FILE *f, const char *path, kv_asset *a, kv_err *e) {
  char *line = NULL;
  size_t room = 0, bytes = 0;
  ssize_t n;
  kv_sha256 h;
  kv_rc rc = KV_OK;
  kv_sha256_init(&h);
  for (int i = 1; !rc && (n = getline(&line, &room, f)) >= 0; i++) {
    kv_sha256_add(&h, line, (size_t)n);
    bytes += (size_t)n;
    if (i > LINES_MOST || bytes > BYTES_MOST || strlen(line) < (size_t)n)
      rc = kv_fail(e, KV_INPUT,
                   "%s, line %d: the file is not the short text that a method "
                   "reads here; name another file",
                   a->path, i);
    const char *own = rc ? "" : trim(line);
    if (*own) rc = add(a, i, own, e);
  }
  if (!rc && ferror(f)) rc = kv_cannot(e, KV_INPUT, "read", path);
  a->digest = kv_sha256_end(&h);
  free(line);
  return rc;
}

kv_rc kv_asset_lines(const char *path, kv_asset *a, kv_err *e) {
  FILE *f = fopen(path, "re");
  if (!f) return kv_cannot(e, KV_INPUT, "open", path);
  a->text = kv_zalloc(LINES_MOST, sizeof *a->text);
  kv_rc rc = a->text ? read_lines(f, path, a, e)
                     : kv_no_memory(e, "a text", LINES_MOST);
  fclose(f);
  return rc;
}
