/* SPDX-License-Identifier: Apache-2.0
 *
 * Text helpers: ref/ground/text.h.
 */
#define _GNU_SOURCE 1
#include "ref/ground/text.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

const char *kv_show(const char *text, char out[KV_SHOW]) {
  char one[KV_PLAIN_MOST];
  size_t n = 0, at = 0;
  for (const char *c = text; kv_plain_next(&c, one);) n += strlen(one);
  if (n > KV_SHOW - 1) {
    memcpy(out, "...", 4);
    at = 3;
    for (n += at; n > KV_SHOW - 1;) n -= (size_t)kv_plain_next(&text, one);
  }
  kv_plain(text, KV_SHOW - at, out + at);
  return out;
}

void kv_put_plain(FILE *out, const char *text) {
  for (char one[KV_PLAIN_MOST]; kv_plain_next(&text, one);) fputs(one, out);
}

kv_rc kv_flush(FILE *out, kv_err *e) {
  if (fflush(out) == 0 && !ferror(out)) return KV_OK;
  return kv_cannot(e, KV_RESOURCE, "write", "the output");
}

kv_rc kv_cannot(kv_err *e, kv_rc rc, const char *what, const char *path) {
  char show[KV_SHOW];
  const char *why = strerror(errno);
  return kv_fail(e, rc, "cannot %s %s: %s", what, kv_show(path, show), why);
}

char *kv_text_shown(const char *text) {
  size_t room = 4 * strlen(text) + 1; /* a byte is \x1b at most */
  char *out = malloc(room);
  if (out) kv_plain(text, room, out);
  return out;
}

char *kv_text_copy(size_t n, const char *text) {
  char *copy = malloc(n + 1);
  if (copy) {
    memcpy(copy, text, n);
    copy[n] = 0;
  }
  return copy;
}

bool kv_text_count(const char *text, uint64_t most, uint64_t *out) {
  uint64_t value = 0;
  if (!*text) return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return false;
    if (__builtin_mul_overflow(value, 10u, &value)) return false;
    if (__builtin_add_overflow(value, (unsigned)(*text - '0'), &value)) {
      return false;
    }
  }
  *out = value;
  return value <= most;
}

/* strtof alone would take hexadecimal, infinities and leading blanks. */
static bool plain(const char *text) {
  return *text && !strpbrk(text, " ") &&
         text[strspn(text, "0123456789.eE+-")] == 0;
}

bool kv_text_float(const char *text, float *out) {
  if (!plain(text)) return false;
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c) return false;
  locale_t before = uselocale(c);
  char *end;
  *out = strtof(text, &end);
  uselocale(before);
  freelocale(c);
  return *end == 0 && end != text && *out > -3.4e38f && *out < 3.4e38f;
}

enum { WORD = 32 };

static size_t least_of(size_t a, size_t b) { return a < b ? a : b; }

/* Edits between two words shorter than WORD: a letter added, removed or
 * replaced, or two neighboring letters swapped. */
static size_t distance(const char *a, const char *b) {
  size_t d[WORD][WORD], na = strlen(a), nb = strlen(b);
  for (size_t i = 0; i <= na; i++) d[i][0] = i;
  for (size_t j = 0; j <= nb; j++) d[0][j] = j;
  for (size_t i = 1; i <= na; i++)
    for (size_t j = 1; j <= nb; j++) {
      d[i][j] = least_of(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                         least_of(d[i - 1][j], d[i][j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = least_of(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[na][nb];
}

/* A word of three letters may differ by one edit, of five by two, of eight by
 * three. One or two letters match only a word that begins with them. */
static bool is_near(size_t edits, size_t length) {
  return edits == 0 || (length > 2 && 3 * edits <= length + 1);
}

const char *kv_text_nearest(const char *text, int n, const char *const *names) {
  const char *best = NULL;
  size_t least = WORD, length = strlen(text);
  if (length == 0 || length >= WORD) return NULL;
  for (int i = 0; i < n; i++) {
    size_t far = strlen(names[i]) < WORD ? distance(text, names[i]) : WORD;
    if (strncmp(names[i], text, length) == 0) far = 0;
    if (far < least) {
      least = far;
      best = names[i];
    }
  }
  return is_near(least, length) ? best : NULL;
}
