/* SPDX-License-Identifier: Apache-2.0
 *
 * Text helpers of traces/text.h.
 */
#define _GNU_SOURCE 1
#include "traces/text.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

const char *kv_show(const char *text, char out[KV_SHOW]) {
  size_t n = strlen(text), at = 0;
  if (n > KV_SHOW - 1) {
    memcpy(out, "...", 3);
    at = 3;
    text += n - (KV_SHOW - 4);
  }
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    out[at++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
  }
  out[at] = 0;
  return out;
}

/* Bytes of the sequence that starts with c, 0 where none may. */
static unsigned sequence(unsigned char c) {
  if (c < 0x80) return 1;
  if (c >= 0xc2 && c <= 0xdf) return 2;
  if (c >= 0xe0 && c <= 0xef) return 3;
  return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

/* The second byte has a narrower range after four of the lead bytes. */
static bool second(unsigned char lead, unsigned char c) {
  unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return c >= low && c <= high;
}

bool kv_utf8_valid(size_t n, const unsigned char *text) {
  for (size_t i = 0; i < n;) {
    unsigned length = sequence(text[i]);
    if (length == 0 || length > n - i) return false;
    if (length > 1 && !second(text[i], text[i + 1])) return false;
    for (unsigned j = 2; j < length; j++) {
      if ((text[i + j] & 0xc0) != 0x80) return false;
    }
    i += length;
  }
  return true;
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

/* Levenshtein distance of two words shorter than WORD. */
static size_t distance(const char *a, const char *b) {
  size_t row[WORD], na = strlen(a), nb = strlen(b);
  for (size_t j = 0; j <= nb; j++) row[j] = j;
  for (size_t i = 1; i <= na; i++) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      size_t best = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[nb];
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
  return least <= 1 + length / 3 ? best : NULL;
}
