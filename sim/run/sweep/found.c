/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of found budgets: sim/run/sweep/found.h.
 */
#include "sim/run/sweep/found.h"

#include "ref/ground/text.h"
#include "traces/container/newfile.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD "trace,method,revision,budget,value,bytes,dense,key\n"
enum { FIELDS = 8, LINE = 1024 };

void kv_found_free(kv_found *f) {
  for (int i = 0; i < f->n; i++) {
    free(f->row[i].trace);
    free(f->row[i].spec);
    free(f->row[i].target);
  }
  free(f->row);
  *f = (kv_found){0};
}

kv_rc kv_found_add(kv_found *f, const kv_found_row *row, kv_err *e) {
  size_t n = (size_t)f->n;
  kv_found_row *more =
      n % 64 ? f->row : realloc(f->row, (n + 64) * sizeof *more);
  if (!more) return kv_no_memory(e, "found budgets", n * sizeof *more);
  f->row = more;
  kv_found_row *to = &more[n];
  *to = *row;
  to->trace = kv_text_copy(strlen(row->trace), row->trace);
  to->spec = kv_text_copy(strlen(row->spec), row->spec);
  to->target = kv_text_copy(strlen(row->target), row->target);
  f->n++;
  return to->trace && to->spec && to->target
             ? KV_OK
             : kv_no_memory(e, "found budgets", n * sizeof *more);
}

const kv_found_row *kv_found_of(const kv_found *f, const char *key) {
  for (int i = 0; i < f->n; i++)
    if (!strncmp(f->row[i].key, key, sizeof f->row[i].key - 1))
      return &f->row[i];
  return NULL;
}

/* Cuts a line at its commas; no field has one. False: not FIELDS fields. */
static bool cut(char *line, char *field[FIELDS]) {
  int n = 0;
  line[strcspn(line, "\r\n")] = 0;
  for (char *at = line; at; n++) {
    if (n == FIELDS) return false;
    field[n] = strsep(&at, ",");
  }
  return n == FIELDS;
}

/* A whole number up to `most`; -1 if the field is empty. */
static bool whole(const char *text, uint64_t most, int64_t *out) {
  uint64_t value = 0;
  *out = -1;
  if (!*text) return true;
  if (!kv_text_count(text, most, &value)) return false;
  *out = (int64_t)value;
  return true;
}

static bool is_key(const char *text) {
  return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static bool parse(char *line, kv_found_row *row) {
  char *f[FIELDS];
  int64_t revision, value, bytes, dense;
  if (!cut(line, f) || !*f[0] || !*f[1] || !*f[3] || !is_key(f[7]))
    return false;
  if (!whole(f[2], INT32_MAX, &revision) || !whole(f[4], INT32_MAX, &value) ||
      !whole(f[5], INT64_MAX, &bytes) || !whole(f[6], INT64_MAX, &dense))
    return false;
  if (revision < 0 || value < 0 || (bytes < 0) != (dense < 0)) return false;
  *row = (kv_found_row){f[0],           f[1],  (int)revision, f[3],
                        (int32_t)value, bytes, dense,         ""};
  memcpy(row->key, f[7], sizeof row->key);
  return true;
}

/* The file after its first line; NULL: it is not such a table. Reading anything
 * but a regular file may never end. */
static FILE *begin(const char *path) {
  char head[sizeof HEAD] = "";
  struct stat is;
  FILE *f = !stat(path, &is) && S_ISREG(is.st_mode) ? fopen(path, "r") : NULL;
  if (f && fgets(head, sizeof head, f) && !strcmp(head, HEAD)) return f;
  if (f) fclose(f);
  return NULL;
}

bool kv_found_is(const char *path) {
  FILE *f = begin(path);
  if (f) fclose(f);
  return f != NULL;
}

kv_rc kv_found_read(const char *path, kv_found *out, kv_err *e) {
  char line[LINE], show[KV_SHOW];
  kv_rc rc = KV_OK;
  FILE *f = begin(path);
  *out = (kv_found){0};
  if (!f)
    return kv_fail(e, KV_INPUT, "%s is not a table of found budgets",
                   kv_show(path, show));
  for (int n = 2; !rc && fgets(line, sizeof line, f); n++) {
    kv_found_row row;
    rc = parse(line, &row)
             ? kv_found_add(out, &row, e)
             : kv_fail(e, KV_INPUT,
                       "%s, line %d is not a found budget; make the table "
                       "again with kvreplay run --found",
                       kv_show(path, show), n);
  }
  fclose(f);
  return rc;
}

kv_rc kv_found_beside(const char *path, kv_found *out, kv_err *e) {
  const char *name = strrchr(path, '/');
  int folder = name ? (int)(name - path) + 1 : 0;
  *out = (kv_found){0};
  for (int up = 0; up < 2; up++) {
    char at[4096];
    int n = snprintf(at, sizeof at, "%.*s%s%s", folder, path, up ? "../" : "",
                     KV_FOUND_NAME);
    if (n < (int)sizeof at && kv_found_is(at)) return kv_found_read(at, out, e);
  }
  return KV_OK;
}

/* *out: the trace's path relative to the folder of `path`, if it is in there.
 * Returns its length without ".safetensors". */
static int name_of(const char *trace, const char *path, const char **out) {
  static const char end[] = ".safetensors";
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) + 1 : 0, tail = sizeof end - 1;
  *out = strncmp(trace, path, n) ? trace : trace + n;
  n = strlen(*out);
  return (int)(n > tail && !strcmp(*out + n - tail, end) ? n - tail : n);
}

static kv_rc put(kv_newfile *f, const char *path, const kv_found_row *row,
                 kv_err *e) {
  char line[LINE], bytes[48] = ",";
  const char *trace;
  int named = name_of(row->trace, path, &trace);
  if (row->bytes >= 0)
    snprintf(bytes, sizeof bytes, "%" PRId64 ",%" PRId64, row->bytes,
             row->dense);
  int n = snprintf(line, sizeof line, "%.*s,%s,%d,%s,%d,%s,%s\n", named, trace,
                   row->spec, row->revision, row->target, (int)row->value,
                   bytes, row->key);
  if (n >= (int)sizeof line || memchr(trace, ',', (size_t)named))
    return kv_fail(e, KV_USAGE,
                   "%.60s of %.60s: the name is too long, or has a comma, for "
                   "a table of found budgets",
                   row->spec, trace);
  return kv_newfile_write(f, (uint64_t)n, line, e);
}

kv_rc kv_found_write(const kv_found *f, const char *path, kv_err *e) {
  kv_newfile file = {0};
  kv_rc rc = kv_newfile_open(path, &file, e);
  if (!rc) rc = kv_newfile_write(&file, strlen(HEAD), HEAD, e);
  for (int i = 0; !rc && i < f->n; i++) rc = put(&file, path, &f->row[i], e);
  if (!rc) rc = kv_newfile_flush(&file, e);
  if (!rc) rc = kv_newfile_publish(1, &file, e);
  kv_newfile_discard(&file);
  return rc;
}
